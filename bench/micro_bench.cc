// Measures the pieces by Google Benchmark: codecs, CRC, and whole calls in one process.
//
// `make bench`. These are for comparing a change with the state before it, on one machine, in one
// sitting; client and server share a thread here, so that a call costs what both sides do.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "iwarp/crc32c.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "support/rpc_fixture.h"
#include "wire/v1/header.h"

namespace rpcrdma {
namespace {

using test::TestService;

void encode_and_decode_header(benchmark::State& state) {
  wire::ChunkLists lists;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(state.range(0)); ++i) {
    if (!lists.reads.push_back({40, {SteeringTag{i}, 4096, 1}})) return;
  }
  const wire::v1::Header header{Xid{1}, 1, 32, wire::v1::Msg{}};
  std::array<std::byte, 4096> message{};
  wire::ChunkLists decoded;
  for (auto _ : state) {
    const auto size = wire::v1::encode(header, lists, message);
    benchmark::DoNotOptimize(wire::v1::decode(Bytes(message).first(*size), {}, decoded));
  }
}
BENCHMARK(encode_and_decode_header)->Arg(0)->Arg(1)->Arg(16);

void crc32c(benchmark::State& state) {
  const auto data = test::pattern(static_cast<std::size_t>(state.range(0)), 1);
  for (auto _ : state) {
    iwarp::Crc32c crc;
    crc.add(data);
    benchmark::DoNotOptimize(crc.value());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(crc32c)->Arg(72)->Arg(1024)->Arg(65536);

// Keeps `depth` calls in flight, both sides driven by this thread.
class Load {
 public:
  Load(bool crc, std::uint32_t procedure, std::size_t size, int depth)
      : pair_(test::make_siwarp(crc)), procedure_(procedure), data_(test::pattern(size, 1)) {
    places_.resize(static_cast<std::size_t>(depth), std::vector<std::byte>(size));
    for (std::size_t i = 0; i < places_.size(); ++i) start(i);
  }
  void run(std::uint64_t calls) {
    for (const std::uint64_t target = ended_ + calls; ended_ < target;) {
      pair_.client->progress();
      pair_.server->progress();
    }
  }
  ~Load() {
    stopping_ = true;
    pair_.run_until([this] { return pair_.client->calls_in_flight() == 0; });
  }

 private:
  void start(std::size_t index) {
    auto call = pair_.prepare(procedure_);
    if (procedure_ != TestService::kNull) call->arguments().bulk(data_);
    if (procedure_ == TestService::kEcho) {
      call->place_result(places_[index]);
      call->expect_results(4);
    }
    (void)pair_.client->start(std::move(*call), [this, index](auto) {
      ++ended_;
      if (!stopping_) start(index);
    });
  }

  test::RpcPair pair_;
  const std::uint32_t procedure_;
  const std::vector<std::byte> data_;
  std::vector<std::vector<std::byte>> places_;
  std::uint64_t ended_ = 0;
  bool stopping_ = false;
};

void null_calls(benchmark::State& state) {
  Load load(false, TestService::kNull, 0, static_cast<int>(state.range(0)));
  load.run(1000);
  for (auto _ : state) load.run(64);
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(null_calls)->ArgName("depth")->Arg(1)->Arg(32);

void send_bulk(benchmark::State& state) {
  Load load(state.range(2) != 0, TestService::kLength, static_cast<std::size_t>(state.range(0)),
            static_cast<int>(state.range(1)));
  load.run(64);
  for (auto _ : state) load.run(16);
  state.SetBytesProcessed(state.iterations() * 16 * state.range(0));
}
BENCHMARK(send_bulk)
    ->ArgNames({"bytes", "depth", "crc"})
    ->Args({65536, 8, 0})
    ->Args({65536, 8, 1})
    ->Args({1048576, 1, 0})
    ->Args({1048576, 8, 0});

}  // namespace
}  // namespace rpcrdma

BENCHMARK_MAIN();
