#include "gen/emit_items.h"

#include <cstdint>

#include "gen/check.h"

namespace rpcrdma::gen {
namespace {

using Shape = Declaration::Shape;

std::uint64_t basic_size(const TypeSpec& type) {
  const Basic basic = basic_of(type);
  const bool has_size = basic >= Basic::kBool && basic <= Basic::kDouble;
  const bool is_wide = basic == Basic::kInt64 || basic == Basic::kUint64 || basic == Basic::kDouble;
  return has_size ? (is_wide ? 8 : 4) : 0;
}

// Returns the size of each value of the type, bytes; 0 if they differ, or a function measures them.
std::uint64_t fixed_size(const TypeSpec& type) {
  if (const auto size = basic_size(type); size != 0) return size;
  Declaration plain;
  plain.type = type;
  return resolved_target(plain)->kind == Definition::Kind::kEnum ? 4 : 0;
}

std::string measure_element(const TypeSpec& type, const std::string& item) {
  return fmt::format("{}({}, counter);", function_for("measure", type), item);
}

}  // namespace

std::string read_basic(const TypeSpec& type, const std::string& field) {
  switch (basic_of(type)) {
    case Basic::kBool:
      return fmt::format("reader.xdr().boolean({})", field);
    case Basic::kChar:
      return fmt::format("rpcrdma::codec::read_char(reader, {})", field);
    case Basic::kInt8:
    case Basic::kInt16:
    case Basic::kUint8:
    case Basic::kUint16: {
      TypeSpec plain;
      plain.basic = basic_of(type);
      return fmt::format("rpcrdma::codec::read_narrow<{}>(reader, {})", element_type(plain, ""),
                         field);
    }
    case Basic::kInt32:
      return fmt::format("reader.xdr().i32({})", field);
    case Basic::kUint32:
      return fmt::format("reader.xdr().u32({})", field);
    case Basic::kInt64:
      return fmt::format("reader.xdr().i64({})", field);
    case Basic::kUint64:
      return fmt::format("reader.xdr().u64({})", field);
    case Basic::kFloat:
      return fmt::format("rpcrdma::codec::read_float(reader, {})", field);
    case Basic::kDouble:
      return fmt::format("rpcrdma::codec::read_double(reader, {})", field);
    case Basic::kNone:
    case Basic::kVoid:
    case Basic::kString:
    case Basic::kOpaque:
      break;
  }
  return {};
}

std::uint64_t element_min(const TypeSpec& type) {
  if (const auto size = basic_size(type); size != 0) return size;
  return type.target->encoded_min;
}

std::string encode_element(const TypeSpec& type, const std::string& item) {
  switch (basic_of(type)) {
    case Basic::kBool:
      return fmt::format("writer.xdr().boolean({});", item);
    case Basic::kChar:
    case Basic::kInt8:
    case Basic::kInt16:
    case Basic::kInt32:
      return fmt::format("writer.xdr().i32({});", item);
    case Basic::kUint8:
    case Basic::kUint16:
    case Basic::kUint32:
      return fmt::format("writer.xdr().u32({});", item);
    case Basic::kInt64:
      return fmt::format("writer.xdr().i64({});", item);
    case Basic::kUint64:
      return fmt::format("writer.xdr().u64({});", item);
    case Basic::kFloat:
    case Basic::kDouble:
      return fmt::format("rpcrdma::codec::write(writer, {});", item);
    case Basic::kNone:
    case Basic::kVoid:
    case Basic::kString:
    case Basic::kOpaque:
      break;
  }
  return fmt::format("{}({}, writer);", function_for("encode", type), item);
}

std::string decode_element(const TypeSpec& type, const std::string& item,
                           const std::string& field) {
  const std::string basic = read_basic(type, field);
  if (!basic.empty()) return fmt::format("{} = {};", item, basic);
  return fmt::format("{}(reader, {});", function_for("decode", type), item);
}

void encode_item(Text& out, const Declaration& of, const std::string& item,
                 const std::string& field) {
  if (of.is_list) {
    if (of.never_empty) {
      out.add("  if ({0}.empty()) return writer.fail({1});\n", item, field);
      out.add(
          "  for (std::size_t i = 0; i < {0}.size(); ++i) {{\n"
          "    if (i != 0) writer.xdr().boolean(true);\n    encode_node({0}[i], writer);\n  }}\n",
          item);
    } else {
      out.add(
          "  for (const auto& each : {}) {{\n    writer.xdr().boolean(true);\n"
          "    encode_node(each, writer);\n  }}\n",
          item);
    }
    return out.add("  writer.xdr().boolean(false);\n");
  }
  if (of.is_bytes() && of.shape == Shape::kFixed) {
    return out.add("  writer.xdr().opaque_fixed({});\n", item);
  }
  if (of.is_bytes() || of.is_text()) {
    return out.add("  rpcrdma::codec::write_{}(writer, {}, {}U, {});\n",
                   of.ddp         ? "bulk"
                   : of.is_text() ? "string"
                                  : "opaque",
                   item, of.size, field);
  }
  switch (of.shape) {
    case Shape::kPlain:
      return out.add("  {}\n", encode_element(of.type, item));
    case Shape::kVariable:
      out.add(
          "  if (!rpcrdma::codec::fits({0}.size(), {1}U, writer, {2})) return;\n"
          "  writer.xdr().u32(static_cast<std::uint32_t>({0}.size()));\n",
          item, of.size, field);
      [[fallthrough]];
    case Shape::kFixed:
      return out.add("  for (const auto& each : {}) {{\n    {}\n  }}\n", item,
                     encode_element(of.type, "each"));
    case Shape::kOptional:
      return out.add(
          "  writer.xdr().boolean({0}.has_value());\n  if ({0}.has_value()) {{\n    {1}\n  }}\n",
          item, encode_element(of.type, "*" + item));
  }
}

void decode_item(Text& out, const Declaration& of, const std::string& item,
                 const std::string& field, bool may_reserve) {
  if (of.is_list) {
    out.add("  {}.clear();\n", item);
    if (of.never_empty) {
      return out.add(
          "  do {{\n    decode_node(reader, {}.emplace_back());\n"
          "  }} while (reader.xdr().boolean({}));\n",
          item, field);
    }
    return out.add("  while (reader.xdr().boolean({1})) decode_node(reader, {0}.emplace_back());\n",
                   item, field);
  }
  if (of.is_bytes() && of.shape == Shape::kFixed) {
    return out.add("  rpcrdma::codec::read_fixed(reader, {}, {});\n", item, field);
  }
  if (of.ddp) {
    return of.is_text() ? out.add("  {} = rpcrdma::codec::read_bulk_string(reader, {}U, {});\n",
                                  item, of.size, field)
                        : out.add("  {} = reader.bulk({}U, {});\n", item, of.size, field);
  }
  if (of.is_bytes() || of.is_text()) {
    return out.add("  rpcrdma::codec::read_{}(reader, {}, {}U, {});\n",
                   of.is_text() ? "string" : "opaque", item, of.size, field);
  }
  switch (of.shape) {
    case Shape::kPlain:
      return out.add("  {}\n", decode_element(of.type, item, field));
    case Shape::kFixed:
      return out.add("  for (auto& each : {}) {{\n    {}\n  }}\n", item,
                     decode_element(of.type, "each", field));
    case Shape::kVariable: {
      const std::string basic = read_basic(of.type, field);
      out.add(
          "  {{\n    const std::uint32_t count =\n"
          "        rpcrdma::codec::read_count(reader, {}U, {}U, {});\n    {}.clear();\n",
          of.size, element_min(of.type), field, item);
      if (may_reserve) out.add("    {}.reserve(count);\n", item);
      out.add("    for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {{\n      ");
      if (basic.empty()) {
        out.add("{}(reader, {}.emplace_back());", function_for("decode", of.type), item);
      } else {
        out.add("{}.push_back({});", item, basic);
      }
      return out.add("\n    }}\n  }}\n");
    }
    case Shape::kOptional:
      return out.add(
          "  if (reader.xdr().boolean({1})) {{\n    {0}.emplace();\n    {2}\n  }} else {{\n"
          "    {0}.reset();\n  }}\n",
          item, field, decode_element(of.type, "*" + item, field));
  }
}

std::uint64_t measure_item(Text& out, const Declaration& of, const std::string& item) {
  if (of.is_list) {
    out.add(
        "  for (const auto& each : {}) {{\n    counter.add(4);\n"
        "    measure_node(each, counter);\n  }}\n",
        item);
    // A list that is never empty has a word less, since its first node has none before it.
    return of.never_empty ? 0 : 4;
  }
  if (of.is_bytes() && of.shape == Shape::kFixed) return (of.size + 3) / 4 * 4;
  if (of.ddp) {
    out.add("  counter.bulk({}.size());\n", item);
    return 0;
  }
  if (of.is_bytes() || of.is_text()) {
    out.add("  counter.bytes({}.size());\n", item);
    return 4;
  }
  const std::uint64_t fixed = fixed_size(of.type);
  switch (of.shape) {
    case Shape::kPlain:
      if (fixed == 0) out.add("  {}\n", measure_element(of.type, item));
      return fixed;
    case Shape::kFixed:
      if (fixed != 0) return of.size * fixed;
      out.add("  for (const auto& each : {}) {}\n", item, measure_element(of.type, "each"));
      return 0;
    case Shape::kVariable:
      if (fixed != 0) {
        out.add("  counter.add({}.size() * {}U);\n", item, fixed);
      } else {
        out.add("  for (const auto& each : {}) {}\n", item, measure_element(of.type, "each"));
      }
      return 4;
    case Shape::kOptional:
      out.add("  if ({}.has_value()) {}\n", item,
              fixed != 0 ? fmt::format("counter.add({});", fixed)
                         : measure_element(of.type, "*" + item));
      return 4;
  }
  return 0;
}

void measure_fixed(Text& out, std::uint64_t size) {
  if (size != 0) out.add("  counter.add({});\n", size);
}

}  // namespace rpcrdma::gen
