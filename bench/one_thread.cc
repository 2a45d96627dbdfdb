// A client and a server on one thread, for counting instructions:
//
//   valgrind --tool=callgrind build/bin/one_thread read 4096 8 2000
//   valgrind --tool=callgrind build/bin/one_thread read 4096 8 12000
//
// The difference of the two totals is that of 10,000 calls, both sides, without the set-up.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "rpcrdma/tap.h"

namespace {

using rpcrdma::Bytes, rpcrdma::CallContext, rpcrdma::Client, rpcrdma::Error, rpcrdma::Expected;
using rpcrdma::ProcedureTraits, rpcrdma::Reply, rpcrdma::Server;

constexpr std::uint32_t kProgram = 0x20010020, kSizeMax = 1U << 20U;
enum Procedure : std::uint32_t { kNull, kRead, kWrite };

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "one_thread: %s\n", why.c_str());
  std::exit(1);
}
template <class T>
T must(Expected<T, Error> result) {
  if (!result) fail(result.error().message());
  return std::move(result).value();
}

class Source final : public rpcrdma::Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kReads{};
    static constexpr ProcedureTraits kTakesData{.bulk_argument_size_max = kSizeMax};
    return procedure == kWrite ? &kTakesData : &kReads;
  }
  void call(CallContext& context) override {
    rpcrdma::MessageReader& arguments = context.arguments();
    if (context.procedure().number == kRead) {
      context.results().bulk(Bytes(data_).first(arguments.xdr().u32("size")));
    } else {
      const Bytes data = arguments.bulk(kSizeMax, "data");
      context.results().xdr().u32(static_cast<std::uint32_t>(data.size()));
    }
    context.succeed();
  }
  Bytes data() const { return data_; }

 private:
  const std::vector<std::byte> data_ = std::vector<std::byte>(kSizeMax);
};

// Keeps a number of calls under way until all are made.
class Load {
 public:
  Load(Client& client, Procedure procedure, std::uint32_t size, long calls)
      : client_(client), procedure_(procedure), size_(size), left_(calls) {}
  void start(std::vector<std::byte>& place, Bytes data) {
    if (left_-- <= 0) return;
    ++under_way_;
    auto call = must(client_.prepare({kProgram, 1, procedure_}, 64));
    call.expect_results(procedure_ == kNull ? 0 : 8);
    if (procedure_ == kRead) {
      call.arguments().xdr().u32(size_);
      call.place_result(place);
    } else if (procedure_ == kWrite) {
      call.arguments().bulk(data.first(size_));
    }
    const auto started =
        client_.start(std::move(call), [this, &place, data](Expected<Reply, Error> reply) {
          if (!reply) fail(reply.error().message());
          if (procedure_ == kRead) (void)reply->results().bulk(size_, "data");
          if (procedure_ == kWrite) (void)reply->results().xdr().u32("size");
          if (const auto error = reply->finish()) fail(error->message());
          --under_way_;
          start(place, data);
        });
    if (!started) fail(started.error().message());
  }
  bool over() const { return under_way_ == 0; }

 private:
  Client& client_;
  const Procedure procedure_;
  const std::uint32_t size_;
  long left_;
  long under_way_ = 0;
};

}  // namespace

int main(int count, char** words) {
  const std::string_view server_has = count == 6 ? words[5] : "";
  const bool is_measured = server_has == "measured", is_tapped = server_has == "tapped";
  if (count != 5 && !is_measured && !is_tapped) {
    fail("usage: one_thread null|read|write SIZE DEPTH CALLS [measured|tapped]");
  }
  const std::string kind = words[1];
  const Procedure procedure = kind == "read" ? kRead : kind == "write" ? kWrite : kNull;
  const auto size = static_cast<std::uint32_t>(std::strtoul(words[2], nullptr, 10));
  const auto depth = std::strtoul(words[3], nullptr, 10);
  if (size > kSizeMax || depth == 0) fail("SIZE is at most 1048576, and DEPTH at least 1");
  rpcrdma::ServerOptions server_options;
  server_options.measures_calls = is_measured;
  rpcrdma::Tap tap(0);  // which is off
  if (is_tapped) server_options.tap = &tap;
  server_options.provider.name = "siwarp";
  server_options.provider.crc = false;
  rpcrdma::ClientOptions client_options;
  client_options.provider = server_options.provider;
  Source source;
  Server server = must(Server::listen("rdma://127.0.0.1:0", server_options));
  must(server.add(kProgram, 1, source));
  must(server.register_read_only(source.data()));
  Client client =
      must(Client::begin_connect("rdma://" + std::string(server.address()), client_options));
  while (!client.connected()) {
    client.progress();
    server.progress();
  }
  std::vector<std::vector<std::byte>> places(depth, std::vector<std::byte>(size + 1));
  std::vector<rpcrdma::RegisteredMemory> registered;
  for (auto& place : places) registered.push_back(must(client.register_memory(place)));
  const auto data = must(client.register_read_only(source.data()));
  Load load(client, procedure, size, std::strtol(words[4], nullptr, 10));
  for (auto& place : places) load.start(place, source.data());
  while (!load.over()) {
    client.progress();
    server.progress();
  }
}
