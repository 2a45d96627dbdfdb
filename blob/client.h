// The blob program from the client's side, with many calls in flight.
#ifndef RPCRDMA_BLOB_CLIENT_H_
#define RPCRDMA_BLOB_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "blob.h"
#include "blob/file.h"
#include "rpcrdma/client.h"

namespace blob {

struct TransferOptions {
  std::uint32_t size = BLOB_DATA_MAX;  // bytes of data in a call, 1 … 1 MiB
  std::uint32_t depth = 8;             // calls in flight
  // Told after each piece how many bytes of how many are done; empty: nobody wants to know.
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

  // Sends the file's bytes and commits them under the name. Checked by SHA-256 on the server.
  Result<TransferResult> put(File& file, std::string_view name);
  // Fetches the blob and hands its bytes over in order; `write` returns false to stop. The sum is
  // of what arrived.
  Result<TransferResult> get(std::string_view name,
                             const std::function<bool(rpcrdma::Bytes)>& write);

  Result<stat_ok> stat(std::string_view name);
  Result<blob_sum> sum(std::string_view name, std::uint64_t size_hint);
  Result<std::vector<list_entry>> list();
  Result<bool> remove(std::string_view name);

 private:
  struct Piece;  // one data call and its buffer

  Result<bool> send_data(File& file, std::string_view name, const blob_id& id, std::uint64_t size,
                         TransferResult& result);
  Result<bool> start_put(Piece& piece, const blob_id& id);
  Result<bool> start_get(Piece& piece, const get_args& arguments);
  Result<bool> done(const Result<blob_status>& status, std::string_view what) const;
  rpcrdma::Error failure(std::string_view what, blob_status status) const;

  rpcrdma::Client& client_;
  BLOB_V1_Client stub_;
  const TransferOptions options_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_CLIENT_H_
