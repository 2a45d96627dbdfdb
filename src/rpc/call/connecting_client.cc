#include "rpc/call/connecting_client.h"

#include <utility>

#include "base/assert.h"
#include "rpc/counters.h"
#include "rpc/engine_options.h"

namespace rpcrdma {
namespace {

rpc::CallSender::Limits limits_of(const ConnectionOptions& options) {
  const bool is_rfc5666 = options.profile == Profile::kRfc5666;
  const bool answers_are_read = is_rfc5666 && options.rfc5666.results_by_read;
  return {false, !options.reduce, answers_are_read, is_rfc5666};
}

rpc::CallFlow::Settings settings_of(const ClientOptions& options) {
  return {rpc::engine_options(options).calls_max, rpc::FirstCall::is_needed(options),
          rpc::Connector::keeps_calls(options), false};
}

}  // namespace

ConnectingClient::ConnectingClient(std::unique_ptr<rdma::Provider> owned, rdma::Provider& provider,
                                   const ClientOptions& options)
    : ClientImpl(
          options, settings_of(options), [&provider] { return provider.now(); },
          [&provider] { provider.wake(); }),
      owned_provider_(std::move(owned)),
      provider_(provider),
      engine_options_(rpc::engine_options(this->options())),  // names what is in them
      own_rooms_(flow_.calls().size()),
      carrier_(provider, flow_, *this, limits_of(options.connection), &own_rooms_),
      answers_(provider, flow_.pool(), options.backward_calls),
      connector_(flow_, *this, options.reconnect),
      first_call_(flow_, carrier_, engine_options_) {
  flow_.set_carrier(carrier_);
}

ConnectingClient::~ConnectingClient() {
  RPCRDMA_REQUIRE(!flow_.in_round(), "a client is destroyed inside of one of its callbacks");
  close();
  // Without a connection this ends all calls: a copy in a child process must not use what it shares
  // with its parent, whose timer and wake-ups a round would take.
  if (connection_ == nullptr) pump();
  // Calls give back what they hold when the connection has flushed them.
  const auto is_busy = [this] {
    return flow_.calls_in_flight() > 0 || flow_.calls().own_is_under_way();
  };
  while (is_busy()) {
    progress();
    if (is_busy()) provider_.wait();
  }
  changes_.lose_all();
}

// --- Connecting --------------------------------------------------------------------------------

Expected<void, Error> ConnectingClient::begin_connect(std::vector<std::string> addresses,
                                                      std::unique_ptr<rpc::AddressFinder> finder) {
  auto begun = connector_.begin(std::move(addresses), std::move(finder));
  if (connector_.next_attempt()) provider_.wake();  // to wait for its time
  return begun;
}

Expected<void, Error> ConnectingClient::begin(const std::string& address) {
  carrier_.errors().set_peer(address);
  engine::Options options = engine_options_;
  if (!provider_.reports_invalidated_handle(address)) options.remote_invalidation = false;
  return take_queue_pair(provider_.connect(address, rpc::set_up_data(options)), options);
}

Expected<void, Error> ConnectingClient::begin_adopt(int descriptor) {
  carrier_.errors().set_peer("the TCP connection");
  may_connect_ = false;
  auto queue_pair = provider_.adopt(descriptor, rpc::set_up_data(engine_options_));
  if (queue_pair) carrier_.errors().set_peer((*queue_pair)->peer_address());
  return take_queue_pair(std::move(queue_pair), engine_options_);
}

Expected<void, Error> ConnectingClient::take_queue_pair(
    Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> queue_pair,
    const engine::Options& options) {
  if (!queue_pair)
    return Unexpected<Error>(carrier_.errors().explain(queue_pair.error(), "connecting"));
  auto connection = transport::Connection::create(std::move(*queue_pair), engine::Role::kClient,
                                                  options, &own_rooms_);
  if (!connection)
    return Unexpected<Error>(carrier_.errors().explain(connection.error(), "connecting"));
  link_.connection = std::move(*connection);
  connection_ = link_.connection.get();
  carrier_.use_connection(connection_);
  if (answers_.enabled()) {
    using engine::Connection, engine::Role;
    link_.session = answers_.make_session(*connection_,
                                          Connection::answered_slot_count(Role::kClient, options));
  }
  first_call_.use_connection(*connection_);
  changes_.use_connection(connection_);
  return {};
}

Expected<void, Error> ConnectingClient::await_connection() {
  for (progress(); !connected(); progress()) {
    const bool has_ended = connection_ == nullptr || connection_->ended();
    if (has_ended && !is_connecting_again()) return Unexpected<Error>(connect_failure());
    provider_.wait();
  }
  return {};
}

Error ConnectingClient::connect_failure() const {
  if (connection_ == nullptr) return *connect_error_;
  Error error = carrier_.errors().explain(connection_->cause(), "connecting");
  if (connection_->engine().given_up() == engine::GivenUp::kNoVersion) error.code = Errc::kVersion;
  return error;
}

Expected<Client, Error> ConnectingClient::connect_on(rdma::Provider& provider,
                                                     std::vector<std::string> addresses,
                                                     const ClientOptions& options) {
  auto impl = std::make_unique<ConnectingClient>(nullptr, provider, options);
  if (auto begun = impl->begin_connect(std::move(addresses), nullptr); !begun) {
    return Unexpected<Error>(begun.error());
  }
  return client_of(std::move(impl));
}

void ConnectingClient::close() noexcept {
  flow_.close();
  if (connection_ != nullptr) connection_->disconnect();
  provider_.wake();  // the calls under way end in the next progress()
}

// The server does not know version two.
void ConnectingClient::connect_in_version_one() {
  first_call_.leave_out();
  retire();
  auto begun = begin(std::string(peer()));
  if (begun) {
    connector_.handle_begun();
    return pump_connection();  // posts its Receives
  }
  connect_error_ = std::move(begun.error());
  if (connector_.enabled() && flow_.history().goes_on()) {
    connector_.handle_failure(connect_error_->cause);
  }
}

// --- Progress ----------------------------------------------------------------------------------

void ConnectingClient::progress() {
  RPCRDMA_REQUIRE(!flow_.in_round(), "a callback must not call progress(), call() or drain()");
  provider_.progress();
  has_looked_ = true;
  pump();
}

void ConnectingClient::pump() noexcept {
  const bool is_idle = connection_ == nullptr && !connector_.next_attempt() &&
                       flow_.calls_in_flight() == 0 && !flow_.calls().own_is_under_way();
  if (is_idle) return;
  const rpc::BackwardAnswers::InTurn turn(answers_, link_);
  const Instant begun = provider_.now();
  if (std::exchange(has_looked_, false)) looked_ = begun;
  flow_.round().begin(begun);
  if (answers_.enabled()) answers_.take(retired_, flow_.now());
  flow_.take_steps();
  pump_connection();
  if (changes_.take(connected())) pump_connection();
  if (is_connecting_again() && carrier_.calls_in_flight() == 0) connect_in_version_one();
  if (connector_.enabled()) connector_.maintain(connected());
  if (ended()) changes_.lose_all();
  const auto next_change = changes_.next(flow_.now());
  flow_.round().end();
  auto timeout = connection_ != nullptr ? connection_->engine().poll_timeout() : std::nullopt;
  timeout = earlier(timeout, connector_.next_attempt());
  timeout = earlier(timeout, flow_.next_deadline());
  // News of the last steps of this round are reported in the next one.
  if (changes_.has_news()) provider_.wake();
  provider_.arm_timer(earlier(timeout, next_change));
}

void ConnectingClient::pump_connection() {
  if (connection_ == nullptr) return;
  for (bool again = true; again;) {
    const Instant now = provider_.now();
    flow_.round().begin(now);
    if (link_.session != nullptr) link_.session->handle_time(now);
    if (connection_->pump(now, looked_) == transport::Connection::Moved::kPart) provider_.wake();
    const bool is_first = first_call_.is_due();
    if (is_first) first_call_.send();
    engine::Connection& engine = connection_->engine();
    const engine::Event* event = engine.event();
    for (again = is_first || event != nullptr; event != nullptr; event = engine.event()) {
      carrier_.handle(*event);
      engine.drop_event();
    }
    // Backward Calls with chunks; what they waited for may have come back.
    if (rpc::Session* session = link_.session.get(); session != nullptr) {
      again = session->retry_waiting() || again;
    }
  }
}

// Replies that the application still looks at lie in the connection's Receives.
void ConnectingClient::retire() {
  first_call_.note_end();
  changes_.use_connection(nullptr);
  rpc::add(past_, *connection_);
  carrier_.forget_connection();
  const auto in_use = [this](const rpc::Link& each) {
    return (each.session && !each.session->idle()) ||
           flow_.calls().holds_receive_of(each.connection.get());
  };
  std::erase_if(retired_, [&](const rpc::Link& each) { return !in_use(each); });
  if (in_use(link_)) retired_.push_back(std::move(link_));
  link_.connection.reset();
  link_.session.reset();
  connection_ = nullptr;
}

TransferCounters ConnectingClient::counters() const noexcept {
  TransferCounters counters = past_;
  if (connection_ != nullptr) rpc::add(counters, *connection_);
  return counters;
}

// --- Memory that stays registered --------------------------------------------------------------

Expected<RegisteredMemory, Error> ConnectingClient::register_memory(Bytes memory,
                                                                    std::byte* writable) {
  if (!connected() && ended()) return Unexpected<Error>(flow_.lost_error());
  const auto id = carrier_.regions().add(memory, writable);
  if (!id) {
    return Unexpected<Error>(unsupported(
        "registering memory", "it is empty, or overlaps memory that is registered already"));
  }
  if (connected()) {  // else the next connection does it
    if (const auto failed = carrier_.memory().attach(*id)) {
      carrier_.regions().remove(*id);
      return Unexpected<Error>(carrier_.errors().explain(*failed, "registering memory"));
    }
  }
  return RegisteredMemory(*this, *id, memory);
}

// --- Calls of the server -----------------------------------------------------------------------

Expected<void, Error> ConnectingClient::serve(std::uint32_t program, std::uint32_t version,
                                              Service& service) {
  const auto refused = [this](std::string cause) {
    return Unexpected<Error>(unsupported("serving calls of the server", std::move(cause)));
  };
  if (!answers_.enabled()) return refused("ClientOptions::backward_calls is 0");
  if (answers_.add(program, version, service)) return {};
  return refused("this version of the program is served already");
}

void ConnectingClient::handle_other(const engine::Event& event) {
  RPCRDMA_ASSERT(link_.session != nullptr, "a client got a server's event");
  link_.session->handle(event);
}

}  // namespace rpcrdma
