// Functions over the types: encoding, decoding, sizes.
#include <cstdint>
#include <functional>
#include <limits>
#include <set>

#include "gen/check.h"
#include "gen/emit.h"
#include "gen/emit_items.h"
#include "gen/emit_program.h"
#include "gen/names.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

// --- Whole types

class Functions {
 public:
  Functions(Text& out, const EmitOptions& options) : out_(out), options_(options) {}

  void enumeration(const Definition& of) {
    const std::string name = scope_of(options_) + of.cpp_name;
    out_.add(
        "\nbool is_defined({} value) noexcept {{\n  switch (static_cast<std::int32_t>(value)) {{\n",
        name);
    std::set<std::int32_t> seen;
    for (const Enumerator& each : of.enumerators) {
      if (seen.insert(each.number).second) {
        out_.add("    case {}:\n", enumerator_literal(each));
      }
    }
    out_.add("      return true;\n    default:\n      return false;\n  }}\n}}\n");
    out_.add(
        "void encode({0} value, rpcrdma::MessageWriter& writer) {{\n"
        "  if (!is_defined(value)) return writer.fail(\"{1}\");\n"
        "  writer.xdr().i32(static_cast<std::int32_t>(value));\n}}\n",
        name, of.cpp_name);
    out_.add(
        "void decode(rpcrdma::MessageReader& reader, {0}& value) {{\n"
        "  value = static_cast<{0}>(reader.xdr().i32(\"{1}\"));\n"
        "  if (reader.ok() && !is_defined(value)) {{\n"
        "    reader.xdr().fail(rpcrdma::xdr::Errc::kBadEnum, \"{1}\");\n  }}\n}}\n",
        name, of.cpp_name);
    out_.add("void measure({}, rpcrdma::SizeCounter& counter) {{\n  counter.add(4);\n}}\n", name);
  }

  void structure(const Definition& of) {
    const std::string suffix = of.is_node ? "_node" : "";
    if (of.is_node) out_.add("\nnamespace {{\n");
    body(of, "encode" + suffix, [&](const Declaration& each, const std::string& item) {
      encode_item(out_, each, item, fmt::format("\"{}.{}\"", of.name.text, each.name.text));
    });
    decode_body(of, suffix);
    std::uint64_t fixed = 0;
    body(
        of, "measure" + suffix,
        [&](const Declaration& each, const std::string& item) {
          fixed += measure_item(out_, each, item);
        },
        &fixed);
    if (of.is_node) {
      out_.add("\n}}  // namespace\n");
      node(of);
    }
  }

  void union_type(const Definition& of) {
    union_members(of);
    union_codec(of);
  }

  void alias(const Definition& of) {
    const std::string& name = of.cpp_name;
    out_.add("\nvoid encode_{0}(const {0}& value, rpcrdma::MessageWriter& writer) {{\n", name);
    encode_item(out_, of.alias, "value", fmt::format("\"{}\"", of.name.text));
    out_.add("}}\nvoid decode_{0}(rpcrdma::MessageReader& reader, {0}& value) {{\n", name);
    decode_item(out_, of.alias, "value", fmt::format("\"{}\"", of.name.text), !of.recursive);
    out_.add(
        "}}\nvoid measure_{0}([[maybe_unused]] const {0}& value, rpcrdma::SizeCounter& counter) "
        "{{\n",
        name);
    measure_fixed(out_, measure_item(out_, of.alias, "value"));
    out_.add("}}\n");
  }

 private:
  using Emit = std::function<void(const Declaration&, const std::string&)>;

  static std::string member(const Definition& of, const Declaration& declared) {
    return member_name(declared.name.text, of.cpp_name);
  }

  // `fixed`: bytes to count at the end, a sum of what `emit` left out.
  void body(const Definition& of, const std::string& verb, const Emit& emit,
            const std::uint64_t* fixed = nullptr) {
    const bool encodes = verb.starts_with("encode");
    const std::string_view unused = "[[maybe_unused]] ";
    const bool is_empty = of.members.empty();
    out_.add("\nvoid {}({}const {}& value, {}{}) {{\n", verb, is_empty || !encodes ? unused : "",
             of.cpp_name, is_empty ? unused : "",
             encodes ? "rpcrdma::MessageWriter& writer" : "rpcrdma::SizeCounter& counter");
    for (const Declaration& each : of.members) emit(each, "value." + member(of, each));
    if (fixed != nullptr) measure_fixed(out_, *fixed);
    out_.add("}}\n");
  }

  void decode_body(const Definition& of, const std::string& suffix) {
    out_.add("void decode{0}({2}rpcrdma::MessageReader& reader, {2}{1}& value) {{\n", suffix,
             of.cpp_name, of.members.empty() ? "[[maybe_unused]] " : "");
    if (of.recursive) out_.add("  if (!reader.enter(\"{}\")) return;\n", of.name.text);
    for (const Declaration& each : of.members) {
      decode_item(out_, each, "value." + member(of, each),
                  fmt::format("\"{}.{}\"", of.name.text, each.name.text), !of.recursive);
    }
    if (of.recursive) out_.add("  reader.leave();\n");
    out_.add("}}\n");
  }

  // Emits a node by itself, as a list of one.
  void node(const Definition& of) {
    out_.add(
        "\nvoid encode(const {0}& value, rpcrdma::MessageWriter& writer) {{\n"
        "  encode_node(value, writer);\n  writer.xdr().boolean(false);\n}}\n"
        "void decode(rpcrdma::MessageReader& reader, {0}& value) {{\n"
        "  decode_node(reader, value);\n  if (reader.xdr().boolean(\"{0}\")) {{\n"
        "    reader.xdr().fail(rpcrdma::xdr::Errc::kOverLimit, \"{0}\");\n  }}\n}}\n"
        "void measure(const {0}& value, rpcrdma::SizeCounter& counter) {{\n"
        "  measure_node(value, counter);\n  counter.add(4);\n}}\n",
        of.cpp_name);
  }

  static std::string number(const Definition& of, Integer value) {
    const Definition* target = resolved_target(of.discriminant);
    if (target != nullptr) return discriminant_text(*target, value);
    if (resolved_basic(of.discriminant) == Basic::kBool) {
      return value.magnitude != 0 ? "true" : "false";
    }
    return number_text(value);
  }

  void union_members(const Definition& of) {
    const std::string& name = of.cpp_name;
    const std::string discriminant = type_of(of.discriminant, scope_of(options_));
    const Arm& initial = of.arms[of.initial_arm];
    out_.add("\n{0}::{0}() : rpcrdma_discriminant_({1}) {{\n", name,
             number(of, of.initial_discriminant));
    if (!initial.declaration.is_void()) {
      out_.add("  {};\n", emplaced(of, initial));
    }
    out_.add("}}\nint {}::arm_of({} discriminant) noexcept {{\n", name, discriminant);
    const Definition* target = resolved_target(of.discriminant);
    const bool has_default = of.arms.back().is_default;
    if (target != nullptr && has_default) out_.add("  if (!is_defined(discriminant)) return -1;\n");
    const bool has_sign = resolved_basic(of.discriminant) != Basic::kUint64;
    out_.add("  switch (static_cast<std::{}>(discriminant)) {{\n",
             has_sign ? "int64_t" : "uint64_t");
    for (std::size_t i = 0; i < of.arms.size(); ++i) {
      if (of.arms[i].cases.empty()) continue;
      for (const Value& each : of.arms[i].cases)
        out_.add("    case {}:\n", number_text(each.number));
      out_.add("      return {};\n", i);
    }
    out_.add("    default:\n      return {};\n  }}\n}}\n",
             has_default ? static_cast<int>(of.arms.size()) - 1 : -1);
    for (std::size_t i = 0; i < of.arms.size(); ++i) setters(of, of.arms[i], i, discriminant);
    if (!has_void_arm(of)) return;
    out_.add(
        "void {}::set_void({} discriminant) {{\n  const int arm = arm_of(discriminant);\n  if (",
        name, discriminant);
    std::string_view separator;
    for (std::size_t i = 0; i < of.arms.size(); ++i) {
      if (!of.arms[i].declaration.is_void()) continue;
      out_.add("{}arm != {}", separator, i);
      separator = " && ";
    }
    out_.add(
        ") rpcrdma::codec::bad_discriminant(\"{}\");\n"
        "  rpcrdma_discriminant_ = discriminant;\n  rpcrdma_arm_.reset();\n}}\n",
        of.name.text);
  }

  // An expression that sets the arm to a new value, and is that value.
  std::string emplaced(const Definition& of, const Arm& arm) const {
    const std::string type = type_of(arm.declaration, scope_of(options_));
    return is_boxed_arm(arm)
               ? fmt::format("rpcrdma_arm_.emplace<rpcrdma::Box<{}>>({}).emplace()", type,
                             arm_number(of, arm))
               : fmt::format("rpcrdma_arm_.emplace<{}>({})", type, arm_number(of, arm));
  }

  void setters(const Definition& of, const Arm& arm, std::size_t index,
               const std::string& discriminant) {
    if (arm.declaration.is_void()) return;
    const std::string type = type_of(arm.declaration, scope_of(options_));
    const bool asks = needs_discriminant(arm);
    const std::string parameter = asks ? discriminant + " discriminant" : "";
    const std::string method = arm.setter;
    out_.add("{}& {}::{}({}) {{\n", type, of.cpp_name, method, parameter);
    if (asks) {
      out_.add("  if (arm_of(discriminant) != {}) rpcrdma::codec::bad_discriminant(\"{}\");\n",
               index, of.name.text);
    }
    out_.add("  rpcrdma_discriminant_ = {};\n  return {};\n}}\n",
             asks ? "discriminant" : number(of, arm.cases[0].number), emplaced(of, arm));
    out_.add("{0}& {1}::{2}({3}{4}{0} value) {{\n  return {2}({5}) = std::move(value);\n}}\n", type,
             of.cpp_name, method, parameter, asks ? ", " : "", asks ? "discriminant" : "");
  }

  std::string discriminant_of(const Definition& of, const std::string& value) const {
    return value + "." + of.discriminant_cpp_name + "()";
  }

  void each_arm(const Definition& of, std::string_view unused, const Emit& emit) {
    for (std::size_t i = 0; i < of.arms.size(); ++i) {
      const Arm& arm = of.arms[i];
      if (arm.declaration.is_void()) continue;
      out_.add("  if ({}const auto* arm{} = value.{}()) {{\n", unused, i, arm.cpp_name);
      emit(arm.declaration, fmt::format("(*arm{})", i));
      out_.add("  }}\n");
    }
  }

  void union_codec(const Definition& of) {
    out_.add("void encode(const {}& value, rpcrdma::MessageWriter& writer) {{\n  {}\n", of.cpp_name,
             encode_element(of.discriminant.type, discriminant_of(of, "value")));
    each_arm(of, "", [&](const Declaration& each, const std::string& item) {
      encode_item(out_, each, item, fmt::format("\"{}.{}\"", of.name.text, each.name.text));
    });
    out_.add("}}\nvoid decode(rpcrdma::MessageReader& reader, {}& value) {{\n", of.cpp_name);
    if (of.recursive) out_.add("  if (!reader.enter(\"{}\")) return;\n", of.name.text);
    const std::string field = fmt::format("\"{}.{}\"", of.name.text, of.discriminant.name.text);
    out_.add(
        "  {} discriminant{{}};\n"
        "  switch (rpcrdma::codec::read_arm<{}>(reader, discriminant, {})) {{\n",
        type_of(of.discriminant, scope_of(options_)), scope_of(options_) + of.cpp_name, field);
    for (std::size_t i = 0; i < of.arms.size(); ++i) {
      const Arm& arm = of.arms[i];
      const std::string item =
          fmt::format("value.{}({})", arm.setter, needs_discriminant(arm) ? "discriminant" : "");
      const std::string name = fmt::format("\"{}.{}\"", of.name.text, arm.declaration.name.text);
      out_.add("    case {}:", i);
      if (arm.declaration.is_void()) {
        out_.add("\n      value.set_void(discriminant);\n      break;\n");
      } else if (arm.declaration.shape == Shape::kPlain && !arm.declaration.is_list &&
                 !arm.declaration.is_bytes() && !arm.declaration.is_text()) {
        out_.add("\n      {}\n      break;\n", decode_element(arm.declaration.type, item, name));
      } else {
        out_.add(" {{\n      auto& item = {};\n", item);
        decode_item(out_, arm.declaration, "item", name, !of.recursive);
        out_.add("      break;\n    }}\n");
      }
    }
    out_.add("    default:\n      reader.xdr().fail(rpcrdma::xdr::Errc::kBadEnum, {});\n  }}\n",
             field);
    if (of.recursive) out_.add("  reader.leave();\n");
    out_.add(
        "}}\nvoid measure([[maybe_unused]] const {}& value, rpcrdma::SizeCounter& counter) {{\n  "
        "counter.add({});\n",
        of.cpp_name, discriminant_size(of));
    each_arm(of, "[[maybe_unused]] ", [&](const Declaration& each, const std::string& item) {
      measure_fixed(out_, measure_item(out_, each, item));
    });
    out_.add("}}\n");
  }

  Text& out_;
  const EmitOptions& options_;
};

void declare(Text& out, const Definition& of) {
  const std::string& name = of.cpp_name;
  if (of.kind == Kind::kTypedef) {
    if (!has_functions(of)) return;
    out.add(
        "\nvoid encode_{0}(const {0}& value, rpcrdma::MessageWriter& writer);\n"
        "void decode_{0}(rpcrdma::MessageReader& reader, {0}& value);\n"
        "void measure_{0}(const {0}& value, rpcrdma::SizeCounter& counter);\n"
        "inline std::uint64_t encoded_size_{0}(const {0}& value) {{\n"
        "  rpcrdma::SizeCounter counter;\n  measure_{0}(value, counter);\n"
        "  return counter.size();\n}}\n",
        name);
    return;
  }
  const std::string by = of.kind == Kind::kEnum ? name : "const " + name + "&";
  out.add(
      "\nvoid encode({1} value, rpcrdma::MessageWriter& writer);\n"
      "void decode(rpcrdma::MessageReader& reader, {0}& value);\n"
      "void measure({1} value, rpcrdma::SizeCounter& counter);\n"
      "inline std::uint64_t encoded_size({1} value) {{\n"
      "  rpcrdma::SizeCounter counter;\n  measure(value, counter);\n"
      "  return counter.size();\n}}\n",
      name, by);
}

bool is_type(const Definition& of) {
  return of.kind != Kind::kConst && of.kind != Kind::kProgram;
}

}  // namespace

void emit_prologue(Text& out, const EmitOptions& options) {
  out.add("// Made by rpcrdma-gen from {}.x; changes here are lost.\n", options.stem);
}

std::string emit_header(const File& file, const EmitOptions& options) {
  Text out;
  emit_prologue(out, options);
  std::string guard = "RPCRDMA_GENERATED_" + namespace_of(options.namespace_name) + "_H_";
  out.add(
      "#ifndef {0}\n#define {0}\n\n#include <array>\n#include <cstddef>\n#include <cstdint>\n"
      "#include <optional>\n#include <span>\n#include <string>\n#include <string_view>\n#include "
      "<utility>\n"
      "#include <vector>\n\n#include \"rpcrdma/generated/codec.h\"\n{3}\n"
      "{2}namespace {1} {{\n\n",
      guard, options.namespace_name, kNoShadowWarnings,
      has_programs(file)
          ? "#include \"rpcrdma/generated/answer.h\"\n#include \"rpcrdma/generated/locate.h\"\n"
            "#include \"rpcrdma/generated/stub.h\"\n"
          : "");
  emit_types(out, file, options);
  for (const Definition& each : file.definitions) {
    if (is_type(each)) declare(out, each);
  }
  emit_program_classes(out, file, options);
  out.add("\n}}  // namespace {}\n{}\n#endif  // {}\n", options.namespace_name, kWarningsAsBefore,
          guard);
  return out.take();
}

std::string emit_source(const File& file, const EmitOptions& options) {
  Text out;
  emit_prologue(out, options);
  out.add("#include \"{}.h\"\n\n{}namespace {} {{\n", options.stem, kNoShadowWarnings,
          options.namespace_name);
  out.add("namespace {{\n\n");
  for (const Definition& each : file.definitions) {
    if (!each.is_node) continue;
    out.add(
        "void encode_node(const {0}& value, rpcrdma::MessageWriter& writer);\n"
        "void decode_node(rpcrdma::MessageReader& reader, {0}& value);\n"
        "void measure_node(const {0}& value, rpcrdma::SizeCounter& counter);\n",
        each.cpp_name);
  }
  out.add("\n}}  // namespace\n");
  Functions functions(out, options);
  for (const Definition& each : file.definitions) {
    if (each.kind == Kind::kEnum) functions.enumeration(each);
    if (each.kind == Kind::kStruct) functions.structure(each);
    if (each.kind == Kind::kUnion) functions.union_type(each);
    if (has_functions(each)) functions.alias(each);
  }
  emit_program_functions(out, file, options);
  out.add("\n}}  // namespace {}\n{}", options.namespace_name, kWarningsAsBefore);
  return out.take();
}

}  // namespace rpcrdma::gen
