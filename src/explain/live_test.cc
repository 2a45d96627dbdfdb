// Records of a server's tap become calls, as packets do.
#include "explain/live.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rpcrdma::explain {
namespace {

using Kind = TapRecord::Kind;

void put(std::vector<std::byte>& to, std::initializer_list<std::uint32_t> words) {
  for (const std::uint32_t word : words) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) to.push_back(std::byte(word >> shift));
  }
}

struct Kept : Sink {
  void on_call(const CallFact& call, const ConnectionFact& connection) override {
    calls.push_back(call);
    transports.push_back(connection.transport);
  }
  void on_finding(const Finding& finding, const ConnectionFact&) override {
    findings.emplace_back(finding.rule->id);
  }
  void on_connection(const ConnectionFact& connection) override { ends.push_back(connection); }

  std::vector<CallFact> calls;
  std::vector<Transport> transports;
  std::vector<std::string> findings;
  std::vector<ConnectionFact> ends;
};

class LiveTest : public testing::Test {
 protected:
  void introduce(std::uint64_t connection, std::uint32_t carrier = 1,
                 std::uint8_t flags = TapRecord::kSeenFromTheStart) {
    TapRecord record = of(Kind::kConnection, connection);
    record.flags = flags;
    record.size = carrier;
    record.tag = 1024;
    record.address = 1024;
    live.add(record, {}, {.port = 700});
  }
  TapRecord of(Kind kind, std::uint64_t connection) {
    TapRecord record;
    record.kind = kind;
    record.connection = connection;
    record.time = ++time * 1000;
    return record;
  }
  void send(Kind kind, std::uint64_t connection, const std::vector<std::byte>& bytes) {
    TapRecord record = of(kind, connection);
    record.size = bytes.size();
    live.add(record, bytes, {});
  }
  // A Call of NULL of NFSv3, with these words as the chunk lists.
  static std::vector<std::byte> call(std::uint32_t xid,
                                     std::initializer_list<std::uint32_t> lists = {0, 0, 0}) {
    std::vector<std::byte> bytes;
    put(bytes, {xid, 1, 8, 0});
    put(bytes, lists);
    append_rpc_call(bytes, xid);
    return bytes;
  }
  static void append_rpc_call(std::vector<std::byte>& bytes, std::uint32_t xid) {
    put(bytes, {xid, 0, 2, 100003, 3, 0, 0, 0, 0, 0});
  }
  static std::vector<std::byte> reply(std::uint32_t xid) {
    std::vector<std::byte> bytes;
    put(bytes, {xid, 1, 8, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0});
    return bytes;
  }

  Kept sink;
  Live live{sink, {.rdma = {.port = 20049}, .tcp = {.port = 2049}}, false};
  std::int64_t time = 0;
};

TEST_F(LiveTest, CallsOfSeveralConnectionsAreJoinedWithTheirReplies) {
  introduce(5);
  introduce(9, 2);
  send(Kind::kReceived, 5, call(1));
  std::vector<std::byte> record;
  append_rpc_call(record, 1);
  send(Kind::kRecordReceived, 9, record);
  send(Kind::kSend, 5, reply(1));
  std::vector<std::byte> answer;
  put(answer, {1, 1, 0, 0, 0, 0});
  send(Kind::kRecordSent, 9, answer);
  ASSERT_EQ(sink.calls.size(), 2U);
  EXPECT_EQ(sink.transports[0], Transport::kRdma);
  EXPECT_EQ(sink.calls[0].program, 100003U);
  EXPECT_EQ(sink.calls[0].outcome, Outcome::kAnswered);
  EXPECT_EQ(sink.calls[0].call_limit, 1024U);
  EXPECT_EQ(sink.calls[0].duration(), 2000);
  EXPECT_EQ(sink.transports[1], Transport::kTcp);
  EXPECT_EQ(sink.calls[1].outcome, Outcome::kAnswered);
  live.finish();
  ASSERT_EQ(sink.ends.size(), 2U);
  EXPECT_EQ(sink.ends[0].sides[0].endpoint.port, 700U);
  EXPECT_EQ(sink.ends[0].sides[1].endpoint.port, 20049U);
  EXPECT_EQ(sink.ends[1].sides[1].endpoint.port, 2049U);
  EXPECT_TRUE(sink.findings.empty());
}

TEST_F(LiveTest, LongCallIsReadFromWhatItsReadBrought) {
  introduce(1);
  std::vector<std::byte> head;
  put(head, {7, 1, 8, 1, 1, 0, 0x55, 2000, 0, 0x1000, 0, 0, 0});
  send(Kind::kReceived, 1, head);
  TapRecord read = of(Kind::kRead, 1);
  read.tag = 0x55;
  read.address = 0x1000;
  read.size = 2000;
  live.add(read, {}, {});
  std::vector<std::byte> body;
  append_rpc_call(body, 7);
  TapRecord done = of(Kind::kReadDone, 1);
  done.size = 2000;
  live.add(done, body, {});
  send(Kind::kSend, 1, reply(7));
  ASSERT_EQ(sink.calls.size(), 1U);
  EXPECT_EQ(sink.calls[0].call_form, Form::kLong);
  EXPECT_EQ(sink.calls[0].program, 100003U);
  EXPECT_EQ(sink.calls[0].read_bytes, 2000U);
  EXPECT_EQ(phases_of(sink.calls[0]).reading, 2000);
}

TEST_F(LiveTest, RulesAreJudgedWhereTheWholeConnectionIsSeen) {
  introduce(1);
  send(Kind::kReceived, 1, call(1));
  TapRecord write = of(Kind::kWrite, 1);
  write.tag = 0x99;
  write.size = 4;
  live.add(write, {}, {});
  send(Kind::kSend, 1, reply(1));
  live.finish();
  EXPECT_EQ(sink.findings, std::vector<std::string>{"V1-S5"});
}

TEST_F(LiveTest, RulesThatNeedAllRecordsAreNotJudgedBehindALoss) {
  introduce(1);
  send(Kind::kReceived, 1, call(1));
  TapRecord loss = of(Kind::kLost, 0);
  loss.size = 3;
  live.add(loss, {}, {});
  TapRecord write = of(Kind::kWrite, 1);
  write.tag = 0x99;
  write.size = 4;
  live.add(write, {}, {});
  send(Kind::kSend, 1, reply(2));
  live.finish();
  EXPECT_TRUE(sink.findings.empty()) << sink.findings.front();
  EXPECT_EQ(live.lost(), 3U);
}

TEST_F(LiveTest, CallsOfAConnectionThatEndsAreLost) {
  introduce(1);
  send(Kind::kReceived, 1, call(1));
  live.add(of(Kind::kEnd, 1), {}, {});
  ASSERT_EQ(sink.calls.size(), 1U);
  EXPECT_EQ(sink.calls[0].outcome, Outcome::kLost);
  ASSERT_EQ(sink.ends.size(), 1U);
  EXPECT_FALSE(sink.ends[0].ended_by.empty());
}

TEST_F(LiveTest, ConnectionsThatWereSilentLongestGoWhenTheirEndsAreLost) {
  constexpr std::uint64_t kMost = 16384;
  for (std::uint64_t number = 1; number <= kMost; ++number) introduce(number);
  send(Kind::kReceived, 1, call(1));
  EXPECT_TRUE(sink.ends.empty());
  introduce(kMost + 1);
  introduce(kMost + 2);
  ASSERT_EQ(sink.ends.size(), 2U);
  EXPECT_EQ(sink.ends[0].number, 2U);
  EXPECT_EQ(sink.ends[1].number, 3U);
  EXPECT_TRUE(sink.ends[0].ended_by.empty());
  send(Kind::kSend, 1, reply(1));
  EXPECT_EQ(sink.calls.size(), 1U);
  live.finish();
  EXPECT_EQ(sink.ends.size(), kMost + 2);
}

}  // namespace
}  // namespace rpcrdma::explain
