#include "nfs/client/connections.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace nfs {

using rpcrdma::Client;
using rpcrdma::Errc;
using rpcrdma::Error;
using State = Connections::State;

namespace {

rpcrdma::AuthSys* sys_of(rpcrdma::ClientOptions& options) {
  return std::get_if<rpcrdma::AuthSys>(&options.auth);
}

}  // namespace

Connections::Connections(Options options)
    : options_(std::move(options)),
      machine_name_(sys_of(options_.client) != nullptr ? sys_of(options_.client)->machine_name
                                                       : std::string_view()),
      last_error_{Errc::kConnectionLost, "calling", options_.urls.front(), {}} {
  if (auto* const sys = sys_of(options_.client)) sys->machine_name = machine_name_;
  for (std::size_t server = 0; server < options_.urls.size(); ++server) {
    for (std::uint32_t i = 0; i < options_.per_server; ++i) {
      all_.emplace_back().server_ = server;
    }
  }
}

Connections::~Connections() {
  for (Connection& each : all_) {
    each.state_ = State::kDown;  // for what ends with the client
    each.registered_.clear();
    each.client_.reset();
  }
}

void Connections::log_out() {
  std::size_t under_way = 0;
  for (Connection& each : all_) {
    if (each.state_ != State::kUp || !each.client_->connected()) continue;
    auto call = each.client_->identity().logout_call();
    if (!call) continue;
    const auto end = [&under_way](const rpcrdma::Expected<rpcrdma::Reply, Error>&) { --under_way; };
    if (each.client_->start(std::move(*call), end)) ++under_way;
  }
  progress();
  while (under_way > 0) {
    wait();
    progress();
  }
}

rpcrdma::ClientOptions Connections::client_options() const {
  rpcrdma::ClientOptions options = options_.client;
  options.reconnect.enabled = may_go_on();
  options.reconnect.repeats_calls = false;  // they go to another server at once, or wait in pick()
  options.reconnect.retries_first = true;
  if (has_recorded_) options.provider.capture_file.clear();  // it would be begun anew
  if (options_.urls.size() > 1) {
    // A server that says nothing leaves time for another one.
    options.call_timeout /= 3;
    options.provider.setup_timeout_client /= 3;
  }
  return options;
}

rpcrdma::Expected<Connections::Connection*, Error> Connections::first() {
  for (std::size_t i = 0; i < all_.size(); i += options_.per_server) {
    Connection& connection = all_[i];
    auto client = Client::connect(options_.urls[connection.server_], client_options());
    if (client) {
      provider_name_ = client->connection().provider_name;
      has_recorded_ = true;
      adopt(connection, std::move(*client), State::kUp);
      return &connection;
    }
    last_error_ = std::move(client.error());
  }
  return rpcrdma::Unexpected<Error>(last_error_);
}

void Connections::begin_others(const nfs3::nfs_fh3& root) {
  root_ = root;
  for (Connection& each : all_) {
    if (each.client_ == nullptr) begin(each);
  }
}

const Client* Connections::first_client() const noexcept {
  const auto made =
      std::ranges::find_if(all_, [](const Connection& each) { return each.client_ != nullptr; });
  return made != all_.end() ? made->client_.get() : nullptr;
}

void Connections::adopt(Connection& connection, Client client, State state) {
  connection.registered_.clear();
  connection.nfs_.reset();
  connection.client_ = std::make_unique<Client>(std::move(client));
  connection.nfs_.emplace(*connection.client_);
  connection.state_ = state;
  if (epoll_.is_open()) watch(connection);
}

void Connections::begin(Connection& connection) {
  auto client = Client::begin_connect(options_.urls[connection.server_], client_options());
  if (!client) return put_off(connection, std::move(client.error()));
  adopt(connection, std::move(*client), State::kDown);
}

// Looks at it again after the longest delay between two attempts.
void Connections::put_off(Connection& connection, Error why) {
  connection.state_ = State::kDown;
  constexpr std::chrono::milliseconds kLongest =
      std::chrono::hours(24);  // "for ever" would overflow
  connection.next_look_ = Clock::now() + std::min(options_.client.reconnect.delay_max, kLongest);
  last_error_ = std::move(why);
}

void Connections::give_up_if_silent(Connection& connection, Clock::time_point since) {
  if (connection.state_ == State::kDown || connection.last_answer_ >= since) return;
  connection.client_->close();  // what is left of its calls ends, and begin() makes another one
  connection.state_ = State::kDown;
  last_error_ = Error{Errc::kTimedOut, "calling", options_.urls[connection.server_],
                      "it answered nothing in time"};
}

bool Connections::is_loss(const Connection& connection, const Error& error) const {
  if (error.code == Errc::kConnectionLost || error.code == Errc::kCanceled) return true;
  return error.code == Errc::kTimedOut || connection.state_ == State::kDown ||
         !connection.client_->connected();
}

// --- Calls --------------------------------------------------------------------------------------

Connections::Connection* Connections::find(Route route) {
  const std::size_t servers = options_.urls.size();
  const std::size_t per_server = options_.per_server;
  ++turn_;
  for (std::size_t i = 0; i < servers; ++i) {
    const std::size_t server = (static_cast<std::uint32_t>(route) + i) % servers;
    for (std::size_t j = 0; j < per_server; ++j) {
      Connection& each = all_[server * per_server + (turn_ + j) % per_server];
      if (each.state_ == State::kUp && each.client_->connected()) return &each;
    }
  }
  return nullptr;
}

std::size_t Connections::up_count() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(all_, [](const Connection& each) {
    return each.state_ == State::kUp && each.client_->connected();
  }));
}

// --- Memory -------------------------------------------------------------------------------------

Connections::Memory::Memory(Memory&& other) noexcept
    : of_(std::exchange(other.of_, nullptr)), at_(other.at_) {}

Connections::Memory::~Memory() {
  if (of_ == nullptr) return;
  for (Connection& each : of_->all_) each.registered_.erase(at_->data());
  of_->memory_.erase(at_);
}

Connections::Memory Connections::use_memory(rpcrdma::MutableBytes memory) {
  Memory used;
  used.of_ = this;
  used.at_ = memory_.insert(memory_.end(), memory);
  for (Connection& each : all_) {
    if (each.state_ == State::kUp) register_at(each, memory);
  }
  return used;
}

// --- Keeping them up ----------------------------------------------------------------------------

void Connections::set_up(Connection& connection) {
  connection.state_ = State::kUp;
  for (const rpcrdma::MutableBytes memory : memory_) register_at(connection, memory);
}

// A client registers its memory again at its next connection.
void Connections::register_at(Connection& connection, rpcrdma::MutableBytes memory) {
  if (connection.registered_.contains(memory.data())) return;
  if (auto made = connection.client_->register_memory(memory)) {
    connection.registered_.emplace(memory.data(), std::move(*made));
  }
}

// Servers of one tree know each other's handles; else they are of two, or have different keys.
rpcrdma::Task<void> Connections::ask(Connection& connection) {
  const nfs3::GETATTR3args args{root_};
  std::optional<Error> why;
  {
    auto results = co_await connection.nfs().NFSPROC3_GETATTR_async(args);
    if (!results) {
      why = results.error();
    } else if (results->resok() == nullptr) {
      why = Error{Errc::kDenied, "asking for the export", options_.urls[connection.server_],
                  "it does not know the other server's handles: servers of one tree have the same "
                  "files, names of exports and handle key"};
    }
  }
  if (connection.state_ != State::kAsking) co_return;
  // A server that drops a connection for the question is not asked at once over the next one.
  if (why) {
    put_off(connection, std::move(*why));
  } else {
    set_up(connection);
  }
}

void Connections::look_at(Connection& connection) {
  if (root_.data.empty()) return;  // first() has this tree's only connection
  if (connection.client_ == nullptr || connection.client_->ended()) {
    lose(connection);
    // Calls that have not ended yet still use the memory of the old client.
    const bool is_free =
        connection.client_ == nullptr || connection.client_->calls_in_flight() == 0;
    if (may_go_on() && is_free && Clock::now() >= connection.next_look_) begin(connection);
  } else if (!connection.client_->connected()) {
    lose(connection);
  } else if (connection.state_ == State::kDown && Clock::now() >= connection.next_look_) {
    connection.state_ = State::kAsking;
    rpcrdma::start_detached(ask(connection));
  }
}

void Connections::lose(Connection& connection) {
  if (std::exchange(connection.state_, State::kDown) == State::kDown) return;
  last_error_ = why_none_is_up();
}

// A client without a connection says why to each call.
Error Connections::why_none_is_up() const {
  for (const Connection& each : all_) {
    if (each.client_ == nullptr) continue;
    if (auto call = each.client_->prepare({}); !call) return std::move(call.error());
  }
  return last_error_;
}

void Connections::progress() {
  for (Connection& each : all_) {
    if (each.client_ != nullptr) each.client_->progress();
    look_at(each);
  }
  resume_waiting();
}

void Connections::resume_waiting() {
  const bool is_any = is_any_up();
  const auto now = Clock::now();
  std::vector<std::coroutine_handle<>> ready;
  std::erase_if(waiting_, [&](const Waiting& each) {
    if (!is_any && each.deadline > now) return false;
    ready.push_back(each.coroutine);
    return true;
  });
  for (const auto coroutine : ready) coroutine.resume();
}

void Connections::wait(std::optional<Clock::time_point> until) {
  if (all_.size() == 1 && all_.front().state_ == State::kUp && waiting_.empty() && !until) {
    return all_.front().client_->wait();
  }
  wait({this}, until);
}

void Connections::wait(const std::vector<Connections*>& any,
                       std::optional<Clock::time_point> until) {
  std::vector<pollfd> entries;
  for (const Connections* each : any) each->add_to(entries, until);
  std::int64_t left = 60'000;
  if (until) left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
  ::poll(entries.data(), entries.size(),
         static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
}

int Connections::wait_fd() {
  if (!epoll_.is_open()) {
    epoll_ = files::File(::epoll_create1(EPOLL_CLOEXEC));
    for (const Connection& each : all_) {
      if (each.client_ != nullptr) watch(each);
    }
  }
  return epoll_.descriptor();
}

// The descriptor of a client that is replaced leaves the set when it is closed.
void Connections::watch(const Connection& connection) const {
  epoll_event event{};
  event.events = EPOLLIN;
  (void)::epoll_ctl(epoll_.descriptor(), EPOLL_CTL_ADD, connection.client_->wait_fd(), &event);
}

std::optional<Connections::Clock::time_point> Connections::next_time() const {
  std::vector<pollfd> entries;
  std::optional<Clock::time_point> until;
  add_to(entries, until);
  return until;
}

void Connections::add_to(std::vector<pollfd>& entries,
                         std::optional<Clock::time_point>& until) const {
  const auto no_later_than = [&](Clock::time_point end) {
    until = std::min(until.value_or(end), end);
  };
  for (const Connection& each : all_) {
    if (each.client_ != nullptr) entries.push_back({each.client_->wait_fd(), POLLIN, 0});
    if (each.state_ == State::kDown && each.next_look_ > Clock::now())
      no_later_than(each.next_look_);
  }
  for (const Waiting& each : waiting_) no_later_than(each.deadline);
}

}  // namespace nfs
