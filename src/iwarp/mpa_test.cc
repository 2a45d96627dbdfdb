#include "iwarp/mpa.h"

#include <gtest/gtest.h>

#include "iwarp/stream_pair_for_test.h"
#include "support/hex.h"

namespace rpcrdma::iwarp {
namespace {

using rpcrdma::test::hex;

constexpr std::string_view kRequestKey = "4d504120494420526571204672616d65";
constexpr std::string_view kReplyKey = "4d504120494420526570204672616d65";

test::Buffer request(std::string_view rest) {
  return hex(std::string(kRequestKey) + std::string(rest));
}
test::Buffer reply(std::string_view rest) {
  return hex(std::string(kReplyKey) + std::string(rest));
}
test::Buffer encoded(const MpaFrame& frame) {
  test::Buffer bytes(kMpaFrameMax);
  bytes.resize(encode(frame, bytes.data()));
  return bytes;
}
const test::Buffer kRpcData = hex("f6ab0e1801010303");

TEST(Mpa, EncodesTheExamplesOfTheSheet) {
  MpaWishes wishes;
  wishes.crc = false;
  EXPECT_EQ(encoded(make_request(wishes, kRpcData)),
            request("10 02 000c 0010 0010 f6ab0e18 01 01 03 03"));
  wishes.crc = true;
  wishes.rtr = Rtr::kWrite;
  EXPECT_EQ(encoded(make_request(wishes, {})), request("50 02 0004 8010 8010"));
  wishes = {};
  wishes.revision = 1;
  EXPECT_EQ(encoded(make_request(wishes, {})), request("40 01 0000"));
}

TEST(Mpa, AnswersTheKernelsRequests) {
  // Linux 6.1's NFS client: IRD 128, ORD 0, no CRC.
  const test::Buffer wire = request("10 02 000c 0080 0000 f6ab0e18 01010303");
  const auto asked = decode(false, wire);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->enhanced->ird, 128);
  EXPECT_EQ(asked->enhanced->ord, 0);
  EXPECT_EQ(test::Buffer(asked->private_data.begin(), asked->private_data.end()), kRpcData);
  MpaWishes wishes;
  wishes.crc = false;
  const test::Buffer answer = hex("f6ab0e1801000303");
  const auto accepted = accept(*asked, wishes, answer);
  EXPECT_EQ(encoded(accepted.reply), reply("10 02 000c 0000 0010 f6ab0e18 01000303"));
  EXPECT_EQ(accepted.negotiated, (Negotiated{false, false, 2, 0, 16, Rtr::kNone}));
  // With a CRC forced by the responder, as that kernel takes it.
  wishes.crc = true;
  EXPECT_EQ(encoded(accept(*asked, wishes, answer).reply),
            reply("50 02 000c 0000 0010 f6ab0e18 01000303"));
}

TEST(Mpa, GrantsTheOpenersAsSiwDoes) {
  const auto rtr_for = [](std::string_view words) {
    const auto bytes = request("50 02 0004" + std::string(words));
    return accept(*decode(false, bytes), {}, {});
  };
  // siw with peer_to_peer=1, ORD 1, offers Write and Read.
  EXPECT_EQ(encoded(rtr_for("8080 c001").reply), reply("50 02 0004 8001 8010"));
  EXPECT_EQ(rtr_for("8080 c001").negotiated.rtr, Rtr::kWrite);
  EXPECT_EQ(rtr_for("8004 4008").negotiated.rtr, Rtr::kRead);
  EXPECT_EQ(rtr_for("8004 0008").negotiated.rtr, Rtr::kWrite);
  // A Send is granted where nothing else is offered, and only then.
  EXPECT_EQ(rtr_for("c004 0008").negotiated.rtr, Rtr::kSend);
  EXPECT_EQ(encoded(rtr_for("c004 0008").reply), reply("50 02 0004 c008 0004"));
  EXPECT_EQ(encoded(rtr_for("c004 8008").reply), reply("50 02 0004 8008 8004"));
  EXPECT_EQ(encoded(rtr_for("c004 4008").reply), reply("50 02 0004 8008 4004"));
  EXPECT_EQ(rtr_for("0004 c008").negotiated.rtr, Rtr::kNone);
}

TEST(Mpa, AgreesOnReadsInFlight) {
  using Depths = std::pair<std::uint16_t, std::uint16_t>;
  const auto agreed = [](std::uint16_t ird, std::uint16_t ord) {
    MpaFrame asked;
    asked.enhanced = Enhanced{ird, ord};
    const auto accepted = accept(asked, {}, {});
    EXPECT_EQ(accepted.reply.enhanced->ird, accepted.negotiated.ird);
    EXPECT_EQ(accepted.reply.enhanced->ord, accepted.negotiated.ord);
    return Depths(accepted.negotiated.ird, accepted.negotiated.ord);
  };
  EXPECT_EQ(agreed(4, 8), Depths(8, 4));
  EXPECT_EQ(agreed(128, 128), Depths(16, 16));
  EXPECT_EQ(agreed(0, 0), Depths(0, 0));
  EXPECT_EQ(agreed(kReadDepthUnknown, kReadDepthUnknown), Depths(16, 16));
}

TEST(Mpa, InitiatorJudgesTheReply) {
  const auto judged = [](const test::Buffer& bytes, MpaWishes wishes = {}) {
    return judge_reply(*decode(true, bytes), wishes);
  };
  // knfsd on siw: what it was asked, mirrored.
  const auto good = judged(reply("50 02 000c 0008 0004 f6ab0e18 01000303"));
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, (Negotiated{true, true, 2, 16, 8, Rtr::kNone}));
  MpaWishes no_crc;
  no_crc.crc = false;
  EXPECT_FALSE(judged(reply("10 02 0004 0008 0004"), no_crc)->crc);
  EXPECT_TRUE(judged(reply("50 02 0004 0008 0004"), no_crc)->crc);
  EXPECT_EQ(judged(reply("70 02 0004 0000 0000")).error(), ReplyFault::kRejected);
  EXPECT_EQ(judged(reply("d0 02 0004 0008 0004")).error(), ReplyFault::kMarkers);
  EXPECT_EQ(judged(reply("40 01 0000")).error(), ReplyFault::kRevision);
  EXPECT_EQ(judged(reply("50 03 0004 0008 0004")).error(), ReplyFault::kRevision);
  EXPECT_EQ(judged(reply("40 02 0000")).error(), ReplyFault::kNotEnhanced);
  EXPECT_EQ(judged(reply("50 02 0004 0008 0011")).error(), ReplyFault::kIrd);
  MpaWishes old;
  old.revision = 1;
  EXPECT_EQ(judged(reply("40 01 0000"), old)->revision, 1);
  MpaWishes p2p;
  p2p.rtr = Rtr::kWrite;
  EXPECT_EQ(judged(reply("50 02 0004 8008 8004"), p2p)->rtr, Rtr::kWrite);
  EXPECT_EQ(judged(reply("50 02 0004 8008 4004"), p2p).error(), ReplyFault::kRtr);
  EXPECT_EQ(judged(reply("50 02 0004 0008 0004"), p2p)->rtr, Rtr::kNone);
}

TEST(Mpa, RejectsWithRAndWithoutMarkers) {
  // siw answers so to a request with markers.
  const auto asked = decode(false, request("d0 02 000c 0004 0008 f6ab0e18 01000303"));
  ASSERT_TRUE(asked);
  EXPECT_TRUE(asked->markers);
  EXPECT_EQ(encoded(make_reject(*asked, {})), reply("70 02 0004 0000 0000"));
  // knfsd answers so to a revision 1 request.
  const auto old = decode(false, request("40 01 0008 f6ab0e18 01000303"));
  EXPECT_EQ(encoded(make_reject(*old, {})), reply("60 01 0000"));
}

TEST(Mpa, RefusesWhatIsNotAFrame) {
  EXPECT_EQ(decode(true, request("40 01 0000")).error(), MpaError::kBadKey);
  EXPECT_EQ(decode(false, request("40 01 0201")).error(), MpaError::kTooLong);
  EXPECT_EQ(decode(false, request("40 01 0001")).error(), MpaError::kTruncated);
  EXPECT_EQ(decode(false, request("40 01 0001 0000")).error(), MpaError::kTooLong);
  EXPECT_EQ(decode(false, request("50 02 0003 000000")).error(), MpaError::kTruncated);
  // S has no meaning in revision 1.
  EXPECT_FALSE(decode(false, request("50 01 0004 00000000"))->enhanced);
  const test::Buffer whole = request("10 02 000c 0010 0010 f6ab0e18 01 01 03 03");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode(false, Bytes(whole).first(size))) << size;
  }
}

TEST(Mpa, RandomFramesDecodeToWhatTheyWere) {
  SeededRandom random(5);
  for (int i = 0; i < 2000; ++i) {
    const test::Buffer data = test::random_bytes(random, random.below(kMpaUserDataMax + 1));
    MpaFrame frame;
    frame.reply = random.one_in(2);
    frame.markers = random.one_in(4);
    frame.crc = random.one_in(2);
    frame.rejected = frame.reply && random.one_in(4);
    frame.revision = static_cast<std::uint8_t>(1 + random.below(2));
    if (frame.revision == 2 && random.one_in(2)) {
      frame.enhanced = Enhanced{static_cast<std::uint16_t>(random.below(0x4000)),
                                static_cast<std::uint16_t>(random.below(0x4000)),
                                random.one_in(2),
                                random.one_in(2),
                                random.one_in(2),
                                random.one_in(2)};
    }
    frame.private_data = data;
    const test::Buffer wire = encoded(frame);
    const auto back = decode(frame.reply, wire);
    ASSERT_TRUE(back);
    EXPECT_EQ(encoded(*back), wire);
    EXPECT_EQ(back->enhanced, frame.enhanced);
    EXPECT_TRUE(std::ranges::equal(back->private_data, data));
  }
}

}  // namespace
}  // namespace rpcrdma::iwarp
