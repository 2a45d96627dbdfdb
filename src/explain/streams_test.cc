// Streams that were captured out of order, with holes, or with markers in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "explain/fpdu_reader.h"
#include "explain/record_reader.h"
#include "explain/tcp_stream.h"
#include "iwarp/byte_order.h"
#include "iwarp/crc32c.h"

namespace rpcrdma::explain {
namespace {

using Buffer = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Writes down what it gets: text, and gaps as "<5>".
class Notes : public StreamConsumer {
 public:
  void on_bytes(Bytes bytes, const Where&) override {
    for (const std::byte each : bytes) text += static_cast<char>(each);
  }
  void on_gap(std::uint64_t size, const Where&) override {
    text += "<" + std::to_string(size) + ">";
  }
  void on_other_bytes(std::uint32_t count, const Where&) override { others += count; }

  std::string text;
  std::uint32_t others = 0;
};

class TcpStreams : public testing::Test {
 protected:
  void add(std::uint32_t sequence, std::string_view text, std::uint32_t cut = 0) {
    stream.add(sequence, bytes_of(text), static_cast<std::uint32_t>(text.size()) + cut, {}, notes);
  }

  TcpHistory history;
  TcpStream stream{history};
  Notes notes;
};

TEST_F(TcpStreams, AreInTheOrderOfTheirNumbersAcrossTheirEnd) {
  stream.begin(0xfffffffe);
  add(0xfffffffe, "ab");
  add(3, "fg");
  add(0, "cde");
  EXPECT_EQ(notes.text, "abcdefg");
}

TEST_F(TcpStreams, KeepTheFirstOfBytesThatComeAgain) {
  stream.begin(0);
  add(0, "abcd");
  add(2, "XYef");
  add(0, "abcd");
  EXPECT_EQ(notes.text, "abcdef");
  EXPECT_EQ(stream.retransmitted(), 2U);
}

TEST_F(TcpStreams, ReportThatBytesThatComeAgainAreOthers) {
  stream.begin(0);
  add(0, "abcd");
  add(4, "efgh");
  add(0, "abcd");
  add(2, "cdef");
  EXPECT_EQ(notes.others, 0U);
  add(2, "cXYf");
  EXPECT_EQ(notes.others, 2U);
  add(6, "gZij");
  EXPECT_EQ(notes.others, 3U);
  EXPECT_EQ(notes.text, "abcdefghij");
}

TEST_F(TcpStreams, KeepTheFirstOfBytesThatWaitedForOthers) {
  stream.begin(0);
  add(4, "ef");
  add(8, "i");
  add(3, "dEfgh");  // around the first two
  EXPECT_EQ(notes.others, 1U);
  EXPECT_EQ(stream.retransmitted(), 1U);
  add(0, "abcXe");
  EXPECT_EQ(notes.others, 2U);
  EXPECT_EQ(notes.text, "abcdefghi");
  EXPECT_EQ(stream.held_bytes(), 0U);
}

TEST_F(TcpStreams, MayHaveAnyByteInAProbe) {
  stream.begin(0);
  add(0, "abcd");
  add(3, "?");
  EXPECT_EQ(notes.others, 0U);
  EXPECT_EQ(stream.retransmitted(), 0U);
}

TEST_F(TcpStreams, CompareWhatTheHistoryStillHas) {
  stream.begin(0);
  add(0, "abcd");
  const std::string piece(60000, 'x');
  std::uint32_t at = 4;
  for (int i = 0; i < 20; ++i, at += 60000) add(at, piece);
  add(0, "XXXX");
  EXPECT_EQ(notes.others, 0U);
  add(at - 60000, std::string(60000, 'y'));
  EXPECT_EQ(notes.others, 60000U);
  EXPECT_LT(stream.footprint(), std::size_t{1} << 20U);
}

TEST_F(TcpStreams, ReportBytesThatASnapshotLengthHasCut) {
  stream.begin(0);
  add(0, "abc", 4);
  add(7, "h");
  EXPECT_EQ(notes.text, "abc<4>h");
}

TEST_F(TcpStreams, GiveAHoleUpWhenTheReceiverHasAcknowledgedMore) {
  stream.begin(0);
  for (std::uint32_t i = 1; i < 20; ++i) add(i, "x");
  EXPECT_EQ(notes.text, "");
  stream.acknowledge(20, notes);
  EXPECT_EQ(notes.text, "<1>" + std::string(19, 'x'));
}

TEST_F(TcpStreams, HoldBoundedMemory) {
  stream.begin(0);
  const std::string piece(60000, 'x');
  for (std::uint32_t i = 1; i < 100; ++i) add(i * 100000, piece);
  EXPECT_LT(stream.held_bytes(), std::size_t{2} << 20U);
  stream.end(notes);
  EXPECT_EQ(stream.held_bytes(), 0U);
}

TEST_F(TcpStreams, TakeNumbersHalfACircleAway) {
  stream.begin(0);
  add(0x80000000, "x");
  stream.end(notes);
  EXPECT_LE(notes.text.size(), 20U);
}

class Fpdus : public testing::Test, public FpduConsumer {
 protected:
  void on_fpdu(const FpduStart& start) override {
    numbers.push_back(start.header.sequence);
    said += "F" + std::to_string(start.header.sequence);
    if (start.fault != iwarp::Fault::kNone) said += "?";
  }
  void on_payload(Bytes bytes, std::uint32_t, const Where&) override { payload += bytes.size(); }
  void on_fpdu_end(const FpduEnd& end) override {
    said += end.crc == Crc::kGood   ? "+"
            : end.crc == Crc::kZero ? "0"
            : end.crc == Crc::kBad  ? "-"
                                    : "~";
    if (end.has_bad_marker) said += "m";
  }
  void on_lost(const Where&) override { said += "!"; }

  static Buffer fpdu(std::uint32_t sequence, std::size_t size, bool has_crc = true) {
    iwarp::Header header;
    header.opcode = iwarp::Opcode::kSend;
    header.last = true;
    header.sequence = sequence;
    header.ulpdu_size = static_cast<std::uint16_t>(iwarp::kUntaggedSize + size);
    Buffer out(iwarp::fpdu_size(header.ulpdu_size));
    iwarp::encode_header(header, out.data());
    for (std::size_t i = 0; i < size; ++i) out[20 + i] = static_cast<std::byte>(i * 3 + sequence);
    if (has_crc) {
      iwarp::Crc32c crc;
      crc.add(Bytes(out).first(out.size() - 4));
      iwarp::store_crc(out.data() + out.size() - 4, crc.value());
    }
    return out;
  }
  static Buffer several(int count, std::size_t size) {
    Buffer out;
    for (int i = 1; i <= count; ++i) {
      const Buffer one = fpdu(static_cast<std::uint32_t>(i), size);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }

  FpduReader reader{*this};
  std::vector<std::uint32_t> numbers;
  std::string said;
  std::size_t payload = 0;
};

TEST_F(Fpdus, AreFoundHoweverTheStreamIsCut) {
  const Buffer stream = several(3, 101);
  for (std::size_t step = 1; step < 200; ++step) {
    said.clear();
    payload = 0;
    FpduReader each(*this);
    each.begin(false);
    for (std::size_t at = 0; at < stream.size(); at += step) {
      each.add(Bytes(stream).subspan(at, std::min(step, stream.size() - at)), {});
    }
    EXPECT_EQ(said, "F1+F2+F3+") << step;
    EXPECT_EQ(payload, 303U);
  }
}

TEST_F(Fpdus, KeepTheirPlaceWhenBytesInsideAreMissing) {
  const Buffer stream = several(3, 100);
  const std::size_t one = stream.size() / 3;
  reader.begin(false);
  reader.add(Bytes(stream).first(one + 30), {});
  reader.gap(one - 30, {});
  reader.add(Bytes(stream).subspan(2 * one), {});
  EXPECT_EQ(said, "F1+F2~F3+");
}

// Without a CRC one FPDU alone could not be found again.
TEST_F(Fpdus, KeepTheirPlaceWithoutCrcs) {
  Buffer stream;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    const Buffer one = fpdu(i, 100, false);
    stream.insert(stream.end(), one.begin(), one.end());
  }
  const std::size_t one = stream.size() / 3;
  reader.begin(false);
  reader.add(Bytes(stream).first(one + 30), {});
  reader.gap(one - 30, {});
  reader.add(Bytes(stream).subspan(2 * one), {});
  EXPECT_EQ(said, "F10F2~F30");
}

TEST_F(Fpdus, AreFoundAgainBehindAGapAndAtAnyOffset) {
  const Buffer stream = several(4, 100);
  const std::size_t one = stream.size() / 4;
  for (std::size_t missing = 1; missing < one; ++missing) {
    said.clear();
    FpduReader each(*this);
    each.begin_anywhere();
    each.add(Bytes(stream).subspan(missing), {});
    each.end();
    EXPECT_EQ(said, "F2+F3+F4+") << missing;
    EXPECT_EQ(each.skipped_bytes(), one - missing);
  }
}

TEST_F(Fpdus, AreNotFoundInRandomData) {
  Buffer noise(400000);
  std::uint32_t state = 44;
  for (std::byte& each : noise)
    each = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24U);
  reader.begin_anywhere();
  reader.add(noise, {});
  reader.end();
  EXPECT_EQ(said, "");
}

TEST_F(Fpdus, AreFoundBehindBytesThatAreNone) {
  Buffer stream = several(1, 100);
  const Buffer good = several(2, 100);
  Buffer bad(200, std::byte{0xee});
  stream.insert(stream.end(), bad.begin(), bad.end());
  stream.insert(stream.end(), good.begin(), good.end());
  reader.begin(false);
  reader.add(stream, {});
  reader.end();
  EXPECT_EQ(said, "F1+F0?!F1+F2+");
}

TEST_F(Fpdus, WithAWrongCrcAreReported) {
  Buffer stream = several(2, 50);
  stream[30] ^= std::byte{1};
  reader.begin(false);
  reader.add(stream, {});
  EXPECT_EQ(said, "F1-F2+");
}

// RFC 5044 §4.3: every 512 bytes, and under the checksum of the FPDU in which it lies.
Buffer with_markers(const std::vector<std::size_t>& sizes, std::size_t spoilt,
                    bool has_crc = true) {
  Buffer out;
  std::uint32_t sequence = 0;
  std::size_t markers = 0;
  for (const std::size_t size : sizes) {
    Buffer plain(2 + iwarp::kUntaggedSize + size);
    iwarp::Header header;
    header.opcode = iwarp::Opcode::kSend;
    header.last = true;
    header.sequence = ++sequence;
    header.ulpdu_size = static_cast<std::uint16_t>(iwarp::kUntaggedSize + size);
    iwarp::encode_header(header, plain.data());
    plain.resize(plain.size() + iwarp::pad_size(header.ulpdu_size));
    std::size_t begin = out.size();
    iwarp::Crc32c crc;
    const auto put = [&](std::byte each, bool is_checked) {
      if (out.size() % 512 == 0) {
        const std::size_t back = out.size() == begin ? 0 : out.size() - begin;
        if (back == 0) begin += 4;
        Buffer marker(4);
        iwarp::store16(marker.data() + 2,
                       static_cast<std::uint16_t>(++markers == spoilt ? back + 4 : back));
        if (is_checked) crc.add(marker);
        out.insert(out.end(), marker.begin(), marker.end());
      }
      if (is_checked) crc.add(Bytes(&each, 1));
      out.push_back(each);
    };
    for (const std::byte each : plain) put(each, true);
    Buffer sum(4);
    if (out.size() % 512 == 0) {  // the marker in front of the CRC is under it, too
      Buffer marker(4);
      iwarp::store16(marker.data() + 2, static_cast<std::uint16_t>(out.size() - begin));
      crc.add(marker);
      out.insert(out.end(), marker.begin(), marker.end());
    }
    if (has_crc) iwarp::store_crc(sum.data(), crc.value());
    for (const std::byte each : sum) put(each, false);
  }
  return out;
}

TEST_F(Fpdus, MayHaveMarkersInThem) {
  const Buffer stream = with_markers({100, 900, 402, 1500, 8}, 0);
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{513}, stream.size()}) {
    said.clear();
    FpduReader each(*this);
    each.begin(true);
    for (std::size_t at = 0; at < stream.size(); at += step) {
      each.add(Bytes(stream).subspan(at, std::min(step, stream.size() - at)), {});
    }
    EXPECT_EQ(said, "F1+F2+F3+F4+F5+") << step;
  }
}

TEST_F(Fpdus, SayThatAMarkerPointsElsewhere) {
  const Buffer stream = with_markers({100, 900, 100}, 2);
  reader.begin(true);
  reader.add(stream, {});
  EXPECT_EQ(said, "F1+F2+mF3+");
}

TEST_F(Fpdus, MayBeginBehindAMarkerAndHaveOthersInThem) {
  const Buffer stream = with_markers({1500, 2000}, 0);
  reader.begin(true);
  reader.add(stream, {});
  EXPECT_EQ(said, "F1+F2+");
}

TEST_F(Fpdus, SayThatTheFirstMarkerPointsElsewhere) {
  const Buffer stream = with_markers({100, 100}, 1);
  reader.begin(true);
  reader.add(stream, {});
  EXPECT_EQ(said, "F1+mF2+");
}

class MarkedFpdus : public Fpdus {
 protected:
  static std::vector<std::size_t> sizes() {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < 60; ++i) out.push_back(i % 7 == 3 ? 1500 : 8 + i * 37 % 200);
    return out;
  }
  // Cuts the stream into packets.
  void add(FpduReader& to, const Buffer& stream, std::size_t begin, std::size_t step) {
    std::uint64_t packet = 0;
    for (std::size_t at = begin; at < stream.size(); at += step) {
      const std::size_t size = std::min(step, stream.size() - at);
      to.add(Bytes(stream).subspan(at, size), {++packet, 0});
    }
  }
};

TEST_F(MarkedFpdus, AreFoundInTheMiddleOfAStream) {
  const Buffer stream = with_markers(sizes(), 0);
  for (std::size_t begin = 1; begin < 2200; begin += 3) {
    for (const std::size_t step : {std::size_t{89}, std::size_t{1448}, stream.size()}) {
      said.clear(), numbers.clear();
      FpduReader each(*this);
      each.begin_anywhere();
      add(each, stream, begin, step);
      each.end();
      ASSERT_FALSE(numbers.empty()) << begin;
      EXPECT_EQ(numbers.back(), 60U) << begin;
      EXPECT_GE(numbers.size(), 42U) << begin << ": " << said;
      EXPECT_EQ(said.find_first_of("?-~m"), std::string::npos) << begin << ": " << said;
      // None is left out behind the first marker that was found.
      EXPECT_EQ(numbers[numbers.size() - 30] + 29, 60U) << begin;
    }
  }
}

TEST_F(MarkedFpdus, AreFoundWithoutCrcsByTheirMarkers) {
  const Buffer stream = with_markers(sizes(), 0, false);
  for (std::size_t begin = 1; begin < 2200; begin += 7) {
    said.clear(), numbers.clear();
    FpduReader each(*this);
    each.begin_anywhere();
    add(each, stream, begin, 1448);
    each.end();
    ASSERT_FALSE(numbers.empty()) << begin;
    EXPECT_EQ(numbers.back(), 60U) << begin;
    EXPECT_EQ(said.find_first_of("?-~m"), std::string::npos) << begin << ": " << said;
  }
}

TEST_F(MarkedFpdus, AreFoundAgainBehindAGap) {
  const Buffer stream = with_markers(sizes(), 0);
  for (std::size_t size = 1; size < 1700; size += 13) {
    said.clear(), numbers.clear();
    FpduReader each(*this);
    each.begin(true);
    each.add(Bytes(stream).first(700), {});
    each.gap(size, {});
    each.add(Bytes(stream).subspan(700 + size), {});
    each.end();
    EXPECT_EQ(numbers.back(), 60U) << size;
    EXPECT_GE(numbers.size(), 60U - 12) << size << ": " << said;
    EXPECT_EQ(said.find_first_of("?-m"), std::string::npos) << size << ": " << said;
  }
}

// A CRC of zero in front of an FPDU looks like a marker.
TEST_F(Fpdus, WithoutCrcsHaveNoMarkersInTheMiddleOfAStream) {
  Buffer stream;
  for (std::uint32_t i = 1; i <= 40; ++i) {
    const Buffer one = fpdu(i, 100, false);
    stream.insert(stream.end(), one.begin(), one.end());
  }
  reader.begin_anywhere();
  reader.add(Bytes(stream).subspan(10), {});
  reader.end();
  EXPECT_EQ(numbers.size(), 39U) << said;
  EXPECT_EQ(said.find_first_of("?-m+"), std::string::npos) << said;
}

// Each good FPDU is followed by bytes that are none, so that each needs a search of its own.
TEST_F(Fpdus, AreFoundInLinearTimeBetweenOthers) {
  Buffer stream = fpdu(1, 65000);  // everything waits for its end
  stream[40] ^= std::byte{1};
  for (std::uint32_t i = 1; i <= 1500; ++i) {
    const Buffer one = fpdu(i, 8);
    stream.insert(stream.end(), one.begin(), one.end());
    stream.insert(stream.end(), 40, std::byte{0xee});
  }
  reader.begin(false);
  reader.add(Bytes(stream).first(4), {});
  reader.gap(4, {});
  reader.add(Bytes(stream).subspan(8), {});
  reader.end();
  EXPECT_EQ(numbers.size(), 2999U + 1) << said.substr(0, 200);
}

// Each fourth byte begins a long FPDU, of which the checksum is wrong.
TEST_F(Fpdus, AreNotSummedUpAgainAndAgain) {
  Buffer stream(400000);
  for (std::size_t at = 0; at + 4 <= stream.size(); at += 4) {
    stream[at] = std::byte{0xc1};  // a tagged FPDU of 49,472 bytes, with any header
    stream[at + 1] = std::byte{0x40};
    stream[at + 2] = std::byte{0xc1};
    stream[at + 3] = std::byte{0x40};
  }
  const Buffer good = fpdu(7, 100);
  stream.insert(stream.end(), good.begin(), good.end());
  reader.begin_anywhere();
  reader.add(stream, {});
  reader.end();
  EXPECT_EQ(said, "F7+");
}

class Records : public testing::Test, public RecordConsumer {
 protected:
  void on_record(const Where&, const Where&, Bytes kept, std::uint64_t size,
                 bool is_whole) override {
    said += std::to_string(kept.size()) + "/" + std::to_string(size) + (is_whole ? " " : "~ ");
  }
  static Buffer fragment(std::size_t size, bool is_last) {
    Buffer out(4 + size);
    iwarp::store32(out.data(), static_cast<std::uint32_t>(size) | (is_last ? 0x80000000U : 0U));
    return out;
  }

  RecordReader reader{*this};
  std::string said;
};

TEST_F(Records, MayHaveFragmentsAndMissingBytes) {
  Buffer stream = fragment(10, false);
  const Buffer end = fragment(30, true);
  stream.insert(stream.end(), end.begin(), end.end());
  for (const std::byte each : stream) EXPECT_TRUE(reader.add(Bytes(&each, 1), {}).empty());
  reader.add(Bytes(end).first(14), {});
  reader.gap(20, {});
  reader.add(end, {});
  EXPECT_EQ(said, "40/40 10/30~ 30/30 ");
}

TEST_F(Records, KeepNothingBehindAGap) {
  reader.add(Bytes(fragment(100, true)).first(14), {});
  reader.gap(20, {});
  reader.add(Buffer(70), {});
  EXPECT_EQ(said, "10/100~ ");
}

TEST_F(Records, KeepTheirFirstBytesAlone) {
  reader.add(fragment(20000, true), {});
  EXPECT_EQ(said, "8192/20000 ");
}

TEST_F(Records, EndWhereTheConnectionStepsUpToRdma) {
  Buffer stream = fragment(24, true);
  const Bytes key = bytes_of("MPA ID Req Frame");
  stream.insert(stream.end(), key.begin(), key.end());
  const Bytes left = reader.add(stream, {});
  EXPECT_EQ(said, "24/24 ");
  EXPECT_EQ(left.size(), 16U);
}

}  // namespace
}  // namespace rpcrdma::explain
