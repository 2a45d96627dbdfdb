// The service that clients of the benchmark call: in the server process of `rpcrdma bench`, and in
// `rpcrdma serve --bench` on another machine.
#ifndef RPCRDMA_TOOLS_BENCH_SERVICE_H_
#define RPCRDMA_TOOLS_BENCH_SERVICE_H_

#include <cstdint>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace rpcrdma::tools::bench {

constexpr std::uint32_t kProgram = 0x20010020;
constexpr std::uint32_t kVersion = 1;
enum Procedure : std::uint32_t {
  kNull = 0,
  kReadData = 1,   // u32 size -> bulk
  kWriteData = 2,  // bulk -> u32 size
  kCheck = 3,      // bulk -> u32: 1 when it is the pattern
  kCounters = 4,   // () -> ServerFigures, a u64 each
};
constexpr std::uint32_t kSizeMax = 16U << 20U;  // bytes of data

struct ServerFigures {
  std::uint64_t bytes_copied = 0;  // by the server
  std::uint64_t doorbells = 0, completions = 0, registrations = 0;
  std::uint64_t cpu_ns = 0;        // that its process has used
  std::uint64_t resident_kib = 0;  // of its process
};

// The data that is read and written, the same on both sides.
std::vector<std::byte> pattern(std::size_t size);

class BenchService final : public Service {
 public:
  BenchService();
  // Serves the program, from registered memory. The server outlives no call.
  Expected<void, Error> add_to(Server& server);

  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override;
  void call(CallContext& context) override;

 private:
  ServerFigures figures() const;

  const std::vector<std::byte> data_;
  const Server* server_ = nullptr;
};

// Throws std::runtime_error when it does not answer.
ServerFigures figures_of_server(Client& client);
[[noreturn]] void fail(std::string_view what, const Error& error);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_SERVICE_H_
