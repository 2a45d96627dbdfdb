#include "gen/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gen/claims.h"
#include "gen/dialect.h"
#include "gen/names.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

constexpr std::size_t kDefinitionsMax = 4'000;
constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();

std::string text_of(Integer value) {
  return fmt::format("{}{}", value.negative ? "-" : "", value.magnitude);
}

class Checker {
 public:
  Checker(File& file, Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {}
  void run();

 private:
  struct Constant {
    Integer value;
    Location at;
  };

  void collect();
  void add_constant(const Name& name, Integer value, bool may_repeat);
  void add_type(Definition& definition);
  void enumerators(Definition& of);
  bool find(Value& value);
  bool find_number(Value& value, std::set<std::string>& seen) const;
  std::string hint_of_type(const std::string& name) const;
  std::string hint_of_constant(const std::string& name) const;
  void add_number(const Name& name, Integer value);
  void class_names();
  bool is_word(Value& value, std::string_view what);

  void resolve(TypeSpec& type);
  void declaration(Declaration& declared);
  void members(Definition& of);
  void union_type(Definition& of);
  void discriminant(Definition& of);
  void cases(Definition& of);
  bool fits_discriminant(const Definition& of, const Value& value);
  void typedef_cycles();
  void program_numbers();
  void program(Definition& of);
  void procedure(Procedure& procedure);
  void unbounded(Procedure& procedure);
  std::string term(Procedure& procedure, const SizeTerm& term);
  template <class Map>
  std::string nearest(std::string_view name, const Map& among) const;

  File& file_;
  Diagnostics& diagnostics_;
  std::map<std::string, Constant, std::less<>> constants_;
  std::map<std::string, Definition*, std::less<>> types_;
  // Programs, versions and procedures, which constants may name wherever they stand.
  std::multimap<std::string, const Value*, std::less<>> numbers_;
  std::map<std::string, Integer, std::less<>> number_of_;  // of versions and procedures
  std::set<std::string> unknown_;                          // names that were reported already
  bool has_all_constants_ = false;                         // but programs and what is in them
};

// --- Names -------------------------------------------------------------------------------------

void Checker::add_constant(const Name& name, Integer value, bool may_repeat) {
  const auto [found, is_new] = constants_.try_emplace(name.text, Constant{value, name.at});
  if (is_new || (may_repeat && found->second.value == value)) return;
  // Constants of the preprocessor come before all others, wherever they stand.
  const bool in_order = found->second.at.offset <= name.at.offset;
  diagnostics_.error(in_order ? name.at : found->second.at,
                     fmt::format("'{}' is defined twice", name.text));
  diagnostics_.note(in_order ? found->second.at : name.at, "the first time here");
}

void Checker::add_type(Definition& definition) {
  const auto [found, is_new] = types_.try_emplace(definition.name.text, &definition);
  if (is_new) return;
  const Name& name = definition.name;
  diagnostics_.error(name.at, name.text.size() == name.at.size
                                  ? fmt::format("'{}' is defined twice", name.text)
                                  : fmt::format("the type of this gets the name '{}', which is "
                                                "defined already",
                                                name.text));
  diagnostics_.note(found->second->name.at, "the first time here");
}

std::string Checker::hint_of_constant(const std::string& name) const {
  if (numbers_.contains(name)) return "; it is the name of several procedures or versions";
  if (types_.contains(name)) return "; it is a type";
  if (const std::string near = nearest(name, constants_); !near.empty()) {
    return fmt::format("; did you mean '{}'?", near);
  }
  if (!file_.has_c_headers) return {};
  return fmt::format("; if a C header has it, say -D {}=NUMBER", name);
}

// A program, version or procedure, whose number may itself be a name. `seen`: names that were
// looked up on the way, of which no one is looked up twice.
bool Checker::find_number(Value& value, std::set<std::string>& seen) const {
  const auto [first, last] = numbers_.equal_range(value.name);
  if (first == last || !seen.insert(value.name).second) return false;
  std::optional<Integer> found;
  for (auto each = first; each != last; ++each) {
    Value number = *each->second;
    const bool is_name = !number.name.empty() && !number.known;
    const auto constant = is_name ? constants_.find(number.name) : constants_.end();
    if (constant != constants_.end()) {
      number.number = constant->second.value;
    } else if (is_name && !find_number(number, seen)) {
      return false;
    }
    if (found && !(*found == number.number)) return false;
    found = number.number;
  }
  value.number = *found;
  return true;
}

// Sets the number of a value that is a name.
bool Checker::find(Value& value) {
  if (value.name.empty() || value.known) return true;
  if (const auto found = constants_.find(value.name); found != constants_.end()) {
    value.number = found->second.value;
    return true;
  }
  if (const auto known = dialect_constant(value.name)) {
    value.number = *known;
    return true;
  }
  std::set<std::string> seen;
  if (find_number(value, seen)) return true;
  if (!unknown_.insert("constant " + value.name).second) return false;
  diagnostics_.error(value.at, fmt::format("there is no constant '{}'{}{}", value.name,
                                           has_all_constants_ ? "" : " before this line",
                                           hint_of_constant(value.name)));
  return false;
}

// Numbers of 32 bits without a sign: bounds, programs, versions, procedures.
bool Checker::is_word(Value& value, std::string_view what) {
  if (!find(value)) return false;
  if (!value.number.negative && value.number.magnitude <= kU32Max) return true;
  diagnostics_.error(
      value.at, fmt::format("{} is from 0 to 4294967295, not {}", what, text_of(value.number)));
  return false;
}

void Checker::enumerators(Definition& of) {
  std::int64_t next = 0;
  for (Enumerator& each : of.enumerators) {
    if (each.value) {
      if (!find(*each.value)) continue;
      const Integer number = each.value->number;
      const std::uint64_t limit = number.negative ? std::uint64_t{1} << 31U : kU32Max >> 1U;
      // Written without a sign, the upper half of 32 bits means negative numbers, as in C.
      if (number.magnitude > limit && (number.negative || number.magnitude > kU32Max)) {
        diagnostics_.error(each.value->at, fmt::format("an enumerator has 32 bits; {} does not fit",
                                                       text_of(number)));
        continue;
      }
      next = static_cast<std::int32_t>(static_cast<std::uint32_t>(
          number.negative ? std::uint64_t{0} - number.magnitude : number.magnitude));
    }
    if (next > std::numeric_limits<std::int32_t>::max()) {
      diagnostics_.error(each.name.at, "this enumerator would be 2^31, which does not fit");
      next = 0;
    }
    each.number = static_cast<std::int32_t>(next);
    const bool negative = next < 0;
    add_constant(each.name, {negative, static_cast<std::uint64_t>(negative ? -next : next)}, false);
    ++next;
  }
}

void Checker::collect() {
  for (const Definition& each : file_.definitions) {
    if (each.kind == Kind::kProgram) numbers_.emplace(each.name.text, &each.value);
    for (const Version& version : each.versions) {
      numbers_.emplace(version.name.text, &version.number);
      for (const Procedure& one : version.procedures) numbers_.emplace(one.name.text, &one.number);
    }
  }
  for (Definition& each : file_.definitions) {
    each.cpp_name = type_name(each.name.text);
    if (each.kind == Kind::kConst) {
      if (find(each.value)) {
        add_constant(each.name, each.value.number, true);
      } else {
        unknown_.insert("constant " + each.name.text);  // the cause was reported
      }
    } else if (each.kind != Kind::kProgram) {
      add_type(each);
      if (each.kind == Kind::kEnum) enumerators(each);
    }
  }
  has_all_constants_ = true;
  for (const Name& each : file_.self_named) {
    if (types_.contains(each.text) || dialect_type(each.text) != Basic::kNone) continue;
    diagnostics_.error(each.at, fmt::format("'{}' is defined by itself only", each.text));
  }
}

// A name that looks much like the given one, for a hint; empty when there is none.
template <class Map>
std::string Checker::nearest(std::string_view name, const Map& among) const {
  std::string best;
  std::size_t best_distance = name.size() / 3 + 1;
  if (name.size() > 64 || diagnostics_.full()) return best;
  for (const auto& [other, what] : among) {
    if (other.size() > 64) continue;
    std::vector<std::size_t> row(other.size() + 1);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = i;
    for (std::size_t i = 0; i < name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 0; j < other.size(); ++j) {
        const std::size_t change = diagonal + (name[i] == other[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = other;
    }
  }
  return best;
}

std::string Checker::hint_of_type(const std::string& name) const {
  if (name == "zcopaque") return ": it is xdrzcc's dialect; say 'opaque NAME<>' with /* ddp */";
  if (const std::string near = nearest(name, types_); !near.empty()) {
    return fmt::format("; did you mean '{}'?", near);
  }
  return file_.has_c_headers ? "; if another .x file has it, say --import FILE.x" : "";
}

void Checker::resolve(TypeSpec& type) {
  if (type.basic != Basic::kNone || type.target != nullptr) return;
  if (const auto found = types_.find(type.name.text); found != types_.end()) {
    type.target = found->second;
    return;
  }
  type.basic = dialect_type(type.name.text);
  if (type.basic != Basic::kNone) return;
  if (!unknown_.insert("type " + type.name.text).second) return;
  diagnostics_.error(type.name.at, fmt::format("there is no type '{}'{}", type.name.text,
                                               hint_of_type(type.name.text)));
}

// --- Types -------------------------------------------------------------------------------------

void Checker::declaration(Declaration& declared) {
  resolve(declared.type);
  declared.size = kU32Max;
  if (!declared.bound) return;
  if (!is_word(*declared.bound, "the size of an array")) return;
  declared.size = declared.bound->number.magnitude;
}

void Checker::members(Definition& of) {
  std::map<std::string, Location, std::less<>> seen;
  for_each_declaration(of, [&](Declaration& each) {
    declaration(each);
    const auto [found, is_new] = seen.try_emplace(each.name.text, each.name.at);
    if (is_new) return;
    diagnostics_.error(each.name.at, fmt::format("'{}' is a member twice", each.name.text));
    diagnostics_.note(found->second, "the first time here");
  });
}

void Checker::discriminant(Definition& of) {
  declaration(of.discriminant);
  if (!diagnostics_.ok()) return;
  const Basic basic = resolved_basic(of.discriminant);
  const Definition* target = resolved_target(of.discriminant);
  const bool is_enum = target != nullptr && target->kind == Kind::kEnum;
  const bool is_number = range_of(basic).has_value();
  if (of.discriminant.shape == Shape::kPlain && (is_enum || is_number)) return;
  diagnostics_.error(of.discriminant.type.name.at,
                     "a discriminant is an int, an unsigned int, a bool or an enumeration "
                     "(RFC 4506 §4.15), or another number, as rpcgen takes it");
}

bool Checker::fits_discriminant(const Definition& of, const Value& value) {
  const Integer number = value.number;
  const Definition* target = resolved_target(of.discriminant);
  if (target != nullptr) {
    const auto magnitude = static_cast<std::int64_t>(std::min(number.magnitude, kU32Max + 1));
    const std::int64_t wanted = number.negative ? -magnitude : magnitude;
    for (const Enumerator& each : target->enumerators) {
      if (each.number == wanted) return true;
    }
    diagnostics_.error(value.at,
                       fmt::format("{} is not one of the values of '{}'",
                                   value.name.empty() ? text_of(number) : "'" + value.name + "'",
                                   target->name.text));
    return false;
  }
  const Basic basic = resolved_basic(of.discriminant);
  const auto range = range_of(basic);
  if (!range || range->has(number)) return true;
  diagnostics_.error(
      value.at, basic == Basic::kBool
                    ? fmt::format("{} is no value of the discriminant, a bool", text_of(number))
                    : fmt::format("{} is no value of the discriminant, which is from {} to {}",
                                  text_of(number), text_of(range->least), text_of(range->largest)));
  return false;
}

void Checker::cases(Definition& of) {
  std::map<std::pair<bool, std::uint64_t>, Location> seen;
  for (Arm& arm : of.arms) {
    for (Value& each : arm.cases) {
      if (!find(each) || !fits_discriminant(of, each)) continue;
      const auto [found, is_new] =
          seen.try_emplace({each.number.negative, each.number.magnitude}, each.at);
      if (is_new) continue;
      diagnostics_.error(each.at, fmt::format("there is a case {} already", text_of(each.number)));
      diagnostics_.note(found->second, "here");
    }
  }
}

// A typedef that leads back to itself has no meaning.
void Checker::typedef_cycles() {
  for (Definition& each : file_.definitions) {
    const Definition* at = &each;
    for (std::size_t steps = 0; at != nullptr && at->kind == Kind::kTypedef; ++steps) {
      if (steps > file_.definitions.size()) {
        diagnostics_.error(each.name.at,
                           fmt::format("'{}' is defined by itself only", each.name.text));
        return;
      }
      at = at->alias.type.target;
    }
  }
}

// --- Programs ----------------------------------------------------------------------------------

std::string Checker::term(Procedure& procedure, const SizeTerm& term) {
  if (term.number) {
    if (!term.number->negative) return fmt::format("{}U", term.number->magnitude);
    diagnostics_.error(procedure.unbounded_at, "a size is not negative");
    return {};
  }
  const Declaration* found = nullptr;
  std::string expression;
  std::size_t next = 1;
  for (std::size_t i = 0; i < procedure.arguments.size(); ++i) {
    if (term.path[0] != fmt::format("arg{}", i + 1)) continue;
    found = &procedure.arguments[i];
    expression = term.path[0];
  }
  if (found == nullptr && procedure.arguments.size() == 1) {
    found = &procedure.arguments[0];
    expression = "arg1";
    next = 0;
  }
  for (; found != nullptr && next < term.path.size(); ++next) {
    const Definition* type = resolved_target(*found);
    found = nullptr;
    if (type == nullptr || type->kind != Kind::kStruct) break;
    for (const Declaration& each : type->members) {
      if (each.name.text == term.path[next]) found = &each;
    }
    expression += "." + member_name(term.path[next], type->cpp_name);
  }
  if (found != nullptr) {
    const Basic basic = resolved_basic(*found);
    if (basic >= Basic::kChar && basic <= Basic::kUint64) return expression;
  } else if (const auto constant = constants_.find(term.path[0]);
             constant != constants_.end() && term.path.size() == 1) {
    if (!constant->second.value.negative) {
      return fmt::format("{}U", constant->second.value.magnitude);
    }
    diagnostics_.error(procedure.unbounded_at, "a size is not negative");
    return {};
  }
  diagnostics_.error(procedure.unbounded_at,
                     fmt::format("'{}' is neither a constant nor a number among the arguments",
                                 fmt::join(term.path, ".")));
  return {};
}

void Checker::procedure(Procedure& procedure) {
  is_word(procedure.number, "the number of a procedure");
  declaration(procedure.result);
  for (Declaration& each : procedure.arguments) declaration(each);
}

void Checker::unbounded(Procedure& procedure) {
  if (!procedure.unbounded_max) return;
  for (const SizeTerm& each : *procedure.unbounded_max) {
    procedure.unbounded_terms.push_back(term(procedure, each));
  }
}

// The number of a version or procedure. Its name is of its program or version alone (RFC 5531
// §12.3), so that others may have it: then it is no constant.
void Checker::add_number(const Name& name, Integer value) {
  const auto constant = constants_.find(name.text);
  const auto first = number_of_.try_emplace(name.text, value).first;
  const Integer other = constant != constants_.end() ? constant->second.value : first->second;
  if (!(other == value)) file_.ambiguous.insert(name.text);
}

// Comes before all versions and procedures, which may have the name of a program.
void Checker::program_numbers() {
  std::set<std::string> names;
  for (Definition& each : file_.definitions) {
    if (each.kind != Kind::kProgram) continue;
    is_word(each.value, "the number of a program");
    add_constant(each.name, each.value.number, true);
    if (!names.insert(each.name.text).second) {
      diagnostics_.error(each.name.at, "another program has this name");
    }
  }
}

void Checker::program(Definition& of) {
  std::set<std::uint64_t> versions;
  std::set<std::string> version_names;
  for (Version& version : of.versions) {
    if (!version_names.insert(version.name.text).second) {
      diagnostics_.error(version.name.at, "another version of the program has this name");
    }
    if (!is_word(version.number, "the number of a version")) continue;
    add_number(version.name, version.number.number);
    if (!versions.insert(version.number.number.magnitude).second) {
      diagnostics_.error(version.number.at, "another version of the program has this number");
    }
    std::set<std::uint64_t> numbers;
    std::set<std::string> names;
    for (Procedure& each : version.procedures) {
      procedure(each);
      if (!names.insert(each.name.text).second) {
        diagnostics_.error(each.name.at, "another procedure of the version has this name");
        continue;
      }
      add_number(each.name, each.number.number);
      if (!numbers.insert(each.number.number.magnitude).second) {
        diagnostics_.error(each.number.at, "another procedure of the version has this number");
      }
    }
  }
}

// --- Names in C++ ------------------------------------------------------------------------------

void Checker::class_names() {
  std::map<std::string, std::set<const Definition*>> programs;
  for (const Definition& each : file_.definitions) {
    for (const Version& version : each.versions) programs[version.name.text].insert(&each);
  }
  for (Definition& each : file_.definitions) {
    for (Version& version : each.versions) {
      const bool is_shared = programs[version.name.text].size() > 1;
      version.cpp_stem = (is_shared ? each.name.text + "_" : "") + version.name.text;
    }
  }
}

void Checker::run() {
  if (file_.definitions.size() > kDefinitionsMax) {
    return diagnostics_.error(file_.definitions.back().name.at,
                              fmt::format("more than {} definitions", kDefinitionsMax));
  }
  add_rpc_types(file_);
  class_names();
  collect();
  for (Definition& each : file_.definitions) {
    if (each.kind != Kind::kProgram) members(each);
  }
  if (diagnostics_.ok()) typedef_cycles();
  if (!diagnostics_.ok()) return;
  program_numbers();
  for (Definition& each : file_.definitions) {
    if (each.kind == Kind::kUnion) discriminant(each);
    if (each.kind == Kind::kProgram) program(each);
  }
  if (!diagnostics_.ok()) return;
  for (Definition& each : file_.definitions) {
    if (each.kind == Kind::kUnion) cases(each);
    for (Version& version : each.versions) {
      for (Procedure& procedure : version.procedures) unbounded(procedure);
    }
  }
}

}  // namespace

const Declaration& resolved(const Declaration& declaration) {
  const Declaration* at = &declaration;
  while (at->shape == Shape::kPlain && !at->is_list && at->type.target != nullptr &&
         at->type.target->kind == Kind::kTypedef && at->type.target->alias.shape == Shape::kPlain &&
         !at->type.target->alias.is_list) {
    at = &at->type.target->alias;
  }
  return *at;
}

const Definition* resolved_target(const Declaration& declaration) {
  const Declaration& behind = resolved(declaration);
  return behind.shape == Shape::kPlain ? behind.type.target : nullptr;
}

Basic resolved_basic(const Declaration& declaration) {
  const Declaration& behind = resolved(declaration);
  return behind.shape == Shape::kPlain ? behind.type.basic : Basic::kNone;
}

bool Range::has(Integer number) const {
  return number.magnitude <= (number.negative ? least : largest).magnitude;
}

std::optional<Range> range_of(Basic basic) {
  const auto with_sign = [](unsigned bits) {
    const std::uint64_t half = std::uint64_t{1} << (bits - 1);
    return Range{{true, half}, {false, half - 1}};
  };
  const auto without_sign = [](std::uint64_t largest) { return Range{{}, {false, largest}}; };
  switch (basic) {
    case Basic::kBool:
      return without_sign(1);
    case Basic::kChar:
    case Basic::kInt8:
      return with_sign(8);
    case Basic::kUint8:
      return without_sign(0xff);
    case Basic::kInt16:
      return with_sign(16);
    case Basic::kUint16:
      return without_sign(0xffff);
    case Basic::kInt32:
      return with_sign(32);
    case Basic::kUint32:
      return without_sign(kU32Max);
    case Basic::kInt64:
      return with_sign(64);
    case Basic::kUint64:
      return without_sign(std::numeric_limits<std::uint64_t>::max());
    case Basic::kNone:
    case Basic::kVoid:
    case Basic::kFloat:
    case Basic::kDouble:
    case Basic::kString:
    case Basic::kOpaque:
      break;
  }
  return std::nullopt;
}

std::uint64_t discriminant_size(const Definition& of) {
  const Basic basic = resolved_basic(of.discriminant);
  return basic == Basic::kInt64 || basic == Basic::kUint64 ? 8 : 4;
}

void check(File& file, Diagnostics& diagnostics) {
  Checker(file, diagnostics).run();
  if (diagnostics.ok()) lay_out(file, diagnostics);
  if (diagnostics.ok()) check_claims(file, diagnostics);
}

}  // namespace rpcrdma::gen
