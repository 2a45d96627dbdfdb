#include "gen/dialect.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "gen/check.h"

namespace rpcrdma::gen {

Basic dialect_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Basic>, 27> kNames = {
      {{"bool_t", Basic::kBool},      {"char_t", Basic::kChar},
       {"u_char", Basic::kUint8},     {"u_short", Basic::kUint16},
       {"u_int", Basic::kUint32},     {"u_long", Basic::kUint32},
       {"int8_t", Basic::kInt8},      {"uint8_t", Basic::kUint8},
       {"u_int8_t", Basic::kUint8},   {"int16_t", Basic::kInt16},
       {"uint16_t", Basic::kUint16},  {"u_int16_t", Basic::kUint16},
       {"int32_t", Basic::kInt32},    {"uint32_t", Basic::kUint32},
       {"u_int32_t", Basic::kUint32}, {"int64_t", Basic::kInt64},
       {"uint64_t", Basic::kUint64},  {"u_int64_t", Basic::kUint64},
       {"quad_t", Basic::kInt64},     {"u_quad_t", Basic::kUint64},
       {"longlong_t", Basic::kInt64}, {"u_longlong_t", Basic::kUint64},
       {"rpcprog_t", Basic::kUint32}, {"rpcvers_t", Basic::kUint32},
       {"rpcproc_t", Basic::kUint32}, {"rpcprot_t", Basic::kUint32},
       {"rpcport_t", Basic::kUint32}}};
  for (const auto& [known, basic] : kNames) {
    if (known == name) return basic;
  }
  return Basic::kNone;
}

std::optional<Integer> dialect_constant(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 13> kNames = {
      {{"FALSE", 0},
       {"TRUE", 1},
       {"AUTH_NONE", 0},
       {"AUTH_NULL", 0},
       {"AUTH_SYS", 1},
       {"AUTH_UNIX", 1},
       {"AUTH_SHORT", 2},
       {"AUTH_DH", 3},
       {"AUTH_DES", 3},
       {"AUTH_KERB", 4},
       {"RPCSEC_GSS", 6},
       {"AUTH_TLS", 7},
       {"MAXNETNAMELEN", 255}}};
  for (const auto& [known, number] : kNames) {
    if (known == name) return Integer{false, number};
  }
  return std::nullopt;
}

namespace {

struct KnownType {
  std::string_view name;
  Declaration::Shape shape;  // of opaque data
  std::uint64_t size;        // bytes
};

// Returns the place of a declaration that has the type; nullopt if none has, or the file defines
// it.
std::optional<Location> user_of(std::string_view type, const File& file) {
  std::optional<Location> user;
  const auto look_at = [&](const Declaration& each) {
    if (each.type.basic == Basic::kNone && each.type.target == nullptr &&
        each.type.name.text == type) {
      user = each.type.name.at;
    }
  };
  for (const Definition& each : file.definitions) {
    if (each.kind != Definition::Kind::kProgram && each.name.text == type) return std::nullopt;
    for_each_declaration(each, look_at);
    for (const Version& version : each.versions) {
      for (const Procedure& procedure : version.procedures) {
        look_at(procedure.result);
        for (const Declaration& argument : procedure.arguments) look_at(argument);
      }
    }
  }
  return user;
}

}  // namespace

void add_rpc_types(File& file) {
  constexpr std::array<KnownType, 2> kTypes = {{{"netobj", Declaration::Shape::kVariable, 1024},
                                                {"des_block", Declaration::Shape::kFixed, 8}}};
  for (const KnownType& each : kTypes) {
    const auto at = user_of(each.name, file);
    if (!at) continue;
    Definition& added = file.definitions.emplace_front();
    added.kind = Definition::Kind::kTypedef;
    added.name = {std::string(each.name), *at};
    added.alias.type.basic = Basic::kOpaque;
    added.alias.name = added.name;
    added.alias.shape = each.shape;
    added.alias.bound = Value{{}, *at, {false, each.size}};
  }
}

}  // namespace rpcrdma::gen
