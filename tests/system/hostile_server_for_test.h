// A server whose peer speaks bytes on a real connection: what the tests of hostile_test.cc and
// hostile_chunks_test.cc share.
#ifndef RPCRDMA_TESTS_SYSTEM_HOSTILE_SERVER_FOR_TEST_H_
#define RPCRDMA_TESTS_SYSTEM_HOSTILE_SERVER_FOR_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {

using iwarp::Fault;
using Words = std::vector<std::uint32_t>;

inline constexpr std::uint32_t kXid = 0x77000001;
inline constexpr std::uint32_t kMarkerXid = 0x77ffffff;
inline constexpr std::uint32_t kTag = 0x4711;

// A MSG without chunks around the TestService's procedure.
inline Message short_call(std::uint32_t xid, std::uint32_t procedure,
                          const Message& arguments = {}) {
  return join({raw_header(xid, 0), kNoLists, raw_call(xid, procedure), arguments});
}
inline Message read_segment(std::uint32_t position, std::uint32_t size, std::uint32_t tag = kTag) {
  return words({1, position, tag, size, 0, 0x1000});
}
inline Message segments(std::uint32_t count, std::uint32_t size) {
  Message bytes = words({count});
  for (std::uint32_t i = 0; i < count; ++i) bytes = join({bytes, words({kTag, size, 0, 0x1000})});
  return bytes;
}
// A MSG whose Read list is `reads`.
inline Message call_with_reads(const Message& reads, std::uint32_t procedure,
                               const Message& arguments) {
  return join({raw_header(kXid, 0), reads, kNoLists, raw_call(kXid, procedure), arguments});
}
inline Message long_call(const Message& reads) {
  return join({raw_header(kXid, 1), reads, kNoLists});
}
// The position of the first argument of a bulk procedure, behind its count word.
inline constexpr std::uint32_t kBulkPosition = 44;

struct Row {
  const char* what;
  Message message;
};

class HostileServer : public ::testing::TestWithParam<bool> {  // with CRC
 protected:
  explicit HostileServer(ServerOptions options = {})
      : pair_(make_siwarp(GetParam()), {}, options) {}

  RawPeer::Pump pump() {
    return [this] {
      pair_.server->progress();
      pair_.client->progress();
    };
  }
  std::unique_ptr<RawPeer> connect() {
    auto peer = RawPeer::connect(pair_.server->address(), pump());
    EXPECT_NE(peer, nullptr);
    return peer;
  }
  RawTalk talk(unsigned ird = 16) {
    auto peer = connect();
    RawMpa mpa = RawTalk::mpa(GetParam());
    mpa.ird = ird;
    EXPECT_FALSE(peer->initiate(mpa).empty());
    return {std::move(peer), GetParam()};
  }
  // Returns what the server says to a message before it answers a NULL Call that comes behind.
  std::vector<Message> answers_to(RawTalk& talk, const Message& message) {
    EXPECT_TRUE(talk.send(message));
    EXPECT_TRUE(talk.send(short_call(kMarkerXid, TestService::kNull)));
    std::vector<Message> answers;
    for (;;) {
      const auto answer = talk.next_message();
      if (!answer) {
        ADD_FAILURE() << "the connection has ended, or is stuck";
        return answers;
      }
      const Words said = to_words(*answer);
      if (said.at(0) == kMarkerXid) return answers;
      if (said.at(1) == 2 && said.at(3) == 5 && said.at(4) == 0) continue;  // it makes itself known
      answers.push_back(*answer);
    }
  }
  // A well-behaved client, which was here all the time, is served as ever.
  void expect_served() {
    const auto data = pattern(5000, 3);
    std::vector<std::byte> place(data.size());
    auto call = pair_.prepare(TestService::kEcho);
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().bulk(data);
    call->place_result(place);
    const auto error = pair_.finish(std::move(*call),
                                    [](Reply& reply) { reply.results().bulk(1U << 20U, "data"); });
    EXPECT_FALSE(error) << error->message();
    EXPECT_EQ(place, data);
  }
  // Nothing is left of the peer, which is gone.
  void expect_clean() {
    EXPECT_TRUE(pair_.run_until(
        [&] { return pair_.server->connections() == 1 && pair_.server->memory_in_use() == 0; }));
  }
  // Each message, on a connection of its own, gets this one answer (none: is dropped).
  void expect_each(const std::vector<Row>& rows,
                   const std::function<std::vector<Words>(const Words&)>& answer) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      {
        RawTalk talk = this->talk();
        std::vector<Words> got;
        for (const Message& each : answers_to(talk, row.message)) got.push_back(to_words(each));
        EXPECT_EQ(got, answer(to_words(row.message)));
        expect_served();
      }
      expect_clean();
    }
  }
  void expect_err_chunk(const std::vector<Row>& rows) {
    expect_each(rows, [](const Words& call) {
      return std::vector<Words>{{call.at(0), 1, 64, 4, 2}};
    });
  }
  // An RPC reply in a MSG without chunks; `rest` stands behind the XID.
  void expect_reply(const std::vector<Row>& rows, const Words& rest) {
    expect_each(rows, [&](const Words& call) {
      Words reply{call.at(0), 1, 64, 0, 0, 0, 0, call.at(0)};
      reply.insert(reply.end(), rest.begin(), rest.end());
      return std::vector<Words>{reply};
    });
  }
  // The act ends the connection with a Terminate that tells the fault; kNone: without a Terminate.
  void expect_end(const char* what, Fault fault, const std::function<void(RawTalk&)>& act) {
    SCOPED_TRACE(what);
    {
      RawTalk talk = this->talk();
      act(talk);
      const auto told = talk.fault_at_end();
      ASSERT_TRUE(told) << "the connection lives";
      EXPECT_EQ(*told, fault) << to_string(*told);
      expect_served();
    }
    release_held();
    expect_clean();
  }
  void release_held() {
    for (CallContext* context : pair_.service.held) context->succeed();
    pair_.service.held.clear();
  }
  std::uint64_t dropped() const { return pair_.server->counters().messages_dropped; }

  RpcPair pair_;
};

inline const auto kCrcName = [](const ::testing::TestParamInfo<bool>& test) {
  return test.param ? "WithCrc" : "WithoutCrc";
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SYSTEM_HOSTILE_SERVER_FOR_TEST_H_
