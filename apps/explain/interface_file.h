// A .x file that is read at run time: names its programs and procedures, and shows their arguments
// and results as text.
#ifndef RPCRDMA_APPS_EXPLAIN_INTERFACE_FILE_H_
#define RPCRDMA_APPS_EXPLAIN_INTERFACE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "rpcrdma/types.h"

namespace explaining {

class InterfaceFile {
 public:
  // problem() says why the file cannot be used, if it cannot: with its lines, as the compiler does.
  explicit InterfaceFile(const std::string& path);
  ~InterfaceFile();
  InterfaceFile(const InterfaceFile&) = delete;
  InterfaceFile& operator=(const InterfaceFile&) = delete;

  const std::string& problem() const noexcept;

  // Names as the file has them; empty: it does not have the number.
  std::string program_name(std::uint32_t program) const;
  std::string procedure_name(std::uint32_t program, std::uint32_t version,
                             std::uint32_t procedure) const;
  // Returns arguments or results as {name: value, …}; empty: the file does not have the procedure.
  // Text of what the bytes hold before they end or break a rule is followed by the reason.
  enum class Part : std::uint8_t { kArguments, kResults };
  std::string text(std::uint32_t program, std::uint32_t version, std::uint32_t procedure, Part part,
                   rpcrdma::Bytes bytes) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
  std::string problem_;
};

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_INTERFACE_FILE_H_
