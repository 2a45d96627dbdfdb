#include "rdma/verbs/provider.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "posix/waiting.h"
#include "rdma/verbs/listener.h"
#include "rdma/verbs/preflight.h"
#include "rdma/verbs/queue_pair.h"
#include "rdma/verbs/shard.h"

namespace rpcrdma::rdma::verbs {
namespace {

class VerbsProvider final : public Provider {
 public:
  VerbsProvider(const Options& options, std::unique_ptr<posix::Reactor> reactor,
                std::unique_ptr<CmChannel> cm)
      : shard_(options, std::move(reactor), std::move(cm)) {}

  std::string_view name() const noexcept override { return "verbs"; }

  Expected<std::unique_ptr<rdma::QueuePair>, Error> accept(std::unique_ptr<rdma::Incoming> request,
                                                           Bytes private_data) override {
    RPCRDMA_ASSERT(request != nullptr, "accept of nothing");
    if (born_.elsewhere()) return of_the_parent();
    if (private_data.size() > kPrivateDataMax) return too_long();
    return QueuePair::accept(shard_, static_cast<Incoming&>(*request), private_data);
  }
  Expected<std::unique_ptr<rdma::QueuePair>, Error> connect(std::string_view address,
                                                            Bytes private_data) override {
    const auto parsed = posix::parse_address(address);
    if (!parsed) return Unexpected<Error>(Error{Errc::kBadAddress, 0, "connect"});
    if (born_.elsewhere()) return of_the_parent();
    if (private_data.size() > kPrivateDataMax) return too_long();
    return QueuePair::connect(shard_, *parsed, private_data);
  }
  Expected<std::unique_ptr<rdma::Listener>, Error> listen(std::string_view address) override {
    const auto parsed = posix::parse_address(address);
    if (!parsed) return Unexpected<Error>(Error{Errc::kBadAddress, 0, "listen"});
    if (born_.elsewhere()) return of_the_parent();
    return Listener::open(shard_, *parsed);
  }
  bool reports_invalidated_handle(std::string_view address) const override {
    return rdma::verbs::reports_invalidated_handle(address, shard_.options.registration);
  }
  std::string remedy(const Error& error) const override { return remedy_for(error); }

  void progress() override {
    if (born_.elsewhere()) return;
    for (QueuePair* each : shard_.news) each->news.unlist();
    shard_.news.clear();
    waiting_.dispatch();
    shard_.queue_events.pass_on();
    bool all = false;
    for (const auto& device : shard_.devices()) {
      if (device->pool() != nullptr && device->pool()->arm()) shard_.moved = true;
      all = all || device->is_lost();
    }
    visit(all);
    shard_.reactor->arm();
  }
  int wait_fd() const noexcept override { return shard_.reactor->fd(); }
  Instant now() const noexcept override { return posix::Reactor::now(); }
  void arm_timer(std::optional<Instant> when) override { shard_.reactor->set_user_timer(when); }
  bool wait_also_for(int descriptor) override {
    return shard_.reactor->watch(descriptor, EPOLLIN, bystander_);
  }
  void wait() override {
    if (born_.elsewhere() || has_news()) return;
    waiting_.wait(shard_.all, shard_.news, shard_.moved,
                  [this](QueuePair& each) { return finds_news(each); });
  }
  bool linger() override {
    if (born_.elsewhere()) return false;
    return has_news() || waiting_.linger(shard_.all, shard_.news, shard_.moved,
                                         [this](QueuePair& each) { return finds_news(each); });
  }
  void wake() noexcept override { shard_.reactor->wake(); }
  Expected<std::unique_ptr<Provider>, Error> make_shard() override {
    return make_provider(shard_.options);
  }

 private:
  bool has_news() const {
    return std::ranges::any_of(shard_.news, [](QueuePair* each) { return each->has_news(); });
  }
  // Looks for completions. An owner may leave news for later, for which it shall not stay awake:
  // only those since the last progress() count, which are listed. Another one that shares Receives
  // may have found them.
  bool finds_news(QueuePair& queue_pair) const {
    return queue_pair.look() && std::ranges::find(shard_.news, &queue_pair) != shard_.news.end();
  }
  // Visits the queue pairs with something to do, or all: a device that is lost concerns each.
  void visit(bool all) {
    visited_.clear();
    visited_.swap(shard_.to_visit);
    for (QueuePair* each : visited_) each->visit.unlist();
    if (all) visited_ = shard_.all;  // those that end take themselves out of that list
    for (QueuePair* each : visited_) each->progress();
  }

  // The InfiniBand connection manager carries so many bytes beside an IP address.
  static constexpr std::size_t kPrivateDataMax = 36;  // NOLINT

  static Unexpected<Error> of_the_parent() {
    return Unexpected<Error>(Error{Errc::kUnsupported, ECHILD, kEntering});
  }
  static Unexpected<Error> too_long() {
    return Unexpected<Error>(Error{Errc::kUnsupported, 0, "private data of more than 36 bytes"});
  }

  posix::Bystander bystander_;  // whose descriptor somebody else looks after
  Shard shard_;
  posix::Waiting waiting_{*shard_.reactor, shard_.yielding, shard_.options.spin};
  BornHere born_;
  std::vector<QueuePair*> visited_;  // kept for visit()
};

bool valid(const SharedReceives& shared) {
  return shared.size <= 1U << 20U && (shared.count == 0 || shared.size > 0);
}

bool valid(const Options& options) {
  constexpr auto kZero = std::chrono::milliseconds::zero();
  return options.ird <= 255 && options.ord <= 255 && options.queue_depth >= 1 &&
         options.queue_depth <= 1U << 15U && options.exposures >= 1 &&
         options.exposures <= 1U << 19U && options.inline_max <= 4096 &&
         options.setup_timeout_initiator > kZero && options.setup_timeout_responder > kZero &&
         options.connections_max >= 1 && options.requests_max >= 1 &&
         valid(options.shared_receives);
}

}  // namespace

Expected<Device*, Error> Shard::device(ibv_context& context) {
  for (const auto& each : devices_) {
    if (&each->context() != &context) continue;
    if (!each->is_lost()) return each.get();
    return Unexpected<Error>(
        Error{Errc::kProvider, ENODEV, "using an RDMA device that was removed"});
  }
  auto opened = Device::open(context, options.registration, *reactor);
  if (!opened) return Unexpected<Error>(opened.error());
  devices_.push_back(std::move(*opened));
  return devices_.back().get();
}

Expected<std::unique_ptr<Provider>, Error> make_provider(const Options& options) {
  if (!valid(options)) {
    return Unexpected<Error>(Error{Errc::kUnsupported, 0, "verbs: an option is out of range"});
  }
  if (const int code = enter_rdma_core(); code != 0) {
    return Unexpected<Error>(Error{Errc::kUnsupported, code, kEntering});
  }
  auto reactor = posix::Reactor::make();
  if (!reactor) {
    const posix::SystemError& failure = reactor.error();
    return Unexpected<Error>(Error{Errc::kNoResources, failure.code, failure.operation});
  }
  auto cm = CmChannel::open(**reactor);
  if (!cm) return Unexpected<Error>(cm.error());
  return std::make_unique<VerbsProvider>(options, std::move(*reactor), std::move(*cm));
}

}  // namespace rpcrdma::rdma::verbs
