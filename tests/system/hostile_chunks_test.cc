// Chunks whose memory a hostile client does not open, or opens otherwise than it said: the rows of
// docs/invariants.md on RDMA Reads and Writes of a server.
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>

#include "system/hostile_server_for_test.h"

namespace rpcrdma::test {
namespace {

// --- Chunks that their owner does not open for Writes ------------------------------------------

// RFC 8166 §4.5.4. The first time, the refusal ends the connection; when the same Call is made
// again, ERR_CHUNK says what is wrong with it, and the connection lives.
class HostileWrites : public HostileServer {
 protected:
  static constexpr std::uint32_t kSize = 5000;
  // Makes the Call, refuses the first RDMA Write of its reply, with its header or without, and
  // makes the Call again.
  void expect_refused_when_made_again(const char* what, const Message& call, Fault fault,
                                      bool has_header = true) {
    expect_end(what, Fault::kNone, [&](RawTalk& talk) {
      ASSERT_TRUE(talk.send(call));
      const auto write = talk.next();
      ASSERT_TRUE(write);
      ASSERT_EQ(write->header.opcode, iwarp::Opcode::kWrite);
      EXPECT_EQ(write->header.tag, SteeringTag{kTag});
      ASSERT_TRUE(has_header ? talk.terminate(fault, write->bytes) : talk.terminate(fault));
    });
    for (int again = 0; again < 3; ++again) {
      RawTalk talk = this->talk();
      const auto answers = answers_to(talk, call);
      ASSERT_EQ(answers.size(), 1U) << what;
      EXPECT_EQ(to_words(answers[0]), (Words{kXid, 1, 64, 4, 2})) << what;
    }
  }
  static Message write_call(std::uint32_t xid) {
    return join({raw_header(xid, 0), words({0, 1}), segments(1, kSize), words({0, 0}),
                 raw_call(xid, TestService::kEcho), words({40}), Message(40)});
  }
  static Message reply_chunk_call() {
    return join({raw_header(kXid, 0), words({0, 0, 1}), segments(1, 60'000),
                 raw_call(kXid, TestService::kProduce), words({50'000})});
  }
};

TEST_P(HostileWrites, AreRefusedWhenTheCallIsMadeAgain) {
  expect_refused_when_made_again("Write chunk", write_call(kXid), Fault::kTaggedInvalidStag);
  // Another Call is not the one that was so bad.
  RawTalk talk = this->talk();
  ASSERT_TRUE(talk.send(write_call(kXid + 1)));
  const auto write = talk.next();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->header.opcode, iwarp::Opcode::kWrite);
}

TEST_P(HostileWrites, IntoTheReplyChunkAreRefusedWhenTheCallIsMadeAgain) {
  expect_refused_when_made_again("Reply chunk", reply_chunk_call(), Fault::kTaggedInvalidStag);
}

TEST_P(HostileWrites, BeyondTheEndOfTheirMemoryAreRefusedWhenTheCallIsMadeAgain) {
  expect_refused_when_made_again("overlong", reply_chunk_call(), Fault::kTaggedBounds);
}

// RFC 5040 §4.8 lets a Terminate go without the header that it is about.
TEST_P(HostileWrites, WithoutANameAreRefusedWhenTheOnlyCallIsMadeAgain) {
  expect_refused_when_made_again("tagged", write_call(kXid), Fault::kTaggedInvalidStag, false);
  expect_refused_when_made_again("protection", reply_chunk_call(), Fault::kProtectionInvalidStag,
                                 false);
}

TEST_P(HostileWrites, WithoutANameBlameNoneOfSeveralCalls) {
  const Message other =
      join({raw_header(kXid + 1, 0), words({0, 1, 1, kTag + 1, kSize, 0, 0x1000, 0, 0}),
            raw_call(kXid + 1, TestService::kEcho), words({40}), Message(40)});
  expect_end("two Calls", Fault::kNone, [&](RawTalk& talk) {
    ASSERT_TRUE(talk.send(write_call(kXid)));
    ASSERT_TRUE(talk.next_message());
    ASSERT_TRUE(talk.send(other));
    ASSERT_TRUE(talk.next_message());
    ASSERT_TRUE(talk.terminate(Fault::kTaggedInvalidStag));
  });
  for (const Message& call : {write_call(kXid), other}) {
    RawTalk talk = this->talk();
    ASSERT_TRUE(talk.send(call));
    const auto write = talk.next();
    ASSERT_TRUE(write);
    EXPECT_EQ(write->header.opcode, iwarp::Opcode::kWrite);
  }
}

// Whoever is near must not be blamed: of several Calls, only the one whose memory it was.
TEST_P(HostileWrites, BlameOnlyTheCallWhoseChunkItWas) {
  expect_end("two Calls", Fault::kNone, [&](RawTalk& talk) {
    ASSERT_TRUE(talk.send(short_call(kMarkerXid, TestService::kNull)));  // brings credits
    ASSERT_TRUE(talk.next_message());
    const Message other =
        join({raw_header(kXid + 1, 0), words({0, 1, 1, kTag + 1, kSize, 0, 0x1000, 0, 0}),
              raw_call(kXid + 1, TestService::kEcho), words({40}), Message(40)});
    ASSERT_TRUE(talk.send(write_call(kXid)));
    const auto write = talk.next();
    ASSERT_TRUE(write);
    ASSERT_TRUE(talk.send(other));
    ASSERT_TRUE(talk.next_message());
    ASSERT_TRUE(talk.next_message());
    ASSERT_TRUE(talk.terminate(Fault::kTaggedInvalidStag, write->bytes));
  });
  RawTalk talk = this->talk();
  const auto answers = answers_to(talk, write_call(kXid));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(to_words(answers[0]), (Words{kXid, 1, 64, 4, 2}));
  RawTalk good = this->talk();
  ASSERT_TRUE(good.send(write_call(kXid + 1)));
  const auto write = good.next();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->header.opcode, iwarp::Opcode::kWrite) << "the other Call was good";
}

// --- Read chunks that nobody serves ------------------------------------------------------------

class HostileReads : public HostileServer {
 protected:
  static constexpr std::uint32_t kSize = 100'000;
  explicit HostileReads(ServerOptions options = {}) : HostileServer(options) {}
  // Announces a Read chunk, waits for the Read Request and acts on it; then the connection ends.
  void expect_end_of_read(const char* what, Fault fault,
                          const std::function<void(RawTalk&, const iwarp::ReadRequest&)>& act) {
    expect_end(what, fault, [&](RawTalk& talk) {
      talk.send(call_with_reads(read_segment(kBulkPosition, kSize), TestService::kLength,
                                words({kSize})));
      const auto request = talk.next();
      ASSERT_TRUE(request);
      ASSERT_EQ(request->header.opcode, iwarp::Opcode::kReadRequest);
      EXPECT_GT(pair_.server->memory_in_use(), 0U);
      act(talk, iwarp::decode_read_request(request->payload));
    });
  }
};

TEST_P(HostileReads, EndTheConnectionWhenTheHandleDoesNotExist) {
  expect_end_of_read("Terminate", Fault::kNone, [](RawTalk& talk, const iwarp::ReadRequest&) {
    talk.terminate(Fault::kProtectionInvalidStag);
  });
}

TEST_P(HostileReads, AreRefusedWhenTheirCallIsMadeAgainAfterTheyEndedAConnection) {
  expect_end_of_read("Terminate", Fault::kNone, [](RawTalk& talk, const iwarp::ReadRequest&) {
    talk.terminate(Fault::kProtectionInvalidStag);
  });
  const auto call =
      call_with_reads(read_segment(kBulkPosition, kSize), TestService::kLength, words({kSize}));
  RawTalk again = talk();
  const auto answers = answers_to(again, call);
  ASSERT_EQ(answers.size(), 1U);
  const Words answer = to_words(answers[0]);
  ASSERT_EQ(answer.size(), 5U);
  EXPECT_EQ(answer[0], kXid);
  EXPECT_EQ(answer[3], 4U) << "RDMA_ERROR";
  EXPECT_EQ(answer[4], 2U) << "ERR_CHUNK";
  // Another call is not the one that was so bad.
  RawTalk third = talk();
  third.send(join({raw_header(kXid + 1, 0), read_segment(kBulkPosition, kSize), kNoLists,
                   raw_call(kXid + 1, TestService::kLength), words({kSize})}));
  const auto request = third.next();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->header.opcode, iwarp::Opcode::kReadRequest);
}

// The connection may be lost for many reasons; only a refusal says that the Call is bad.
TEST_P(HostileReads, AreServedWhenTheirCallIsMadeAgainAfterAnInterruption) {
  expect_end_of_read("closed", Fault::kNone,
                     [](RawTalk& talk, const iwarp::ReadRequest&) { talk.peer().finish(); });
  RawTalk again = talk();
  again.send(
      call_with_reads(read_segment(kBulkPosition, kSize), TestService::kLength, words({kSize})));
  const auto request = again.next();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->header.opcode, iwarp::Opcode::kReadRequest);
}

TEST_P(HostileReads, AreNoMoreAtATimeThanThePeerServes) {
  RawTalk talk = this->talk(1);
  const Message halves =
      join({read_segment(kBulkPosition, kSize / 2), read_segment(kBulkPosition, kSize / 2)});
  ASSERT_TRUE(talk.send(call_with_reads(halves, TestService::kLength, words({kSize}))));
  const auto first = talk.next();
  ASSERT_TRUE(first);
  ASSERT_EQ(first->header.opcode, iwarp::Opcode::kReadRequest);
  // A Call that comes behind is answered, and still there is no other Read Request.
  EXPECT_TRUE(talk.send(short_call(kMarkerXid, TestService::kNull)));
  EXPECT_TRUE(talk.next_message());
  const iwarp::ReadRequest request = iwarp::decode_read_request(first->payload);
  EXPECT_TRUE(talk.read_response(static_cast<std::uint32_t>(request.sink_tag), request.sink_address,
                                 Message(kSize / 2)));
  const auto second = talk.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->header.opcode, iwarp::Opcode::kReadRequest);
}

// It has promised 16, and has room for one.
TEST_P(HostileReads, EndOnlyTheConnectionOfAPeerThatPromisesMoreThanItServes) {
  Message reads;
  for (int i = 0; i < 4; ++i) reads = join({reads, read_segment(kBulkPosition, kSize / 4)});
  expect_end("too many Read Requests", Fault::kNone, [&](RawTalk& talk) {
    ASSERT_TRUE(talk.send(call_with_reads(reads, TestService::kLength, words({kSize}))));
    ASSERT_TRUE(talk.next());
    ASSERT_TRUE(talk.next());
    talk.terminate(Fault::kOperationStream);
  });
}

// Only its stream shows what a Call is: until that is here, its other chunks get no memory.
TEST_P(HostileReads, GetMemoryForALongCallOnlyWhenItsHeaderWasAccepted) {
  {
    RawTalk talk = this->talk();
    Message reads = read_segment(0, 100);
    for (std::uint32_t i = 0; i < 8; ++i) {
      reads = join({reads, read_segment(40 + i * (1U << 20U), 1U << 20U)});
    }
    ASSERT_TRUE(talk.send(long_call(reads)));
    const auto request = talk.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(iwarp::decode_read_request(request->payload).size, 100U);
    EXPECT_LE(pair_.server->memory_in_use(), 4096U);
  }
  expect_clean();
}

// The chunks distinguish Long Calls of one host with the same XID.
TEST_P(HostileReads, RefusedLongCallsAreKnownByTheLengthsOfTheirChunks) {
  const Message reads = read_segment(0, 2000);
  expect_end("Long Call", Fault::kNone, [&](RawTalk& talk) {
    ASSERT_TRUE(talk.send(long_call(join({reads, read_segment(kBulkPosition, 3000)}))));
    ASSERT_TRUE(talk.next());
    talk.terminate(Fault::kProtectionInvalidStag);
  });
  RawTalk other = talk();
  ASSERT_TRUE(other.send(long_call(join({reads, read_segment(kBulkPosition, 3004)}))));
  const auto request = other.next();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->header.opcode, iwarp::Opcode::kReadRequest);
  RawTalk same = talk();
  EXPECT_EQ(answers_to(same, long_call(join({reads, read_segment(kBulkPosition, 3000)}))).size(),
            1U);
}

TEST_P(HostileReads, EndTheConnectionWhenTheResponseIsWrong) {  // P15
  using iwarp::ReadRequest;
  const auto tag = [](const ReadRequest& request) {
    return static_cast<std::uint32_t>(request.sink_tag);
  };
  expect_end_of_read("another tag", Fault::kTaggedInvalidStag,
                     [&](RawTalk& talk, const ReadRequest& request) {
                       talk.read_response(tag(request) ^ 1U, request.sink_address, Message(100));
                     });
  expect_end_of_read("another place", Fault::kTaggedBounds,
                     [&](RawTalk& talk, const ReadRequest& request) {
                       talk.read_response(tag(request), request.sink_address + 1, Message(100));
                     });
  expect_end_of_read("too short", Fault::kTaggedBounds,
                     [&](RawTalk& talk, const ReadRequest& request) {
                       talk.read_response(tag(request), request.sink_address, Message(100));
                     });
  expect_end_of_read("too long", Fault::kTaggedBounds,
                     [&](RawTalk& talk, const ReadRequest& request) {
                       const Message half(kSize / 2);
                       talk.read_response(tag(request), request.sink_address, half, false);
                       talk.read_response(tag(request), request.sink_address + half.size(),
                                          Message(kSize / 2 + 1));
                     });
  expect_end_of_read("a Write to the sink", Fault::kProtectionAccess,
                     [&](RawTalk& talk, const ReadRequest& request) {
                       talk.write(tag(request), request.sink_address, Message(100));
                     });
}

TEST_P(HostileReads, GiveAllMemoryBackWhenThePeerClosesInstead) {  // P19
  expect_end_of_read("at once", Fault::kNone,
                     [](RawTalk& talk, const iwarp::ReadRequest&) { talk.peer().finish(); });
  expect_end_of_read("in the middle", Fault::kNone,
                     [](RawTalk& talk, const iwarp::ReadRequest& request) {
                       talk.read_response(static_cast<std::uint32_t>(request.sink_tag),
                                          request.sink_address, Message(kSize / 2), false);
                       talk.peer().finish();
                     });
}

// The stream of a Long Call is seen only when it is here: what it says is judged then.
TEST_P(HostileReads, AreJudgedByTheSameRulesInALongCall) {  // P3, P5, P6
  const auto answer_to_stream = [&](const Message& stream, const Message& more_reads) {
    RawTalk talk = this->talk();
    const auto size = static_cast<std::uint32_t>(stream.size());
    EXPECT_TRUE(talk.send(long_call(join({read_segment(0, size), more_reads}))));
    const auto read = talk.next();
    if (!read) return Words{};
    const auto request = iwarp::decode_read_request(read->payload);
    EXPECT_TRUE(talk.read_response(static_cast<std::uint32_t>(request.sink_tag),
                                   request.sink_address, stream));
    const auto answer = talk.next_message();
    return answer ? to_words(*answer) : Words{};
  };
  const Words err_chunk{kXid, 1, 64, 4, 2};
  const Message bulk = read_segment(40, 64);
  const Message old_rpc = words({kXid + 1, 0, 3, TestService::kProgram, 3, 0, 0, 0, 0, 0});
  EXPECT_EQ(answer_to_stream(raw_call(kXid + 1, 0), {}), err_chunk);
  EXPECT_EQ(answer_to_stream(raw_call(kXid + 1, 77), bulk), err_chunk);
  EXPECT_EQ(answer_to_stream(old_rpc, {}), err_chunk);
  EXPECT_EQ(answer_to_stream(words({kXid}), {}), err_chunk);
  EXPECT_EQ(answer_to_stream(raw_call(kXid, 77), bulk),
            (Words{kXid, 1, 64, 0, 0, 0, 0, kXid, 1, 0, 0, 0, 3}));
  {
    RawTalk talk = this->talk();
    ASSERT_TRUE(talk.send(long_call(read_segment(0, 24))));
    const auto read = talk.next();
    ASSERT_TRUE(read);
    const auto request = iwarp::decode_read_request(read->payload);
    ASSERT_TRUE(talk.read_response(static_cast<std::uint32_t>(request.sink_tag),
                                   request.sink_address, test::raw_reply(kXid)));
    EXPECT_TRUE(answers_to(talk, raw_header(kXid, 3)).empty()) << "a reply asks for no answer";
  }
  expect_served();
  expect_clean();
}

TEST_P(HostileReads, HoldNoMoreThanTheirOwnSizeOfMemory) {
  {
    RawTalk talk = this->talk();
    for (std::uint32_t i = 0; i < 64; ++i) {
      Message call = call_with_reads(read_segment(kBulkPosition, 1U << 20U), TestService::kLength,
                                     words({1U << 20U}));
      const Message xid = words({kXid + i});
      std::ranges::copy(xid, call.begin());
      std::ranges::copy(xid, call.begin() + 52);
      ASSERT_TRUE(talk.send(call));
    }
    // Chunks on their way have 4 MiB; the other calls wait for their turn, without memory.
    for (int i = 0; i < 4; ++i) {
      const auto request = talk.next();
      ASSERT_TRUE(request);
      EXPECT_EQ(request->header.opcode, iwarp::Opcode::kReadRequest);
    }
    expect_served();
    EXPECT_GE(pair_.server->memory_in_use(), 4U << 20U);
    EXPECT_LE(pair_.server->memory_in_use(), (4U << 20U) + (1U << 20U));
    talk.peer().reset();
  }
  expect_clean();
}

class HostileSlowReads : public HostileReads {
 protected:
  static constexpr std::chrono::milliseconds kPeerTimeout{1000};
  static ServerOptions options() {
    ServerOptions options;
    options.peer_timeout = kPeerTimeout;
    return options;
  }
  HostileSlowReads() : HostileReads(options()) {}
};

TEST_P(HostileSlowReads, AreGivenUpWhenThePeerServesNone) {  // P21
  expect_end_of_read("silence", Fault::kNone, [](RawTalk&, const iwarp::ReadRequest&) {});
}

TEST_P(HostileSlowReads, GoOnWhileThePeerServesSome) {  // P21
  constexpr std::uint32_t kPart = 1000, kParts = 5;
  Message reads;
  for (std::uint32_t i = 0; i < kParts; ++i) {
    reads = join({reads, read_segment(kBulkPosition, kPart)});
  }
  RawTalk talk = this->talk(1);
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(talk.send(call_with_reads(reads, TestService::kLength, words({kPart * kParts}))));
  for (std::uint32_t i = 0; i < kParts; ++i) {
    const auto read = talk.next();
    ASSERT_TRUE(read);
    ASSERT_EQ(read->header.opcode, iwarp::Opcode::kReadRequest);
    // It takes its time, but less than the server has patience.
    talk.peer().pump_until([] { return false; }, kPeerTimeout / 4);
    const auto request = iwarp::decode_read_request(read->payload);
    ASSERT_TRUE(talk.read_response(static_cast<std::uint32_t>(request.sink_tag),
                                   request.sink_address, Message(kPart)));
  }
  const auto answer = talk.next_message();
  ASSERT_TRUE(answer);
  EXPECT_EQ(to_words(*answer).back(), kPart * kParts);
  EXPECT_GT(std::chrono::steady_clock::now() - begun, kPeerTimeout);
}

class HostileDrips : public HostileReads {
 protected:
  static ServerOptions options() {
    ServerOptions options;
    options.pull_timeout = std::chrono::milliseconds(300);
    options.pull_rate_min = 100U << 20U;
    return options;
  }
  HostileDrips() : HostileReads(options()) {}
};

// docs/invariants.md, P21: a Read now and then is no progress.
TEST_P(HostileDrips, EndTheConnectionWhenTheTimeOfTheCallIsOver) {
  constexpr std::uint32_t kPart = 1000, kParts = 16;
  Message reads;
  for (std::uint32_t i = 0; i < kParts; ++i)
    reads = join({reads, read_segment(kBulkPosition, kPart)});
  RawTalk talk = this->talk(1);
  ASSERT_TRUE(talk.send(call_with_reads(reads, TestService::kLength, words({kPart * kParts}))));
  std::uint32_t served = 0;
  for (; served < kParts; ++served) {
    const auto read = talk.next();
    if (!read || read->header.opcode != iwarp::Opcode::kReadRequest) break;
    talk.peer().pump_until([] { return false; }, std::chrono::milliseconds(50));
    const auto request = iwarp::decode_read_request(read->payload);
    if (!talk.read_response(static_cast<std::uint32_t>(request.sink_tag), request.sink_address,
                            Message(kPart)))
      break;
  }
  EXPECT_LT(served, kParts);
  EXPECT_GT(served, 2U);
  expect_clean();
}

// RFC 8166 §8.1.4: memory that its procedure has no use for.
TEST_P(HostileReads, GetNoMemoryIfTheyAreMoreThanTheProcedureHasArguments) {
  Message reads;
  for (std::uint32_t i = 0; i < 8; ++i)
    reads = join({reads, read_segment(kBulkPosition + i * ((1U << 20U) + 4), 1U << 20U)});
  expect_reply({{"eight Read chunks for one argument",
                 call_with_reads(reads, TestService::kLength, Message(32))}},
               {1, 0, 0, 0, 4});
  EXPECT_LT(pair_.server->counters().read_chunk_bytes, 1U << 20U) << "of the calls behind it";
}

// A Read chunk may have the padding of its item, which counts for no bound (RFC 8166 §3.4.5).
TEST_P(HostileReads, AreServedUpToTheLargestArgumentWithItsPaddingAndNotBeyond) {
  const auto is_served = [&](const Message& reads) {
    RawTalk talk = this->talk();
    EXPECT_TRUE(talk.send(call_with_reads(reads, TestService::kGather, Message(32))));
    const auto answer = talk.next();
    return answer && answer->header.opcode == iwarp::Opcode::kReadRequest;
  };
  constexpr std::uint32_t kItem = TestService::kGatherItemMax, kPadding = 3;
  static_assert(kItem % 4 == 1 && TestService::kGatherMax % 4 == 1);
  EXPECT_TRUE(is_served(read_segment(kBulkPosition, kItem)));
  EXPECT_TRUE(is_served(read_segment(kBulkPosition, kItem + kPadding)));
  EXPECT_FALSE(is_served(read_segment(kBulkPosition, kItem + kPadding + 1)));
  Message three;
  for (std::uint32_t i = 0; i < 3; ++i) {
    // Each item stands behind its length.
    three =
        join({three, read_segment(kBulkPosition + i * (kItem + kPadding + 4), kItem + kPadding)});
  }
  const std::uint32_t fourth = kBulkPosition + 3 * (kItem + kPadding + 4);
  const std::uint32_t rest = TestService::kGatherMax - 3 * kItem + kPadding;
  EXPECT_TRUE(is_served(join({three, read_segment(fourth, rest)})));
  EXPECT_FALSE(is_served(join({three, read_segment(fourth, rest + 1)})));
}

class HostileLargeCalls : public HostileServer {
 protected:
  static ServerOptions options() {
    ServerOptions options;
    options.long_call_size_max = options.bulk_size_max = 64U << 20U;
    return options;
  }
  HostileLargeCalls() : HostileServer(options()) {}
};

TEST_P(HostileLargeCalls, AreRefusedWhenNoBufferCouldEverHoldThem) {
  expect_err_chunk({{"a Long Call above 16 MiB", long_call(read_segment(0, (16U << 20U) + 4))},
                    {"a Read chunk above 16 MiB",
                     call_with_reads(read_segment(kBulkPosition, (16U << 20U) + 1),
                                     TestService::kLength, words({(16U << 20U) + 1}))}});
}

class HostileReadsInLittleMemory : public HostileServer {
 protected:
  static constexpr std::size_t kMemory = 4U << 20U;
  static constexpr std::size_t kBulk = 3U << 20U;  // what fits beside the eighth for messages
  static ServerOptions options() {
    ServerOptions options;
    options.memory_max = kMemory;
    return options;
  }
  HostileReadsInLittleMemory() : HostileServer(options()) {}
};

TEST_P(HostileReadsInLittleMemory, StayWithinTheServersLimitAndOthersFollowWhenTheyAreGone) {
  bool ended = false;
  const auto data = test::pattern(1U << 20U, 1);
  {
    RawTalk talk = this->talk();
    for (std::uint32_t i = 0; i < 64; ++i) {
      ASSERT_TRUE(talk.send(call_with_reads(read_segment(kBulkPosition, 1U << 20U),
                                            TestService::kLength, words({1U << 20U}))));
    }
    ASSERT_TRUE(talk.peer().pump_until([&] { return pair_.server->memory_in_use() == kBulk; }));
    auto call = pair_.prepare(TestService::kLength);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    ASSERT_TRUE(pair_.client->start(std::move(*call), [&](auto reply) {
      EXPECT_TRUE(reply) << reply.error().message();
      ended = true;
    }));
    talk.peer().pump_until([&] { return ended; }, std::chrono::milliseconds(20));
    EXPECT_FALSE(ended) << "there is no memory for it";
    EXPECT_EQ(pair_.server->memory_in_use(), kBulk);
    auto other = test::RpcPair::connect_another(pair_);
    auto null = other.prepare({TestService::kProgram, TestService::kVersion, TestService::kWhoAmI});
    bool answered = false;
    ASSERT_TRUE(null);
    ASSERT_TRUE(other.start(std::move(*null), [&](auto reply) {
      EXPECT_TRUE(reply) << reply.error().message();
      answered = true;
    }));
    EXPECT_TRUE(talk.peer().pump_until([&] {
      other.progress();
      return answered;
    })) << "messages have memory of their own";
  }
  EXPECT_TRUE(pair_.run_until([&] { return ended; }));
  expect_clean();
}

// The server is driven only when its descriptor says so: nothing may be left to a later round.
TEST_P(HostileReadsInLittleMemory, LeaveAtOnceWhenTheirPeerGoesWhileTheyWait) {
  const Message call = call_with_reads(read_segment(kBulkPosition, 1U << 20U), TestService::kLength,
                                       words({1U << 20U}));
  RawTalk greedy = this->talk();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(greedy.send(call));
  ASSERT_TRUE(greedy.peer().pump_until([&] { return pair_.server->memory_in_use() == kBulk; }));
  RawTalk waiting = this->talk();
  ASSERT_TRUE(waiting.send(call));
  const auto received = [&] { return pair_.server->counters().read_chunks == 5; };
  ASSERT_TRUE(waiting.peer().pump_until(received));
  waiting.peer().reset();
  pollfd fd{pair_.server->wait_fd(), POLLIN, 0};
  while (pair_.server->connections() > 2) {
    ASSERT_GT(::poll(&fd, 1, 1000), 0) << "the connection is kept until something else happens";
    pair_.server->progress();
  }
}

INSTANTIATE_TEST_SUITE_P(Wire, HostileWrites, ::testing::Bool(), kCrcName);
INSTANTIATE_TEST_SUITE_P(Wire, HostileReads, ::testing::Bool(), kCrcName);
INSTANTIATE_TEST_SUITE_P(Wire, HostileSlowReads, ::testing::Bool(), kCrcName);
INSTANTIATE_TEST_SUITE_P(Wire, HostileDrips, ::testing::Bool(), kCrcName);
INSTANTIATE_TEST_SUITE_P(Wire, HostileLargeCalls, ::testing::Bool(), kCrcName);
INSTANTIATE_TEST_SUITE_P(Wire, HostileReadsInLittleMemory, ::testing::Bool(), kCrcName);

}  // namespace
}  // namespace rpcrdma::test
