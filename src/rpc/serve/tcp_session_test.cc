// A connection over TCP, with a clock of the test's.
#include "rpc/serve/tcp_session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "oncrpc/registry.h"
#include "posix/reactor.h"
#include "rpc/serve/record_memory.h"
#include "rpc/serve/serving_for_test.h"
#include "rpcrdma/service.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::size_t kMemory = 4U << 20U;

// Keeps its calls until the test answers them, unless it has something to do itself.
class KeepingService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kTraits{.number = 1};
    return &kTraits;
  }
  void call(CallContext& context) override {
    ++calls;
    work ? work(context) : held.push_back(&context);
  }

  std::function<void(CallContext&)> work;
  std::vector<CallContext*> held;
  std::uint32_t calls = 0;
};

class TcpSessionTest : public ::testing::Test {
 protected:
  TcpSessionTest() {
    EXPECT_TRUE(registry_.add(4711, 1, service_));
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    peer_ = posix::Fd(ends[0]);
    auto share = std::make_unique<RecordMemory::Share>(memory_, host_memory_, "10.0.0.1:700");
    auto connection = tcp::Connection::open(
        *reactor_, tcp::Accepted{posix::Fd(ends[1]), "10.0.0.1:700"}, *share, {});
    EXPECT_TRUE(connection);
    session_ = std::make_unique<TcpSession>(
        std::move(share), std::move(*connection),
        TcpSession::Surroundings{pool_, registry_, cache_, mailbox_, takes_step_ups_}, TcpOptions{},
        kBegin);
  }
  // The peer sends a Call, which the service keeps.
  void call() {
    oncrpc::CallHeader header;
    header.xid = Xid{++xid_};
    header.procedure = {4711, 1, 1};
    const MessageForTest message = encode_for_test(header);
    std::vector<std::byte> record(4 + message.size());
    xdr::Writer writer(record);
    writer.u32(0x80000000U | static_cast<std::uint32_t>(message.size()));
    writer.opaque_fixed(message);
    ASSERT_EQ(::write(peer_.value(), record.data(), record.size()),
              static_cast<ssize_t>(record.size()));
    reactor_->dispatch();
    take_turn(clock_);
    ASSERT_EQ(service_.calls, xid_);
  }
  void take_turn(Instant now) {
    clock_ = now;
    time_.begin();
    session_->progress(time_);
  }
  void answer_all(Instant now) {
    for (CallContext* const call : std::exchange(service_.held, {})) {
      call->results().bulk(results_);
      call->succeed();
    }
    mailbox_.take(now);
    take_turn(now);
  }
  // The peer takes the first reply, and some of what is behind it.
  void take_reply(Instant now) { take(now, results_.size() + 1); }
  void take(Instant now, std::size_t size_min) {
    std::vector<std::byte> room(64U << 10U);
    for (std::size_t taken = 0; taken < size_min;) {
      const ssize_t size = ::read(peer_.value(), room.data(), room.size());
      if (size > 0) {
        taken += static_cast<std::size_t>(size);
      } else {
        ASSERT_EQ(errno, EAGAIN);
        reactor_->dispatch();
        take_turn(now);
      }
    }
    take_turn(now);
  }

  static constexpr std::uint32_t kRate = 64U << 10U;
  static constexpr Instant kBegin = Instant(hours(1));

  const std::unique_ptr<posix::Reactor> reactor_ = std::move(*posix::Reactor::make());
  transport::BufferPool pool_{kMemory};
  RecordMemory memory_{pool_, kMemory, 1U << 20U};
  HostMemory* const host_memory_ = nullptr;
  oncrpc::ServiceRegistry registry_;
  ReplyCache cache_{64, kMemory};
  MailboxForTest mailbox_;
  const std::atomic<bool> takes_step_ups_ = false;
  KeepingService service_;
  const std::vector<std::byte> results_ = std::vector<std::byte>(1U << 20U);
  posix::Fd peer_;
  std::unique_ptr<TcpSession> session_;
  std::uint32_t xid_ = 0;
  Instant clock_ = kBegin;
  RoundTime time_{{[](const void* of) { return *static_cast<const Instant*>(of); }, &clock_}};
};

TEST_F(TcpSessionTest, PeerHasItsTimeForAReplyHoweverLongTheServiceTook) {
  call();
  const Instant answered = kBegin + hours(1);
  EXPECT_FALSE(session_->may_make_room(answered, kRate)) << "a call is in service";
  answer_all(answered);
  EXPECT_FALSE(session_->may_make_room(answered + milliseconds(900), kRate));
  EXPECT_TRUE(session_->may_make_room(answered + milliseconds(1000), kRate)) << "the reply is left";
}

TEST_F(TcpSessionTest, PeerHasItsTimeForAReplyHoweverLongTheServiceTookInItsTurn) {
  service_.work = [this](CallContext& context) {
    clock_ += hours(1);
    context.results().bulk(results_);
    context.succeed();
  };
  mailbox_.in_turn = session_.get();
  call();
  EXPECT_FALSE(session_->may_make_room(clock_ + milliseconds(900), kRate));
  EXPECT_TRUE(session_->may_make_room(clock_ + milliseconds(1000), kRate)) << "the reply is left";
}

TEST_F(TcpSessionTest, PeerThatTakesItsRepliesOneAfterTheOtherHasLeftNone) {
  call();
  call();
  answer_all(kBegin);
  take_reply(kBegin + milliseconds(900));
  EXPECT_FALSE(session_->may_make_room(kBegin + milliseconds(1800), kRate));
  EXPECT_TRUE(session_->may_make_room(kBegin + milliseconds(1900), kRate))
      << "the second reply is left";
}

TEST_F(TcpSessionTest, PeerThatTakesALongReplyAsFastAsItMustHasNotLeftIt) {
  call();
  answer_all(kBegin);
  EXPECT_TRUE(session_->may_make_room(kBegin + milliseconds(1500), kRate));
  take(kBegin + milliseconds(100), results_.size() / 4);
  EXPECT_FALSE(session_->may_make_room(kBegin + milliseconds(1500), kRate));
  EXPECT_TRUE(session_->may_make_room(kBegin + hours(1), kRate));
}

}  // namespace
}  // namespace rpcrdma::rpc
