// A cache of frames in memory that stays registered: a server that answers out of it, and a client
// that has the frames placed into a pool of its own. No call registers anything.
#include <rpcrdma/registered_memory.h>

#include <cstring>
#include <vector>

#include "greeting.h"

namespace {

constexpr std::uint32_t kFetch = 1;  // frame number -> opaque frame<65536>
constexpr std::size_t kFrameSize = 64 * 1024;
constexpr std::size_t kFrames = 16;

rpcrdma::AcceptStatus fetch(rpcrdma::CallContext& call, rpcrdma::Bytes cache) {
  const std::uint32_t frame = call.arguments().xdr().u32("frame");
  if (!call.arguments().finish() || frame >= kFrames) return rpcrdma::AcceptStatus::kGarbageArgs;
  call.results().bulk(cache.subspan(frame * kFrameSize, kFrameSize));  // stays where it is
  return rpcrdma::AcceptStatus::kSuccess;
}

}  // namespace

int main() {
  std::vector<std::byte> cache(kFrames * kFrameSize);
  for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<std::byte>(i / kFrameSize);
  rpcrdma::FunctionService service;
  service.on(kFetch, [&](rpcrdma::CallContext& call) { return fetch(call, cache); });
  auto server = greeting::must(rpcrdma::Server::listen("rdma://127.0.0.1:0"));
  greeting::must(server.register_read_only(cache));  // for as long as the server lives
  greeting::must(server.add(greeting::kProgram, greeting::kVersion, service));
  auto client = greeting::connect_to(server);

  std::vector<std::byte> pool(kFrames * kFrameSize);
  const auto registered = greeting::must(client.register_memory(pool));  // until it is destroyed
  const auto before = client.counters().registrations;
  std::size_t good = 0;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    auto call = greeting::must(client.prepare({greeting::kProgram, greeting::kVersion, kFetch}));
    call.arguments().xdr().u32(i);
    const auto frame = std::span(pool).subspan(i * kFrameSize, kFrameSize);
    call.place_result(frame);
    bool ended = false;
    greeting::must(client.start(std::move(call), [&](auto reply) {
      ended = true;
      if (!reply) return;
      const auto got = reply->decode(
          [](rpcrdma::MessageReader& results) { return results.bulk(kFrameSize, "frame"); });
      if (got && got->data() == frame.data()) ++good;
    }));
    while (!ended) {
      server.progress();
      client.progress();
    }
  }
  const bool same = std::memcmp(pool.data(), cache.data(), cache.size()) == 0;
  std::printf("%zu frames in place, %s; %llu registrations\n", good, same ? "unharmed" : "harmed",
              static_cast<unsigned long long>(client.counters().registrations - before));
  return good == kFrames && same ? 0 : 1;
}
