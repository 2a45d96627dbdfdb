// A server whose peer says whatever it likes, in bytes on a real connection: each row of
// docs/invariants.md (P1 to P20) has its outcome, others are still served, and all memory comes
// back. Chunks are in hostile_chunks_test.cc, and what a client has to bear in
// hostile_client_test.cc.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "support/hex.h"
#include "system/hostile_server_for_test.h"
#include "wire/v1/header.h"
#include "wire/v2/header.h"

namespace rpcrdma::test {
namespace {

// --- Messages, P1 to P9 ------------------------------------------------------------------------

// RFC 8166 §3.3.2: 1024 bytes always fit.
class SmallestReceives : public HostileServer {
 protected:
  static ServerOptions smallest() {
    ServerOptions options;
    options.connection.inline_size = 1024;
    options.version = ProtocolVersion::kOne;  // who has version 2 as well has Receives of 4096
    return options;
  }
  SmallestReceives() : HostileServer(smallest()) {}
};

TEST_P(SmallestReceives, TakeMessagesOf1024Bytes) {
  RawTalk talk = this->talk();
  constexpr std::uint32_t kSize = 1024 - 28 - 40 - 4;
  const Message call =
      short_call(kXid, TestService::kAbsorb, join({words({kSize}), Message(kSize)}));
  ASSERT_EQ(call.size(), 1024U);
  const auto answers = answers_to(talk, call);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(to_words(answers[0]).back(), kSize);
}

// RFC 8797: always there, and first, for peers that look nowhere else.
TEST_P(HostileServer, PutsItsPrivateDataFirstIntoItsAnswer) {
  auto peer = connect();
  const auto frame = peer->initiate(RawTalk::mpa(GetParam()));
  constexpr std::size_t kStart = 20 + 4;  // behind the MPA header, and IRD and ORD
  ASSERT_EQ(frame.size(), kStart + 8);
  EXPECT_EQ(to_words(Bytes(frame).subspan(kStart)), (Words{0xf6ab0e18, 0x01010303}))
      << "version 1, R set, 4096 bytes both ways";
}

TEST_P(HostileServer, DropsMessagesShorterThanAPrefix) {  // P1
  const Message call = short_call(kXid, TestService::kNull);
  expect_each({{"nothing", {}}, {"one byte", first(call, 1)}, {"15 bytes", first(call, 15)}},
              [](const Words&) { return std::vector<Words>{}; });
  EXPECT_EQ(dropped(), 3U);
}

TEST_P(HostileServer, TellsItsVersionToEveryOther) {  // P2
  const auto version = [](std::uint32_t value) {
    return join({raw_header(kXid, 0, value), kNoLists, raw_call(kXid, 0)});
  };
  expect_each({{"version 0", version(0)},
               {"version 3", version(3)},
               {"version 4294967295", version(0xffffffffU)},
               {"nothing behind the type", raw_header(kXid, 0, 7)},
               {"an unknown type of another version", raw_header(kXid, 99, 7)}},
              [](const Words& call) {
                return std::vector<Words>{{kXid, call.at(1), 64, 4, 1, 1, 2}};
              });
  EXPECT_EQ(pair_.server->counters().errors_sent, 5U);
  EXPECT_EQ(pair_.server->counters().versions_refused, 5U);
}

TEST_P(HostileServer, RefusesHeadersThatDoNotParse) {  // P3
  const Message call = raw_call(kXid, 0);
  const Message msg = raw_header(kXid, 0);
  Message many_reads;
  for (int i = 0; i < 129; ++i) many_reads = join({many_reads, read_segment(kBulkPosition, 4)});
  Message many_chunks = words({0});
  for (int i = 0; i < 9; ++i) many_chunks = join({many_chunks, words({1}), segments(1, 4)});
  expect_err_chunk({
      {"an unknown type", join({raw_header(kXid, 5), kNoLists, call})},
      {"MSGP", join({raw_header(kXid, 2), words({1024, 512}), kNoLists, call})},
      {"Read list word 2", join({msg, words({2, 0, 0}), call})},
      {"Write list word 2", join({msg, words({0, 2, 0}), call})},
      {"Reply chunk word 2", join({msg, words({0, 0, 2}), call})},
      {"no lists", msg},
      {"lists that end early", join({msg, words({1, 0, kTag})})},
      {"129 Read segments", join({msg, many_reads, kNoLists, call})},
      {"9 Write chunks", join({msg, many_chunks, words({0, 0}), call})},
      {"17 segments in a Write chunk", join({msg, words({0, 1}), segments(17, 4), words({0, 0})})},
      {"17 segments in the Reply chunk", join({msg, words({0, 0, 1}), segments(17, 4), call})},
      {"2^32-1 segments", join({msg, words({0, 1, 0xffffffffU}), words({0, 0})})},
      {"2^28+1 segments, whose bytes are 16", join({msg, words({0, 1, 0x10000001U}), call})},
  });
}

TEST_P(HostileServer, RefusesChunksThatMakeNoSense) {  // P3
  const Message length = words({4});
  const auto reads = [&](std::initializer_list<Message> list) {
    return call_with_reads(join(list), TestService::kLength, length);
  };
  expect_err_chunk({
      {"position 45", reads({read_segment(45, 4)})},
      {"position beyond the stream", reads({read_segment(48, 4)})},
      {"position 4294967292", reads({read_segment(0xfffffffcU, 4)})},
      {"overlapping chunks", reads({read_segment(36, 8), read_segment(40, 4)})},
      {"a chunk behind an overlong one", reads({read_segment(40, 1000), read_segment(44, 4)})},
      {"a chunk above bulk_size_max", reads({read_segment(44, (1U << 20U) + 1)})},
      {"segments whose sum is", reads({read_segment(44, 1U << 19U), read_segment(44, 1U << 20U)})},
      {"segments whose sum wraps", reads({read_segment(44, ~0U), read_segment(44, 5)})},
      {"MSG with a Position-Zero chunk", reads({read_segment(0, 44)})},
      {"MSG without payload", join({raw_header(kXid, 0), kNoLists})},
      {"MSG with half an XID", join({raw_header(kXid, 0), kNoLists, first(length, 2)})},
      {"NOMSG without chunks", long_call({})},
      {"NOMSG without Position-Zero chunk", long_call(read_segment(44, 4))},
      {"NOMSG with payload", join({long_call(read_segment(0, 44)), raw_call(kXid, 0)})},
      {"NOMSG with a Position-Zero chunk of nothing", long_call(read_segment(0, 0))},
      {"the same in two segments", long_call(join({read_segment(0, 0), read_segment(0, 0)}))},
      {"a Long Call above long_call_size_max", long_call(read_segment(0, (1U << 20U) + 4))},
      {"XIDs that differ", join({raw_header(kXid, 0), kNoLists, raw_call(kXid + 1, 0)})},
  });
}

TEST_P(HostileServer, RefusesReadChunksOfAPeerThatServesNoReads) {  // P3
  {
    RawTalk talk = this->talk(0);
    const auto answers = answers_to(
        talk, call_with_reads(read_segment(kBulkPosition, 8), TestService::kLength, words({8})));
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(to_words(answers[0]), (Words{kXid, 1, 64, 4, 2}));
    expect_served();
  }
  expect_clean();
}

TEST_P(HostileServer, DropsErrorsAndDone) {  // P4
  expect_each({{"ERR_CHUNK", join({raw_header(kXid, 4), words({2})})},
               {"ERR_VERS", join({raw_header(kXid, 4), words({1, 1, 1})})},
               {"an error of another version", join({raw_header(kXid, 4, 9), words({1, 1, 1})})},
               {"an error without its code", raw_header(kXid, 4)},
               {"DONE", raw_header(kXid, 3)}},
              [](const Words&) { return std::vector<Words>{}; });
  EXPECT_EQ(dropped(), 5U);
}

TEST_P(HostileServer, RefusesWhatIsNoRpcCall) {  // P5
  const auto payload = [](const Message& bytes) {
    return join({raw_header(kXid, 0), kNoLists, bytes});
  };
  expect_err_chunk({{"an XID alone", payload(words({kXid}))},
                    {"half a Call", payload(first(raw_call(kXid, 0), 30))}});
}

// XIDs are separate for each direction: an error would end an innocent Call of the same XID.
TEST_P(HostileServer, DropsRepliesWithoutAnAnswer) {  // P5
  const auto none = [](const Words&) { return std::vector<Words>{}; };
  const auto payload = [](const Message& bytes) {
    return join({raw_header(kXid, 0), kNoLists, bytes});
  };
  const std::vector<Row> rows = {
      {"a reply", payload(test::raw_reply(kXid))},
      {"message type 2", payload(words({kXid, 2, 2, 1, 1, 1, 0, 0, 0, 0}))},
      {"a reply with a Write list", join({raw_header(kXid, 0), words({0, 1}), segments(1, 500),
                                          words({0, 0}), test::raw_reply(kXid)})}};
  expect_each(rows, none);
  EXPECT_EQ(dropped(), 3U);
  // As many as there are Receives, and as many again: each is posted again.
  RawTalk talk = this->talk();
  for (int i = 0; i < 3 * 64; ++i) {
    EXPECT_TRUE(answers_to(talk, payload(test::raw_reply(kXid))).empty()) << i;
  }
}

TEST_P(HostileServer, DeniesOtherRpcVersions) {  // P6
  const Message call = words({kXid, 0, 3, TestService::kProgram, 3, 0, 0, 0, 0, 0});
  expect_reply({{"RPC version 3", join({raw_header(kXid, 0), kNoLists, call})}},
               {1, 1, 0, 2, 2});  // MSG_DENIED, RPC_MISMATCH, 2 to 2
}

TEST_P(HostileServer, DeniesBadCredentials) {  // P6
  const auto credential = [](std::uint32_t flavor, std::uint32_t size) {
    Message body(size + (-size % 4));
    return join({raw_header(kXid, 0), kNoLists,
                 words({kXid, 0, 2, TestService::kProgram, 3, 0, flavor, size}), body,
                 words({0, 0})});
  };
  const auto denied = [](std::uint32_t why) { return Words{1, 1, 1, why}; };
  expect_reply({{"a credential of 404 bytes", credential(1, 404)}}, denied(1));
  const auto auth_sys = [](const Message& body) {
    const auto size = static_cast<std::uint32_t>(body.size());
    return join({raw_header(kXid, 0), kNoLists,
                 words({kXid, 0, 2, TestService::kProgram, 3, TestService::kWhoAmI, 1, size}), body,
                 words({0, 0})});
  };
  expect_reply({{"AUTH_SYS without a body", auth_sys({})},
                {"AUTH_SYS that is cut off", auth_sys(words({1, 0, 2, 3}))},
                {"AUTH_SYS with a machine name of 256 bytes",
                 auth_sys(join({words({1, 256}), Message(256), words({2, 3, 0})}))},
                {"AUTH_SYS of 17 groups",
                 auth_sys(join({words({1, 0, 2, 3, 17}), Message(std::size_t{17} * 4)}))},
                {"AUTH_SYS with bytes behind it", auth_sys(words({1, 0, 2, 3, 0, 0}))}},
               denied(1));
  // Flavors that nobody checks here, in every procedure: RFC 5531 §9.
  const auto of_flavor = [](std::uint32_t flavor, std::uint32_t procedure, const Message& body) {
    const auto size = static_cast<std::uint32_t>(body.size());
    return join({raw_header(kXid, 0), kNoLists,
                 words({kXid, 0, 2, TestService::kProgram, 3, procedure, flavor, size}), body,
                 words({0, 0})});
  };
  const Message init = words({1, 1, 0, 1, 0}), data = words({1, 0, 1, 1, 8, 0, 77});
  expect_reply(
      {{"NULL with RPCSEC_GSS, which makes a context elsewhere", of_flavor(6, 0, init)},
       {"a call with RPCSEC_GSS", of_flavor(6, TestService::kWhoAmI, data)},
       {"RPCSEC_GSS without a body", of_flavor(6, TestService::kWhoAmI, {})},
       {"AUTH_DH", of_flavor(3, TestService::kWhoAmI, Message(20))},
       {"a flavor that does not exist", of_flavor(0x7fffffff, TestService::kWhoAmI, words({1}))}},
      denied(1));
  expect_reply({{"AUTH_SHORT", of_flavor(2, TestService::kWhoAmI, words({1}))},
                {"NULL with AUTH_SHORT", of_flavor(2, 0, {})}},
               denied(2));
  expect_reply(
      {{"AUTH_SYS at its limits", auth_sys(join({words({1, 255}), Message(256), words({2, 3, 16}),
                                                 Message(std::size_t{16} * 4)}))}},
      {1, 0, 0, 0, 0, 2});
  expect_reply(
      {{"a verifier of 404 bytes",
        join({raw_header(kXid, 0), kNoLists,
              words({kXid, 0, 2, TestService::kProgram, 3, 0, 0, 0, 0, 404}), Message(404)})}},
      denied(3));
}

TEST_P(HostileServer, TellsWhatItDoesNotServeAndLeavesReadChunksAlone) {  // P7
  const auto ask = [](std::uint32_t program, std::uint32_t version, std::uint32_t procedure) {
    return join({raw_header(kXid, 0), read_segment(kBulkPosition, 4096), kNoLists,
                 words({kXid, 0, 2, program, version, procedure, 0, 0, 0, 0}), words({4096})});
  };
  expect_reply({{"program 1", ask(1, 1, 1)}}, {1, 0, 0, 0, 1});
  expect_reply({{"version 9", ask(TestService::kProgram, 9, 1)}}, {1, 0, 0, 0, 2, 3, 3});
  expect_reply({{"procedure 77", ask(TestService::kProgram, 3, 77)}}, {1, 0, 0, 0, 3});
  EXPECT_EQ(pair_.service.calls, 3U) << "those of the other client";
}

// The answer is the first thing that is said, before any Read Request.
TEST_P(HostileServer, AsksForNothingThatItWillRefuse) {  // P7
  const std::uint32_t program = TestService::kProgram;
  for (const Words& asked : {Words{1, 1, 1}, Words{program, 9, 1}, Words{program, 3, 77}}) {
    {
      RawTalk talk = this->talk();
      ASSERT_TRUE(talk.send(
          join({raw_header(kXid, 0), read_segment(kBulkPosition, 4096), kNoLists,
                words({kXid, 0, 2, asked[0], asked[1], asked[2], 0, 0, 0, 0}), words({4096})})));
      const auto said = talk.next();
      ASSERT_TRUE(said);
      EXPECT_TRUE(iwarp::is_send(said->header.opcode));
    }
    expect_clean();
  }
}

TEST_P(HostileServer, TellsThatArgumentsAreGarbage) {  // P8
  expect_reply(
      {{"no arguments", short_call(kXid, TestService::kLength)},
       {"a count beyond the message", short_call(kXid, TestService::kLength, words({~0U}))},
       {"arguments that go on", short_call(kXid, TestService::kLength, words({0, 0}))},
       {"bulk that the procedure does not take",
        call_with_reads(read_segment(44, 4096), TestService::kProduce, words({4096}))},
       {"bulk for the NULL procedure",
        call_with_reads(read_segment(40, 4096), TestService::kNull, {})}},
      {1, 0, 0, 0, 4});
}

// bis-02 §3.1.4.2: of arguments, of a machine name and of a credential.
TEST_P(HostileServer, IgnoresTheContentOfFillBytes) {
  expect_reply(
      {{"of an argument", short_call(kXid, TestService::kAbsorb, words({1, 0x41616161}))},
       {"of AUTH_SYS", join({raw_header(kXid, 0), kNoLists,
                             words({kXid, 0, 2, TestService::kProgram, 3, TestService::kAbsorb, 1,
                                    24, 0, 1, 0x61ffffff, 2, 3, 0, 0, 0, 1, 0x41000001})})}},
      {1, 0, 0, 0, 0, 1});
}

TEST_P(HostileServer, RefusesCallsThatHaveNoRoomForTheirReply) {  // P9
  const Message produce = join({raw_call(kXid, TestService::kProduce), words({5000})});
  const Message echo = join({raw_call(kXid, TestService::kEcho), words({8, 1, 2})});
  const Message msg = raw_header(kXid, 0);
  expect_err_chunk({
      {"no Reply chunk", join({msg, kNoLists, produce})},
      {"a Reply chunk of 4999 bytes", join({msg, words({0, 0, 1}), segments(1, 4999), produce})},
      {"a Reply chunk without segments", join({msg, words({0, 0, 1, 0}), produce})},
      {"a Reply chunk of empty segments", join({msg, words({0, 0, 1}), segments(16, 0), produce})},
      {"a Write chunk of 7 bytes", join({msg, words({0, 1}), segments(1, 7), words({0, 0}), echo})},
      {"a Write chunk without segments", join({msg, words({0, 1, 0, 0, 0}), echo})},
  });
}

bool is_rpc_reply(const Message& message) {
  wire::ChunkLists lists;
  if (const auto decoded = wire::v2::decode(message, {}, lists)) {
    const auto* msg = std::get_if<wire::v2::Msg>(&decoded->header.body);
    const auto* nomsg = std::get_if<wire::v2::NoMsg>(&decoded->header.body);
    return (msg != nullptr && msg->direction == wire::v2::Direction::kReply) ||
           (nomsg != nullptr && nomsg->direction == wire::v2::Direction::kReply);
  }
  // Where the lists are cut off, the direction is there already.
  const bool is_cut = message.size() >= 20 && to_words(message)[1] == 2;
  if (is_cut && to_words(message)[3] <= 1 && to_words(message)[4] == 1) return true;
  const auto decoded = wire::v1::decode(message, {}, lists);
  return decoded && std::holds_alternative<wire::v1::Msg>(decoded->header.body) &&
         decoded->payload.size() >= 8 && xdr::load_word(decoded->payload.data() + 4) == 1;
}

// Every prefix of every golden message, as a Send of its own.
TEST_P(HostileServer, HasOneAnswerForEveryPrefixOfTheGoldenMessages) {
  for (const auto& file : std::filesystem::directory_iterator(RPCRDMA_GOLDEN_DIR)) {
    if (file.path().extension() != ".hex") continue;
    const Message whole = test::load_hex(file.path().string());
    SCOPED_TRACE(file.path().filename());
    {
      RawTalk talk = this->talk();
      for (std::size_t size = 0; size <= whole.size(); ++size) {
        const Message message = first(whole, size);
        const auto answers = answers_to(talk, message);
        const std::uint32_t type = size < 16 ? 4 : to_words(message).at(3);
        // A whole message is heard; a request is answered.
        const bool is_heard = type == 5 && size == whole.size() && to_words(message).at(5) != 2;
        const bool is_dropped = type == 4 || type == 3 || is_rpc_reply(message);
        // Only a Long Call that is whole goes on, to an RDMA Read that nobody answers.
        const std::size_t read_list = size < 8 || to_words(message).at(1) == 1 ? 4 : 5;
        const bool is_pulled =
            type == 1 && size == whole.size() && to_words(message).at(read_list) == 1;
        ASSERT_EQ(answers.size(), is_dropped || is_pulled || is_heard ? 0U : 1U)
            << size << " bytes";
        for (const Message& each : answers) EXPECT_EQ(to_words(each)[0], to_words(message)[0]);
      }
      expect_served();
    }
    expect_clean();
  }
}

// --- RDMA operations and framing, P14 to P17 ---------------------------------------------------

TEST_P(HostileServer, EndsAConnectionThatInvalidates) {  // P14
  expect_end("a guessed tag", Fault::kProtectionCannotInvalidate, [](RawTalk& talk) {
    talk.send_invalidating(kTag, short_call(kXid, TestService::kNull));
  });
}

TEST_P(HostileServer, EndsAConnectionThatGuessesTags) {  // P15
  expect_end("Write", Fault::kTaggedInvalidStag,
             [](RawTalk& talk) { talk.write(kTag, 0x1000, Message(100)); });
  expect_end("Read", Fault::kProtectionInvalidStag, [](RawTalk& talk) {
    talk.read_request(1, {SteeringTag{1}, 0, 100, SteeringTag{kTag}, 0x1000});
  });
  expect_end("Read Response to nothing", Fault::kOperationOpcode,
             [](RawTalk& talk) { talk.read_response(kTag, 0x1000, Message(100)); });
}

TEST_P(HostileServer, EndsAConnectionWithAMessageLongerThanAReceive) {  // P16
  expect_end("4097 bytes", Fault::kUntaggedTooLong, [](RawTalk& talk) {
    Message message = short_call(kXid, TestService::kNull);
    message.resize(4097);
    talk.send(message);
  });
  {
    RawTalk talk = this->talk();  // 4096 are not too many
    Message message = short_call(kXid, TestService::kAbsorb, words({4096 - 72}));
    message.resize(4096);
    const auto answers = answers_to(talk, message);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(to_words(answers[0]).back(), 4096U - 72);
  }
  expect_clean();
}

TEST_P(HostileServer, EndsAConnectionWithMoreCallsThanCredits) {  // P16
  expect_end("65 calls that stay", Fault::kUntaggedNoBuffer, [](RawTalk& talk) {
    for (std::uint32_t i = 0; i < 65; ++i) talk.send(short_call(kXid + i, TestService::kHold));
  });
}

TEST_P(HostileServer, EndsAConnectionWithBrokenFraming) {  // P17
  const auto bent = [](std::size_t at, std::byte value) {
    return [=](RawTalk& talk) {
      Message ulpdu = test::raw_send(1, short_call(kXid, TestService::kNull));
      ulpdu[at] = value;
      talk.send_ulpdu(ulpdu);
    };
  };
  expect_end("DDP version 2", Fault::kUntaggedVersion, bent(0, std::byte{0x42}));
  expect_end("RDMAP version 2", Fault::kOperationVersion, bent(1, std::byte{0x83}));
  expect_end("opcode 15", Fault::kOperationOpcode, bent(1, std::byte{0x4f}));
  expect_end("queue 3", Fault::kUntaggedQueue, bent(9, std::byte{3}));
  expect_end("message number 2", Fault::kUntaggedMsn, bent(13, std::byte{2}));
  expect_end("message offset 1", Fault::kUntaggedOffset, bent(17, std::byte{1}));
  expect_end("no room for a header", Fault::kLlpLength, [](RawTalk& talk) {
    const Message ulpdu = test::raw_send(1, {});
    talk.send_ulpdu(Bytes(ulpdu).first(17));
  });
  if (!GetParam()) return;
  expect_end("a bad CRC", Fault::kLlpCrc, [](RawTalk& talk) {
    Message fpdu = talk.send_fpdu(short_call(kXid, TestService::kNull));
    fpdu.back() ^= std::byte{1};
    talk.peer().send(fpdu);
  });
}

TEST_P(HostileServer, EndsAConnectionThatTerminates) {
  expect_end("Terminate", Fault::kNone,
             [](RawTalk& talk) { talk.terminate(Fault::kRdmapCatastrophic); });
}

// --- Silence and sudden ends, P18 to P20 -------------------------------------------------------

TEST(HostileSetup, PeerThatDoesNotFinishTheSetUpIsDropped) {  // P18
  ServerOptions options;
  options.provider.setup_timeout_server = std::chrono::milliseconds(50);
  auto server = Server::listen("rdma://127.0.0.1:0", options);
  ASSERT_TRUE(server) << server.error().message();
  const Message request = test::raw_mpa_frame(false, RawTalk::mpa(true));
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, request.size() - 1}) {
    const auto peer = RawPeer::connect(server->address(), [&] { server->progress(); });
    ASSERT_NE(peer, nullptr);
    ASSERT_TRUE(peer->send(first(request, size)));
    EXPECT_EQ(peer->receive_to_end(), Message{}) << size << " bytes";
  }
  EXPECT_EQ(server->connections(), 0U);
}

TEST_P(HostileServer, SurvivesAPeerThatEndsAtAnyByteOfTheSetUp) {  // P19
  const Message request = test::raw_mpa_frame(false, RawTalk::mpa(GetParam()));
  for (std::size_t size = 0; size <= request.size(); ++size) {
    for (const bool reset : {false, true}) {
      const auto peer = connect();
      ASSERT_TRUE(peer->send(first(request, size)));
      reset ? peer->reset() : peer->finish();
      pair_.server->progress();
    }
  }
  expect_served();
  expect_clean();
}

// The bytes of every golden message in its FPDU, cut anywhere: header, payload, fill bytes, CRC.
TEST_P(HostileServer, SurvivesAPeerThatEndsAtAnyByteOfAMessage) {  // P19
  for (const auto& file : std::filesystem::directory_iterator(RPCRDMA_GOLDEN_DIR)) {
    if (file.path().extension() != ".hex") continue;
    SCOPED_TRACE(file.path().filename());
    const Message message = test::load_hex(file.path().string());
    for (std::size_t size = 0;; ++size) {
      RawTalk talk = this->talk();
      const Message fpdu = talk.send_fpdu(message);
      if (size > fpdu.size()) break;
      ASSERT_TRUE(talk.peer().send(first(fpdu, size)));
      size % 2 == 0 ? talk.peer().finish() : talk.peer().reset();
      pair_.server->progress();
    }
    expect_served();
    expect_clean();
  }
}

TEST_P(HostileServer, KeepsACallWhosePeerIsGoneUntilItIsAnswered) {  // P19
  {
    RawTalk talk = this->talk();
    ASSERT_TRUE(talk.send(short_call(kXid, TestService::kHold)));
    ASSERT_TRUE(talk.peer().pump_until([&] { return pair_.service.held.size() == 1; }));
  }
  expect_served();
  EXPECT_EQ(pair_.server->connections(), 2U);
  release_held();
  expect_clean();
}

TEST_P(HostileServer, GivesAllMemoryBackWhenAPeerThatDoesNotReadCloses) {  // P20
  constexpr std::uint32_t kCalls = 20;
  {
    RawTalk talk = this->talk();
    for (std::uint32_t i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(
          talk.send(join({raw_header(kXid + i, 0), words({0, 0, 1}), segments(1, (1U << 20U) + 64),
                          raw_call(kXid + i, TestService::kProduce), words({1U << 20U})})));
    }
    ASSERT_TRUE(talk.peer().pump_until([&] { return pair_.service.calls == kCalls; }));
    EXPECT_GT(pair_.server->memory_in_use(), 0U);
    EXPECT_LE(pair_.server->memory_in_use(), kCalls * (2U << 20U) + (1U << 20U));
    expect_served();
  }
  expect_clean();
}

// A peer that takes many credits, asks for replies in many segments and does not read them, until
// no more work fits into the queue pair.
class HostileFullQueue : public HostileServer {
 protected:
  static ServerOptions options() {
    ServerOptions options;
    options.connection.credits = kCalls;
    options.peer_timeout = std::chrono::milliseconds(300);
    return options;
  }
  static constexpr std::uint32_t kCalls = 200;
  static constexpr std::uint32_t kSize = 128 * 1024;

  HostileFullQueue() : HostileServer(options()) {}
  void fill_queue(RawTalk& talk) {
    for (std::uint32_t i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(
          talk.send(join({raw_header(kXid + i, 0), words({0, 0, 1}), segments(16, kSize / 15),
                          raw_call(kXid + i, TestService::kProduce), words({kSize})})));
    }
    ASSERT_TRUE(talk.peer().pump_until([&] { return pair_.service.calls == kCalls; }));
    EXPECT_GT(pair_.server->memory_in_use(), 0U);
  }
};

TEST_P(HostileFullQueue, IsClearedWhenThePeerCloses) {  // P19
  {
    RawTalk talk = this->talk();
    fill_queue(talk);
  }
  expect_served();
  expect_clean();
}

TEST_P(HostileFullQueue, IsGivenUpWhenThePeerDoesNotRead) {  // P21
  RawTalk talk = this->talk();
  fill_queue(talk);
  expect_clean();
  expect_served();
}

INSTANTIATE_TEST_SUITE_P(Wire, HostileServer, ::testing::Bool(), kCrcName);
INSTANTIATE_TEST_SUITE_P(Wire, SmallestReceives, ::testing::Bool(), kCrcName);
INSTANTIATE_TEST_SUITE_P(Wire, HostileFullQueue, ::testing::Bool(), kCrcName);

}  // namespace
}  // namespace rpcrdma::test
