// Checks the rules that the grammar cannot express: names exist, values are in range, unions are
// complete.
#ifndef RPCRDMA_GEN_CHECK_H_
#define RPCRDMA_GEN_CHECK_H_

#include <cstdint>
#include <optional>

#include "gen/ast.h"
#include "gen/diagnostic.h"

namespace rpcrdma::gen {

// Resolves names and constants, and completes what ast.h says that the checker sets. Afterwards,
// unless there were errors, every file can be emitted.
void check(File& file, Diagnostics& diagnostics);

// The second half of check(): linked lists, recursion, what goes on the heap. Precondition: names
// are resolved.
void lay_out(File& file, Diagnostics& diagnostics);

// --- Questions about a checked file

// The declaration behind plain typedefs: `typedef int a; typedef a b;` makes b an int. Stops at a
// typedef that means more than a name: with a bound, an optional, a list.
const Declaration& resolved(const Declaration& declaration);
// The structure, union, enumeration or (not plain) typedef that a plain declaration is of; null for
// basic types.
const Definition* resolved_target(const Declaration& declaration);
// Returns its basic type; kNone if it has none.
Basic resolved_basic(const Declaration& declaration);

// The least and the largest number of a basic type that is one; nullopt for others.
struct Range {
  Integer least, largest;
  bool has(Integer number) const;
};
std::optional<Range> range_of(Basic basic);
// Returns what a union's discriminant is encoded in, bytes.
std::uint64_t discriminant_size(const Definition& of);

// Every declaration inside of a structure, union or typedef.
template <class Visit>
void for_each_declaration(Definition& of, Visit visit) {
  for (Declaration& each : of.members) visit(each);
  for (Arm& each : of.arms) {
    if (!each.declaration.is_void()) visit(each.declaration);
  }
  if (of.kind == Definition::Kind::kTypedef) visit(of.alias);
}
template <class Visit>
void for_each_declaration(const Definition& of, Visit visit) {
  for (const Declaration& each : of.members) visit(each);
  for (const Arm& each : of.arms) {
    if (!each.declaration.is_void()) visit(each.declaration);
  }
  if (of.kind == Definition::Kind::kTypedef) visit(of.alias);
}

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_CHECK_H_
