// The log of a server: its changes and its errors.
#ifndef RPCRDMA_BLOB_LOG_H_
#define RPCRDMA_BLOB_LOG_H_

#include <cstdint>
#include <string_view>

namespace blob {

enum class LogLevel : std::uint8_t { kNone, kError, kWarning, kInfo, kDebug };

class Log {
 public:
  // One line, without its end. From any thread; never blocks.
  virtual void write(LogLevel level, std::string_view text) = 0;

 protected:
  ~Log() = default;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_LOG_H_
