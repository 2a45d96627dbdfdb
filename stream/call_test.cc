#include "stream/call.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "rpcrdma/xdr.h"
#include "stream/record.h"

namespace rpcrdma::stream {
namespace {

std::vector<std::byte> words(std::initializer_list<std::uint32_t> values) {
  std::vector<std::byte> bytes(values.size() * xdr::kWordSize);
  xdr::Writer writer(bytes);
  for (const std::uint32_t value : values) writer.u32(value);
  return bytes;
}

constexpr std::uint32_t kXid = 77;
constexpr Procedure kProcedure{100000, 4, 3};

TEST(OpenCall, SaysWhoIsAskedForWhat) {
  const auto plain = words({kXid, 0, 2, 100000, 4, 3, 0, 0, 0, 0, 42});
  const auto call = open_call(plain);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->xid, kXid);
  EXPECT_EQ(call->rpc_version, kRpcVersion);
  EXPECT_EQ(call->procedure, kProcedure);
  EXPECT_TRUE(std::ranges::equal(call->arguments, words({42})));
}

TEST(OpenCall, ReadsOverCredentialAndVerifier) {
  const auto bytes = words({kXid, 0, 2, 100000, 4, 3, 1, 8, 1, 2, 3, 4, 5, 42});
  const auto call = open_call(bytes);
  ASSERT_TRUE(call);
  EXPECT_TRUE(std::ranges::equal(call->arguments, words({42})));
  EXPECT_FALSE(open_call(words({kXid, 0, 2, 100000, 4, 3, 1, 404, 1})));
}

TEST(OpenCall, OfAnotherVersionOfRpcHasNoMoreThanItsXid) {
  const auto bytes = words({kXid, 0, 3});
  const auto call = open_call(bytes);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->xid, kXid);
  EXPECT_EQ(call->rpc_version, 3U);
}

TEST(OpenCall, RefusesWhatIsCutOffAndWhatIsAReply) {
  const auto whole = words({kXid, 0, 2, 100000, 4, 3, 0, 0, 0, 0});
  ASSERT_TRUE(open_call(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(open_call(Bytes(whole).first(size))) << size;
  }
  EXPECT_FALSE(open_call(words({kXid, 1, 2, 100000, 4, 3, 0, 0, 0, 0})));
}

// What the client's side reads in a record of the server's side.
Expected<std::vector<std::byte>, ReplyFailure> read_back(Bytes sent) {
  RecordReader reader(100);
  while (reader.wanted() > 0 && !sent.empty()) {
    const std::size_t size = std::min(reader.wanted(), sent.size());
    reader.take(sent.first(size));
    sent = sent.subspan(size);
  }
  EXPECT_TRUE(reader.done() && sent.empty());
  const auto results = open_reply(reader.record(), kXid);
  if (!results) return Unexpected<ReplyFailure>(results.error());
  return std::vector<std::byte>(results->begin(), results->end());
}

TEST(Replies, AreReadByTheOtherSide) {
  const auto results = read_back(accepted_record(kXid, AcceptStatus::kSuccess, words({1, 2})));
  ASSERT_TRUE(results);
  EXPECT_EQ(*results, words({1, 2}));
  const auto unknown = read_back(accepted_record(kXid, AcceptStatus::kProgUnavail));
  EXPECT_EQ(unknown.error().code, Errc::kNotAvailable);
  const auto version = read_back(accepted_record(kXid, AcceptStatus::kProgMismatch, words({5, 7})));
  EXPECT_NE(version.error().cause.find("5 to 7"), std::string::npos);
  EXPECT_EQ(read_back(rpc_mismatch_record(kXid)).error().code, Errc::kDenied);
}

}  // namespace
}  // namespace rpcrdma::stream
