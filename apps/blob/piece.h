// One data call of a transfer, and its buffer.
#ifndef RPCRDMA_BLOB_PIECE_H_
#define RPCRDMA_BLOB_PIECE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "blob.h"
#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace blob {

// The buffer is what RDMA reads from or writes to; the state is what the call's callback leaves.
struct Piece {
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kFree, kInFlight, kDone, kFailed };

  explicit Piece(std::size_t size_max)
      : memory(static_cast<std::byte*>(::operator new (size_max, std::align_val_t{4096}))),
        buffer(memory.get(), size_max) {}

  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{4096}); }
  };
  std::unique_ptr<std::byte, Free> memory;
  rpcrdma::MutableBytes buffer;
  State state = State::kFree;
  std::uint64_t offset = 0;
  std::size_t size = 0;  // put: to send; get: asked for
  bool end = false;      // get: the blob ends with it
  Clock::time_point started, ended;
  std::optional<rpcrdma::Error> error;

  void start() {
    state = State::kInFlight;
    started = Clock::now();
  }
  void finish() {
    state = State::kDone;
    ended = Clock::now();
  }
  void fail(rpcrdma::Error reason) {
    error = std::move(reason);
    state = State::kFailed;
    ended = Clock::now();
  }
  std::uint64_t latency_ns() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(ended - started).count());
  }
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_PIECE_H_
