#include "rpcrdma/provider.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace rpcrdma::rdma {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::kNoResources:
      return "out of resources";
    case Errc::kBadAddress:
      return "bad address";
    case Errc::kRefused:
      return "refused by the peer";
    case Errc::kTimedOut:
      return "timed out";
    case Errc::kClosed:
      return "connection closed";
    case Errc::kProtocol:
      return "protocol error";
    case Errc::kUnsupported:
      return "not supported";
    case Errc::kProvider:
      return "provider error";
  }
  return "unknown error";
}

std::string_view to_string(Status status) noexcept {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kFlushed:
      return "flushed";
    case Status::kLocalError:
      return "local error";
    case Status::kRemoteAccess:
      return "remote access error";
    case Status::kRetryExceeded:
      return "peer does not answer";
  }
  return "unknown status";
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  constexpr std::size_t kBatch = 16;
  std::array<work::Request, kBatch> batch;
  std::array<Slice, kBatch> slices;
  while (!numbers.empty()) {
    const std::size_t count = std::min(numbers.size(), kBatch);
    for (std::size_t i = 0; i < count; ++i) {
      slices[i] = {buffers.region, buffers.size, numbers[i] * buffers.stride};
      batch[i] = {.id = numbers[i], .work = Receive{{&slices[i], 1}}};
    }
    if (auto posted = post(std::span(batch).first(count)); !posted) return posted;
    numbers = numbers.subspan(count);
  }
  return {};
}

Error QueuePair::exposure_failure() const noexcept {
  return {Errc::kNoResources, 0, "exposing memory"};
}

Expected<void, Error> Listener::adopt(int descriptor) {
  ::close(descriptor);
  return Unexpected<Error>(Error{Errc::kUnsupported, 0, "taking over a TCP connection"});
}

bool Provider::reports_invalidated_handle(std::string_view /*address*/) const {
  return true;
}

std::string Provider::remedy(const Error& /*error*/) const {
  return {};
}

Expected<std::unique_ptr<Provider>, Error> Provider::make_shard() {
  return nullptr;
}

Expected<std::unique_ptr<QueuePair>, Error> Provider::adopt(int descriptor,
                                                            Bytes /*private_data*/) {
  ::close(descriptor);
  return Unexpected<Error>(Error{Errc::kUnsupported, 0, "taking over a TCP connection"});
}

}  // namespace rpcrdma::rdma
