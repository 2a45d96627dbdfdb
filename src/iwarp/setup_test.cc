#include "iwarp/setup.h"

#include <gtest/gtest.h>

#include "iwarp/stream_pair_for_test.h"
#include "support/hex.h"

namespace rpcrdma::iwarp {
namespace {

using rpcrdma::test::hex;
using State = MpaSetup::State;
using std::chrono::seconds;

constexpr Instant kStart{seconds{100}};
const test::Buffer kAsk = test::text("ask");
const test::Buffer kAnswer = test::text("answer");

test::Buffer copy(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}
// Feeds as a socket would: never more than is wanted. Returns what was not taken.
Bytes feed(MpaSetup& setup, Bytes bytes, std::size_t step) {
  while (!bytes.empty() && setup.bytes_wanted() > 0) {
    const std::size_t size = std::min({bytes.size(), setup.bytes_wanted(), step});
    setup.handle_received(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return bytes;
}
test::Buffer drain(MpaSetup& setup) {
  const test::Buffer bytes = copy(setup.output());
  setup.handle_sent(bytes.size());
  return bytes;
}
MpaSetup::Options options_with(bool crc, std::uint16_t ird, std::uint16_t ord,
                               Rtr rtr = Rtr::kNone) {
  MpaSetup::Options options;
  options.wishes.crc = crc;
  options.wishes.ird = ird;
  options.wishes.ord = ord;
  options.wishes.rtr = rtr;
  return options;
}

TEST(Setup, BothSidesAgreeForEveryMixOfOptions) {
  for (int mix = 0; mix < 16; ++mix) {
    const bool crc_here = (mix & 1) != 0;
    const bool crc_there = (mix & 2) != 0;
    const Rtr rtr = mix < 4    ? Rtr::kNone
                    : mix < 8  ? Rtr::kWrite
                    : mix < 12 ? Rtr::kRead
                               : Rtr::kNone;
    MpaSetup initiator = MpaSetup::initiator(options_with(crc_here, 3, 5, rtr), kAsk, kStart);
    MpaSetup responder = MpaSetup::responder(options_with(crc_there, 7, 2), kStart);
    EXPECT_TRUE(feed(responder, drain(initiator), 1).empty());
    ASSERT_EQ(responder.state(), State::kDeciding);
    EXPECT_EQ(copy(responder.peer_private_data()), kAsk);
    EXPECT_EQ(responder.deadline(), std::nullopt);
    ASSERT_TRUE(responder.accept(kAnswer));
    EXPECT_EQ(responder.state(), State::kSending);
    EXPECT_TRUE(feed(initiator, drain(responder), 1).empty());
    ASSERT_EQ(responder.state(), State::kDone);
    ASSERT_EQ(initiator.state(), State::kDone);
    EXPECT_EQ(copy(initiator.peer_private_data()), kAnswer);
    const bool crc = crc_here || crc_there;
    EXPECT_EQ(initiator.negotiated(), (Negotiated{true, crc, 2, 3, 5, rtr}));
    EXPECT_EQ(responder.negotiated(), (Negotiated{false, crc, 2, 5, 2, rtr}));
  }
}

TEST(Setup, TakesNoByteBehindItsFrame) {
  MpaSetup initiator = MpaSetup::initiator({}, {}, kStart);
  test::Buffer wire = drain(initiator);
  const std::size_t size = wire.size();
  wire.push_back(std::byte{0x55});
  MpaSetup responder = MpaSetup::responder({}, kStart);
  EXPECT_EQ(feed(responder, wire, 7).size(), 1U);
  EXPECT_EQ(responder.bytes_wanted(), 0U);
  // Cut at each byte it just waits.
  for (std::size_t cut = 0; cut < size; ++cut) {
    MpaSetup other = MpaSetup::responder({}, kStart);
    feed(other, Bytes(wire).first(cut), 64);
    EXPECT_EQ(other.state(), State::kReceiving);
    EXPECT_GT(other.bytes_wanted(), 0U);
    other.handle_end_of_stream();
    EXPECT_EQ(other.error(), SetupError::kClosed);
  }
}

TEST(Setup, SilentPeerTimesOut) {
  MpaSetup::Options options;
  options.timeout = seconds{5};
  MpaSetup responder = MpaSetup::responder(options, kStart);
  EXPECT_EQ(responder.deadline(), kStart + seconds{5});
  responder.handle_timeout(kStart + seconds{4});
  EXPECT_EQ(responder.state(), State::kReceiving);
  responder.handle_timeout(kStart + seconds{5});
  EXPECT_EQ(responder.state(), State::kFailed);
  EXPECT_EQ(responder.error(), SetupError::kTimedOut);
  EXPECT_EQ(responder.deadline(), std::nullopt);
}

TEST(Setup, RejectionCarriesPrivateData) {
  MpaSetup initiator = MpaSetup::initiator({}, {}, kStart);
  MpaSetup responder = MpaSetup::responder({}, kStart);
  feed(responder, drain(initiator), 99);
  responder.reject(kAnswer);
  EXPECT_EQ(responder.error(), SetupError::kRefused);
  feed(initiator, drain(responder), 99);
  EXPECT_EQ(initiator.error(), SetupError::kRejected);
  EXPECT_EQ(copy(initiator.peer_private_data()), kAnswer);
}

TEST(Setup, RecognisesGarbageAtItsFirstByte) {
  MpaSetup responder = MpaSetup::responder({}, kStart);
  feed(responder, test::text("MPA ID ReX"), 1);
  EXPECT_EQ(responder.error(), SetupError::kNotMpa);
  EXPECT_TRUE(responder.output().empty());
  MpaSetup initiator = MpaSetup::initiator({}, {}, kStart);
  drain(initiator);
  feed(initiator, test::text("HTTP/1.1 400 Bad Request"), 99);
  EXPECT_EQ(initiator.error(), SetupError::kNotMpa);
  EXPECT_EQ(copy(initiator.output()).size(), fpdu_size(kUntaggedSize + 4));  // LLP code 4
}

TEST(Setup, RefusesMarkersAndUnknownRevisions) {
  MpaSetup markers = MpaSetup::responder({}, kStart);
  feed(markers, hex("4d504120494420526571204672616d65 d0 02 0004 0004 0008"), 99);
  EXPECT_EQ(markers.error(), SetupError::kMarkers);
  EXPECT_EQ(copy(markers.output()), hex("4d504120494420526570204672616d65 70 02 0004 00000000"));
  for (const char* revision : {"00", "03", "ff"}) {
    MpaSetup other = MpaSetup::responder({}, kStart);
    feed(other, hex("4d504120494420526571204672616d65 40" + std::string(revision) + "0000"), 99);
    EXPECT_EQ(other.error(), SetupError::kRevision);
    EXPECT_FALSE(other.output().empty());
  }
  MpaSetup long_one = MpaSetup::responder({}, kStart);
  feed(long_one, hex("4d504120494420526571204672616d65 40 01 0201"), 99);
  EXPECT_EQ(long_one.error(), SetupError::kTooLong);
}

TEST(Setup, AcceptsRevisionOnePeers) {
  MpaSetup responder = MpaSetup::responder({}, kStart);
  feed(responder, hex("4d504120494420526571204672616d65 00 01 0000"), 99);
  ASSERT_EQ(responder.state(), State::kDeciding);
  ASSERT_TRUE(responder.accept({}));
  EXPECT_EQ(drain(responder), hex("4d504120494420526570204672616d65 40 01 0000"));
  EXPECT_EQ(responder.negotiated(), (Negotiated{false, true, 1, 16, 16, Rtr::kNone}));
}

TEST(Setup, TooManyReadsEndWithATerminate) {
  MpaSetup initiator = MpaSetup::initiator(options_with(true, 2, 2), {}, kStart);
  drain(initiator);
  feed(initiator, hex("4d504120494420526570204672616d65 50 02 0004 0002 0003"), 99);
  EXPECT_EQ(initiator.error(), SetupError::kIrd);
  const test::Buffer last = drain(initiator);
  ASSERT_EQ(last.size(), fpdu_size(kUntaggedSize + 4));
  EXPECT_EQ(decode_terminate(Bytes(last).subspan(20, 4)).fault, Fault::kLlpIrd);
}

TEST(Setup, PrivateDataThatDoesNotFitIsRefused) {
  MpaSetup initiator = MpaSetup::initiator({}, {}, kStart);
  MpaSetup responder = MpaSetup::responder({}, kStart);
  feed(responder, drain(initiator), 99);
  EXPECT_FALSE(responder.accept(test::Buffer(kMpaUserDataMax + 1)));
  EXPECT_EQ(responder.state(), State::kDeciding);
  EXPECT_TRUE(responder.accept(test::Buffer(kMpaUserDataMax)));
  EXPECT_TRUE(feed(initiator, drain(responder), 9999).empty());
  EXPECT_EQ(initiator.peer_private_data().size(), kMpaUserDataMax);
}

TEST(Setup, RandomBytesNeverLeadAnywhere) {
  SeededRandom random(6);
  for (int i = 0; i < 500; ++i) {
    test::Buffer bytes = test::random_bytes(random, 1 + random.below(600));
    MpaSetup setup = MpaSetup::responder({}, kStart);
    if (random.one_in(2)) {  // a good key, then noise
      const auto key = hex("4d504120494420526571204672616d65");
      bytes.insert(bytes.begin(), key.begin(), key.end());
    }
    feed(setup, bytes, 1 + random.below(50));
    EXPECT_NE(setup.state(), State::kDone);
  }
}

TEST(Setup, EveryErrorHasAText) {
  for (int i = 0; i <= static_cast<int>(SetupError::kRefused); ++i) {
    EXPECT_NE(to_string(static_cast<SetupError>(i)), "unknown error");
  }
}

}  // namespace
}  // namespace rpcrdma::iwarp
