// Messages of both versions in the engine's terms.
#include "engine/dialect.h"

#include <gtest/gtest.h>

#include <vector>

#include "wire/v1/header.h"
#include "wire/v2/header.h"

namespace rpcrdma::engine {
namespace {

namespace v1 = wire::v1;
namespace v2 = wire::v2;

class DialectV1 : public testing::Test {
 protected:
  // A message with this header, these lists and some words behind them, decoded.
  Received decoded(const v1::Header& header, std::initializer_list<std::uint32_t> words = {}) {
    message_.resize(v1::encoded_size(header, lists_) + words.size() * xdr::kWordSize);
    const auto size = v1::encode(header, lists_, message_);
    EXPECT_TRUE(size);
    xdr::Writer writer(MutableBytes(message_).subspan(*size));
    for (const std::uint32_t word : words) writer.u32(word);
    return decode(Dialect::kV1, message_, {}, found_);
  }
  Received decoded_words(std::initializer_list<std::uint32_t> words) {
    message_.resize(words.size() * xdr::kWordSize);
    xdr::Writer writer(message_);
    for (const std::uint32_t word : words) writer.u32(word);
    return decode(Dialect::kV1, message_, {}, found_);
  }
  Direction direction(const v1::Header& header, std::initializer_list<std::uint32_t> payload) {
    return direction_of(Dialect::kV1, decoded(header, payload));
  }
  static v1::Header header(const v1::Body& body, std::uint32_t version = 1) {
    return {Xid{7}, version, 5, body};
  }

  wire::ChunkLists lists_, found_;
  std::vector<std::byte> message_;
};

TEST_F(DialectV1, ShortMessageIsItsPayloadAndLeavesTheListsAlone) {
  ASSERT_TRUE(found_.reads.push_back({}));
  const Received message = decoded(header(v1::Msg{}), {7, 0, 2});
  EXPECT_EQ(message.kind, Kind::kMessage);
  EXPECT_EQ(message.xid, Xid{7});
  EXPECT_EQ(message.credits, 5U);
  EXPECT_EQ(message.payload.size(), 12U);
  EXPECT_FALSE(message.has_chunks);
  EXPECT_EQ(found_.reads.size(), 1U);
}

TEST_F(DialectV1, ChunksAreInTheLists) {
  ASSERT_TRUE(lists_.reads.push_back({40, {SteeringTag{9}, 100, 3}}));
  const Received message = decoded(header(v1::Msg{}), {7, 0});
  EXPECT_TRUE(message.has_chunks);
  EXPECT_EQ(found_, lists_);
  EXPECT_EQ(message.payload.size(), 8U);
  EXPECT_EQ(decoded(header(v1::NoMsg{})).kind, Kind::kNoMessage);
}

TEST_F(DialectV1, DirectionIsThatOfTheRpcMessageBehindTheHeader) {
  EXPECT_EQ(direction(header(v1::Msg{}), {7, 0}), Direction::kCall);
  EXPECT_EQ(direction(header(v1::Msg{}), {7, 1}), Direction::kReply);
  EXPECT_EQ(direction(header(v1::Msg{}), {7, 2}), Direction::kUnknown);
  EXPECT_EQ(direction(header(v1::Msg{}), {8, 0}), Direction::kUnknown) << "another XID";
  EXPECT_EQ(direction(header(v1::Msg{}), {7}), Direction::kUnknown) << "cut off";
  EXPECT_EQ(direction(header(v1::Msgp{64, 512}), {7, 1}), Direction::kReply);
  EXPECT_EQ(direction(header(v1::NoMsg{}), {7, 1}), Direction::kUnknown);
}

TEST_F(DialectV1, DistinguishesErrorsWhichMayEchoAnyVersion) {
  EXPECT_EQ(decoded(header(v1::ErrVers{1, 1}, 3)).kind, Kind::kErrorVersion);
  EXPECT_EQ(decoded(header(v1::ErrChunk{}, 2)).kind, Kind::kErrorChunk);
  EXPECT_EQ(decoded_words({7, 1, 5, 4, 9}).kind, Kind::kErrorUnknown) << "no such error";
  EXPECT_EQ(decoded_words({7, 2, 5, 4}).kind, Kind::kErrorUnknown) << "cut off";
}

TEST_F(DialectV1, ErrVersSaysWhatThePeerSpeaks) {
  EXPECT_EQ(decoded(header(v1::ErrVers{1, 2}, 3)).versions, (Versions{1, 2}));
  EXPECT_TRUE((Versions{1, 2}.contain(2)));
  EXPECT_FALSE((Versions{1, 2}.contain(3)));
  EXPECT_FALSE((Versions{2, 2}.contain(1)));
}

TEST_F(DialectV1, OtherVersionsAreNotMalformed) {
  EXPECT_EQ(decoded_words({7, 2, 5, 0, 0, 0, 0}).kind, Kind::kOtherVersion);
  EXPECT_EQ(decoded_words({7, 2, 5, 3}).kind, Kind::kOtherVersion);
  EXPECT_EQ(decoded_words({7, 2, 5, 3}).version, 2U);
  EXPECT_EQ(decoded_words({7, 1, 5, 9}).kind, Kind::kMalformed) << "no such type";
  EXPECT_EQ(decoded_words({7, 1, 5, 0, 2}).kind, Kind::kMalformed) << "no list begins like this";
  EXPECT_EQ(decoded_words({7, 1, 5}).kind, Kind::kTooShort);
}

TEST_F(DialectV1, NamesMessagesThatOnlyRfc5666Has) {
  const Received padded = decoded(header(v1::Msgp{64, 512}), {7, 0});
  EXPECT_EQ(padded.kind, Kind::kPadded);
  EXPECT_EQ(padded.alignment, 64U);
  EXPECT_EQ(padded.threshold, 512U);
  EXPECT_EQ(decoded(header(v1::Done{})).kind, Kind::kDone);
}

TEST_F(DialectV1, EncodesWhatItDecodes) {
  std::vector<std::byte> bytes(1000);
  for (const Kind kind : {Kind::kMessage, Kind::kNoMessage, Kind::kPadded, Kind::kDone,
                          Kind::kErrorVersion, Kind::kErrorChunk}) {
    const Outline outline{.kind = kind,
                          .xid = Xid{7},
                          .credits = 5,
                          .version = 1,
                          .versions = {1, 1},
                          .alignment = 64,
                          .threshold = 512};
    const std::uint32_t size = encode(Dialect::kV1, outline, {}, bytes);
    const Received message = decode(Dialect::kV1, Bytes(bytes).first(size), {}, found_);
    EXPECT_EQ(message.kind, kind);
    EXPECT_EQ(message.xid, Xid{7});
    EXPECT_EQ(message.credits, 5U);
    EXPECT_TRUE(message.payload.empty());
  }
  encode_short(Dialect::kV1, Xid{8}, 6, Direction::kCall, bytes);
  const std::uint32_t size = header_sizes(Dialect::kV1).shortest;
  EXPECT_EQ(decode(Dialect::kV1, Bytes(bytes).first(size), {}, found_).xid, Xid{8});
}

TEST_F(DialectV1, SizesAreThoseOfWhatIsEncoded) {
  const HeaderSizes& sizes = header_sizes(Dialect::kV1);
  EXPECT_EQ(header_size(Dialect::kV1, lists_), sizes.shortest);
  ASSERT_TRUE(lists_.reads.push_back({}));
  EXPECT_EQ(header_size(Dialect::kV1, lists_), sizes.shortest + sizes.read_segment);
  const wire::Segment segments[2]{};
  ASSERT_TRUE(lists_.writes.push_back(segments));
  EXPECT_EQ(header_size(Dialect::kV1, lists_),
            sizes.shortest + sizes.read_segment + sizes.write_chunk + 2 * sizes.plain_segment);
  lists_.has_reply = true;
  ASSERT_TRUE(lists_.reply.push_back({}));
  EXPECT_EQ(header_size(Dialect::kV1, lists_), sizes.shortest + sizes.read_segment +
                                                   sizes.write_chunk + sizes.reply_chunk +
                                                   3 * sizes.plain_segment);
  std::vector<std::byte> bytes(1000);
  EXPECT_EQ(encode(Dialect::kV1, {.kind = Kind::kPadded, .xid = Xid{1}, .credits = 1}, {}, bytes),
            sizes.padded);
}

// --- Version 2 ---------------------------------------------------------------------------------

class DialectV2 : public testing::Test {
 protected:
  Received decoded(const v2::Header& header, std::initializer_list<std::uint32_t> words = {}) {
    message_.resize(v2::encoded_size(header, lists_) + words.size() * xdr::kWordSize);
    const auto size = v2::encode(header, lists_, message_);
    EXPECT_TRUE(size);
    xdr::Writer writer(MutableBytes(message_).subspan(*size));
    for (const std::uint32_t word : words) writer.u32(word);
    return decode(Dialect::kV2, message_, {}, found_);
  }
  Received decoded_words(std::initializer_list<std::uint32_t> words) {
    message_.resize(words.size() * xdr::kWordSize);
    xdr::Writer writer(message_);
    for (const std::uint32_t word : words) writer.u32(word);
    return decode(Dialect::kV2, message_, {}, found_);
  }
  static v2::Header header(const v2::Body& body, std::uint32_t version = 2) {
    return {Xid{7}, version, 5, body};
  }

  wire::ChunkLists lists_, found_;
  std::vector<std::byte> message_;
};

TEST_F(DialectV2, DirectionIsThatOfTheHeader) {
  for (const bool has_chunks : {false, true}) {
    if (has_chunks) {
      ASSERT_TRUE(lists_.reads.push_back({40, {SteeringTag{9}, 100, 3}}));
    }
    const Received call = decoded(header(v2::Msg{v2::Direction::kCall}), {7, 1});
    EXPECT_EQ(call.kind, Kind::kMessage);
    EXPECT_EQ(call.version, 2U);
    EXPECT_EQ(call.credits, 5U);
    EXPECT_EQ(call.payload.size(), 8U);
    EXPECT_EQ(call.has_chunks, has_chunks);
    EXPECT_EQ(direction_of(Dialect::kV2, call), Direction::kCall) << "whatever the payload says";
    const Received reply = decoded(header(v2::NoMsg{v2::Direction::kReply}));
    EXPECT_EQ(reply.kind, Kind::kNoMessage);
    EXPECT_EQ(direction_of(Dialect::kV2, reply), Direction::kReply);
  }
}

TEST_F(DialectV2, ErrorsAreReplies) {
  const std::pair<v2::Body, Kind> errors[] = {{v2::ErrVers{1, 2}, Kind::kErrorVersion},
                                              {v2::ErrBadHeader{}, Kind::kErrorChunk},
                                              {v2::ErrInvalOption{}, Kind::kErrorOption}};
  for (const auto& [body, kind] : errors) {
    const Received error = decoded(header(body));
    EXPECT_EQ(error.kind, kind);
    EXPECT_TRUE(is_error(kind));
    EXPECT_EQ(direction_of(Dialect::kV2, error), Direction::kReply);
  }
  EXPECT_EQ(decoded(header(v2::ErrVers{1, 2}, 3)).versions, (Versions{1, 2}));
  EXPECT_EQ(decoded_words({7, 2, 5, 4, 9}).kind, Kind::kErrorUnknown) << "no such error";
  EXPECT_EQ(decoded_words({7, 1, 5, 4, 2}).kind, Kind::kErrorUnknown) << "ERR_CHUNK of version 1";
}

TEST_F(DialectV2, OptionIsItsTypeAndInformation) {
  const std::byte info[] = {std::byte{1}, std::byte{2}};
  const Received option = decoded(header(v2::Optional{v2::Direction::kReply, 9, info}));
  EXPECT_EQ(option.kind, Kind::kOption);
  EXPECT_EQ(option.option, 9U);
  EXPECT_EQ(option.payload.size(), 2U);
  EXPECT_EQ(direction_of(Dialect::kV2, option), Direction::kReply);
}

TEST_F(DialectV2, ClassifiesMessagesThatItCannotRead) {
  EXPECT_EQ(decoded_words({7, 1, 5, 0, 0, 0, 0}).kind, Kind::kOtherVersion);
  EXPECT_EQ(decoded_words({7, 2, 5, 2, 0, 0, 0, 0}).kind, Kind::kMalformed) << "RDMA_MSGP";
  EXPECT_EQ(decoded_words({7, 2, 5, 0, 2, 0, 0, 0}).kind, Kind::kMalformed) << "no direction";
  EXPECT_EQ(decoded_words({7, 2, 5}).kind, Kind::kTooShort);
}

TEST_F(DialectV2, MessagesAreReadInTheirOwnVersion) {
  const auto read = [&](Versions ours, std::initializer_list<std::uint32_t> words) {
    (void)decoded_words(words);
    const Received received = decode(ours, message_, {}, lists_);
    return std::pair(received.kind, received.dialect);
  };
  using enum Kind;
  EXPECT_EQ(read({1, 2}, {7, 1, 5, 0, 0, 0, 0}), std::pair(kMessage, Dialect::kV1));
  EXPECT_EQ(read({1, 2}, {7, 2, 5, 0, 0, 0, 0, 0}), std::pair(kMessage, Dialect::kV2));
  EXPECT_EQ(read({1, 1}, {7, 2, 5, 0, 0, 0, 0, 0}), std::pair(kOtherVersion, Dialect::kV1));
  EXPECT_EQ(read({2, 2}, {7, 1, 5, 0, 0, 0, 0}), std::pair(kOtherVersion, Dialect::kV1));
  EXPECT_EQ(read({1, 2}, {7, 9, 5, 0, 0, 0, 0}).first, kOtherVersion);
  EXPECT_EQ(read({1, 2}, {7, 2, 5}).first, kTooShort);
  EXPECT_EQ(read({2, 2}, {7, 1, 5, 4, 1, 1, 1}), std::pair(kErrorVersion, Dialect::kV1));
}

TEST_F(DialectV2, EncodesWhatItDecodes) {
  std::vector<std::byte> bytes(1000);
  const std::byte info[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  for (const Kind kind : {Kind::kMessage, Kind::kNoMessage, Kind::kOption, Kind::kErrorVersion,
                          Kind::kErrorChunk, Kind::kErrorOption}) {
    const Outline outline{.kind = kind,
                          .xid = Xid{7},
                          .credits = 5,
                          .direction = Direction::kReply,
                          .version = 2,
                          .versions = {1, 2},
                          .option = 9,
                          .info = info};
    const std::uint32_t size = encode(Dialect::kV2, outline, {}, bytes);
    const Received message = decode(Dialect::kV2, Bytes(bytes).first(size), {}, found_);
    EXPECT_EQ(message.kind, kind);
    EXPECT_EQ(message.xid, Xid{7});
    EXPECT_EQ(message.credits, 5U);
    EXPECT_EQ(message.direction, Direction::kReply);
    EXPECT_EQ(message.payload.size(), kind == Kind::kOption ? 3U : 0U);
  }
  for (const Direction direction : {Direction::kCall, Direction::kReply}) {
    encode_short(Dialect::kV2, Xid{8}, 6, direction, bytes);
    const std::uint32_t size = header_sizes(Dialect::kV2).shortest;
    const Received message = decode(Dialect::kV2, Bytes(bytes).first(size), {}, found_);
    EXPECT_EQ(message.xid, Xid{8});
    EXPECT_EQ(message.credits, 6U);
    EXPECT_EQ(message.direction, direction);
  }
}

TEST_F(DialectV2, SizesAreThoseOfWhatIsEncoded) {
  const HeaderSizes& sizes = header_sizes(Dialect::kV2);
  EXPECT_EQ(header_size(Dialect::kV2, lists_), sizes.shortest);
  ASSERT_TRUE(lists_.reads.push_back({}));
  const wire::Segment segments[2]{};
  ASSERT_TRUE(lists_.writes.push_back(segments));
  lists_.has_reply = true;
  ASSERT_TRUE(lists_.reply.push_back({}));
  EXPECT_EQ(header_size(Dialect::kV2, lists_), sizes.shortest + sizes.read_segment +
                                                   sizes.write_chunk + sizes.reply_chunk +
                                                   3 * sizes.plain_segment);
}

}  // namespace
}  // namespace rpcrdma::engine
