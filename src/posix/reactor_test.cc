#include "posix/reactor.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <chrono>
#include <deque>

namespace rpcrdma::posix {
namespace {

// Waits for a descriptor that is ready, and no longer than until its time is over.
class Guest final : public Watched {
 public:
  explicit Guest(Reactor& reactor) : reactor_(reactor), ready_(::eventfd(1, EFD_CLOEXEC)) {
    EXPECT_TRUE(reactor_.watch(ready_.value(), EPOLLIN, *this));
    reactor_.set_deadline(*this, Reactor::now() - std::chrono::seconds(1));
  }
  ~Guest() override { reactor_.unwatch(ready_.value(), *this); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  void handle_ready(std::uint32_t /*events*/) override {
    is_served = true;
    reactor_.unwatch(ready_.value(), *this);
  }
  void handle_deadline() override { is_late = true; }

  bool is_served = false, is_late = false;

 private:
  Reactor& reactor_;
  Fd ready_;
};

TEST(Reactor, KnowsATimeThatIsNotThatOfNow) {
  EXPECT_FALSE(Reactor::is_about_now(Reactor::now() - std::chrono::milliseconds(60)));
  EXPECT_FALSE(Reactor::is_about_now(Reactor::now() + std::chrono::milliseconds(500)));
  // A stop of this process in between is no failure.
  int tries = 0;
  while (!Reactor::is_about_now(Reactor::now())) ASSERT_LT(++tries, 100);
}

// The process was stopped for longer than they wait, and more came than one look finds.
TEST(Reactor, ServesAllThatIsReadyBeforeTimesThatAreOver) {
  const auto reactor = std::move(*Reactor::make());
  std::deque<Guest> guests;
  for (int i = 0; i < 300; ++i) guests.emplace_back(*reactor);
  reactor->dispatch();
  for (const Guest& guest : guests) {
    EXPECT_TRUE(guest.is_served);
    EXPECT_FALSE(guest.is_late);
  }
}

}  // namespace
}  // namespace rpcrdma::posix
