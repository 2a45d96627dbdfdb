// Generates C++20 from a checked file.
#ifndef RPCRDMA_GEN_EMIT_H_
#define RPCRDMA_GEN_EMIT_H_

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "gen/ast.h"

namespace rpcrdma::gen {

struct EmitOptions {
  std::string stem;            // of the file: the name of the header
  std::string namespace_name;  // A or A::B
};

std::string emit_header(const File& file, const EmitOptions& options);
std::string emit_source(const File& file, const EmitOptions& options);
// Writes the function that visits the fields, for each type; text and comparison build on it.
std::string emit_fields(const File& file, const EmitOptions& options);
// Writes random values of every type, and a list of all types, for tests; it includes the fields.
std::string emit_random(const File& file, const EmitOptions& options);

// --- What the emitters share

// Text that grows.
class Text {
 public:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    append(format, fmt::make_format_args(arguments...));
  }
  std::string take() { return std::move(text_); }

 private:
  void append(fmt::string_view format, fmt::format_args arguments);

  std::string text_;
};

// The C++ type of one element, and of the whole declaration. `scope` goes before names of the
// file's types: "" or that of scope_of(). Where a name of ours could hide the type, a scope is
// needed: in functions, behind their parameters, and in classes of unions and programs.
std::string element_type(const TypeSpec& type, std::string_view scope);
std::string type_of(const Declaration& declaration, std::string_view scope = {});
// "::NAMESPACE::"
std::string scope_of(const EmitOptions& options);
// The scope that the members of a structure need: one with the name of a type hides the type.
std::string scope_in(const Definition& of, const EmitOptions& options);
// "encode", or "encode_NAME" for a typedef that means more than a name.
std::string function_for(std::string_view verb, const TypeSpec& type);
// Returns whether the typedef has functions of its own.
bool has_functions(const Definition& of);
// Returns the basic type that a type is, or is a typedef of; kNone for others.
Basic basic_of(const TypeSpec& type);
std::string number_text(Integer value);
// Returns the number of an enumerator, as a case of a switch.
std::string enumerator_literal(const Enumerator& of);
std::string discriminant_text(const Definition& of, Integer value);
// Returns whether the arm's union keeps it in a Box.
bool is_boxed_arm(const Arm& arm);
// Returns the number by which the union's value knows the arm, from 1; 0 for void.
std::size_t arm_number(const Definition& of, const Arm& arm);
bool needs_discriminant(const Arm& arm);
bool has_void_arm(const Definition& of);

// Around what is made: a file's types may have any name, those of our parameters too.
inline constexpr std::string_view kNoShadowWarnings =
    "#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Wshadow\"\n";
inline constexpr std::string_view kWarningsAsBefore = "#pragma GCC diagnostic pop\n";
void emit_prologue(Text& out, const EmitOptions& options);
// Declarations and definitions of the types.
void emit_types(Text& out, const File& file, const EmitOptions& options);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_EMIT_H_
