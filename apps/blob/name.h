// The rules for names of blobs.
#ifndef RPCRDMA_BLOB_NAME_H_
#define RPCRDMA_BLOB_NAME_H_

#include <string>
#include <string_view>

#include "blob.h"

namespace blob {

inline constexpr std::string_view kUploadsName = ".uploads";  // of the directory of uploads

// Explains to a person why a name is not allowed; empty: it is.
inline std::string problem_with_name(std::string_view name) {
  if (name.empty()) return "a file's name on the server has at least one byte";
  if (name.size() > BLOB_NAME_MAX) {
    return "a file's name on the server has at most " + std::to_string(BLOB_NAME_MAX) +
           " bytes, this one has " + std::to_string(name.size());
  }
  if (name == "." || name == ".." || name == kUploadsName) {
    return "'" + std::string(name) + "' is reserved on the server; choose another name";
  }
  if (name.find('/') != std::string_view::npos) {
    return "a file's name on the server has no '/' in it: there are no directories";
  }
  if (name.find('\0') != std::string_view::npos) return "the name has a NUL in it";
  return {};
}

inline bool valid_name(std::string_view name) {
  return problem_with_name(name).empty();
}

}  // namespace blob

#endif  // RPCRDMA_BLOB_NAME_H_
