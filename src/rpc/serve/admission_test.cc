// The header of a Call is judged once, and compared when it is read a second time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "rpc/serve/incoming_call.h"
#include "rpc/serve/serving_for_test.h"

namespace rpcrdma::rpc {
namespace {

using Verdict = IncomingCall::Verdict;

constexpr std::uint32_t kProgram = 77, kVersion = 2, kWrite = 1, kErase = 2;

class OneService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    return find_traits(kTable, procedure);
  }
  AuthStatus check_credential(std::uint32_t procedure,
                              const Credential& /*credential*/) const noexcept override {
    return procedure == kErase ? AuthStatus::kTooWeak : AuthStatus::kOk;
  }
  void call(CallContext& /*context*/) override {}

 private:
  static constexpr std::array kTable{ProcedureTraits{.number = kWrite},
                                     ProcedureTraits{.number = kErase}};
};

class ReadTwice : public ::testing::Test {
 protected:
  ReadTwice() { EXPECT_TRUE(registry_.add(kProgram, kVersion, service_)); }
  static MessageForTest call_of(std::uint32_t procedure, std::uint32_t uid) {
    std::array<std::byte, kAuthBodySizeMax> body;
    AuthSys sys;
    sys.uid = uid;
    const std::size_t size = encode_auth_sys(sys, body).value();
    const oncrpc::CallHeader header{
        Xid{5}, {kProgram, kVersion, procedure}, {AuthFlavor::kSys, Bytes(body).first(size)}, {}};
    return encode_for_test(header, "argument");
  }
  Verdict judge(const MessageForTest& message) { return call_.admit(registry_, message, refusal_); }

  OneService service_;
  oncrpc::ServiceRegistry registry_;
  ReplyCache cache_{0, 0};
  MailboxForTest mailbox_;
  CarrierForTest carrier_{registry_, cache_, mailbox_};
  oncrpc::ReplyHeader refusal_;
  CallForTest call_{carrier_.serving, {}};
};

TEST_F(ReadTwice, SameHeaderIsTheSameCall) {
  const MessageForTest message = call_of(kWrite, 1);
  ASSERT_EQ(judge(message), Verdict::kAccepted);
  EXPECT_TRUE(call_.is_admitted());
  EXPECT_TRUE(call_.is_still(message));  // nothing is kept: its message is still there
  call_.keep_header(message);
  EXPECT_TRUE(call_.is_still(message));
}

TEST_F(ReadTwice, OtherArgumentsAreOfTheSameCall) {
  MessageForTest message = call_of(kWrite, 1);
  ASSERT_EQ(judge(message), Verdict::kAccepted);
  call_.keep_header(message);
  message.back() = std::byte{0xee};
  EXPECT_TRUE(call_.is_still(message));
}

TEST_F(ReadTwice, AnotherProcedureIsNotTheCallThatWasJudged) {
  const MessageForTest message = call_of(kWrite, 1);
  ASSERT_EQ(judge(message), Verdict::kAccepted);
  call_.keep_header(message);
  EXPECT_FALSE(call_.is_still(call_of(kErase, 1)));
}

TEST_F(ReadTwice, AnotherCredentialIsNotEither) {
  const MessageForTest message = call_of(kWrite, 1);
  ASSERT_EQ(judge(message), Verdict::kAccepted);
  call_.keep_header(message);
  EXPECT_FALSE(call_.is_still(call_of(kWrite, 0)));
  EXPECT_FALSE(call_.is_still(Bytes(message).first(20)));
}

// The memory of the first reading may be another call's by now.
TEST_F(ReadTwice, HeaderStaysWhenItsMemoryGoes) {
  MessageForTest message = call_of(kWrite, 4711);
  ASSERT_EQ(judge(message), Verdict::kAccepted);
  call_.keep_header(message);
  std::ranges::fill(message, std::byte{0xee});
  const auto sys = parse_auth_sys(call_.credential().body);
  ASSERT_TRUE(sys);
  EXPECT_EQ(sys->uid, 4711U);
}

// A service that takes whole messages takes those, too, whose header nobody else can read. Its
// procedure is kept, and not a message as long as a Call may be.
TEST_F(ReadTwice, LittleIsKeptOfAMessageWhoseHeaderCannotBeRead) {
  MessageForTest message = call_of(kWrite, 1);
  message[11] = std::byte{3};  // the version of RPC
  ASSERT_FALSE([&] {
    xdr::Reader reader(message);
    return oncrpc::decode_call(reader).has_value();
  }());
  call_.keep_header(message);
  MessageForTest other = message;
  other[24] ^= std::byte{1};
  EXPECT_TRUE(call_.is_still(other));
  other[23] ^= std::byte{1};
  EXPECT_FALSE(call_.is_still(other)) << "another procedure";
  EXPECT_FALSE(call_.is_still(Bytes(message).first(23)));
}

TEST_F(ReadTwice, NothingIsKeptForTheNextCall) {
  const MessageForTest message = call_of(kWrite, 1);
  ASSERT_EQ(judge(message), Verdict::kAccepted);
  call_.keep_header(message);
  call_.end();
  EXPECT_FALSE(call_.is_admitted());
  EXPECT_EQ(judge(call_of(kErase, 1)), Verdict::kRefused);
}

}  // namespace
}  // namespace rpcrdma::rpc
