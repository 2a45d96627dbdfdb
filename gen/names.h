// Names in C++ for names of .x files.
#ifndef RPCRDMA_GEN_NAMES_H_
#define RPCRDMA_GEN_NAMES_H_

#include <string>
#include <string_view>

namespace rpcrdma::gen {

// The name itself, or with a trailing '_' where it means something to C++ or to our output, or is a
// macro of C's headers.
std::string cpp_name(std::string_view name);
// Does the same for a type. Parameters of functions over it would hide some.
std::string type_name(std::string_view name);
// Does the same for a member of the type: a member cannot have the name of its class.
std::string member_name(std::string_view name, std::string_view type_cpp_name);
// Returns whether every union has a member of this name.
bool is_of_every_union(std::string_view name);
// Does the same for the functions of a procedure, in the classes of its version.
std::string method_name(std::string_view procedure);
// Returns whether a namespace can have the name: NAME::NAME…. The first must be no function or type
// of C's headers.
bool is_namespace(std::string_view name);
// Makes a namespace of a file's stem: other characters than letters, digits and '_' become '_'.
std::string namespace_of(std::string_view stem);
// The name of the files that are made of one of this name; a header of C gets a '_'.
std::string file_stem(std::string_view stem);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_NAMES_H_
