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

// Which configures the connection, or offers a version.
bool has_own_call(const ClientOptions& options) {
  return options.connection.profile == Profile::kRfc5666 ||
         options.version != ProtocolVersion::kOne;
}

}  // namespace

ConnectingClient::ConnectingClient(std::unique_ptr<rdma::Provider> owned, rdma::Provider& provider,
                                   const ClientOptions& options)
    : RdmaClient(provider, options, rpc::engine_options(options).calls_max,
                 limits_of(options.connection), has_own_call(options), nullptr),
      owned_provider_(std::move(owned)),
      engine_options_(rpc::engine_options(options_)),  // names what is in them
      own_rooms_(calls_.size()),
      answers_(provider, pool_, options.backward_calls),
      reconnector_(options.reconnect, last_xid_) {
  rooms_ = &own_rooms_;
  keeps_calls_ = options.reconnect.enabled;
}

ConnectingClient::~ConnectingClient() {
  RPCRDMA_REQUIRE(!in_progress_, "a client is destroyed inside of one of its callbacks");
  close();
  // What calls still hold is given back when the connection has flushed them.
  const auto is_busy = [this] { return calls_in_flight() > 0 || calls_.own_is_under_way(); };
  while (is_busy()) {
    progress();
    if (is_busy()) provider_.wait();
  }
  changes_.lose_all();
}

// --- Connecting --------------------------------------------------------------------------------

Expected<void, Error> ConnectingClient::begin_connect(std::string_view address) {
  errors_.set_peer(address);
  engine::Options options = engine_options_;
  if (!provider_.reports_invalidated_handle(errors_.peer())) options.remote_invalidation = false;
  return take_queue_pair(provider_.connect(errors_.peer(), rpc::set_up_data(options)), options);
}

Expected<void, Error> ConnectingClient::begin_adopt(int descriptor) {
  errors_.set_peer("the TCP connection");
  may_connect_ = false;
  auto queue_pair = provider_.adopt(descriptor, rpc::set_up_data(engine_options_));
  if (queue_pair) errors_.set_peer((*queue_pair)->peer_address());
  return take_queue_pair(std::move(queue_pair), engine_options_);
}

Expected<void, Error> ConnectingClient::take_queue_pair(
    Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> queue_pair,
    const engine::Options& options) {
  if (!queue_pair) return Unexpected<Error>(errors_.explain(queue_pair.error(), "connecting"));
  auto connection = transport::Connection::create(std::move(*queue_pair), engine::Role::kClient,
                                                  options, &own_rooms_);
  if (!connection) return Unexpected<Error>(errors_.explain(connection.error(), "connecting"));
  link_.connection = std::move(*connection);
  connection_ = link_.connection.get();
  memory_.move_to(connection_);
  if (answers_.enabled()) {
    using engine::Connection, engine::Role;
    link_.session = answers_.make_session(*connection_,
                                          Connection::answered_slot_count(Role::kClient, options));
  }
  use_ = is_rfc5666() || options.versions.high > 1 ? Use::kNotYet : Use::kNow;
  configuration_started_ = false;
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
  Error error = errors_.explain(connection_->cause(), "connecting");
  if (connection_->engine().given_up() == engine::GivenUp::kNoVersion) error.code = Errc::kVersion;
  return error;
}

Expected<Client, Error> ConnectingClient::connect_on(rdma::Provider& provider,
                                                     std::string_view address,
                                                     const ClientOptions& options) {
  auto impl = std::make_unique<ConnectingClient>(nullptr, provider, options);
  if (auto begun = impl->begin_connect(address); !begun) {
    return Unexpected<Error>(begun.error());
  }
  return client_of(std::move(impl));
}

void ConnectingClient::close() noexcept {
  closing_ = true;
  if (connection_ != nullptr) connection_->disconnect();
  provider_.wake();  // the calls under way end in the next progress()
}

// --- Progress ----------------------------------------------------------------------------------

void ConnectingClient::progress() {
  RPCRDMA_REQUIRE(!in_progress_, "a callback must not call progress(), call() or drain()");
  provider_.progress();
  pump();
}

void ConnectingClient::drain() {
  for (progress(); calls_in_flight() > 0; progress()) provider_.wait();
}

void ConnectingClient::pump() noexcept {
  if (connection_ == nullptr && !reconnector_.next_attempt() && steps_.under_way() == 0) return;
  const rpc::BackwardAnswers::InTurn turn(answers_, link_);
  in_progress_ = true;
  now_ = provider_.now();
  if (answers_.enabled()) answers_.take(retired_);
  take_steps();
  pump_connection();
  take_changes();
  if (is_connecting_again() && connection_->engine().calls_in_flight() == 0) {
    connect_in_version_one();
  }
  if (options_.reconnect.enabled) maintain_connection();
  if (!changes_.empty() && ended()) changes_.lose_all();
  in_progress_ = false;
  auto timeout = connection_ != nullptr ? connection_->engine().poll_timeout() : std::nullopt;
  if (options_.reconnect.enabled) {
    timeout = engine::earlier(timeout, reconnector_.next_attempt());
    timeout = engine::earlier(timeout, calls_.deadline());
  }
  timeout = engine::earlier(timeout, next_hurry());
  // What came in the last steps of this round is told in the next one.
  if (connection_ != nullptr && connection_->engine().option_port().has_news()) provider_.wake();
  provider_.arm_timer(engine::earlier(timeout, changes_.next(now_)));
}

void ConnectingClient::pump_connection() {
  if (connection_ == nullptr) return;
  for (bool again = true; again;) {
    now_ = provider_.now();
    connection_->pump(now_);
    const bool configures = use_ == Use::kNotYet && !configuration_started_ &&
                            connection_->connected() && calls_.own_is_free();
    if (configures) is_rfc5666() ? configure() : offer_version();
    engine::Connection& engine = connection_->engine();
    const engine::Event* event = engine.event();
    for (again = configures || event != nullptr; event != nullptr; event = engine.event()) {
      handle(*event);
      engine.drop_event();
    }
    // Backward Calls with chunks; what they waited for may have come back.
    if (rpc::Session* session = link_.session.get(); session != nullptr) {
      again = session->retry_waiting() || again;
    }
  }
}

Expected<Reply, Error> ConnectingClient::call(Call call) {
  const std::uint32_t index = take_slot(call);
  if (auto error = begin(index, true, {})) return Unexpected<Error>(std::move(*error));
  Slot& slot = calls_[index];
  for (progress(); rpc::is_under_way(slot.state); progress()) provider_.wait();
  if (slot.state == State::kFailed) {
    Error error = std::move(*slot.error);
    free_slot(index);
    return Unexpected<Error>(std::move(error));
  }
  return make_reply(index);
}

TransferCounters ConnectingClient::counters() const noexcept {
  TransferCounters counters = past_;
  if (connection_ != nullptr) rpc::add(counters, *connection_);
  return counters;
}

// --- Memory that stays registered --------------------------------------------------------------

Expected<RegisteredMemory, Error> ConnectingClient::register_memory(Bytes memory,
                                                                    std::byte* writable) {
  if (!connected() && ended()) return Unexpected<Error>(lost_error());
  const auto id = regions_.add(memory, writable);
  if (!id) {
    return Unexpected<Error>(errors_.unsupported(
        "registering memory", "it is empty, or overlaps memory that is registered already"));
  }
  if (connected()) {  // else the next connection does it
    if (const auto failed = memory_.attach(*id)) {
      regions_.remove(*id);
      return Unexpected<Error>(errors_.explain(*failed, "registering memory"));
    }
  }
  return RegisteredMemory(*this, *id, memory);
}

// --- Calls of the server -----------------------------------------------------------------------

Expected<void, Error> ConnectingClient::serve(std::uint32_t program, std::uint32_t version,
                                              Service& service) {
  const auto refused = [this](std::string cause) {
    return Unexpected<Error>(errors_.unsupported("serving calls of the server", std::move(cause)));
  };
  if (!answers_.enabled()) return refused("ClientOptions::backward_calls is 0");
  if (answers_.add(program, version, service)) return {};
  return refused("this version of the program is served already");
}

void ConnectingClient::handle_other(const engine::Event& event) {
  RPCRDMA_ASSERT(link_.session != nullptr, "a client got a server's event");
  link_.session->handle(event);
}

Expected<void, Error> ConnectingClient::resume(rpc::Session& /*session*/) {
  return Unexpected<Error>(errors_.unsupported("resuming calls of the client",
                                               "this client does not outlive its connection"));
}

}  // namespace rpcrdma
