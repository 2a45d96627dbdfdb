// rpcrdma itself: a server and a client of the public API, with the payload in chunks.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "tools/bench/contender.h"
#include "tools/bench/meter.h"

namespace rpcrdma::tools::bench {
namespace {

constexpr std::uint32_t kProgram = 0x20010020;
constexpr std::uint32_t kVersion = 1;
enum Procedure : std::uint32_t {
  kNull = 0,
  kReadData = 1,   // u32 size -> bulk
  kWriteData = 2,  // bulk -> u32 size
  kCheck = 3,      // bulk -> u32: 1 when it is the pattern
  kCounters = 4,   // () -> u64 bytes that the server has copied, u64 each of DeviceCosts
};
constexpr std::uint32_t kSizeMax = 1U << 20U;

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> data(size);
  std::uint32_t state = 1;
  for (std::byte& each : data) each = static_cast<std::byte>((state = state * 1664525 + 1) >> 24U);
  return data;
}

[[noreturn]] void fail(std::string_view what, const Error& error) {
  throw std::runtime_error(fmt::format("{}: {}", what, error.message()));
}

class BenchService final : public Service {
 public:
  // The memory that results are sent from.
  Bytes data() const { return data_; }
  void set_server(const Server& server) { server_ = &server; }
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kTakesData{.bulk_argument_size_max = kSizeMax};
    static constexpr ProcedureTraits kOthers{};
    if (procedure > kCounters) return nullptr;
    return procedure == kWriteData || procedure == kCheck ? &kTakesData : &kOthers;
  }
  void call(CallContext& context) override {
    MessageReader& arguments = context.arguments();
    if (context.procedure().number == kReadData) {
      const std::uint32_t size = arguments.xdr().u32("size");
      if (!arguments.finish() || size > kSizeMax) return context.fail(AcceptStatus::kGarbageArgs);
      context.results().bulk(Bytes(data_).first(size));
    } else if (context.procedure().number == kCounters) {
      if (!arguments.finish()) return context.fail(AcceptStatus::kGarbageArgs);
      const TransferCounters counters = server_->counters();
      for (const std::uint64_t value : {counters.bytes_copied, counters.doorbells,
                                        counters.completions, counters.registrations}) {
        context.results().xdr().u64(value);
      }
    } else {
      const Bytes data = arguments.bulk(kSizeMax, "data");
      if (!arguments.finish()) return context.fail(AcceptStatus::kGarbageArgs);
      const bool check = context.procedure().number == kCheck;
      const bool right = check && std::ranges::equal(data, Bytes(data_).first(data.size()));
      context.results().xdr().u32(check ? std::uint32_t{right}
                                        : static_cast<std::uint32_t>(data.size()));
    }
    context.succeed();
  }

 private:
  const std::vector<std::byte> data_ = pattern(kSizeMax);
  const Server* server_ = nullptr;
};

void serve(const Layout& layout, const Announce& announce) {
  ServerOptions options;
  options.provider.name = layout.provider;
  options.provider.crc = false;  // the client's wish decides
  BenchService service;          // outlives the server
  const bool is_v6 = layout.address.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + layout.address + "]" : layout.address;
  auto server = Server::listen("rdma://" + host + ":0", options);
  if (!server) fail("bench server", server.error());
  service.set_server(*server);
  if (auto added = server->add(kProgram, kVersion, service); !added) {
    fail("bench server", added.error());
  }
  if (auto registered = server->register_read_only(service.data()); !registered) {
    fail("bench server", registered.error());
  }
  announce(std::string(server->address()));
  server->run();
}

// Keeps a number of calls in flight: each that ends starts its successor.
class Load {
 public:
  Load(Client& client, const Case& what, Meter& meter, Bytes data)
      : client_(client), what_(what), meter_(meter), data_(data) {
    slots_.resize(static_cast<std::size_t>(what.depth));
    for (Slot& slot : slots_) {
      if (what.kind != Kind::kRead) continue;
      slot.place.resize(what.size);
      slot.registered = registered(client.register_memory(slot.place));
    }
    data_registered_ = registered(client.register_read_only(data));
  }

  void run() {
    for (std::size_t i = 0; i < slots_.size(); ++i) start(i);
    while (!meter_.over() && error_.empty()) {
      client_.wait();
      meter_.tick();
      if (meter_.just_started()) before_ = client_.counters();
      client_.progress();
    }
    if (!error_.empty()) throw std::runtime_error(error_);
    after_ = client_.counters();
    stopping_ = true;
    client_.drain();
  }
  std::uint64_t bytes_copied() const { return after_.bytes_copied - before_.bytes_copied; }
  DeviceCosts costs() const {
    return {after_.doorbells - before_.doorbells, after_.completions - before_.completions,
            after_.registrations - before_.registrations};
  }

 private:
  struct Slot {
    Clock::time_point started;
    std::vector<std::byte> place;
    RegisteredMemory registered;
  };

  static RegisteredMemory registered(Expected<RegisteredMemory, Error> result) {
    if (!result) fail("registering memory", result.error());
    return std::move(*result);
  }

  void start(std::size_t index) {
    Slot& slot = slots_[index];
    slot.started = meter_.now();
    auto call = client_.prepare({kProgram, kVersion, procedure()}, 64);
    if (!call) return stop(call.error());
    call->expect_results(what_.kind == Kind::kNull ? 0 : 8);
    if (what_.kind == Kind::kRead) {
      call->arguments().xdr().u32(what_.size);
      call->place_result(slot.place);
    } else if (what_.kind == Kind::kWrite) {
      call->arguments().bulk(data_.first(what_.size));
    }
    auto started = client_.start(std::move(*call), [this, index](Expected<Reply, Error> reply) {
      if (!reply) return stop(reply.error());
      finish(*reply, slots_[index]);
      if (!stopping_) start(index);
    });
    if (!started) stop(started.error());
  }

  void finish(Reply& reply, Slot& slot) {
    MessageReader& results = reply.results();
    bool right = true;
    if (what_.kind == Kind::kRead) {
      right = results.bulk(what_.size, "data").size() == what_.size && results.last_was_placed();
    } else if (what_.kind == Kind::kWrite) {
      right = results.xdr().u32("size") == what_.size;
    }
    if (const auto error = reply.finish()) return stop(*error);
    if (!right) error_ = what_.name + ": a reply with the wrong data";
    meter_.ended(slot.started);
  }

  std::uint32_t procedure() const {
    if (what_.kind == Kind::kNull) return kNull;
    return what_.kind == Kind::kRead ? kReadData : kWriteData;
  }
  void stop(const Error& error) { error_ = what_.name + ": " + error.message(); }

  Client& client_;
  const Case& what_;
  Meter& meter_;
  const Bytes data_;
  std::vector<Slot> slots_;
  RegisteredMemory data_registered_;
  std::string error_;
  TransferCounters before_, after_;  // of the time that counts
  bool stopping_ = false;
};

class Rpcrdma final : public Contender {
 public:
  explicit Rpcrdma(const Layout& layout)
      : layout_(layout), server_(layout.server_cpu, [layout](const Announce& announce) {
          serve(layout, announce);
        }) {}

  Sample run(const Case& what, const Times& times) override {
    ClientOptions options;
    options.provider.name = layout_.provider;
    options.provider.crc = what.crc;
    auto client = Client::connect("rdma://" + server_.address(), options);
    if (!client) fail(what.name, client.error());
    check_data(*client, what);
    const TransferCounters before = server_counters(*client);
    Meter meter(server_, times);
    Load load(*client, what, meter, data_);
    load.run();
    Sample sample = meter.sample(what.kind == Kind::kNull ? 0 : what.size);
    // The server's counts include the warm-up: its share is taken by the calls.
    const TransferCounters after = server_counters(*client);
    const auto all = static_cast<double>(std::max<std::uint64_t>(client->counters().calls, 1));
    const auto share = [&](std::uint64_t TransferCounters::*count) {
      return static_cast<std::uint64_t>(static_cast<double>(after.*count - before.*count) *
                                        static_cast<double>(sample.calls) / all);
    };
    sample.bytes_copied = load.bytes_copied() + share(&TransferCounters::bytes_copied);
    sample.client = load.costs();
    sample.server = {share(&TransferCounters::doorbells), share(&TransferCounters::completions),
                     share(&TransferCounters::registrations)};
    return sample;
  }

 private:
  // One call of the kind with all of its bytes looked at.
  void check_data(Client& client, const Case& what) {
    if (what.kind == Kind::kNull) return;
    auto call = client.prepare({kProgram, kVersion, what.kind == Kind::kRead ? kReadData : kCheck});
    if (!call) fail(what.name, call.error());
    std::vector<std::byte> place(what.size);
    if (what.kind == Kind::kRead) {
      call->arguments().xdr().u32(what.size);
      call->place_result(place);
    } else {
      call->arguments().bulk(Bytes(data_).first(what.size));
    }
    auto reply = client.call(std::move(*call));
    if (!reply) fail(what.name, reply.error());
    const bool right = what.kind == Kind::kRead
                           ? std::ranges::equal(reply->results().bulk(what.size, "data"),
                                                Bytes(data_).first(what.size))
                           : reply->results().xdr().u32("right") == 1;
    if (!right) throw std::runtime_error(what.name + ": the data arrives damaged");
  }

  static TransferCounters server_counters(Client& client) {
    auto call = client.prepare({kProgram, kVersion, kCounters});
    if (!call) fail("reading the server's counters", call.error());
    auto reply = client.call(std::move(*call));
    if (!reply) fail("reading the server's counters", reply.error());
    xdr::Reader& results = reply->results().xdr();
    TransferCounters counters;
    counters.bytes_copied = results.u64("copied");
    counters.doorbells = results.u64("doorbells");
    counters.completions = results.u64("completions");
    counters.registrations = results.u64("registrations");
    return counters;
  }

  const std::vector<std::byte> data_ = pattern(kSizeMax);
  const Layout layout_;
  Child server_;
};

}  // namespace

std::unique_ptr<Contender> make_rpcrdma(const Layout& layout) {
  return std::make_unique<Rpcrdma>(layout);
}

}  // namespace rpcrdma::tools::bench
