#include "rpc/serve/shard_group.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "posix/foreign_signals.h"
#include "posix/reactor.h"
#include "rpc/errors.h"
#include "rpc/provider_choice.h"

namespace rpcrdma {

Expected<Server, Error> ServerImpl::listen_on(rdma::Provider& provider, std::string_view address,
                                              const ServerOptions& options) {
  auto group = std::make_unique<rpc::ShardGroup>(nullptr, &provider, options);
  auto listening = group->listen_rdma(std::string(address));
  if (!listening) return Unexpected<Error>(listening.error());
  return Server(std::move(group));
}

namespace rpc {
namespace {

// The time that a shard has to report its figures: a service may be busy in it.
constexpr std::chrono::milliseconds kPatience{100};

}  // namespace

ShardGroup::ShardGroup(std::unique_ptr<rdma::Provider> owned, rdma::Provider* provider,
                       const ServerOptions& options)
    : state_(options) {
  for (std::uint32_t i = 0; i < state_.options.shards; ++i) {
    auto& shard = *shards_.emplace_back(std::make_unique<Shard>());
    const bool is_first = i == 0;
    shard.impl = std::make_unique<ServerImpl>(state_, is_first ? std::move(owned) : nullptr,
                                              is_first ? provider : nullptr);
  }
  if (shards_.size() == 1) return;
  state_.cache.wake_by([this] {
    for (const auto& shard : shards_) shard->impl->loop().wake();
  });
  // The first shard may wait for just that, when its listeners have failed.
  state_.log.when_empty([this] { first().loop().wake(); });
}

void ShardGroup::end(std::unique_ptr<ShardGroup> group) noexcept {
  if (!group || !group->threads_ || !group->threads_->elsewhere()) return;
  static std::atomic<ShardGroup*> left = nullptr;  // a search for leaks finds them by it
  ShardGroup* const last = group.release();
  last->left_before_ = left.exchange(last);
}

// The first shard goes last, since the others may still give something back to it.
ShardGroup::~ShardGroup() {
  quits_ = true;
  for (const auto& shard : shards_) {
    if (!shard->thread.joinable()) continue;
    shard->impl->loop().wake();
    shard->thread.join();
  }
  while (!shards_.empty()) shards_.pop_back();
}

Expected<void, Error> ShardGroup::expect_still(std::string_view operation) const {
  if (!threads_) return {};
  return Unexpected<Error>(Error{Errc::kUnsupported, std::string(operation),
                                 std::string(first().address()),
                                 "its shards run: do this before run() or progress()"});
}

// --- Before they run ---------------------------------------------------------------------------

// Gives each other shard a provider like that of the first.
Expected<void, Error> ShardGroup::share_provider() {
  rdma::Provider& provider = *first().loop().provider();
  for (std::size_t i = 1; i < shards_.size(); ++i) {
    ServerImpl& impl = *shards_[i]->impl;
    if (impl.loop().provider() != nullptr) continue;
    auto made = provider.make_shard();
    if (!made) return Unexpected<Error>(to_error(made.error(), "opening a shard", provider.name()));
    if (!*made) {
      return Unexpected<Error>(Error{Errc::kUnsupported, "opening a shard",
                                     std::string(provider.name()),
                                     "this provider is for one thread (ServerOptions::shards)"});
    }
    if (auto set = impl.set_provider(std::move(*made)); !set) return set;
  }
  return {};
}

Expected<std::string, Error> ShardGroup::listen_with_provider(const std::string& address) {
  if (auto shared = share_provider(); !shared) return Unexpected<Error>(shared.error());
  return first().listen(address);
}

// Listens with the provider that is there, or makes one for this address.
Expected<std::string, Error> ShardGroup::listen_rdma(const std::string& address) {
  if (first().loop().provider() != nullptr) return listen_with_provider(address);
  auto provider = make_provider(options(), address);
  if (!provider) return Unexpected<Error>(provider.error());
  if (auto set = first().set_provider(std::move(*provider)); !set) {
    return Unexpected<Error>(set.error());
  }
  auto listening = listen_with_provider(address);
  if (listening) return listening;
  for (auto shard = shards_.rbegin(); shard != shards_.rend(); ++shard) {
    (*shard)->impl->drop_provider();
  }
  return listening;
}

Expected<void, Error> ShardGroup::prepare_tcp() {
  for (std::size_t i = 1; i < shards_.size(); ++i) {
    if (auto prepared = shards_[i]->impl->prepare_tcp(); !prepared) {
      return Unexpected<Error>(prepared.error());
    }
  }
  return {};
}

Expected<std::string, Error> ShardGroup::listen_tcp(const std::string& address) {
  if (auto prepared = prepare_tcp(); !prepared) return Unexpected<Error>(prepared.error());
  return first().listen_tcp(address);
}

Expected<std::string, Error> ShardGroup::listen_tcp(posix::Fd socket) {
  if (auto prepared = prepare_tcp(); !prepared) return Unexpected<Error>(prepared.error());
  return first().listen_tcp(std::move(socket));
}

Expected<void, Error> ShardGroup::add(std::uint32_t program, std::uint32_t version,
                                      Service& service) {
  // Without a bound in the .x file, the server's own is the bound.
  constexpr std::uint32_t kUnbounded = 0xffffffff;
  const std::uint32_t size_max = options().bulk_size_max;
  for (const ProcedureTraits& each : service.all_traits()) {
    const ProcedureTraits* const traits = service.traits(each.number);  // may have a lower limit
    const std::uint32_t size = traits != nullptr ? traits->bulk_argument_size_max : 0;
    if (size <= size_max || size == kUnbounded) continue;
    return Unexpected<Error>(Error{
        Errc::kTooLarge, "adding a service", std::string(first().address()),
        fmt::format("procedure {} ({}) of program {} version {} takes data of up to {} bytes, "
                    "and ServerOptions::bulk_size_max is {}: raise it to that",
                    each.number, each.name, program, version, size, size_max)});
  }
  if (state_.registry.add(program, version, service)) return {};
  return Unexpected<Error>(
      Error{Errc::kUnsupported, "adding a service", std::string(first().address()),
            fmt::format("program {} version {} is served already", program, version)});
}

Expected<void, Error> ShardGroup::accept_flavor(AuthFlavor flavor, ServerAuth& auth) {
  if (state_.registry.accept_flavor(flavor, auth)) return {};
  return Unexpected<Error>(
      Error{Errc::kUnsupported, "accepting a flavor", std::string(first().address()),
            fmt::format("flavor {} is accepted already", static_cast<std::uint32_t>(flavor))});
}

Expected<void, Error> ShardGroup::secure(const gss::ServerSecurity& security) {
  // Real providers have one clock, which any thread may ask; a simulated one has one thread. The
  // first shard's destructor waits for steps that ask, when shards_ does not have it any more.
  auto made = ServerSecurity::make(security, [&first = first()] {
    rdma::Provider* const provider = first.loop().provider();
    return provider != nullptr ? provider->now() : posix::Reactor::now();
  });
  if (!made) return Unexpected<Error>(made.error());
  if (auto taken = accept_flavor(AuthFlavor::kRpcsecGss, (*made)->auth()); !taken) return taken;
  security_ = std::move(*made);
  return {};
}

Expected<void, Error> ShardGroup::require(std::uint32_t program, std::uint32_t version,
                                          std::vector<Protection> allowed,
                                          std::optional<std::uint32_t> procedure) {
  if (state_.registry.require(program, version, std::move(allowed), procedure)) return {};
  return Unexpected<Error>(
      Error{Errc::kUnsupported, "requiring protection", std::string(first().address()),
            fmt::format("program {} version {} has such a list already", program, version)});
}

Expected<void, Error> ShardGroup::serve_messages(MessageService& service) {
  if (state_.registry.rest() != nullptr) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "adding a service",
                                   std::string(first().address()),
                                   "there is a MessageService already"});
  }
  state_.registry.set_rest(&service);
  return {};
}

Expected<void, Error> ShardGroup::register_read_only(Bytes memory) {
  for (const auto& shard : shards_) {
    if (auto registered = shard->impl->register_read_only(memory); !registered) return registered;
  }
  return {};
}

// --- While they run ----------------------------------------------------------------------------

// If the system gives no more threads, fewer shards share the connections.
void ShardGroup::start() {
  threads_.emplace();
  const posix::ForeignSignals blocked;
  for (std::size_t i = 1; i < shards_.size(); ++i) {
    Shard& shard = *shards_[i];
    shard.runs = true;
    ++undrained_;
    shard.impl->loop().wake();  // its first round does not wait for anything
    try {
      shard.thread = std::thread([this, &shard] { run(shard); });
    } catch (...) {
      shard.runs = false;
      --undrained_;
      state_.inboxes.resize(i);
      return;
    }
    pthread_setname_np(shard.thread.native_handle(), fmt::format("rpcrdma-{}", i).c_str());
  }
}

void ShardGroup::run(Shard& shard) {
  ServerImpl& impl = *shard.impl;
  do {
    impl.loop().wait();
    impl.progress();
    if (impl.drained() && note_drained(shard)) impl.close_inbox();
  } while (!quits_ && undrained_ > 0);
  if (!shard.has_drained) impl.close_inbox();
  shard.runs.store(false, std::memory_order_release);
  first().loop().wake();
}

// Returns whether this is news. The last one ends all threads: until then a shard that has drained
// takes late answers, and notices that the peers of its streams have gone.
bool ShardGroup::note_drained(Shard& shard) {
  if (std::exchange(shard.has_drained, true)) return false;
  if (--undrained_ > 0) return true;
  for (const auto& each : shards_) each->impl->loop().wake();
  return true;
}

void ShardGroup::progress() {
  if (!threads_ && shards_.size() > 1) start();
  first().progress();
  if (threads_ && first().stopping() && first().drained()) note_drained(*shards_.front());
}

void ShardGroup::stop() noexcept {
  for (const auto& shard : shards_) shard->impl->stop();
}

bool ShardGroup::drained() const noexcept {
  if (!first().drained()) return false;
  if (!first().stopping()) return true;  // its listeners have failed, and no connection is left
  return std::ranges::none_of(shards_, [](const auto& shard) { return shard->runs.load(); });
}

ServerStatistics ShardGroup::statistics(Asker asker, bool with_connections) {
  // The caller may be in the progress() of another server.
  const auto is_current = [](const auto& shard) {
    return shard->impl.get() == ServerImpl::current();
  };
  const auto current = std::ranges::find_if(shards_, is_current);
  ServerImpl* own = asker == Asker::kOwner ? &first() : nullptr;
  if (current != shards_.end()) own = (*current)->impl.get();
  std::vector<Board*> asked;
  ServerStatistics sum;
  for (const auto& shard : shards_) {
    const bool is_first = shard == shards_.front();
    // A shard that nobody drives is as it will stay; the first one is driven by the owner.
    if (shard->impl.get() == own ||
        (!is_first && !shard->runs.load(std::memory_order_acquire) && asker == Asker::kOwner)) {
      sum.add(shard->impl->statistics(with_connections));
      continue;
    }
    Board& board = shard->impl->board(with_connections);
    board.ask();
    shard->impl->loop().wake();
    asked.push_back(&board);
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (Board* board : asked) {
    while (!board->wait_for(std::chrono::milliseconds(1)) &&
           std::chrono::steady_clock::now() < end) {
      if (own == nullptr) continue;
      // That shard may be asking for the figures of this one.
      for (const bool with_all : {false, true}) {
        own->board(with_all).answer([&] { return own->statistics(with_all); });
      }
    }
    sum.add(board->latest());
  }
  state_.log.add_to(sum);
  sum.replies_remembered = state_.cache.finished();
  sum.reply_bytes_remembered = state_.cache.bytes();
  if (security_ != nullptr) sum.security_contexts = security_->contexts();
  return sum;
}

}  // namespace rpc
}  // namespace rpcrdma
