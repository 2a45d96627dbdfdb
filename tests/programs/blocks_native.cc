// The native client and server of blocks.x, beside which scripts/tirpc_bench.py measures the
// unchanged pair.
//
// usage: blocks_native serve on|off                           prints its URL
//        blocks_native URL on|off length|make SIZE SECONDS    prints how many calls a second there
//        were
#include <rpcrdma/client.h>
#include <rpcrdma/server.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "blocks.h"

namespace {

class Blocks : public blocks::BLOCKS_V1_Service {
  void REVERSE(rpcrdma::Answer<blocks::block> answer, blocks::block data) override {
    std::vector<std::byte> reversed(data.rbegin(), data.rend());
    answer.succeed(answer.keep(std::move(reversed)));
  }
  void LENGTH(rpcrdma::Answer<std::uint32_t> answer, blocks::block data) override {
    answer.succeed(static_cast<std::uint32_t>(data.size()));
  }
  void MAKE(rpcrdma::Answer<blocks::block> answer, std::uint32_t size) override {
    answer.succeed(rpcrdma::Bytes(made_).first(std::min<std::size_t>(size, made_.size())));
  }
  std::vector<std::byte> made_ = std::vector<std::byte>(blocks::BLOCK_MAX);
};

int fail(const rpcrdma::Error& error) {
  return std::fprintf(stderr, "%s\n", error.message().c_str()), 1;
}

int serve(bool is_crc) {
  rpcrdma::ServerOptions options;
  options.provider.name = "siwarp";
  options.provider.crc = is_crc;
  auto server = rpcrdma::Server::listen("rdma://127.0.0.1:0", options);
  if (!server) return fail(server.error());
  Blocks service;
  if (auto added = server->add(service.kProgram, service.kVersion, service); !added)
    return fail(added.error());
  std::printf("rdma://%s\n", std::string(server->address()).c_str());
  std::fflush(stdout);
  server->run();
  return 0;
}

int measure(char** words) {
  using Clock = std::chrono::steady_clock;
  rpcrdma::ClientOptions options;
  options.provider.name = "siwarp";
  options.provider.crc = std::string_view(words[2]) == "on";
  auto client = rpcrdma::Client::connect(words[1], options);
  if (!client) return fail(client.error());
  blocks::BLOCKS_V1_Client stub(*client);
  const bool is_make = std::string_view(words[3]) == "make";
  std::vector<std::byte> data(std::strtoul(words[4], nullptr, 10));
  const std::chrono::duration<double> enough(std::atof(words[5]));
  const auto start = Clock::now();
  std::uint64_t calls = 0;
  std::chrono::duration<double> passed{};
  do {
    if (is_make) {
      if (auto made = stub.MAKE(static_cast<std::uint32_t>(data.size()), data); !made)
        return fail(made.error());
    } else if (auto length = stub.LENGTH(data); !length) {
      return fail(length.error());
    }
    ++calls;
    passed = Clock::now() - start;
  } while (passed < enough);
  std::printf("%.1f\n", static_cast<double>(calls) / passed.count());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count == 3 && std::string_view(words[1]) == "serve")
    return serve(std::string_view(words[2]) == "on");
  if (count == 6) return measure(words);
  return std::fputs(
             "usage: blocks_native serve on|off, or blocks_native URL on|off length|make SIZE "
             "SECONDS\n",
             stderr),
         2;
}
