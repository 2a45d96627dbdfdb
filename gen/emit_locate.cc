#include "gen/emit_locate.h"

#include <string>
#include <string_view>

#include "gen/check.h"
#include "gen/emit_items.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

// The type is an argument Of<T>, behind the only name of a function's own.
std::string_view parameters_of(const Definition& of) {
  const bool is_empty = of.kind == Kind::kStruct && of.members.empty();
  return is_empty ? "[[maybe_unused]] rpcrdma::codec::ItemReader& reader"
                  : "rpcrdma::codec::ItemReader& reader";
}

std::string field_of(const Definition& of, const Declaration& declared) {
  return fmt::format("\"{}.{}\"", of.name.text, declared.name.text);
}

std::string locate_element(const TypeSpec& type, std::string_view scope, const std::string& field) {
  const std::string basic = read_basic(type, field);
  if (!basic.empty()) return fmt::format("static_cast<void>({});", basic);
  const std::string function = function_for("walk", type);
  if (function != "walk") return fmt::format("{}(reader);", function);
  return fmt::format("walk(reader, rpcrdma::codec::Of<{}>{{}});", element_type(type, scope));
}

void locate_list(Text& out, const Declaration& of, std::string_view scope,
                 const std::string& field) {
  const std::string node =
      fmt::format("walk_node(reader, rpcrdma::codec::Of<{}>{{}});", element_type(of.type, scope));
  if (of.never_empty) {
    return out.add("  do {{\n    {}\n  }} while (reader.xdr().boolean({}));\n", node, field);
  }
  out.add("  while (reader.xdr().boolean({})) {}\n", field, node);
}

void locate_item(Text& out, const Declaration& of, std::string_view scope,
                 const std::string& field) {
  if (of.is_void()) return;
  if (of.is_list) return locate_list(out, of, scope, field);
  if (of.is_bytes() && of.shape == Shape::kFixed) {
    return out.add("  static_cast<void>(reader.xdr().opaque_fixed({}U, {}));\n", of.size, field);
  }
  if (of.ddp) return out.add("  reader.bulk({}U, {});\n", of.size, field);
  if (of.is_bytes() || of.is_text()) {
    return out.add("  static_cast<void>(reader.xdr().opaque({}U, {}));\n", of.size, field);
  }
  const std::string element = locate_element(of.type, scope, field);
  switch (of.shape) {
    case Shape::kPlain:
      return out.add("  {}\n", element);
    case Shape::kFixed:
      return out.add("  reader.repeat({}U, [&] {{ {} }});\n", of.size, element);
    case Shape::kVariable:
      return out.add(
          "  reader.repeat(rpcrdma::codec::read_count(reader, {}U, {}U, {}), [&] {{ {} }});\n",
          of.size, element_min(of.type), field, element);
    case Shape::kOptional:
      return out.add("  if (reader.xdr().boolean({})) {{\n    {}\n  }}\n", field, element);
  }
}

std::string signature(const Definition& of, std::string_view scope) {
  if (of.kind == Kind::kTypedef) {
    return fmt::format("[[maybe_unused]] void walk_{}({})", of.cpp_name, parameters_of(of));
  }
  return fmt::format("[[maybe_unused]] void walk{}({}, rpcrdma::codec::Of<{}{}>)",
                     of.is_node ? "_node" : "", parameters_of(of), scope, of.cpp_name);
}

// Returns the signature for a node by itself, a list of one.
std::string signature_of_one_node(const Definition& of, std::string_view scope) {
  return fmt::format("[[maybe_unused]] void walk({}, rpcrdma::codec::Of<{}{}>)", parameters_of(of),
                     scope, of.cpp_name);
}

void locate_union(Text& out, const Definition& of, std::string_view scope) {
  const std::string field = field_of(of, of.discriminant);
  out.add("  switch (rpcrdma::codec::read_arm<{}{}>(reader, {})) {{\n", scope, of.cpp_name, field);
  for (std::size_t i = 0; i < of.arms.size(); ++i) {
    const Declaration& arm = of.arms[i].declaration;
    out.add("    case {}:\n", i);
    if (!arm.is_void()) locate_item(out, arm, scope, field_of(of, arm));
    out.add("      break;\n");
  }
  out.add("    default:\n      reader.xdr().fail(rpcrdma::xdr::Errc::kBadEnum, {});\n  }}\n",
          field);
}

void define(Text& out, const Definition& of, std::string_view scope) {
  out.add("{} {{\n", signature(of, scope));
  if (of.kind == Kind::kEnum) {
    out.add("  {}{} value{{}};\n  decode(reader, value);\n", scope, of.cpp_name);
  } else if (of.kind == Kind::kTypedef) {
    locate_item(out, of.alias, scope, fmt::format("\"{}\"", of.name.text));
  } else {
    if (of.recursive) out.add("  if (!reader.enter(\"{}\")) return;\n", of.name.text);
    for (const Declaration& each : of.members) locate_item(out, each, scope, field_of(of, each));
    if (of.kind == Kind::kUnion) locate_union(out, of, scope);
    if (of.recursive) out.add("  reader.leave();\n");
  }
  out.add("}}\n");
  if (!of.is_node) return;
  out.add(
      "{} {{\n  walk_node(reader, rpcrdma::codec::Of<{}{}>{{}});\n"
      "  if (reader.xdr().boolean(\"{}\")) {{\n"
      "    reader.xdr().fail(rpcrdma::xdr::Errc::kOverLimit, \"{}\");\n  }}\n}}\n",
      signature_of_one_node(of, scope), scope, of.cpp_name, of.cpp_name, of.cpp_name);
}

bool is_walked(const Definition& of) {
  return of.kind == Kind::kEnum || of.kind == Kind::kStruct || of.kind == Kind::kUnion ||
         has_functions(of);
}

}  // namespace

void emit_locate_types(Text& out, const File& file, std::string_view scope) {
  out.add("\nnamespace {{\n\n");
  for (const Definition& each : file.definitions) {
    if (!is_walked(each)) continue;
    out.add("{};\n", signature(each, scope));
    if (each.is_node) out.add("{};\n", signature_of_one_node(each, scope));
  }
  out.add("\n");
  for (const Definition& each : file.definitions) {
    if (is_walked(each)) define(out, each, scope);
  }
  out.add("\n}}  // namespace\n");
}

void emit_locate_items(Text& out, const Version& version, std::string_view scope) {
  out.add(
      "\nrpcrdma::Expected<rpcrdma::ItemPlaces, rpcrdma::xdr::DecodeError>\n"
      "{}_Binding::locate_items(std::uint32_t rpcrdma_procedure_, rpcrdma::XdrPart rpcrdma_part_, "
      "rpcrdma::Bytes rpcrdma_xdr_) {{\n"
      "  rpcrdma::codec::ItemReader reader(rpcrdma_xdr_);\n"
      "  [[maybe_unused]] const bool rpcrdma_called_ = rpcrdma_part_ == "
      "rpcrdma::XdrPart::kArguments;\n"
      "  switch (rpcrdma_procedure_) {{\n",
      version.cpp_stem);
  for (const Procedure& each : version.procedures) {
    out.add("    case {}U:  // {}\n", each.number.number.magnitude, each.name.text);
    if (!each.arguments.empty()) {
      out.add("  if (rpcrdma_called_) {{\n");
      for (std::size_t i = 0; i < each.arguments.size(); ++i) {
        locate_item(out, each.arguments[i], scope,
                    fmt::format("\"{}.arg{}\"", each.name.text, i + 1));
      }
      out.add("  }}\n");
    }
    if (!each.result.is_void()) {
      out.add("  if (!rpcrdma_called_) {{\n");
      locate_item(out, each.result, scope, fmt::format("\"{}\"", each.name.text));
      out.add("  }}\n");
    }
    out.add("      break;\n");
  }
  out.add(
      "    default:\n      reader.xdr().fail(rpcrdma::xdr::Errc::kBadEnum, \"procedure\");\n  }}\n"
      "  return reader.finish_items();\n}}\n");
}

}  // namespace rpcrdma::gen
