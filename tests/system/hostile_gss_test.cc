// RPCSEC_GSS of a server whose peers mean harm, on real connections: wrong checksums, old numbers,
// handles of others, cut tokens, and floods of them. The others are served as ever meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gss/message.h"
#include "support/gss_body.h"
#include "system/hostile_gss_for_test.h"

namespace rpcrdma::test {
namespace {

using gss::Control;

constexpr std::uint32_t kGarbageArgs = 4;  // accept_stat

INSTANTIATE_TEST_SUITE_P(Wire, HostileGss, ::testing::Values("rdma", "tcp"), kTransportName);

// --- Checksums ---------------------------------------------------------------------------------

TEST_P(HostileGss, WrongChecksumsAreDeniedAndMoveNoWindow) {
  start();
  RawCaller alice = user();
  const auto said = [&](std::uint32_t sequence, std::optional<Message> verifier = {}) {
    return Said{.sequence = sequence, .handle = alice.handle, .verifier = std::move(verifier)};
  };
  const Message data = opaque(pattern(8, 1));
  const auto spoilt = [&](const std::function<void(Message & checksum)>& spoil) {
    // Far ahead: a window that moved would not take what comes later.
    const Message head = alice.header(said(5000));
    const Bytes view(head);
    Message checksum;
    ASSERT_FALSE(alice.ours->checksum({&view, 1}, checksum).is_error());
    spoil(checksum);
    GssCaller::expect_denied(alice.exchange(join({head, verifier_of(checksum), data})),
                             AuthStatus::kGssCredentialProblem);
  };
  for (std::size_t bit = 0; bit < 8 * FakeContext::kChecksumSize; ++bit) {
    spoilt([bit](Message& checksum) { checksum[bit / 8] ^= std::byte(1U << bit % 8); });
  }
  for (std::size_t size = 1; size <= 400; size += size < 20 ? 1 : 19) {
    if (size == FakeContext::kChecksumSize) continue;
    spoilt([size](Message& checksum) { checksum.resize(size); });
  }
  EXPECT_EQ(service_.calls, 0U);
  for (const std::uint32_t sequence : {1U, 3U, 2U}) alice.expect_echo(said(sequence), data);
}

TEST_P(HostileGss, HeaderThatWasChangedUnderItsChecksumIsDenied) {
  start();
  RawCaller alice = user();
  const Said said{.sequence = 1, .handle = alice.handle};
  const std::size_t size = alice.header(said).size();
  // Behind XID, CALL, RPC version, program, version; as far as the credential's length.
  for (std::size_t at = 20; at < size; at += 4) {
    if (at == 24 || at == 28) continue;  // another flavor, and a length: that is no call
    Message call = alice.sealed(said, opaque(pattern(8, 1)));
    call[at + 3] ^= std::byte{2};
    const auto reply = alice.exchange(call);
    ASSERT_TRUE(reply) << at;
    EXPECT_EQ(to_words(*reply).at(1), 1U) << at;  // MSG_DENIED
  }
  EXPECT_EQ(service_.calls, 0U);
  alice.expect_echo(said, pattern(8, 1));
}

// --- Sequence numbers --------------------------------------------------------------------------

TEST_P(HostileGss, ReplayEndsItsConnectionAndNoOther) {
  start();
  RawCaller alice = user(), second = again(alice), bob = user();
  const Said said{.sequence = 1, .handle = alice.handle, .procedure = TestService::kOnce};
  const Message call = alice.sealed(said, words({7, 8}));
  expect_once(alice, call, 1);
  expect_replayed(alice, call);
  second.expect_echo({.sequence = 2, .handle = alice.handle}, pattern(8, 1));
  bob.expect_echo({.sequence = 1, .handle = bob.handle}, pattern(8, 1));
  // A recorded call is no better on another connection, no matter which client made that one.
  RawCaller mallory = user();
  expect_replayed(mallory, call);
  expect_replayed(second, call);
  bob.expect_echo({.sequence = 2, .handle = bob.handle}, pattern(8, 1));
  RawCaller third = again(alice);
  third.expect_echo({.sequence = 3, .handle = alice.handle}, pattern(8, 1));
  stop();
  EXPECT_EQ(service_.times_executed(7), 1U);
}

TEST_P(HostileGss, ReplaysOfProtectedCallsAreExecutedOnce) {
  start();
  for (const gss::Service service : {gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    RawCaller alice = user();
    const auto id = static_cast<std::uint32_t>(service);
    const Message call = alice.sealed({.sequence = 9,
                                       .service = service,
                                       .handle = alice.handle,
                                       .procedure = TestService::kOnce},
                                      words({id, 8}));
    ASSERT_TRUE(alice.exchange(call));
    for (int i = 0; i < 3; ++i) {
      RawCaller thief = peer();
      expect_replayed(thief, call);
    }
    alice.expect_echo({.sequence = 10, .service = service, .handle = alice.handle}, pattern(8, 1));
  }
  stop();
  EXPECT_EQ(service_.times_executed(2), 1U);
  EXPECT_EQ(service_.times_executed(3), 1U);
}

TEST_P(HostileGss, NumbersBelowTheWindowEndTheConnectionAndThoseFarAheadAreTaken) {
  start();
  RawCaller first = user();
  const auto echo = [&](RawCaller& peer, std::uint32_t sequence) {
    peer.expect_echo({.sequence = sequence, .handle = peer.handle}, pattern(8, 1));
  };
  const auto ends = [&](std::uint32_t sequence) {
    RawCaller peer = again(first);
    expect_replayed(peer, peer.sealed({.sequence = sequence, .handle = peer.handle}, opaque({})));
  };
  echo(first, 100);
  ends(100 - kWindow);
  ends(0);
  echo(first, 100 - kWindow + 1);
  echo(first, 1100);
  ends(1100 - kWindow);
  ends(101);
  echo(first, 1101);
  for (const std::uint32_t beyond : {0x80000001U, 0x80000002U, 0xffffffffU}) {
    GssCaller::expect_denied(first.call({.sequence = beyond, .handle = first.handle}, opaque({})),
                             AuthStatus::kGssContextProblem);
  }
  echo(first, 1102);
  echo(first, 0x80000000);
  ends(0x80000000);
  ends(1103);
}

// --- Handles -----------------------------------------------------------------------------------

TEST_P(HostileGss, ForgedHandlesAreDeniedWhateverTheirLength) {
  start();
  RawCaller before = user();
  const Message of_earlier_life = before.handle;
  start({.first_handle = 0x9900000000});  // nobody knows that beforehand
  RawCaller alice = user(), mallory = user();
  ASSERT_EQ(gss_->contexts().size(), 2U);
  const auto denied = [&](Message handle, std::uint32_t control = 0) {
    const std::uint32_t procedure = control == 0 ? std::uint32_t{TestService::kEcho} : 0U;
    const Said said{.control = control, .handle = std::move(handle), .procedure = procedure};
    GssCaller::expect_denied(mallory.call(said, {}), AuthStatus::kGssCredentialProblem);
  };
  denied(of_earlier_life);
  for (std::size_t size = 0; size <= gss::kHandleSizeMax; size += size < 20 ? 1 : 13) {
    denied(pattern(size, 3));
    denied(pattern(size, 3), static_cast<std::uint32_t>(Control::kDestroy));
  }
  std::minstd_rand random(1);
  for (int i = 0; i < 500; ++i) denied(pattern(8, static_cast<std::uint32_t>(random())));
  // Nor is one with something behind it or without its end, even with the key.
  Message longer = alice.handle;
  longer.resize(12);
  for (const Message& other :
       {longer, first(alice.handle, 7), first(alice.handle, 4), join({words({0}), alice.handle})}) {
    GssCaller::expect_denied(alice.call({.handle = other}, {}), AuthStatus::kGssCredentialProblem);
  }
  // Not even a credential: it has more than 400 bytes.
  const auto reply = mallory.call({.handle = pattern(gss::kHandleSizeMax + 4, 3)}, {});
  GssCaller::expect_denied(reply, AuthStatus::kBadCredential);
  EXPECT_EQ(gss_->contexts().size(), 2U);
  EXPECT_EQ(service_.calls, 0U);
  alice.expect_echo({.sequence = 1, .handle = alice.handle}, pattern(8, 1));
}

TEST_P(HostileGss, StolenHandleIsNoUseWithoutItsKey) {
  start();
  RawCaller alice = user(), mallory = user();
  for (const gss::Service service : kServices) {
    for (const Control control : {Control::kData, Control::kDestroy}) {
      const std::uint32_t procedure = control == Control::kData ? std::uint32_t{1} : 0U;
      GssCaller::expect_denied(mallory.call({.control = static_cast<std::uint32_t>(control),
                                             .sequence = 40,
                                             .service = service,
                                             .handle = alice.handle,
                                             .procedure = procedure},
                                            opaque(pattern(8, 1))),
                               AuthStatus::kGssCredentialProblem);
    }
  }
  EXPECT_EQ(service_.calls, 0U);
  alice.expect_echo({.sequence = 1, .handle = alice.handle}, pattern(8, 1));
  mallory.expect_echo({.sequence = 1, .handle = mallory.handle}, pattern(8, 1));
  // The key of one, the handle of the other, and the arguments of the first.
  RawCaller both = again(alice);
  both.ours = mallory.ours;
  GssCaller::expect_denied(
      both.call({.sequence = 2, .service = gss::Service::kPrivacy, .handle = alice.handle},
                opaque({})),
      AuthStatus::kGssCredentialProblem);
  alice.expect_echo({.sequence = 2, .handle = alice.handle}, pattern(8, 1));
}

// --- What was cut off --------------------------------------------------------------------------

// With which a client begins to make a context.
Message first_token(FakeMechanism& mechanism) {
  Message token;
  auto initiating = mechanism.initiate("test@server");
  EXPECT_TRUE(initiating);
  if (!initiating) return token;
  EXPECT_FALSE((*initiating)->step({}, token).is_error());
  return token;
}

TEST_P(HostileGss, TokenThatWasCutMakesNoContext) {
  start();
  RawCaller mallory = peer();
  const Message token = first_token(*mechanism_);
  for (std::size_t size = 0; size < token.size(); ++size) {
    const auto made = mallory.init(said_init(), first(token, size));
    ASSERT_TRUE(made) << size;
    EXPECT_EQ(made->major, gss::Status::kDefectiveToken) << size;
    EXPECT_TRUE(made->handle.empty());
    EXPECT_TRUE(made->verifier.empty());
  }
  EXPECT_EQ(gss_->contexts().size(), 0U);
  const auto made = mallory.init(said_init(), token);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->major, gss::Status::kComplete);
}

// As far as its token: what is shorter is no call.
TEST_P(HostileGss, InitThatWasCutAnywhereGetsGarbageArgs) {
  start();
  RawCaller mallory = peer();
  const Message token = first_token(*mechanism_);
  const Message arguments = opaque(token);
  ASSERT_EQ(token.size() % 4, 1U) << "the fill bytes are cut as well";
  for (std::size_t size = 0; size < arguments.size(); ++size) {
    const Message head = mallory.header(said_init());
    const auto reply = mallory.exchange(join({head, words({0, 0}), first(arguments, size)}));
    ASSERT_TRUE(reply) << size;
    EXPECT_EQ(to_words(*reply), (std::vector<std::uint32_t>{1, 0, 0, 0, kGarbageArgs})) << size;
  }
  // And what goes on behind it, or says that it does.
  for (const Message& more : {join({arguments, words({0})}), words({0xffffffff}),
                              join({words({0xfffffffd}), token}), words({64U << 10U | 4U})}) {
    const Message head = mallory.header(said_init());
    const auto reply = mallory.exchange(join({head, words({0, 0}), more}));
    ASSERT_TRUE(reply);
    EXPECT_EQ(to_words(*reply), (std::vector<std::uint32_t>{1, 0, 0, 0, kGarbageArgs}));
  }
  EXPECT_EQ(gss_->contexts().size(), 0U);
  mallory.make_context(*mechanism_);
}

TEST_P(HostileGss, ProtectedBodyThatWasCutAnywhereGetsGarbageArgs) {
  start();
  RawCaller alice = user();
  std::uint32_t sequence = 0;
  for (const gss::Service service : {gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    const auto said = [&](bool is_bare) {
      return Said{
          .sequence = sequence, .service = service, .handle = alice.handle, .is_bare = is_bare};
    };
    const Message arguments = opaque(pattern(13, 1));
    std::size_t size_max = 1;
    for (std::size_t size = 0; size < size_max; ++size) {
      ++sequence;
      const Bytes piece(arguments);
      const Message body = wrap_body(*alice.ours, service, sequence, {&piece, 1});
      ASSERT_FALSE(body.empty());
      size_max = body.size();
      const auto reply = alice.call(said(true), first(body, size));
      ASSERT_TRUE(reply) << size;
      EXPECT_TRUE(alice.accepted(*reply, sequence, kGarbageArgs).empty()) << size;
    }
    EXPECT_GE(size_max, 40U);
    ++sequence;
    EXPECT_EQ(service_.calls, service == gss::Service::kIntegrity ? 0U : 1U);
    alice.expect_echo(said(false), pattern(13, 1));
  }
}

TEST_P(HostileGss, ProtectedBodyOfWhichAByteWasChangedGetsGarbageArgs) {
  start();
  RawCaller alice = user();
  std::uint32_t sequence = 0;
  for (const gss::Service service : {gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    std::size_t size = 1;  // without the fill bytes at the end, which nobody looks at
    for (std::size_t at = 0; at < size; ++at) {
      const Said said{.sequence = ++sequence, .service = service, .handle = alice.handle};
      Message call = alice.sealed(said, opaque(pattern(16, 1)));
      // Behind the verifier.
      const std::size_t in_front = alice.header(said).size() + 8 + xdr::padded(10);
      xdr::Reader body(Bytes(call).subspan(in_front));
      if (service == gss::Service::kIntegrity) (void)body.opaque(1000, "body");
      const std::size_t last = body.opaque(1000, "checksum or token").size();
      size = call.size() - in_front - (xdr::padded(last) - last);
      call[in_front + at] ^= std::byte{0x40};
      const auto reply = alice.exchange(call);
      ASSERT_TRUE(reply) << at;
      EXPECT_TRUE(alice.accepted(*reply, sequence, kGarbageArgs).empty()) << at;
    }
  }
  EXPECT_EQ(service_.calls, 0U);
}

// --- Floods of tokens --------------------------------------------------------------------------

TEST_P(HostileGss, FloodOfContextsThatAreNeverCompletedHarmsNoOther) {
  constexpr std::size_t kMakingMax = 8;
  start({.mechanism = {.exchanges = 2}, .making_max = kMakingMax});
  RawCaller alice = user(), holder = user();
  // The service has suspended a call meanwhile.
  ASSERT_TRUE(holder.send(holder.sealed(
      {.sequence = 1, .handle = holder.handle, .procedure = TestService::kHold}, {})));
  std::atomic<int> floods = 4;
  std::thread attack([&] {
    flood(4, [&](RawCaller& mallory) {
      auto initiating = mechanism_->initiate("test@server");
      Message token;
      ASSERT_EQ((*initiating)->step({}, token).major, gss::Status::kContinueNeeded);
      for (int i = 0; i < 1000; ++i) {
        const auto made = mallory.init(said_init(), token);
        ASSERT_TRUE(made);
        ASSERT_EQ(made->major, gss::Status::kContinueNeeded);
      }
      --floods;
    });
  });
  std::uint32_t sequence = 0;
  for (bool is_last = false; !is_last && !HasFailure();) {
    is_last = floods == 0;
    alice.expect_echo({.sequence = ++sequence, .handle = alice.handle}, pattern(100, 1));
    EXPECT_LE(gss_->contexts().size(), 2 + kMakingMax);
  }
  attack.join();
  EXPECT_EQ(gss_->contexts().size(), 2 + kMakingMax);
  EXPECT_EQ(service_.held, 1U);
  ASSERT_TRUE(
      alice.call({.sequence = ++sequence, .handle = alice.handle, .procedure = 6}, {}));  // release
  const auto reply = holder.receive();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(holder.accepted(*reply, 1, 0).empty());
  Client later = connect(gss::Service::kIntegrity);
  expect_echo(later);
}

// Handles are counted here, so that everybody knows the next one.
TEST_P(HostileGss, HandleOfAContextInTheMakingHelpsNobodyElse) {
  start({.mechanism = {.exchanges = 2}});
  auto initiating = mechanism_->initiate("test@server");
  Message token;
  ASSERT_EQ((*initiating)->step({}, token).major, gss::Status::kContinueNeeded);
  RawCaller alice = peer(), mallory = peer();
  const auto begun = alice.init(said_init(), token);
  ASSERT_TRUE(begun);
  ASSERT_EQ(begun->major, gss::Status::kContinueNeeded);
  ASSERT_EQ((*initiating)->step(begun->token, token).major, gss::Status::kContinueNeeded);
  for (const Message& each : {Message{}, words({1, 2, 3}), token}) {
    const Message call =
        join({mallory.header(said_init(begun->handle)), words({0, 0}), opaque(each)});
    GssCaller::expect_denied(mallory.exchange(call), AuthStatus::kGssCredentialProblem);
  }
  const auto made = alice.init(said_init(begun->handle), token);
  ASSERT_TRUE(made);
  ASSERT_EQ(made->major, gss::Status::kComplete);
  ASSERT_EQ((*initiating)->step(made->token, token).major, gss::Status::kComplete);
  alice.ours = initiating->get();
  alice.handle = made->handle;
  alice.expect_echo({.sequence = 1, .handle = alice.handle}, pattern(100, 1));
  // Nor does it help anybody when it is complete.
  for (RawCaller* each : {&alice, &mallory}) {
    const Message call =
        join({each->header(said_init(made->handle)), words({0, 0}), opaque(token)});
    GssCaller::expect_denied(each->exchange(call), AuthStatus::kGssCredentialProblem);
  }
  alice.expect_echo({.sequence = 2, .handle = alice.handle}, pattern(100, 1));
}

// Runs steps when there are two of them, one after the other.
class InPairs final : public gss::Executor {
 public:
  std::atomic<bool> is_pairing = false;
  void submit(Work work) override {
    std::vector<Work> due;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
      if (is_pairing && waiting_.size() < 2) return;
      due.swap(waiting_);
    }
    for (Work& each : due) each();
  }

 private:
  std::mutex mutex_;
  std::vector<Work> waiting_;  // guarded by mutex_
};

// Both were found while the context was incomplete: the second must neither complete it again nor
// end it.
TEST_P(HostileGss, TokenBehindTheLastOneOfAContextChangesNothing) {
  InPairs executor;
  start({.mechanism = {.exchanges = 2}, .executor = &executor});
  auto initiating = mechanism_->initiate("test@server");
  Message token;
  ASSERT_EQ((*initiating)->step({}, token).major, gss::Status::kContinueNeeded);
  RawCaller alice = peer();
  const auto begun = alice.init(said_init(), token);
  ASSERT_TRUE(begun);
  ASSERT_EQ((*initiating)->step(begun->token, token).major, gss::Status::kContinueNeeded);
  executor.is_pairing = true;
  for (const Message& each : {token, words({1})}) {
    ASSERT_TRUE(
        alice.send(join({alice.header(said_init(begun->handle)), words({0, 0}), opaque(each)})));
  }
  const auto first = alice.receive(), second = alice.receive();
  ASSERT_TRUE(first && second);
  executor.is_pairing = false;
  const auto made = GssCaller::made_by(*first), refused = GssCaller::made_by(*second);
  ASSERT_TRUE(made && refused);
  ASSERT_EQ(made->major, gss::Status::kComplete);
  EXPECT_EQ(refused->major, gss::Status::kNoContext);
  EXPECT_TRUE(refused->handle.empty());
  ASSERT_EQ((*initiating)->step(made->token, token).major, gss::Status::kComplete);
  alice.ours = initiating->get();
  alice.handle = made->handle;
  alice.expect_echo({.sequence = 1, .handle = alice.handle}, pattern(100, 1));
  stop();  // before the executor
}

TEST_P(HostileGss, FloodOfCompleteContextsIsBoundedAndItsVictimsMakeAnotherOne) {
  constexpr std::size_t kContextsMax = 16;
  start({.contexts_max = kContextsMax});
  RawCaller alice = user();
  for (const gss::Service service : kServices) {
    Client client = connect(service);
    expect_echo(client);
    for (int round = 0; round < 3; ++round) {
      flood(4, [&](RawCaller& mallory) {
        for (std::size_t i = 0; i < 2 * kContextsMax && !HasFailure(); ++i) {
          mallory.make_context(*mechanism_);
          EXPECT_LE(gss_->contexts().size(), kContextsMax + 8);
        }
      });
      EXPECT_EQ(gss_->contexts().size(), kContextsMax);
      GssCaller::expect_denied(alice.call({.handle = alice.handle}, opaque({})),
                               AuthStatus::kGssCredentialProblem);
      const int before = mechanism_->initiated;
      expect_echo(client);
      expect_echo(client);
      EXPECT_EQ(mechanism_->initiated, before + 1);
    }
  }
}

// Tokens wait for others (gss.md G-94); the thread of connections does not.
TEST_P(HostileGss, MechanismThatIsSlowWithTokensHoldsUpNoCalls) {
  Gate gate;
  start({.making_max = 64, .executor = &gate});
  RawCaller alice = user(), mallory = peer();
  auto initiating = mechanism_->initiate("test@server");
  Message token;
  ASSERT_FALSE((*initiating)->step({}, token).is_error());
  gate.close();
  constexpr std::size_t kTokens = 20;
  for (std::size_t i = 0; i < kTokens; ++i) {
    ASSERT_TRUE(mallory.send(join({mallory.header(said_init()), words({0, 0}), opaque(token)})));
  }
  std::uint32_t sequence = 0;
  for (const gss::Service service : kServices) {
    alice.expect_echo({.sequence = ++sequence, .service = service, .handle = alice.handle},
                      pattern(1000, 1));
  }
  EXPECT_EQ(gss_->contexts().size(), 1U);
  gate.open();
  for (std::size_t i = 0; i < kTokens; ++i) {
    const auto reply = mallory.receive();
    ASSERT_TRUE(reply);
    EXPECT_TRUE(GssCaller::made_by(*reply));
  }
  EXPECT_GT(gate.count, 0U);
  EXPECT_EQ(gss_->contexts().size(), 1 + kTokens);
  stop();
}

}  // namespace
}  // namespace rpcrdma::test
