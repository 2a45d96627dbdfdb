// Long conversations of version two with peers that share no code with the library. A seed draws
// what the peer says, and in which order; all of it is allowed, or is an error that has an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "system/version_two_client_for_test.h"
#include "system/version_two_server_for_test.h"

namespace rpcrdma::test {
namespace {

constexpr std::uint64_t kSeeds = 12;
constexpr int kSteps = 150;

// --- A client

class RandomClient : public VersionTwoClient, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  struct Due {  // an answer
    std::string name;
    bool is_of_option;
  };

  RandomClient() : random_(GetParam()) {}

  std::uint32_t draw(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_.below(below));
  }
  // Sends a message that has exactly one answer with its XID.
  void ask(const draft::Words& message, const std::string& answer, bool is_option = false) {
    EXPECT_TRUE(due_.emplace(message[0], Due{answer, is_option}).second);
    ++(is_option ? options_ : calls_);
    peer_->send(message);
  }
  void make_call() {
    if (calls_ >= grant_) return;
    const std::uint32_t xid = ++next_xid_;
    const std::uint32_t words = draw((size_ - 80) / 4);
    switch (draw(5)) {
      case 0:
        return ask(call(xid, TestService::kHold), "reply");
      case 1:
        return ask(call(xid, TestService::kProduce, {draw(4000)}), "reply");
      case 2:
        return ask(call(xid, 99), "reply");  // there is no such procedure
      case 3:
        return ask(draft::msg(xid, kWanted, draft::kCall, draft::rpc_reply(xid)), "BAD_HEADER");
      default:
        return ask(call(xid, TestService::kAbsorb, draft::join({{4 * words}, draft::Words(words)})),
                   "reply");
    }
  }
  // Sends an option, unless one is open: they take the few Receives beside the credits (B6).
  void say_option() {
    if (options_ > 0) return;
    const std::uint32_t xid = ++next_xid_;
    const auto option = [&](std::uint32_t type, const draft::Words& info) {
      return draft::option(xid, 1 + draw(9), draft::kCall, type, info);
    };
    const std::uint32_t drawn = draw(4);
    if (drawn == 0) {
      ask(option(5 + draw(100), draft::Words(draw(9))), "INVAL_OPTION", true);
    } else if (drawn == 1) {
      ask(option(draft::kInitxch, draft::initxch({draft::value(draft::kBrs, 9)})), "BAD_HEADER",
          true);
    } else if (drawn == 2) {
      ask(option(draft::kUpdxch, {draft::kRbsiz, 0, 0}), "BAD_HEADER", true);
    } else if (!is_changing_) {
      is_changing_ = true;
      old_size_ = size_;
      wish_ = 4096 + 4 * draw(3072);
      size_ = std::min(size_, wish_);
      ask(option(draft::kReqxch, draft::spec({draft::value(draft::kRbsiz, wish_)})), "RESPXCH",
          true);
    }
  }
  void hear(const draft::Seen& seen) {
    EXPECT_GE(seen.credit, 1U);
    if (seen.is_option(draft::kInitxch)) return announcements_.push_back(seen);
    if (seen.is_option(draft::kReqxch)) {
      return peer_->send(
          draft::option(seen.xid, 1, draft::kReply, draft::kRespxch, draft::respxch(0, 1, 0)));
    }
    if (const auto update = draft::decode_updxch(seen)) {
      size_ = update->now.data.at(0);
      if (update->clears_pending) is_changing_ = false;
      return;
    }
    const auto found = due_.find(seen.xid);
    ASSERT_NE(found, due_.end()) << draft::to_string(seen) << " answers nothing";
    EXPECT_EQ(name_of(seen, seen.xid), found->second.name);
    --(found->second.is_of_option ? options_ : calls_);
    if (!found->second.is_of_option) grant_ = seen.credit;
    due_.erase(found);
    if (const auto answer = draft::decode_respxch(seen)) {
      if (answer->pending.empty()) is_changing_ = false;
      if (!answer->done.empty()) size_ = wish_;
      if (!answer->rejected.empty()) size_ = old_size_;
    }
  }
  void hear_all() {
    while (const auto seen = peer_->take()) hear(*seen);
  }

  SeededRandom random_;
  std::map<std::uint32_t, Due> due_;       // by XID
  std::uint32_t calls_ = 0, options_ = 0;  // without an answer
  std::uint32_t grant_ = 1;
  std::uint32_t size_ = 4096, old_size_ = 4096, wish_ = 0;
  bool is_changing_ = false;
};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomClient, ::testing::Range<std::uint64_t>(0, kSeeds));

TEST_P(RandomClient, HasEachAnswerOnce) {
  connect(64);
  for (int i = 0; i < kSteps; ++i) {
    if (draw(3) == 0) {
      say_option();
    } else {
      make_call();
    }
    if (draw(4) == 0) release_held();
    time_.step(draw(30));
    hear_all();
    ASSERT_FALSE(peer_->ended()) << "step " << i;
  }
  for (int i = 0; i < 50 && (!due_.empty() || is_changing_); ++i) {
    release_held();
    time_.settle();
    hear_all();
    if (is_changing_) make_call();  // it uses up a smaller Receive
  }
  EXPECT_TRUE(due_.empty());
  EXPECT_FALSE(is_changing_);
  EXPECT_LE(announcements_.size(), 1U);
  EXPECT_EQ(server_->memory_in_use(), 0U);
  EXPECT_GT(service_.calls, 30U) << "the seed draws too little";
}

// --- A server

class RandomServer : public VersionTwoServer, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  RandomServer() : random_(GetParam()) {}
  ~RandomServer() override { client_.reset(); }

  std::uint32_t draw(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_.below(below));
  }
  // Starts a call whose procedure is its number.
  void make_call() {
    if (expected_.size() - ended() >= 20) return;
    const auto number = static_cast<std::uint32_t>(expected_.size());
    expected_.emplace_back();
    start(number, draw(900));
  }
  std::size_t ended() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(ends_, [](const auto& ends) { return !ends.empty(); }));
  }
  // Answers one of the Calls, well or badly, and grants some number.
  void answer() {
    if (calls_.empty()) return;
    const auto at = calls_.begin() + draw(static_cast<std::uint32_t>(calls_.size()));
    const Seen call = *at;
    calls_.erase(at);
    CallEnd& expected = expected_.at(call.payload.at(5));
    const std::uint32_t credit = draw(12);
    switch (draw(6)) {
      case 0:
        expected = Errc::kChunk;
        return peer().send(draft::error(call.xid, credit, draft::kErrBadHeader));
      case 1:
        expected = Errc::kBadReply;
        return peer().send(draft::nomsg(call.xid, credit, draft::kReply, {0, 0, 0}));
      case 2:
        expected = Errc::kNotAvailable;
        return peer().send(draft::msg(call.xid, credit, draft::kReply, {call.xid, 1, 0, 0, 0, 1}));
      default:
        return peer().send(reply_to(call, credit));
    }
  }
  // Sends something that ends no call, and is answered at most once.
  void say_more() {
    if (due_ > 0 || is_extra_open_) return;
    const std::uint32_t xid = calls_.empty() ? 0x33000000 : calls_.front().xid;
    const auto option = [&](std::uint32_t type, const draft::Words& info) {
      return draft::option(xid, 1 + draw(9), draft::kCall, type, info);
    };
    is_extra_open_ = true;  // until the next message of the client
    switch (draw(5)) {
      case 0:
        ++due_;
        return peer().send(option(5 + draw(100), draft::Words(draw(9))));
      case 1:
        ++due_;
        return peer().send(option(draft::kReqxch, draft::spec({draft::value(0x777, draw(9))})));
      case 2:
        return peer().send(
            option(draft::kUpdxch, draft::updxch(draft::value(draft::kRbsiz, 4096), false)));
      case 3:
        return peer().send(draft::error(xid ^ 0x40000000, 1, draft::kErrBadHeader));
      default:
        return peer().send(
            draft::msg(xid ^ 0x40000000, 1, draft::kReply, draft::rpc_reply(xid ^ 0x40000000)));
    }
  }

  using Seen = draft::Seen;
  SeededRandom random_;
  std::vector<CallEnd> expected_;  // by the number of the call
  std::uint32_t due_ = 0;          // answers of the client
  bool is_extra_open_ = false;
};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomServer, ::testing::Range<std::uint64_t>(0, kSeeds));

TEST_P(RandomServer, EndsEachCallOnce) {
  receives_ = 64;
  connect();
  handle_ = [this](VersionTwoPeer&, const Seen& seen) {
    is_extra_open_ = false;
    if (is_call(seen)) return calls_.push_back(seen);
    if (seen.is_option(draft::kInitxch)) return;
    EXPECT_EQ(due_, 1U) << draft::to_string(seen) << " answers nothing";
    --due_;
  };
  for (int i = 0; i < kSteps; ++i) {
    const std::uint32_t drawn = draw(5);
    if (drawn < 2) make_call();
    if (drawn == 2) say_more();
    if (drawn > 2) answer();
    time_.step(draw(30));
    ASSERT_TRUE(client_->connected()) << "step " << i;
  }
  for (int i = 0; i < 200 && ended() < ends_.size(); ++i) {
    time_.settle();
    answer();
  }
  time_.settle();
  EXPECT_EQ(due_, 0U);
  EXPECT_GT(ends_.size(), 30U) << "the seed draws too little";
  ASSERT_EQ(ends_.size(), expected_.size());
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    EXPECT_EQ(ends_[i], std::vector<CallEnd>{expected_[i]}) << "call " << i;
  }
}

}  // namespace
}  // namespace rpcrdma::test
