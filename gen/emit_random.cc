// Emits helpers for tests: random values, and every type of the file by name.
#include <algorithm>

#include "gen/check.h"
#include "gen/emit.h"
#include "gen/names.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

constexpr std::string_view kTools = R"(namespace random_detail {{

inline std::uint64_t below(std::mt19937_64& random, std::uint64_t end) {{
  return random() % end;
}}
// Often empty, one or a few, sometimes as many as there may be.
inline std::size_t count(std::mt19937_64& random, int depth, std::uint64_t count_max) {{
  if (depth <= 0) return 0;
  switch (below(random, 4)) {{
    case 0:
      return 0;
    case 1:
      return static_cast<std::size_t>(count_max < 1 ? count_max : 1);
    case 2:
      return static_cast<std::size_t>(below(random, (count_max < 5 ? count_max : 5) + 1));
    default:
      return static_cast<std::size_t>(count_max < 40 ? count_max : 9);
  }}
}}
// Bytes that live as long as the program.
inline rpcrdma::Bytes bytes(std::mt19937_64& random, std::uint64_t size_max) {{
  static const std::vector<std::byte> pool = [] {{
    std::vector<std::byte> filled(8192);
    for (std::size_t i = 0; i < filled.size(); ++i) filled[i] = std::byte(i * 167 % 251);
    return filled;
  }}();
  constexpr std::uint64_t kSizes[] = {{0, 1, 2, 3, 4, 7, 33, 255, 4096}};
  const std::uint64_t size = kSizes[below(random, 9)];
  return rpcrdma::Bytes(pool).subspan(below(random, 4096),
                                      static_cast<std::size_t>(size < size_max ? size : size_max));
}}
template <class T>
T number(std::mt19937_64& random) {{
  switch (below(random, 4)) {{
    case 0:
      return 0;
    case 1:
      return std::numeric_limits<T>::max();
    case 2:
      return std::numeric_limits<T>::min();
    default:
      return static_cast<T>(random());
  }}
}}
inline double real(std::mt19937_64& random) {{
  return static_cast<double>(static_cast<std::int32_t>(random())) / 64;
}}
inline std::string_view text(std::mt19937_64& random, std::uint64_t size_max) {{
  static const std::string pool = [] {{
    std::string filled;
    while (filled.size() < 8192) filled += static_cast<char>('a' + filled.size() % 26);
    return filled;
  }}();
  return std::string_view(pool).substr(below(random, 4096), bytes(random, size_max).size());
}}

}}  // namespace random_detail
)";

std::string element(const TypeSpec& type, const std::string& item, std::string_view depth) {
  const Basic basic = basic_of(type);
  TypeSpec plain;
  plain.basic = basic;
  if (basic == Basic::kBool) return fmt::format("{} = random_detail::below(random, 2) != 0;", item);
  if (basic == Basic::kFloat) {
    return fmt::format("{} = static_cast<float>(static_cast<std::int16_t>(random()));", item);
  }
  if (basic == Basic::kDouble) return fmt::format("{} = random_detail::real(random);", item);
  if (basic != Basic::kNone) {
    return fmt::format("{} = random_detail::number<{}>(random);", item, element_type(plain, ""));
  }
  return fmt::format("{}({}, random, {});", function_for("randomize", type), item, depth);
}

void randomize(Text& out, const Declaration& of, const std::string& item) {
  if (of.is_text()) {
    return out.add("  {} = random_detail::text(random, {}U);\n", item, of.size);
  }
  if (of.is_bytes() && of.shape == Shape::kFixed) {
    return out.add("  for (auto& each : {}) each = static_cast<std::byte>(random());\n", item);
  }
  if (of.ddp) return out.add("  {} = random_detail::bytes(random, {}U);\n", item, of.size);
  if (of.is_bytes()) {
    return out.add(
        "  {{\n    const auto bytes = random_detail::bytes(random, {1}U);\n"
        "    {0}.assign(bytes.begin(), bytes.end());\n  }}\n",
        item, of.size);
  }
  if (of.is_list || of.shape == Shape::kVariable) {
    const bool is_bool = !of.is_list && basic_of(of.type) == Basic::kBool;
    const std::string count =
        of.never_empty
            ? "1 + random_detail::count(random, depth, 8)"
            : fmt::format("random_detail::count(random, depth, {}U)", of.is_list ? 8 : of.size);
    out.add("  {}.clear();\n  for (std::size_t i = {}; i > 0; --i) {{\n", item, count);
    if (is_bool) {
      return out.add("    {}.push_back(random_detail::below(random, 2) != 0);\n  }}\n", item);
    }
    return out.add("    {}\n  }}\n", element(of.type, item + ".emplace_back()", "depth - 1"));
  }
  if (of.shape == Shape::kPlain) return out.add("  {}\n", element(of.type, item, "depth - 1"));
  if (of.shape == Shape::kFixed) {
    return out.add("  for (auto& each : {}) {}\n", item, element(of.type, "each", "depth - 1"));
  }
  out.add(
      "  {0}.reset();\n  if (random_detail::count(random, depth, 1) != 0) {{\n"
      "    {0}.emplace();\n    {1}\n  }}\n",
      item, element(of.type, "*" + item, "depth - 1"));
}

std::string first_line(const Definition& of, std::string_view function) {
  return fmt::format(
      "inline void {}([[maybe_unused]] {}& value, "
      "[[maybe_unused]] std::mt19937_64& random, [[maybe_unused]] int depth)",
      function, of.cpp_name);
}

void enumeration(Text& out, const Definition& of, const std::string& scope) {
  out.add("{} {{\n  constexpr {}{} kValues[] = {{", first_line(of, "randomize"), scope,
          of.cpp_name);
  for (const Enumerator& each : of.enumerators) {
    out.add("{}::{}, ", of.cpp_name, cpp_name(each.name.text));
  }
  out.add("}};\n  value = kValues[random_detail::below(random, {}U)];\n}}\n",
          of.enumerators.size());
}

// Values that are tried as discriminants: all cases, some others, and all of an enumeration.
void union_type(Text& out, const Definition& of, const std::string& scope) {
  const std::string type = type_of(of.discriminant, scope);
  out.add("{} {{\n  value = {}{}();\n  if (depth <= 0) return;\n", first_line(of, "randomize"),
          scope, of.cpp_name);
  out.add("  {} discriminant{{}};\n  do {{\n", type);
  const Definition* target = resolved_target(of.discriminant);
  if (target != nullptr) {
    out.add("    randomize(discriminant, random, depth);\n");
  } else if (resolved_basic(of.discriminant) == Basic::kBool) {
    out.add("    discriminant = random_detail::below(random, 2) != 0;\n");
  } else {
    out.add("    constexpr {} kCases[] = {{", type);
    std::size_t count = 0;
    for (const Arm& arm : of.arms) {
      for (const Value& each : arm.cases) {
        out.add("{}, ", number_text(each.number));
        ++count;
      }
    }
    out.add(
        "}};\n    discriminant = random_detail::below(random, 4) == 0\n"
        "                       ? random_detail::number<{}>(random)\n"
        "                       : kCases[random_detail::below(random, {}U)];\n",
        type, count);
  }
  out.add("  }} while ({}::arm_of(discriminant) < 0);\n  switch ({}::arm_of(discriminant)) {{\n",
          of.cpp_name, of.cpp_name);
  for (std::size_t i = 0; i < of.arms.size(); ++i) {
    const Arm& arm = of.arms[i];
    out.add("    case {}: {{\n", i);
    if (arm.declaration.is_void()) {
      out.add("      value.set_void(discriminant);\n");
    } else {
      out.add("      auto& item = value.{}({});\n", arm.setter,
              needs_discriminant(arm) ? "discriminant" : "");
      randomize(out, arm.declaration, "item");
    }
    out.add("      break;\n    }}\n");
  }
  out.add("    default:\n      break;\n  }}\n}}\n");
}

void traits(Text& out, const Definition& of, const std::string& scope) {
  const bool own = has_functions(of);
  const std::string suffix = own ? "_" + of.cpp_name : "";
  out.add(
      "struct {0}_traits {{\n  using Type = {3}{0};\n"
      "  static constexpr std::string_view kName = \"{1}\";\n"
      "  static void encode(const Type& value, rpcrdma::MessageWriter& writer) {{\n"
      "    {3}encode{2}(value, writer);\n  }}\n"
      "  static void decode(rpcrdma::MessageReader& reader, Type& value) {{\n"
      "    {3}decode{2}(reader, value);\n  }}\n"
      "  static std::uint64_t encoded_size(const Type& value) {{\n"
      "    return {3}encoded_size{2}(value);\n  }}\n"
      "  static std::string to_string(const Type& value) {{\n"
      "    return rpcrdma::codec::text_of(value);\n  }}\n"
      "  static void randomize(Type& value, std::mt19937_64& random, int depth) {{\n"
      "    {3}randomize{2}(value, random, depth);\n  }}\n}};\n",
      of.cpp_name, of.name.text, suffix, scope);
}

bool is_listed(const Definition& of) {
  return of.kind == Kind::kEnum || of.kind == Kind::kStruct || of.kind == Kind::kUnion ||
         has_functions(of);
}

}  // namespace

std::string emit_random(const File& file, const EmitOptions& options) {
  Text out;
  emit_prologue(out, options);
  // Functions of the namespace are used inside of structures that have ones of the same names.
  const std::string scope = scope_of(options);
  const std::string guard =
      "RPCRDMA_GENERATED_" + namespace_of(options.namespace_name) + "_RANDOM_H_";
  out.add(
      "#ifndef {0}\n#define {0}\n\n#include <limits>\n#include <random>\n\n"
      "#include \"{1}_fields.h\"\n\n{3}namespace {2} {{\n\n",
      guard, options.stem, options.namespace_name, kNoShadowWarnings);
  out.add(kTools);
  for (const Definition& each : file.definitions) {
    if (!is_listed(each)) continue;
    const std::string function =
        has_functions(each) ? "randomize_" + each.cpp_name : std::string("randomize");
    out.add("{};\n", first_line(each, function));
  }
  for (const Definition& each : file.definitions) {
    if (each.kind == Kind::kEnum) enumeration(out, each, scope);
    if (each.kind == Kind::kUnion) union_type(out, each, scope);
    if (each.kind == Kind::kStruct) {
      out.add("{} {{\n", first_line(each, "randomize"));
      for (const Declaration& member : each.members) {
        randomize(out, member, "value." + member_name(member.name.text, each.cpp_name));
      }
      out.add("}}\n");
    }
    if (has_functions(each)) {
      out.add("{} {{\n", first_line(each, "randomize_" + each.cpp_name));
      randomize(out, each.alias, "value");
      out.add("}}\n");
    }
  }
  out.add("\n// For each type: its name and its functions.\n");
  for (const Definition& each : file.definitions) {
    if (is_listed(each)) traits(out, each, scope);
  }
  out.add("template <class Visit>\nvoid visit_types([[maybe_unused]] Visit&& visit) {{\n");
  for (const Definition& each : file.definitions) {
    if (is_listed(each)) out.add("  visit({}_traits{{}});\n", each.cpp_name);
  }
  out.add("}}\n\n}}  // namespace {}\n{}\n#endif  // {}\n", options.namespace_name,
          kWarningsAsBefore, guard);
  return out.take();
}

}  // namespace rpcrdma::gen
