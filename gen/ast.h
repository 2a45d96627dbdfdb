// A .x file as the parser leaves it and the checker completes it.
#ifndef RPCRDMA_GEN_AST_H_
#define RPCRDMA_GEN_AST_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gen/diagnostic.h"
#include "gen/lexer.h"

namespace rpcrdma::gen {

struct Definition;

struct Name {
  std::string text;
  Location at;
};

// A number, or the name of a constant or enumerator.
struct Value {
  std::string name;  // empty: a number
  Location at;
  Integer number{};    // the checker sets it for names
  bool known = false;  // the name had this number where it stands, from the preprocessor
};

enum class Basic : std::uint8_t {
  kNone,  // named, see TypeSpec::target
  kVoid,
  kBool,
  kChar,  // rpcgen's char, u_char, short and u_short travel as an int
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kDouble,
  kString,
  kOpaque,
};

struct TypeSpec {
  Basic basic = Basic::kNone;
  Name name;                     // as it is written
  Definition* target = nullptr;  // of a named type; the checker sets it
};

struct Declaration {
  enum class Shape : std::uint8_t { kPlain, kFixed, kVariable, kOptional };

  TypeSpec type;
  Name name;
  Shape shape = Shape::kPlain;
  std::optional<Value> bound;  // of kFixed always, of kVariable when there is one
  bool ddp = false;            // DDP-eligible (RFC 8166 §3.4)

  // --- Set by the checker
  std::uint64_t size = 0;    // elements or bytes: exactly, or at most
  bool is_list = false;      // a linked list that starts here: a vector of nodes
  bool never_empty = false;  // a list whose first node is not optional
  bool boxed = false;        // on the heap

  bool is_void() const { return type.basic == Basic::kVoid; }
  bool is_bytes() const { return type.basic == Basic::kOpaque; }
  bool is_text() const { return type.basic == Basic::kString; }
};

struct Arm {
  std::vector<Value> cases;
  bool is_default = false;
  Declaration declaration;
  Location at;
  // Set by the checker, unless it is void: the names of its functions.
  std::string cpp_name, setter;
};

struct Enumerator {
  Name name;
  std::optional<Value> value;  // rpcgen: one more than the one before
  std::int32_t number = 0;     // set by the checker
};

struct SizeTerm {
  std::optional<Integer> number;
  std::vector<std::string> path;  // a name, and members behind it
};

struct Procedure {
  Name name;
  Declaration result;
  std::vector<Declaration> arguments;
  Value number;
  bool idempotent = true;
  bool results_by_read = false;  // RFC 5666 §5.2
  // All results without a bound of their own take at most the sum of these together, bytes.
  std::optional<std::vector<SizeTerm>> unbounded_max;
  Location unbounded_at;
  // Set by the checker: C++ expressions over the arguments.
  std::vector<std::string> unbounded_terms;
};

struct Version {
  Name name;
  Value number;
  std::vector<Procedure> procedures;
  // Begins the names of its classes: the version's name, behind the program's if another program
  // has a version of that name. The checker sets it.
  std::string cpp_stem;
};

struct Definition {
  enum class Kind : std::uint8_t { kConst, kEnum, kStruct, kUnion, kTypedef, kProgram };

  Kind kind = Kind::kConst;
  Name name;
  Value value;                          // const, program
  std::vector<Enumerator> enumerators;  // enum
  std::vector<Declaration> members;     // struct
  Declaration discriminant;             // union
  std::vector<Arm> arms;                // union; the default one last
  Declaration alias;                    // typedef
  std::vector<Version> versions;        // program

  // --- Set by the checker
  std::string cpp_name;
  std::string discriminant_cpp_name;  // of a union
  bool is_node = false;               // a node of a linked list: its last member is gone
  Location link_at;                   // where that was
  bool recursive = false;             // contains itself, if only by reference
  bool has_views = false;             // contains DDP-eligible items: views of somebody's memory
  std::uint64_t memory_size = 0;      // about sizeof, bytes
  std::uint64_t encoded_min = 0;      // bytes
  std::size_t initial_arm = 0;        // of a union that was just made
  Integer initial_discriminant{};     // the same
  std::size_t component = 0;          // definitions that contain each other have the same
};

struct File {
  // They stay where they are, since others point to them.
  std::deque<Definition> definitions;
  // "typedef struct a a", which defines nothing.
  std::vector<Name> self_named;
  bool has_c_headers = false;
  // Versions and procedures whose names have several numbers, or are constants of another number.
  // These have no constants (RFC 5531 §12.3: the names are of their program, or version). The
  // checker sets it.
  std::set<std::string, std::less<>> ambiguous;
};

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_AST_H_
