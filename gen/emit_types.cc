// Types: constants, enumerations, structures, unions, typedefs, in an order that C++ takes.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>

#include "gen/check.h"
#include "gen/emit.h"
#include "gen/names.h"

namespace rpcrdma::gen {

void Text::append(fmt::string_view format, fmt::format_args arguments) {
  text_ += fmt::vformat(format, arguments);
}

namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

const Definition* behind(const TypeSpec& type) {
  Declaration plain;
  plain.type = type;
  return resolved_target(plain);
}

std::string initializer(const Declaration& member) {
  if (member.is_list || member.shape == Shape::kVariable || member.shape == Shape::kOptional) {
    return "";
  }
  if (member.shape == Shape::kFixed) return "{}";
  const Definition* target = behind(member.type);
  if (target == nullptr) return "{}";
  if (target->kind != Kind::kEnum) return target->kind == Kind::kTypedef ? "{}" : "";
  return fmt::format(" = {}", discriminant_text(*target, {}));
}

class Types {
 public:
  Types(Text& out, const EmitOptions& options) : out_(out), options_(options) {}

  void constants(const File& file) {
    std::set<std::string> seen;
    const auto add = [&](const Name& name, Integer value) {
      if (!seen.insert(name.text).second) return;
      const bool wide = value.magnitude > (value.negative ? 0x80000000U : 0xffffffffU);
      const std::string_view type = value.negative ? (wide ? "std::int64_t" : "std::int32_t")
                                                   : (wide ? "std::uint64_t" : "std::uint32_t");
      out_.add("inline constexpr {} {} = {};\n", type, cpp_name(name.text), number_text(value));
    };
    for (const Definition& each : file.definitions) {
      if (each.kind == Kind::kConst) add(each.name, each.value.number);
      if (each.kind != Kind::kProgram) continue;
      add(each.name, each.value.number);
      const auto add_number = [&](const Name& name, const Value& value) {
        if (!file.ambiguous.contains(name.text)) add(name, value.number);
      };
      for (const Version& version : each.versions) {
        add_number(version.name, version.number);
        for (const Procedure& one : version.procedures) add_number(one.name, one.number);
      }
    }
  }

  void enumeration(const Definition& of) {
    out_.add("\nenum class {} : std::int32_t {{\n", of.cpp_name);
    for (const Enumerator& each : of.enumerators) {
      out_.add("  {} = {},\n", cpp_name(each.name.text),
               number_text({each.number < 0, static_cast<std::uint64_t>(std::abs(
                                                 static_cast<std::int64_t>(each.number)))}));
    }
    out_.add("}};\n// Whether it is one of them.\nbool is_defined({} value) noexcept;\n",
             of.cpp_name);
  }

  void define(const Definition& of) {
    if (!done_.insert(&of).second) return;
    for_each_declaration(of, [&](const Declaration& each) { need(of, each); });
    if (of.kind == Kind::kTypedef) {
      out_.add("\nusing {} = {};\n", of.cpp_name, type_of(of.alias));
    } else if (of.kind == Kind::kStruct) {
      structure(of);
    } else if (of.kind == Kind::kUnion) {
      union_type(of);
    }
  }

 private:
  // Declares what C++ has to know before the type: names of typedefs always, whole types if a value
  // is inside.
  void need(const Definition& of, const Declaration& declared) {
    const Definition* target = declared.type.target;
    if (target == nullptr || target->kind == Kind::kEnum) return;
    const bool by_reference =
        declared.is_list || declared.boxed || declared.shape == Shape::kVariable;
    if (target->kind == Kind::kTypedef) {
      define(*target);
      if (of.kind != Kind::kTypedef && !by_reference) need(of, target->alias);
    } else if (!by_reference && of.kind != Kind::kTypedef) {
      define(*target);
    }
  }

  void structure(const Definition& of) {
    const std::string scope = scope_in(of, options_);
    out_.add("\n{}struct {} {{\n", of.is_node ? "// An element of a list, without its link.\n" : "",
             of.cpp_name);
    for (const Declaration& each : of.members) {
      out_.add("  {} {}{};{}\n", type_of(each, scope), member_name(each.name.text, of.cpp_name),
               initializer(each),
               each.ddp ? "  // DDP-eligible: a view, the memory is not its own" : "");
    }
    out_.add("}};\n");
  }

  void arm(const Definition& of, const Arm& arm, const std::string& scope,
           const std::string& discriminant) {
    const std::string type = type_of(arm.declaration, scope);
    const std::string name = arm.cpp_name;
    const std::string wanted = needs_discriminant(arm) ? discriminant + " discriminant" : "";
    out_.add("  // Null unless it is the one that is set.\n");
    if (is_boxed_arm(arm)) {
      out_.add(
          "  const {0}* {1}() const noexcept {{\n    const auto* box = "
          "rpcrdma_arm_.get<rpcrdma::Box<{0}>>({2});\n"
          "    return box != nullptr ? box->get() : nullptr;\n  }}\n"
          "  {0}* {1}() noexcept {{\n    auto* box = rpcrdma_arm_.get<rpcrdma::Box<{0}>>({2});\n"
          "    return box != nullptr ? box->get() : nullptr;\n  }}\n",
          type, name, arm_number(of, arm));
    } else {
      out_.add(
          "  const {0}* {1}() const noexcept {{ return rpcrdma_arm_.get<{0}>({2}); }}\n"
          "  {0}* {1}() noexcept {{ return rpcrdma_arm_.get<{0}>({2}); }}\n",
          type, name, arm_number(of, arm));
    }
    out_.add("  {0}& {1}({2});\n  {0}& {1}({2}{3}{0} value);\n", type, arm.setter, wanted,
             wanted.empty() ? "" : ", ");
  }

  void union_type(const Definition& of) {
    const std::string scope = scope_of(options_);
    const std::string discriminant = type_of(of.discriminant, scope);
    out_.add("\nclass {0} {{\n public:\n  {0}();\n", of.cpp_name);
    out_.add("  {} {}() const noexcept {{ return rpcrdma_discriminant_; }}\n", discriminant,
             of.discriminant_cpp_name);
    for (const Arm& each : of.arms) {
      if (!each.declaration.is_void()) arm(of, each, scope, discriminant);
    }
    if (has_void_arm(of)) {
      out_.add(
          "  // For values without data; with another the program ends.\n"
          "  void set_void({} discriminant);\n",
          discriminant);
    }
    out_.add(
        "  // Which arm the value has, counted from 0; -1: none.\n"
        "  static int arm_of({} discriminant) noexcept;\n\n private:\n  {} rpcrdma_discriminant_;\n"
        "  rpcrdma::codec::Arm<",
        discriminant, discriminant);
    std::string_view separator;
    for (const Arm& each : of.arms) {
      if (each.declaration.is_void()) continue;
      const std::string type = type_of(each.declaration, scope);
      const bool boxed = is_boxed_arm(each);
      out_.add("{}sizeof({}{}{})", separator, boxed ? "rpcrdma::Box<" : "", type, boxed ? ">" : "");
      separator = ", ";
    }
    out_.add("> rpcrdma_arm_;\n}};\n");
  }

  Text& out_;
  const EmitOptions& options_;
  std::set<const Definition*> done_;
};

}  // namespace

std::string number_text(Integer value) {
  if (value.negative && value.magnitude == std::uint64_t{1} << 63U) {
    return "-9223372036854775807 - 1";
  }
  const bool huge = value.magnitude > 0x7fffffffffffffffU;
  return fmt::format("{}{}{}", value.negative ? "-" : "", value.magnitude, huge ? "U" : "");
}

std::string enumerator_literal(const Enumerator& of) {
  return of.number == std::numeric_limits<std::int32_t>::min() ? "-2147483647 - 1"
                                                               : fmt::format("{}", of.number);
}

Basic basic_of(const TypeSpec& type) {
  Declaration plain;
  plain.type = type;
  return resolved_basic(plain);
}

std::string element_type(const TypeSpec& type, std::string_view scope) {
  switch (type.basic) {
    case Basic::kNone:
      return std::string(scope) + type.target->cpp_name;
    case Basic::kVoid:
      return "void";
    case Basic::kBool:
      return "bool";
    case Basic::kChar:
    case Basic::kInt8:
      return "std::int8_t";
    case Basic::kUint8:
      return "std::uint8_t";
    case Basic::kInt16:
      return "std::int16_t";
    case Basic::kUint16:
      return "std::uint16_t";
    case Basic::kInt32:
      return "std::int32_t";
    case Basic::kUint32:
      return "std::uint32_t";
    case Basic::kInt64:
      return "std::int64_t";
    case Basic::kUint64:
      return "std::uint64_t";
    case Basic::kFloat:
      return "float";
    case Basic::kDouble:
      return "double";
    case Basic::kString:
      return "std::string";
    case Basic::kOpaque:
      return "std::byte";
  }
  return "void";
}

std::string type_of(const Declaration& declaration, std::string_view scope) {
  if (declaration.is_text()) return declaration.ddp ? "std::string_view" : "std::string";
  if (declaration.ddp) return "rpcrdma::Bytes";
  const std::string element = element_type(declaration.type, scope);
  if (declaration.is_list) return fmt::format("std::vector<{}>", element);
  switch (declaration.shape) {
    case Shape::kPlain:
      break;
    case Shape::kFixed:
      return fmt::format("std::array<{}, {}>", element, declaration.size);
    case Shape::kVariable:
      return fmt::format("std::vector<{}>", element);
    case Shape::kOptional:
      return fmt::format("{}<{}>", declaration.boxed ? "rpcrdma::Box" : "std::optional", element);
  }
  return element;
}

std::string scope_of(const EmitOptions& options) {
  return "::" + options.namespace_name + "::";
}

std::string scope_in(const Definition& of, const EmitOptions& options) {
  std::set<std::string> members;
  for (const Declaration& each : of.members) {
    members.insert(member_name(each.name.text, of.cpp_name));
  }
  const bool hides =
      std::any_of(of.members.begin(), of.members.end(), [&](const Declaration& each) {
        return each.type.target != nullptr && members.contains(each.type.target->cpp_name);
      });
  return hides ? scope_of(options) : "";
}

bool has_functions(const Definition& of) {
  return of.kind == Kind::kTypedef && (of.alias.shape != Shape::kPlain || of.alias.is_list);
}

std::string function_for(std::string_view verb, const TypeSpec& type) {
  const Definition* target = behind(type);
  if (target != nullptr && has_functions(*target)) {
    return fmt::format("{}_{}", verb, target->cpp_name);
  }
  return std::string(verb);
}

std::string discriminant_text(const Definition& of, Integer value) {
  // `of` is an enumeration: the enumerator of the value, else the first one.
  const Enumerator* best = &of.enumerators.front();
  for (const Enumerator& each : of.enumerators) {
    const std::int64_t wanted = value.negative ? -static_cast<std::int64_t>(value.magnitude)
                                               : static_cast<std::int64_t>(value.magnitude);
    if (each.number == wanted) {
      best = &each;
      break;
    }
  }
  return fmt::format("{}::{}", of.cpp_name, cpp_name(best->name.text));
}

bool is_boxed_arm(const Arm& arm) {
  return arm.declaration.boxed && arm.declaration.shape != Shape::kOptional;
}

std::size_t arm_number(const Definition& of, const Arm& arm) {
  std::size_t index = 0;
  for (const Arm& each : of.arms) {
    if (!each.declaration.is_void()) ++index;
    if (&each == &arm) return each.declaration.is_void() ? 0 : index;
  }
  return 0;
}

bool needs_discriminant(const Arm& arm) {
  return arm.is_default || arm.cases.size() != 1;
}

bool has_void_arm(const Definition& of) {
  return std::any_of(of.arms.begin(), of.arms.end(),
                     [](const Arm& each) { return each.declaration.is_void(); });
}

void emit_types(Text& out, const File& file, const EmitOptions& options) {
  Types types(out, options);
  types.constants(file);
  for (const Definition& each : file.definitions) {
    if (each.kind == Kind::kEnum) types.enumeration(each);
  }
  out.add("\n");
  for (const Definition& each : file.definitions) {
    if (each.kind == Kind::kStruct) out.add("struct {};\n", each.cpp_name);
    if (each.kind == Kind::kUnion) out.add("class {};\n", each.cpp_name);
  }
  for (const Definition& each : file.definitions) {
    if (each.kind != Kind::kConst && each.kind != Kind::kEnum && each.kind != Kind::kProgram) {
      types.define(each);
    }
  }
}

}  // namespace rpcrdma::gen
