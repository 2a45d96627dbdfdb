// A carrier without a connection, and a client over it, for tests of the life of calls: the test
// says when the connection is up, which call is answered and what time it is.
#ifndef RPCRDMA_RPC_CALL_CARRIER_FOR_TEST_H_
#define RPCRDMA_RPC_CALL_CARRIER_FOR_TEST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/call/call_flow.h"
#include "rpc/call/carrier.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/connector.h"
#include "rpcrdma/client.h"

namespace rpcrdma::rpc {

class CallCarrierForTest final : public Carrier {
 public:
  explicit CallCarrierForTest(CallFlow& flow) : flow_(flow) {}

  bool lend_stream(CallSlot& slot, std::size_t arguments_size) override {
    if (!has_memory) return false;
    slot.stream = flow_.pool().take(kHeaderRoom + arguments_size);
    return true;
  }
  std::optional<Error> send(CallSlot& slot) override {
    if (has_ended()) return flow_.lost_error();
    if (refusal) return refusal;
    flow_.calls().started(slot);
    sent.push_back(static_cast<std::uint32_t>(slot.xid));
    timeouts.push_back(slot.timeout);
    times.push_back(flow_.now());
    return std::nullopt;
  }
  void take_back(CallSlot& /*slot*/) override { ++taken_back; }
  void free(CallSlot& slot, bool keeps_call) override {
    if (keeps_call) return;
    flow_.pool().give_back(slot.stream);
    ++freed;
  }
  bool is_up() const noexcept override { return up; }
  bool has_ended() const noexcept override { return !up; }
  std::uint32_t calls_in_flight() const noexcept override {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        flow_.calls(), [](const CallSlot& each) { return each.state == CallState::kStarted; }));
  }
  std::string_view peer() const noexcept override { return "peer"; }
  Error explain(engine::CallError error) const override {
    if (error == engine::CallError::kTimedOut) return {Errc::kTimedOut, "the call", "peer", ""};
    if (error == engine::CallError::kCanceled) return {Errc::kCanceled, "the call", "peer", ""};
    return {Errc::kConnectionLost, "the connection", "peer", "it was cut"};
  }
  Instant clock() const override { return time; }

  // In a round: the server has answered the call.
  void answer(std::uint32_t xid) { flow_.handle_reply(index_of(xid), std::nullopt); }
  void refuse(std::uint32_t xid) {
    flow_.handle_reply(index_of(xid), Error{Errc::kDenied, "the call", "peer", ""});
  }
  // In a round: the connection is cut, with all calls on it.
  void cut() {
    up = false;
    for (CallSlot& slot : flow_.calls()) {
      if (slot.state == CallState::kStarted) flow_.lose(flow_.calls().index_of(slot));
    }
  }

  bool up = true;
  bool has_memory = true;
  std::optional<Error> refusal;
  Instant time{std::chrono::hours(1)};
  std::vector<std::uint32_t> sent;  // XIDs, in their order
  std::vector<std::chrono::nanoseconds> timeouts;
  std::vector<Instant> times;
  int freed = 0;
  int taken_back = 0;

 private:
  std::uint32_t index_of(std::uint32_t xid) { return flow_.calls().find(Xid{xid}).value(); }

  CallFlow& flow_;
};

class ClientForTest final : public ClientImpl, private ConnectionMaker {
 public:
  explicit ClientForTest(const ClientOptions& options, bool has_own_call = false,
                         bool is_refused_at_first = false,
                         std::unique_ptr<AddressFinder> finder = nullptr)
      : ClientImpl(
            options, {4, has_own_call, Connector::keeps_calls(options), false},
            [] { return Instant(std::chrono::hours(1)); }, [this] { ++woken; }),
        carrier(flow_),
        connector(flow_, *this, options.reconnect),
        is_refused(is_refused_at_first) {
    flow_.set_carrier(carrier);
    (void)connector.begin({"first", "second"}, std::move(finder));
    if (options.reconnect.enabled) round([] {});
  }
  ~ClientForTest() override {
    round([this] { close(); });
    for (CallSlot& slot : flow_.calls()) {
      if (slot.state != CallState::kFree) flow_.free(flow_.calls().index_of(slot));
    }
  }

  // Runs `what` in a round, as events of a connection are handled.
  template <class What>
  void round(What&& what) {
    flow_.round().begin(carrier.time);
    flow_.take_steps();
    what();
    if (connector.enabled()) connector.maintain(carrier.up);
    flow_.round().end();
  }
  void pass(std::chrono::nanoseconds time) {
    carrier.time += time;
    round([] {});
  }

  void progress() override {
    round([] {});
  }
  void wait() override {}
  void close() noexcept override {
    flow_.close();
    carrier.cut();
  }
  Expected<void, Error> serve(std::uint32_t /*program*/, std::uint32_t /*version*/,
                              Service& /*service*/) override {
    return {};
  }
  Expected<RegisteredMemory, Error> register_memory(Bytes /*memory*/,
                                                    std::byte* /*writable*/) override {
    return RegisteredMemory();
  }
  int wait_fd() const noexcept override { return -1; }
  std::string_view provider_name() const noexcept override { return "test"; }
  TransferCounters counters() const noexcept override { return {}; }
  std::string_view peer() const noexcept override { return carrier.peer(); }
  bool connected() const noexcept override { return carrier.is_up(); }

  CallCarrierForTest carrier;
  Connector connector;
  std::vector<std::string> attempts;  // the addresses
  bool is_refused;                    // every attempt to connect
  bool comes_up = true;               // at once, when an attempt is made
  bool gave_up = false;               // this side has ended the connection
  bool is_served = true;              // the server takes the connections
  int woken = 0;

 private:
  void pump() override {}
  bool waits_for_next() const noexcept override {
    return connector.enabled() && !flow_.is_closing();
  }
  bool may_send() noexcept override {
    return carrier.up && connector.may_send(carrier.calls_in_flight());
  }
  std::string_view last_failure() const override { return connector.last_failure(); }
  std::string absence() const override { return connector.absence(); }
  Expected<void, Error> begin(const std::string& address) override {
    attempts.push_back(address);
    carrier.up = false;
    if (is_refused) return Unexpected<Error>(Error{Errc::kRefused, "connecting", "peer", "no"});
    has_connection_ = true;
    carrier.up = comes_up;
    return {};
  }
  bool is_taken() const noexcept override { return is_served; }
  bool is_lost() const noexcept override {
    return has_connection_ && !carrier.up && carrier.calls_in_flight() == 0;
  }
  Error loss() const override { return carrier.explain(engine::CallError::kConnectionLost); }
  bool was_given_up() const noexcept override { return gave_up; }
  void retire() override {
    has_connection_ = false;
    flow_.history().note_gone();
  }
  void pump_begun() override {}

  bool has_connection_ = false;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CARRIER_FOR_TEST_H_
