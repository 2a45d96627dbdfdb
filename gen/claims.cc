#include "gen/claims.h"

#include <fmt/core.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gen/check.h"
#include "gen/emit.h"
#include "gen/names.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;

std::string union_member_name(const Definition& of, const Declaration& declared) {
  std::string name = member_name(declared.name.text, of.cpp_name);
  if (is_of_every_union(name)) name += '_';
  return name;
}

// The discriminant, the arms and what sets them are functions of one class.
void name_functions(Definition& of) {
  of.discriminant_cpp_name = union_member_name(of, of.discriminant);
  std::multiset<std::string> taken = {of.cpp_name, of.discriminant_cpp_name};
  for (const Arm& each : of.arms) {
    if (!each.declaration.is_void()) {
      taken.insert(member_name(each.declaration.name.text, of.cpp_name));
    }
  }
  for (Arm& each : of.arms) {
    if (each.declaration.is_void()) continue;
    each.cpp_name = union_member_name(of, each.declaration);
    // Its own name in the file is among them.
    taken.erase(taken.find(member_name(each.declaration.name.text, of.cpp_name)));
    while (taken.contains(each.cpp_name)) each.cpp_name += '_';
    taken.insert(each.cpp_name);
  }
  for (Arm& each : of.arms) {
    if (each.declaration.is_void()) continue;
    each.setter = "set_" + each.cpp_name;
    while (taken.contains(each.setter)) each.setter += '_';
    taken.insert(each.setter);
  }
}

class Claimant {
 public:
  explicit Claimant(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void claim_all(const File& file) {
    for (const Definition& each : file.definitions) {
      const bool is_type = each.kind != Kind::kConst && each.kind != Kind::kProgram;
      claim(all_, each.name, each.cpp_name, is_type);
      for (const Version& version : each.versions) version_names(version);
      inner_names(each);
    }
    // They come last, so that what is refused is called after the file's own name.
    for (const Definition& each : file.definitions) function_names(each);
  }

 private:
  struct Claim {
    const Name* name;
    bool is_type;
  };
  using Claims = std::map<std::string, Claim, std::less<>>;

  bool claim(Claims& claims, const Name& name, std::string cpp, bool is_type) {
    const auto [found, is_new] = claims.try_emplace(std::move(cpp), Claim{&name, is_type});
    const Claim& other = found->second;
    if (is_new || (other.name->text == name.text && other.is_type == is_type)) return true;
    diagnostics_.error(name.at,
                       other.name->text == name.text
                           ? fmt::format("'{}' is a type and a constant; in C++ it can be one of "
                                         "them only",
                                         name.text)
                           : fmt::format("'{}' and '{}' are both '{}' in C++", other.name->text,
                                         name.text, found->first));
    diagnostics_.note(other.name->at, "the other one");
    return false;
  }

  // A version becomes three classes, and a procedure several functions of them.
  void version_names(const Version& version) {
    claim(all_, version.name, cpp_name(version.name.text), false);
    for (const std::string_view ending : {"_Client", "_Service", "_Binding"}) {
      if (!claim(all_, version.name, version.cpp_stem + std::string(ending), true)) break;
    }
    Claims methods;
    for (const Procedure& procedure : version.procedures) {
      claim(all_, procedure.name, cpp_name(procedure.name.text), false);
      const std::string method = method_name(procedure.name.text);
      for (const std::string& each : {method, method + "_start", method + "_async",
                                      "rpcrdma_prepare_" + method, "rpcrdma_take_" + method}) {
        if (!claim(methods, procedure.name, each, false)) break;
      }
    }
  }

  // Claims the names of enumerators, members and arms.
  void inner_names(const Definition& of) {
    Claims inner;
    for (const Enumerator& each : of.enumerators) {
      claim(inner, each.name, cpp_name(each.name.text), false);
    }
    for (const Declaration& each : of.members) {
      claim(inner, each.name, member_name(each.name.text, of.cpp_name), false);
    }
    if (of.kind == Kind::kUnion)
      claim(inner, of.discriminant.name, of.discriminant_cpp_name, false);
    for (const Arm& each : of.arms) {
      if (!each.declaration.is_void()) {
        claim(inner, each.declaration.name, each.cpp_name, false);
      }
    }
  }

  void function_names(const Definition& of) {
    if (!has_functions(of)) return;
    for (const std::string_view verb : {"encode_", "decode_", "measure_", "encoded_size_"}) {
      if (!claim(all_, of.name, std::string(verb) + of.cpp_name, false)) break;
    }
  }

  Diagnostics& diagnostics_;
  Claims all_;
};

}  // namespace

void check_claims(File& file, Diagnostics& diagnostics) {
  for (Definition& each : file.definitions) {
    if (each.kind == Kind::kUnion) name_functions(each);
  }
  Claimant(diagnostics).claim_all(file);
}

}  // namespace rpcrdma::gen
