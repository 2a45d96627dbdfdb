#include "gen/parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace rpcrdma::gen {
namespace {

constexpr int kNestingMax = 32;

constexpr std::array<std::string_view, 23> kKeywords = {
    "bool",  "case",     "const",   "default", "double", "quadruple", "enum",   "float",
    "hyper", "int",      "opaque",  "program", "string", "struct",    "switch", "typedef",
    "union", "unsigned", "version", "void",    "char",   "short",     "long"};

bool is_keyword(std::string_view word) {
  return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end();
}

bool is_self_named(const Declaration& declared) {
  return declared.type.basic == Basic::kNone && declared.type.target == nullptr &&
         declared.shape == Declaration::Shape::kPlain &&
         declared.type.name.text == declared.name.text;
}

// Compares types as they are written: a type that was defined on the spot is another one each time.
bool is_same_type(const Declaration& a, const Declaration& b) {
  const auto same_bound = [](const Value& one, const Value& other) {
    const bool has_numbers = one.name.empty() || one.known;
    return one.name == other.name && one.known == other.known &&
           (!has_numbers || one.number == other.number);
  };
  return a.type.target == nullptr && b.type.target == nullptr && a.type.basic == b.type.basic &&
         (a.type.basic != Basic::kNone || a.type.name.text == b.type.name.text) &&
         a.shape == b.shape && a.ddp == b.ddp && a.bound.has_value() == b.bound.has_value() &&
         (!a.bound || same_bound(*a.bound, *b.bound));
}

// Thrown at the first error, which was reported; caught in parse().
struct Stop {};

class Parser {
 public:
  Parser(Source& source, Diagnostics& diagnostics, const FindIncluded& find)
      : source_(source), diagnostics_(diagnostics), lexed_(lex(source, diagnostics, find)) {}

  File run();

 private:
  // A type without a name, and where it stands.
  struct Unnamed {
    Definition* type;
    const Definition* parent;  // null: named by the typedef itself
    Name member;
  };

  const Token& token(std::size_t ahead = 0) const {
    return lexed_.tokens[std::min(at_ + ahead, lexed_.tokens.size() - 1)];
  }
  bool accept(std::string_view word);
  Token expect(std::string_view word, std::string_view after);
  Name name(std::string_view what);
  Value value(std::string_view what);
  [[noreturn]] void fail(const Token& found, std::string_view expected);
  [[noreturn]] void fail(Location at, std::string text);
  Location behind_last() const;

  void definition();
  void constant();
  void enumeration();
  void structure();
  void union_type();
  void alias();
  void program();
  Version version();
  Procedure procedure();

  void enum_body(Definition& of);
  void struct_body(Definition& of);
  void union_body(Definition& of);
  Arm arm(Definition& of);

  Declaration declaration(const Definition* parent, bool may_be_void);
  Declaration procedure_type(bool is_result);
  TypeSpec type(Definition*& unnamed);
  bool plain_type(TypeSpec& spec);
  void integer_type(TypeSpec& spec);
  void declarator(Declaration& declared);
  void brackets(Declaration& declared);
  void check_bytes(const Declaration& declared, const Token& at);

  Definition& add(Definition::Kind kind);
  void name_types();
  // Uses the annotations between the two places.
  void annotate(Declaration& declared, std::size_t from, std::size_t end);
  void annotate(Procedure& procedure, std::size_t from, std::size_t end);
  void size_terms(Procedure& procedure, std::string_view text, Location at);
  std::size_t end_of_line(const Token& semicolon) const;
  std::set<std::string_view> names_in_use() const;
  std::vector<std::string_view> words_of(Annotation& annotation) const;

  const Source& source_;
  Diagnostics& diagnostics_;
  Lexed lexed_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  File file_;
  std::vector<Unnamed> unnamed_;
  std::map<std::string, const Definition*, std::less<>> typedefs_;
};

// --- Words -------------------------------------------------------------------------------------

bool Parser::accept(std::string_view word) {
  if (!token().is(word)) return false;
  ++at_;
  return true;
}

void Parser::fail(const Token& found, std::string_view expected) {
  if (found.kind == Token::Kind::kText) {
    fail(found.at, "text in quotes has no meaning in the XDR language; constants are numbers");
  }
  if (found.kind != Token::Kind::kEnd) {
    fail(found.at, fmt::format("expected {}, but found '{}'", expected, found.text));
  }
  // The end itself may be an empty line far below.
  fail(behind_last(), fmt::format("expected {}, but the file ends here", expected));
}

Location Parser::behind_last() const {
  if (at_ == 0) return token().at;
  const Location& last = lexed_.tokens[at_ - 1].at;
  return {last.offset + last.size, 0};
}

void Parser::fail(Location at, std::string text) {
  diagnostics_.error(at, std::move(text));
  throw Stop();
}

Token Parser::expect(std::string_view word, std::string_view after) {
  const Token& found = token();
  if (found.is(word)) return lexed_.tokens[at_++];
  const Location behind = behind_last();
  if (found.kind != Token::Kind::kEnd && source_.is_later_line(behind.offset, found.at.offset)) {
    // The missing word belongs behind the earlier line.
    fail(behind,
         fmt::format("expected '{}' {}, but found '{}' on a later line", word, after, found.text));
  }
  fail(found, fmt::format("'{}' {}", word, after));
}

Name Parser::name(std::string_view what) {
  const Token& found = token();
  if (found.kind != Token::Kind::kName) fail(found, what);
  if (is_keyword(found.text)) {
    fail(found.at,
         fmt::format("expected {}, but found '{}', a word of the language", what, found.text));
  }
  ++at_;
  return {std::string(found.text), found.at};
}

Value Parser::value(std::string_view what) {
  const Token& found = token();
  if (found.kind == Token::Kind::kNumber) {
    ++at_;
    return {{}, found.at, found.number};
  }
  const Name named = name(what);
  return {named.text, named.at, found.number, found.defined};
}

// --- Definitions -------------------------------------------------------------------------------

Definition& Parser::add(Definition::Kind kind) {
  Definition& added = file_.definitions.emplace_back();
  added.kind = kind;
  return added;
}

void Parser::constant() {
  const Name named = name("the name of the constant");
  expect("=", "after the name of the constant");
  if (const Token& found = token(); found.kind == Token::Kind::kText) {
    diagnostics_.warning(found.at, fmt::format("'{}' is passed over: constants of the XDR language "
                                               "are numbers (RFC 4506 §4.17)",
                                               named.text));
    ++at_;
  } else {
    const Value number = value("a number or the name of a constant");
    Definition& added = add(Definition::Kind::kConst);
    added.name = named;
    added.value = number;
  }
  expect(";", "after the constant");
}

void Parser::enumeration() {
  const Name named = name("the name of the enumeration");
  Definition& added = add(Definition::Kind::kEnum);
  added.name = named;
  enum_body(added);
  expect(";", "after the enumeration");
}

void Parser::structure() {
  const Name named = name("the name of the structure");
  Definition& added = add(Definition::Kind::kStruct);
  added.name = named;
  struct_body(added);
  expect(";", "after the structure");
}

void Parser::union_type() {
  const Name named = name("the name of the union");
  Definition& added = add(Definition::Kind::kUnion);
  added.name = named;
  union_body(added);
  expect(";", "after the union");
}

void Parser::alias() {
  const std::size_t from = token().at.offset;
  Declaration declared = declaration(nullptr, false);
  const Token semicolon = expect(";", "after the type definition");
  annotate(declared, from, end_of_line(semicolon));
  // typedef struct {…} name: the name is the structure's.
  if (!unnamed_.empty() && unnamed_.back().type == declared.type.target) {
    if (declared.shape == Declaration::Shape::kPlain) {
      unnamed_.back().member = declared.name;
      return;
    }
    unnamed_.back().member = {declared.name.text + "_element", declared.name.at};
  }
  // typedef struct name name;
  if (is_self_named(declared)) {
    file_.self_named.push_back(declared.name);
    return;
  }
  const auto [before, is_new] = typedefs_.try_emplace(declared.name.text, nullptr);
  if (!is_new && is_same_type(before->second->alias, declared)) return;
  Definition& added = add(Definition::Kind::kTypedef);
  if (is_new) before->second = &added;
  added.name = declared.name;
  added.alias = std::move(declared);
}

void Parser::definition() {
  if (accept(";")) return;  // rpcgen lets one be too many
  if (accept("const")) return constant();
  if (accept("enum")) return enumeration();
  if (accept("struct")) return structure();
  if (accept("union")) return union_type();
  if (accept("typedef")) return alias();
  if (accept("program")) return program();
  if (token(1).kind == Token::Kind::kName) {
    if (token().is("namespace")) {
      fail(token().at,
           "'namespace' is xdrpp's dialect; take it and its '}' out, and say --namespace NAME");
    }
    if (token().is("pragma")) {
      fail(token().at, "'pragma' is the dialect of Linux' xdrgen; take the line out");
    }
  }
  fail(token(), "'const', 'enum', 'struct', 'union', 'typedef' or 'program'");
}

void Parser::enum_body(Definition& of) {
  expect("{", "before the enumerators");
  do {
    if (token().is("}") && !of.enumerators.empty()) break;  // rpcgen lets a comma be the last
    Enumerator& added = of.enumerators.emplace_back();
    added.name = name("the name of an enumerator");
    if (accept("=")) added.value = value("a number or the name of a constant");
  } while (accept(","));
  expect("}", "or ',' after an enumerator");
}

void Parser::struct_body(Definition& of) {
  expect("{", "before the members");
  do {
    if (token().kind == Token::Kind::kEnd) fail(token(), "a member or '}'");
    if (token().is("}")) fail(token(), "a member");
    const std::size_t from = token().at.offset;
    Declaration declared = declaration(&of, false);
    const Token semicolon = expect(";", "after the member");
    annotate(declared, from, end_of_line(semicolon));
    of.members.push_back(std::move(declared));
  } while (!token().is("}"));
  expect("}", "after the members");
}

Arm Parser::arm(Definition& of) {
  Arm arm;
  arm.at = token().at;
  if (accept("default")) {
    arm.is_default = true;
    expect(":", "after 'default'");
  } else {
    while (accept("case")) {
      if (const Token& found = token(); found.kind == Token::Kind::kCharacter) {
        arm.cases.push_back({{}, found.at, found.number});
        ++at_;
      } else {
        arm.cases.push_back(value("a number or the name of a constant"));
      }
      expect(":", "after the case");
    }
  }
  const std::size_t from = token().at.offset;
  arm.declaration = declaration(&of, true);
  const Token semicolon = expect(";", "after the declaration");
  annotate(arm.declaration, from, end_of_line(semicolon));
  return arm;
}

void Parser::union_body(Definition& of) {
  expect("switch", "after the name of the union");
  expect("(", "before the discriminant");
  of.discriminant = declaration(&of, false);
  expect(")", "after the discriminant");
  expect("{", "before the cases");
  if (!token().is("case")) fail(token(), "'case'");
  while (token().is("case")) of.arms.push_back(arm(of));
  if (token().is("default")) of.arms.push_back(arm(of));
  if (token().is("case")) fail(token().at, "the default stands behind all cases; expected '}'");
  expect("}", "after the cases");
}

// --- Declarations ------------------------------------------------------------------------------

void Parser::integer_type(TypeSpec& spec) {
  if (accept("int")) {
    spec.basic = Basic::kUint32;
  } else if (accept("hyper")) {
    accept("int");
    spec.basic = Basic::kUint64;
  } else if (accept("char")) {
    spec.basic = Basic::kUint8;
  } else if (accept("short")) {
    accept("int");
    spec.basic = Basic::kUint16;
  } else {
    if (accept("long")) accept("int");
    spec.basic = Basic::kUint32;  // rpcgen: unsigned alone, and long, which has 32 bits in XDR
  }
}

bool Parser::plain_type(TypeSpec& spec) {
  const Token& first = token();
  constexpr std::array<std::pair<std::string_view, Basic>, 12> kTypes = {
      {{"void", Basic::kVoid},
       {"bool", Basic::kBool},
       {"int", Basic::kInt32},
       {"hyper", Basic::kInt64},
       {"float", Basic::kFloat},
       {"double", Basic::kDouble},
       {"string", Basic::kString},
       {"opaque", Basic::kOpaque},
       {"char", Basic::kChar},
       {"short", Basic::kInt16},
       {"long", Basic::kInt32},
       {"unsigned", Basic::kNone}}};
  if (first.is("quadruple")) {
    fail(first.at, "quadruple is not supported: C++ has no type for it that every machine knows");
  }
  for (const auto& [word, basic] : kTypes) {
    if (!first.is(word)) continue;
    ++at_;
    spec.basic = basic;
    if (basic == Basic::kNone) integer_type(spec);
    if (first.is("short") || first.is("long") || first.is("hyper")) accept("int");
    return true;
  }
  return false;
}

// Sets `unnamed` when the type is defined on the spot.
TypeSpec Parser::type(Definition*& unnamed) {
  const Token first = token();
  TypeSpec spec;
  spec.name = {std::string(first.text), first.at};
  if (plain_type(spec)) return spec;
  const bool is_struct = first.is("struct");
  const bool is_union = first.is("union");
  if (!is_struct && !is_union && !first.is("enum")) {
    spec.name = name("a type");
    return spec;
  }
  ++at_;
  const bool has_body = token().is(is_union ? "switch" : "{");
  if (!has_body) {
    spec.name =
        name(fmt::format("'{}' or a name after '{}'", is_union ? "switch" : "{", first.text));
    return spec;
  }
  if (++nesting_ > kNestingMax) {
    fail(first.at, fmt::format("types are nested more than {} deep", kNestingMax));
  }
  unnamed = &add(is_struct  ? Definition::Kind::kStruct
                 : is_union ? Definition::Kind::kUnion
                            : Definition::Kind::kEnum);
  if (is_struct) {
    struct_body(*unnamed);
  } else if (is_union) {
    union_body(*unnamed);
  } else {
    enum_body(*unnamed);
  }
  --nesting_;
  spec.target = unnamed;
  return spec;
}

void Parser::brackets(Declaration& declared) {
  if (accept("[")) {
    declared.shape = Declaration::Shape::kFixed;
    declared.bound = value("the number of elements");
    expect("]", "after the number of elements");
  } else if (accept("<")) {
    declared.shape = Declaration::Shape::kVariable;
    if (!token().is(">")) declared.bound = value("the largest number of elements, or '>'");
    expect(">", "after the largest number of elements");
  }
}

void Parser::check_bytes(const Declaration& declared, const Token& at) {
  if (declared.is_bytes() && declared.shape == Declaration::Shape::kPlain) {
    fail(at, "'[SIZE]', '<LARGEST SIZE>' or '<>' for opaque data");
  }
  if (declared.is_text() && declared.shape != Declaration::Shape::kVariable) {
    fail(at, "'<LARGEST SIZE>' or '<>' for a string");
  }
}

void Parser::declarator(Declaration& declared) {
  if (accept("*")) {
    if (declared.is_bytes() || declared.is_text()) {
      fail(declared.type.name.at, "optional opaque data and strings need a typedef of their own");
    }
    declared.shape = Declaration::Shape::kOptional;
    declared.name = name("a name after '*'");
    return;
  }
  declared.name = name("a name after the type");
  const Token behind = token();
  brackets(declared);
  check_bytes(declared, behind);
}

// `parent`: what it is a member of; null for a typedef.
Declaration Parser::declaration(const Definition* parent, bool may_be_void) {
  Declaration declared;
  Definition* unnamed = nullptr;
  const Token first = token();
  declared.type = type(unnamed);
  if (declared.is_void()) {
    if (!may_be_void) fail(first.at, "only arms of unions, arguments and results can be void");
    declared.name.at = first.at;
    return declared;
  }
  declarator(declared);
  if (unnamed != nullptr) unnamed_.push_back({unnamed, parent, declared.name});
  return declared;
}

// Names for types that were defined on the spot, outer ones first.
void Parser::name_types() {
  for (auto each = unnamed_.rbegin(); each != unnamed_.rend(); ++each) {
    each->type->name = each->member;
    if (each->parent != nullptr) {
      each->type->name.text = each->parent->name.text + "_" + each->member.text;
    }
  }
  unnamed_.clear();
}

// --- Programs ----------------------------------------------------------------------------------

void Parser::program() {
  const Name named = name("the name of the program");
  Definition& added = add(Definition::Kind::kProgram);
  added.name = named;
  expect("{", "before the versions");
  do {
    if (!token().is("version")) {
      fail(token(), added.versions.empty() ? "'version'" : "'version' or '}' in a program");
    }
    added.versions.push_back(version());
  } while (!token().is("}"));
  expect("}", "after the versions");
  expect("=", "after the program");
  added.value = value("the number of the program");
  expect(";", "after the program");
}

Version Parser::version() {
  Version added;
  expect("version", "in a program");
  added.name = name("the name of the version");
  expect("{", "before the procedures");
  do {
    if (token().kind == Token::Kind::kEnd) fail(token(), "a procedure or '}'");
    if (token().is("}")) fail(token(), "a procedure");
    added.procedures.push_back(procedure());
  } while (!token().is("}"));
  expect("}", "after the procedures");
  expect("=", "after the version");
  added.number = value("the number of the version");
  expect(";", "after the version");
  return added;
}

Declaration Parser::procedure_type(bool is_result) {
  Declaration declared;
  Definition* unnamed = nullptr;
  const Token first = token();
  declared.type = type(unnamed);
  if (unnamed != nullptr) fail(first.at, "arguments and results have types with names");
  declared.name.at = first.at;
  if (accept("*")) {
    fail(first.at,
         fmt::format("an optional {} needs a typedef", is_result ? "result" : "argument"));
  }
  if (const Token& named = token(); !is_result && named.kind == Token::Kind::kName) {
    diagnostics_.warning(
        named.at,
        fmt::format("'{}' is passed over: arguments are types alone (RFC 5531 §12.2)", named.text));
    ++at_;
  }
  if (declared.is_text() || declared.is_bytes()) {
    const Token behind = token();
    brackets(declared);
    if (declared.is_text() && declared.shape == Declaration::Shape::kPlain) {
      declared.shape = Declaration::Shape::kVariable;  // rpcgen: string alone has no bound
    }
    check_bytes(declared, behind);
  }
  return declared;
}

Procedure Parser::procedure() {
  Procedure added;
  const std::size_t from = token().at.offset;
  added.result = procedure_type(true);
  added.name = name("the name of the procedure");
  expect("(", "before the arguments");
  if (token().is(")")) {
    diagnostics_.warning(token().at,
                         "no argument is written 'void' (RFC 5531 §12.2), which this is taken for");
  } else {
    do {
      added.arguments.push_back(procedure_type(false));
    } while (accept(","));
  }
  expect(")", "or ',' after an argument");
  if (added.arguments.size() == 1 && added.arguments[0].is_void()) added.arguments.clear();
  for (const Declaration& argument : added.arguments) {
    if (argument.is_void()) fail(argument.name.at, "void is no argument among others");
  }
  expect("=", "after the arguments");
  added.number = value("the number of the procedure");
  const Token semicolon = expect(";", "after the procedure");
  annotate(added, from, end_of_line(semicolon));
  return added;
}

// --- Annotations -------------------------------------------------------------------------------

// An annotation stands in the declaration, or behind its ';' on the same line before the next word.
std::size_t Parser::end_of_line(const Token& semicolon) const {
  const std::size_t newline = source_.end_of_line(semicolon.at.offset);
  // The next word may be in another file, which stands before or behind this one.
  return source_.is_later_line(semicolon.at.offset, token().at.offset)
             ? newline
             : std::min(newline, token().at.offset);
}

std::vector<std::string_view> Parser::words_of(Annotation& annotation) const {
  annotation.used = true;
  std::vector<std::string_view> words;
  std::string_view rest = annotation.text;
  while (true) {
    const std::size_t comma = rest.find(',');
    words.push_back(trimmed(rest.substr(0, comma)));
    if (comma == std::string_view::npos) return words;
    rest.remove_prefix(comma + 1);
  }
}

void Parser::annotate(Declaration& declared, std::size_t from, std::size_t end) {
  for (Annotation& each : lexed_.annotations) {
    if (each.at.offset < from || each.at.offset >= end || each.used) continue;
    for (const std::string_view word : words_of(each)) {
      if (word != "ddp") {
        fail(each.at, fmt::format("'{}' says nothing about a declaration; expected 'ddp'", word));
      }
    }
    if (!(declared.is_bytes() || declared.is_text()) ||
        declared.shape != Declaration::Shape::kVariable) {
      fail(each.at, declared.type.basic == Basic::kNone
                        ? "only opaque<> and string<> can be DDP-eligible; for a typedef of them, "
                          "say so where it is defined"
                        : "only opaque<> and string<> can be DDP-eligible");
    }
    declared.ddp = true;
  }
}

void Parser::annotate(Procedure& procedure, std::size_t from, std::size_t end) {
  for (Annotation& each : lexed_.annotations) {
    if (each.at.offset < from || each.at.offset >= end || each.used) continue;
    for (const std::string_view word : words_of(each)) {
      if (word == "non-idempotent") {
        procedure.idempotent = false;
      } else if (word == "results-by-read") {
        procedure.results_by_read = true;
      } else if (word.starts_with("unbounded")) {
        size_terms(procedure, word, each.at);
      } else {
        fail(each.at, fmt::format("'{}' says nothing about a procedure; expected 'non-idempotent', "
                                  "'results-by-read' or 'unbounded <= SIZE'",
                                  word));
      }
    }
  }
}

// unbounded <= TERM + TERM …
void Parser::size_terms(Procedure& procedure, std::string_view text, Location at) {
  text = trimmed(text.substr(std::string_view("unbounded").size()));
  if (!text.starts_with("<=")) fail(at, "expected '<=' after 'unbounded'");
  text.remove_prefix(2);
  procedure.unbounded_max.emplace();
  procedure.unbounded_at = at;
  for (bool more = true; more;) {
    const std::size_t plus = text.find('+');
    std::string_view term = trimmed(text.substr(0, plus));
    more = plus != std::string_view::npos;
    if (more) text.remove_prefix(plus + 1);
    SizeTerm& added = procedure.unbounded_max->emplace_back();
    Integer number;
    if (parse_integer(term, number)) {
      added.number = number;
      continue;
    }
    while (true) {
      const std::size_t dot = term.find('.');
      const std::string_view part = trimmed(term.substr(0, dot));
      const bool is_name = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z');
      });
      if (!is_name) fail(at, "expected a number, a constant or an argument in this sum");
      added.path.emplace_back(part);
      if (dot == std::string_view::npos) break;
      term.remove_prefix(dot + 1);
    }
  }
}

std::set<std::string_view> Parser::names_in_use() const {
  std::set<std::string_view> names;
  for (const Definition& each : file_.definitions) {
    names.insert(each.name.text);
    for (const Enumerator& one : each.enumerators) names.insert(one.name.text);
    for (const Version& version : each.versions) {
      names.insert(version.name.text);
      for (const Procedure& one : version.procedures) names.insert(one.name.text);
    }
  }
  return names;
}

File Parser::run() {
  if (!diagnostics_.ok()) return {};
  try {
    while (diagnostics_.ok() && token().kind != Token::Kind::kEnd) {
      definition();
      name_types();
    }
  } catch (const Stop&) {
    return {};
  }
  for (const Annotation& each : lexed_.annotations) {
    if (each.used) continue;
    diagnostics_.error(each.at,
                       "this annotation belongs to nothing; it stands inside a declaration, or "
                       "behind its ';' on the same line");
  }
  file_.has_c_headers = lexed_.has_c_headers;
  const std::set<std::string_view> names = names_in_use();
  for (const Define& each : lexed_.defines) {
    if (each.gives_way && names.contains(each.name)) continue;
    Definition& added = file_.definitions.emplace_front();
    added.kind = Definition::Kind::kConst;
    added.name = {std::string(each.name), each.at};
    added.value = {{}, each.at, each.value};
  }
  return std::move(file_);
}

}  // namespace

File parse(Source& source, Diagnostics& diagnostics, const FindIncluded& find) {
  return Parser(source, diagnostics, find).run();
}

}  // namespace rpcrdma::gen
