// The blob program from the client's side, with many calls in flight.
#ifndef RPCRDMA_BLOB_CLIENT_H_
#define RPCRDMA_BLOB_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "blob.h"
#include "blob/source.h"
#include "rpcrdma/client.h"

namespace blob {

struct TransferOptions {
  std::uint32_t size = BLOB_DATA_MAX;  // bytes of data in a call, 1 … 1 MiB
  std::uint32_t depth = 8;             // calls in flight
  // Calls that make the server read a whole file get more than ClientOptions::call_timeout when it
  // is large.
  bool more_time_to_sum = true;
  // Called after each piece with the bytes that are done, and of how many; 0: nobody knows.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

struct TransferResult {
  std::uint64_t bytes = 0;
  std::uint64_t calls = 0;
  double seconds = 0;
  blob_sum sum{};
  std::vector<std::uint64_t> latencies_ns;  // of the data calls
};

class BlobClient {
 public:
  template <class T>
  using Result = rpcrdma::Expected<T, rpcrdma::Error>;

  // The client outlives this object.
  explicit BlobClient(rpcrdma::Client& client, TransferOptions options = {})
      : client_(client), stub_(client), options_(options) {}

  // Sends all bytes of the source and commits them under the name. Checked by SHA-256 on the
  // server.
  Result<TransferResult> put(Source& source, std::string_view name);
  // Fetches the blob, as many bytes as it has when this begins, and hands them over in order;
  // `write` returns false to stop. The sum is of what arrived. kBadReply: the blob has changed
  // meanwhile, or the server returns what was not asked for.
  Result<TransferResult> get(std::string_view name,
                             const std::function<bool(rpcrdma::Bytes)>& write);

  Result<stat_ok> stat(std::string_view name);
  Result<blob_sum> sum(std::string_view name, std::uint64_t size_hint);
  // By name. kBadReply: there are more than so many, or the server lists without end.
  Result<std::vector<list_entry>> list(std::uint64_t entries_max = 1'000'000);
  Result<bool> remove(std::string_view name);

  // Makes an error of a status other than BLOB_OK: its meaning for a person, and the server's name.
  static rpcrdma::Error failure(const rpcrdma::Client& client, std::string_view what,
                                blob_status status);
  // Returns the error of a call whose only result is a status; nullopt: it succeeded.
  static std::optional<rpcrdma::Error> error_of(const rpcrdma::Client& client,
                                                const Result<blob_status>& status,
                                                std::string_view what);

 private:
  std::chrono::nanoseconds time_to_sum(std::uint64_t size) const;

  rpcrdma::Client& client_;
  BLOB_V1_Client stub_;
  const TransferOptions options_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_CLIENT_H_
