// What a server says to the header of a Call, also when it is read a second time.
#include "rpc/serve/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "rpc/serve/incoming_call.h"

namespace rpcrdma::rpc {
namespace {

using Message = std::vector<std::byte>;
using Verdict = Admission::Verdict;

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

class OneCall final : public IncomingCall {
 public:
  std::string_view peer_address() const noexcept override { return "peer"; }
  MutableBytes result_memory(std::uint32_t /*size*/) override { return {}; }
  // As a session does.
  Admission judge(const oncrpc::ServiceRegistry& registry, Bytes message) {
    const Admission admission = admit(registry, message, refusal);
    service_ = admission.service;
    header_size_ = admission.header_size;
    traits_ = admission.traits;
    is_whole_ = admission.is_whole;
    return admission;
  }
  void end() { end_call(); }

  oncrpc::ReplyHeader refusal;

 private:
  MutableBytes results_room(std::size_t /*size*/) override { return {}; }
  void handle_answered() override {}
  void handle_step_ended() override {}
};

class ReadTwice : public ::testing::Test {
 protected:
  ReadTwice() { EXPECT_TRUE(registry_.add(kProgram, kVersion, service_)); }
  static Message call_of(std::uint32_t procedure, std::uint32_t uid) {
    std::array<std::byte, kAuthBodySizeMax> body;
    AuthSys sys;
    sys.uid = uid;
    const std::size_t size = encode_auth_sys(sys, body).value();
    const oncrpc::CallHeader header{
        Xid{5}, {kProgram, kVersion, procedure}, {AuthFlavor::kSys, Bytes(body).first(size)}, {}};
    Message message(oncrpc::call_header_size(header) + 8);
    xdr::Writer writer(message);
    oncrpc::encode_call(header, writer);
    return message;
  }

  OneService service_;
  oncrpc::ServiceRegistry registry_;
  OneCall call_;
};

TEST_F(ReadTwice, TheSameCallIsAccepted) {
  const Message message = call_of(kWrite, 1);
  const Admission first = call_.judge(registry_, message);
  ASSERT_EQ(first.verdict, Verdict::kAccepted);
  call_.keep_header(message);
  const Admission second = call_.judge(registry_, message);
  EXPECT_EQ(second.verdict, Verdict::kAccepted);
  EXPECT_EQ(second.service, &service_);
  EXPECT_EQ(second.traits, first.traits);
  EXPECT_EQ(second.header_size, first.header_size);
}

TEST_F(ReadTwice, AnotherProcedureIsNotTheCallThatWasJudged) {
  const Message message = call_of(kWrite, 1);
  ASSERT_EQ(call_.judge(registry_, message).verdict, Verdict::kAccepted);
  call_.keep_header(message);
  EXPECT_EQ(call_.judge(registry_, call_of(kErase, 1)).verdict, Verdict::kCutOff);
}

TEST_F(ReadTwice, AnotherCredentialIsNotEither) {
  const Message message = call_of(kWrite, 1);
  ASSERT_EQ(call_.judge(registry_, message).verdict, Verdict::kAccepted);
  call_.keep_header(message);
  EXPECT_EQ(call_.judge(registry_, call_of(kWrite, 0)).verdict, Verdict::kCutOff);
  EXPECT_EQ(call_.judge(registry_, Bytes(message).first(20)).verdict, Verdict::kCutOff);
}

// The memory of the first reading may be another call's by now.
TEST_F(ReadTwice, HeaderStaysWhenItsMemoryGoes) {
  Message message = call_of(kWrite, 4711);
  ASSERT_EQ(call_.judge(registry_, message).verdict, Verdict::kAccepted);
  call_.keep_header(message);
  std::ranges::fill(message, std::byte{0xee});
  const auto sys = parse_auth_sys(call_.credential().body);
  ASSERT_TRUE(sys);
  EXPECT_EQ(sys->uid, 4711U);
}

TEST_F(ReadTwice, NothingIsKeptForTheNextCall) {
  const Message message = call_of(kWrite, 1);
  ASSERT_EQ(call_.judge(registry_, message).verdict, Verdict::kAccepted);
  call_.keep_header(message);
  call_.end();
  EXPECT_EQ(call_.judge(registry_, call_of(kErase, 1)).verdict, Verdict::kRefused);
}

}  // namespace
}  // namespace rpcrdma::rpc
