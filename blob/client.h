// The blob program from the client's side, with many calls in flight.
#ifndef RPCRDMA_BLOB_CLIENT_H_
#define RPCRDMA_BLOB_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "blob/file.h"
#include "blob/protocol.h"
#include "rpcrdma/client.h"

namespace blob {

struct TransferOptions {
  std::uint32_t size = kDataSizeMax;  // bytes of data in a call, 1 … 1 MiB
  std::uint32_t depth = 8;            // calls in flight
  // Told after each piece how many bytes of how many are done; empty: nobody wants to know.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

struct TransferResult {
  std::uint64_t bytes = 0;
  std::uint64_t calls = 0;
  double seconds = 0;
  Sha256 sum{};
  std::vector<std::uint64_t> latencies_ns;  // of the data calls
};

class BlobClient {
 public:
  template <class T>
  using Result = rpcrdma::Expected<T, rpcrdma::Error>;

  // The client outlives this object.
  explicit BlobClient(rpcrdma::Client& client, TransferOptions options = {})
      : client_(client), options_(options) {}

  // Sends the file's bytes and commits them under the name. Checked by SHA-256 on the server.
  Result<TransferResult> put(File& file, std::string_view name);
  // Fetches the blob and hands its bytes over in order; `write` returns false to stop. The sum is
  // of what arrived.
  Result<TransferResult> get(std::string_view name,
                             const std::function<bool(rpcrdma::Bytes)>& write);

  struct Stat {
    std::uint64_t size, time_ns;
  };
  Result<Stat> stat(std::string_view name);
  Result<Sha256> sum(std::string_view name, std::uint64_t size_hint);
  struct Entry {
    std::string name;
    std::uint64_t size;
  };
  Result<std::vector<Entry>> list();
  Result<bool> remove(std::string_view name);

 private:
  struct Piece;  // one data call and its buffer

  Result<bool> begin(const UploadId& id, std::string_view name, std::uint64_t size);
  Result<bool> commit(const UploadId& id, const Sha256& sum, std::uint64_t size);
  Result<bool> start_put(Piece& piece, const UploadId& id);
  Result<bool> start_get(Piece& piece, std::string_view name);
  Result<bool> simple(rpcrdma::Call call, std::string_view what);
  rpcrdma::Error failure(std::string_view what, Status status) const;

  rpcrdma::Client& client_;
  const TransferOptions options_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_CLIENT_H_
