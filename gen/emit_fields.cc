// The fields of each type, by name (rpcrdma/generated/fields.h).
#include <cstdint>
#include <set>

#include "gen/check.h"
#include "gen/emit.h"
#include "gen/names.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;

void enumeration(Text& out, const Definition& of) {
  out.add(
      "\nbool fields({} value, auto&& visit) {{\n  switch (static_cast<std::int32_t>(value)) {{\n",
      of.cpp_name);
  std::set<std::int32_t> seen;
  for (const Enumerator& each : of.enumerators) {
    if (!seen.insert(each.number).second) continue;
    out.add("    case {}:\n      return visit(\"{}\", value);\n", enumerator_literal(each),
            each.name.text);
  }
  out.add("    default:\n      return visit(\"\", value);\n  }}\n}}\n");
}

// The type comes first, as it may be named like one of the parameters behind it.
void begin(Text& out, const Definition& of) {
  out.add(
      "\nbool fields([[maybe_unused]] const {}& value, [[maybe_unused]] auto&& visit,\n"
      "[[maybe_unused]] const auto&... others) {{\n",
      of.cpp_name);
}

void structure(Text& out, const Definition& of) {
  begin(out, of);
  std::string_view separator = "  return ";
  for (const Declaration& each : of.members) {
    out.add("{}visit(\"{}\", value.{}, others.{}...)", separator, each.name.text,
            member_name(each.name.text, of.cpp_name), member_name(each.name.text, of.cpp_name));
    separator = " &&\n";
  }
  out.add("{};\n}}\n", of.members.empty() ? "  return true" : "");
}

void union_type(Text& out, const Definition& of) {
  begin(out, of);
  out.add("  if (!visit(\"{0}\", value.{1}(), others.{1}()...)) return false;\n",
          of.discriminant.name.text, of.discriminant_cpp_name);
  for (const Arm& each : of.arms) {
    if (each.declaration.is_void()) continue;
    out.add(
        "  if (value.{1}() != nullptr && (... && (others.{1}() != nullptr))) {{\n"
        "    return visit(\"{0}\", *value.{1}(), *others.{1}()...);\n  }}\n",
        each.declaration.name.text, each.cpp_name);
  }
  out.add("  return true;\n}}\n");
}

}  // namespace

std::string emit_fields(const File& file, const EmitOptions& options) {
  Text out;
  emit_prologue(out, options);
  const std::string guard =
      "RPCRDMA_GENERATED_" + namespace_of(options.namespace_name) + "_FIELDS_H_";
  out.add(
      "#ifndef {0}\n#define {0}\n\n#include <cstdint>\n\n#include \"{1}.h\"\n"
      "#include \"rpcrdma/generated/compare.h\"\n#include \"rpcrdma/generated/text.h\"\n\n"
      "{3}namespace {2} {{\n\n"
      "// These are found for each type below, and visit its fields.\n"
      "using rpcrdma::codec::operator==;\nusing rpcrdma::codec::to_string;\n",
      guard, options.stem, options.namespace_name, kNoShadowWarnings);
  for (const Definition& each : file.definitions) {
    if (each.kind == Kind::kEnum) enumeration(out, each);
    if (each.kind == Kind::kStruct) structure(out, each);
    if (each.kind == Kind::kUnion) union_type(out, each);
  }
  out.add("\n}}  // namespace {}\n{}\n#endif  // {}\n", options.namespace_name, kWarningsAsBefore,
          guard);
  return out.take();
}

}  // namespace rpcrdma::gen
