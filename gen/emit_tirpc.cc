#include "gen/emit_tirpc.h"

#include <algorithm>
#include <bitset>
#include <set>

#include "gen/bounds.h"
#include "gen/check.h"
#include "gen/emit.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

// The routines of rpcgen's call xdr_bytes() for opaque<> and xdr_string() for string<>, in the
// order of the .x file. Which of these calls are of DDP-eligible data, by how many were made
// before? Where a list, an option or a union leaves open how many that were, a number may belong to
// several items: it counts only if all of them are eligible.
class Numbers {
 public:
  std::uint32_t of(const std::vector<Declaration>& all) {
    before_.set(0);
    for (const Declaration& each : all) walk(each);
    return static_cast<std::uint32_t>((eligible_ & ~others_).to_ulong());
  }

 private:
  // A bit for each number of calls; more than that are not told apart.
  static constexpr std::size_t kMany = 32;
  using Set = std::bitset<kMany>;

  void walk(const Declaration& of) {
    if (of.is_void()) return;
    if (of.is_bytes() || of.is_text()) {
      if (of.shape == Shape::kFixed) return;  // xdr_opaque()
      (of.ddp ? eligible_ : others_) |= before_;
      before_ <<= 1U;
      return;
    }
    if (of.is_list || of.shape == Shape::kVariable) return repeat(of.type);
    if (of.shape == Shape::kOptional) {
      const Set without = before_;
      element(of.type);
      before_ |= without;
    } else {
      // Behind that many, all numbers are gone.
      const std::uint64_t count =
          of.shape == Shape::kFixed ? std::min<std::uint64_t>(of.size, kMany) : 1;
      for (std::uint64_t i = 0; i < count; ++i) element(of.type);
    }
  }

  // Any number of them.
  void repeat(const TypeSpec& type) {
    for (Set all = before_;;) {
      element(type);
      const Set more = all | before_;
      before_ = more;
      if (more == all) return;
      all = more;
    }
  }

  void element(const TypeSpec& type) {
    if (type.target == nullptr) return;
    const Definition& of = *type.target;
    if (of.recursive && !entered_.insert(&of).second) {
      // Any number of calls of any kind.
      for (std::size_t i = 1; i < kMany; ++i) before_ |= before_ << 1U;
      others_ |= before_;
      return;
    }
    if (of.kind == Kind::kUnion) {
      const Set start = before_;
      Set behind;
      for (const Arm& arm : of.arms) {
        before_ = start;
        walk(arm.declaration);
        behind |= before_;
      }
      before_ = behind;
    } else if (of.kind != Kind::kEnum) {
      for_each_declaration(of, [this](const Declaration& each) { walk(each); });
    }
    entered_.erase(&of);
  }

  Set before_, eligible_, others_;
  std::set<const Definition*> entered_;
};

// The results without data that is placed, bytes; 0: unknown. `placed`: some of it is.
std::uint64_t results_max(const Procedure& of, bool placed) {
  const Bound bound = bound_of(of.result);
  std::uint64_t size = placed ? bound.reduced : bound.whole;
  if (bound.is_open || (!placed && bound.has_open_data)) {
    if (!of.unbounded_max) return 0;
    for (const SizeTerm& each : *of.unbounded_max) {
      if (!each.number) return 0;  // an argument says how much it is
      size += each.number->magnitude;
    }
  }
  constexpr std::uint64_t kMessageMax = 16U << 20U;  // that a client offers memory for
  return size > kMessageMax ? 0 : size;
}

void emit_procedure(Text& out, const Procedure& of) {
  const std::uint32_t arguments = Numbers().of(of.arguments);
  const std::uint32_t results = Numbers().of({of.result});
  const Bound bound = bound_of(of.result);
  constexpr std::uint64_t kNoBound = 0xffffffff;
  out.add("  {{{}, 0x{:x}, 0x{:x}, {}U, {}U}}, /* {} */\n", of.number.number.magnitude, arguments,
          results, results != 0 ? std::min(bound.data_max, kNoBound) : 0,
          results_max(of, results != 0), of.name.text);
}

}  // namespace

std::string emit_tirpc_tables(const File& file, const std::string& name) {
  Text out;
  out.add(
      "/* Made by rpcrdma-gen from {}: the data that RDMA places directly, for programs of "
      "rpcgen's.\n"
      " *\n"
      " * Compile it into the program, or into a shared object for `rpcrdma run --table`:\n"
      " *   cc -shared -fPIC $(pkg-config --cflags libtirpc) -o TABLE.so FILE.c */\n"
      "#include <rpcrdma-tirpc.h>\n",
      name);
  std::size_t count = 0;
  for (const Definition& program : file.definitions) {
    for (const Version& version : program.versions) {
      out.add("\nstatic const struct rpcrdma_tirpc_procedure procedures_{}[] = {{\n", count);
      for (const Procedure& each : version.procedures) emit_procedure(out, each);
      out.add(
          "}};\n"
          "static const struct rpcrdma_tirpc_table table_{0} = {{ /* {1}, {2} */\n"
          "  {3}U, {4}U, procedures_{0}, {5}\n}};\n",
          count, program.name.text, version.name.text, program.value.number.magnitude,
          version.number.number.magnitude, version.procedures.size());
      ++count;
    }
  }
  out.add("\n__attribute__((constructor)) static void add_tables(void) {{\n");
  for (std::size_t i = 0; i < count; ++i) out.add("  rpcrdma_tirpc_add(&table_{});\n", i);
  out.add("}}\n");
  return out.take();
}

}  // namespace rpcrdma::gen
