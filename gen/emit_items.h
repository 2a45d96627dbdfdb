// Statements for one item: to encode it, to decode it, to measure it. They use `writer`, `reader`
// and `counter` by these names.
#ifndef RPCRDMA_GEN_EMIT_ITEMS_H_
#define RPCRDMA_GEN_EMIT_ITEMS_H_

#include <cstdint>
#include <string>

#include "gen/ast.h"
#include "gen/emit.h"

namespace rpcrdma::gen {

// An expression that reads a basic type; empty for others.
std::string read_basic(const TypeSpec& type, const std::string& field);
// The least that one element is encoded in, bytes.
std::uint64_t element_min(const TypeSpec& type);

// Emits code for one element of a plain type; `item` is an expression, `field` a literal for
// messages.
std::string encode_element(const TypeSpec& type, const std::string& item);
std::string decode_element(const TypeSpec& type, const std::string& item, const std::string& field);

// Emits code for a whole declaration.
void encode_item(Text& out, const Declaration& of, const std::string& item,
                 const std::string& field);
// `may_reserve`: memory for all elements of an array at once, where nothing multiplies it.
void decode_item(Text& out, const Declaration& of, const std::string& item,
                 const std::string& field, bool may_reserve);
// Adds what depends on the value; returns the rest, bytes, which every value takes. The caller adds
// the sum for all its items by measure_fixed().
[[nodiscard]] std::uint64_t measure_item(Text& out, const Declaration& of, const std::string& item);
void measure_fixed(Text& out, std::uint64_t size);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_EMIT_ITEMS_H_
