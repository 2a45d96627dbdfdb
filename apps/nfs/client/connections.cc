#include "nfs/client/connections.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace nfs {

using rpcrdma::Client;
using rpcrdma::Errc;
using rpcrdma::Error;
using State = Connections::State;

namespace {

// Returns the host of "SCHEME://HOST:PORT", without brackets.
std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  const std::size_t end = url.rfind(':');
  std::string host = url.substr(begin, end > begin ? end - begin : std::string::npos);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace

Connections::Connections(Options options)
    : options_(std::move(options)),
      machine_name_(options_.client.credential ? options_.client.credential->machine_name
                                               : std::string_view()),
      reached_(options_.urls.size()),
      last_error_{Errc::kConnectionLost, "calling", options_.urls.front(), {}} {
  if (options_.client.credential) options_.client.credential->machine_name = machine_name_;
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

rpcrdma::ClientOptions Connections::client_options(const Connection& connection) const {
  rpcrdma::ClientOptions options = options_.client;
  // By its name, also where it is connected to by an address.
  if (options.security && options.security->target.find('@') == std::string::npos) {
    options.security->target += "@" + host_of(options_.urls[connection.server_]);
  }
  options.reconnect.enabled = false;  // calls would wait for this server, while there are others
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
    auto client = Client::connect(options_.urls[connection.server_], client_options(connection));
    if (client) {
      provider_name_ = client->provider_name();
      has_recorded_ = true;
      adopt(connection, std::move(*client), State::kUp);
      remember(connection);
      return &connection;
    }
    lose(connection, std::move(client.error()));
  }
  return rpcrdma::Unexpected<Error>(last_error_);
}

void Connections::begin_others(const nfs3::nfs_fh3& root) {
  root_ = root;
  for (Connection& each : all_) {
    if (each.state_ == State::kDown) begin(each);
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
}

void Connections::begin(Connection& connection) {
  // A connection tries only the first address of a name, and the one that was reached before may be
  // another. So attempts alternate between the two.
  const std::string& reached = reached_[connection.server_];
  const bool by_name = std::exchange(connection.takes_name_, !connection.takes_name_);
  const std::string& url = reached.empty() || by_name ? options_.urls[connection.server_] : reached;
  auto client = Client::begin_connect(url, client_options(connection));
  if (!client) return lose(connection, std::move(client.error()));
  adopt(connection, std::move(*client), State::kConnecting);
}

void Connections::lose(Connection& connection, Error why) {
  connection.state_ = State::kDown;
  const auto& reconnect = options_.client.reconnect;
  connection.delay_ = std::clamp(connection.delay_ * 2, reconnect.first_delay, reconnect.delay_max);
  connection.next_attempt_ = Clock::now() + connection.delay_;
  last_error_ = std::move(why);
}

void Connections::remember(const Connection& connection) {
  const std::string& url = options_.urls[connection.server_];
  const std::string scheme = url.substr(0, url.find("//") + 2);
  reached_[connection.server_] = scheme + std::string(connection.client_->peer_address());
}

void Connections::give_up_if_silent(Connection& connection, Clock::time_point since) {
  if (connection.state_ == State::kDown || connection.last_answer_ >= since) return;
  connection.client_->close();
  lose(connection, Error{Errc::kTimedOut, "calling", options_.urls[connection.server_],
                         "it answered nothing in time"});
}

bool Connections::is_loss(const Connection& connection, const Error& error) const {
  if (error.code == Errc::kConnectionLost || error.code == Errc::kCanceled) return true;
  return error.code == Errc::kTimedOut || connection.state_ == State::kDown ||
         connection.client_->ended();
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
      if (each.state_ == State::kUp && !each.client_->ended()) return &each;
    }
  }
  return nullptr;
}

std::size_t Connections::up_count() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(all_, [](const Connection& each) {
    return each.state_ == State::kUp && !each.client_->ended();
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
  connection.delay_ = {};
  connection.takes_name_ = false;
  remember(connection);
  for (const rpcrdma::MutableBytes memory : memory_) register_at(connection, memory);
}

void Connections::register_at(Connection& connection, rpcrdma::MutableBytes memory) {
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
  if (why) {
    connection.client_->close();
    lose(connection, std::move(*why));
  } else {
    set_up(connection);
  }
}

void Connections::look_at(Connection& connection) {
  switch (connection.state_) {
    case State::kDown:
      // Calls that have not ended yet still use the memory of the old client.
      if (connection.client_ != nullptr && connection.client_->calls_in_flight() > 0) return;
      if (may_go_on() && Clock::now() >= connection.next_attempt_ && !root_.data.empty()) {
        begin(connection);
      }
      return;
    case State::kConnecting:
      if (connection.client_->connected()) {
        connection.state_ = State::kAsking;
        rpcrdma::start_detached(ask(connection));
        return;
      }
      [[fallthrough]];
    case State::kAsking:
    case State::kUp:
      if (connection.client_->ended()) lose(connection, why_ended(connection));
  }
}

// A client that has ended says why to each call.
Error Connections::why_ended(const Connection& connection) const {
  auto call = connection.client_->prepare({});
  if (!call) return std::move(call.error());
  return {Errc::kConnectionLost, "keeping the connection", options_.urls[connection.server_],
          "the server has ended it"};
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

void Connections::add_to(std::vector<pollfd>& entries,
                         std::optional<Clock::time_point>& until) const {
  const auto no_later_than = [&](Clock::time_point end) {
    until = std::min(until.value_or(end), end);
  };
  for (const Connection& each : all_) {
    if (each.state_ != State::kDown ||
        (each.client_ != nullptr && each.client_->calls_in_flight() > 0)) {
      entries.push_back({each.client_->wait_fd(), POLLIN, 0});
    } else if (may_go_on()) {
      no_later_than(each.next_attempt_);
    }
  }
  for (const Waiting& each : waiting_) no_later_than(each.deadline);
}

}  // namespace nfs
