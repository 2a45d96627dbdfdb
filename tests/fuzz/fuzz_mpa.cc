// MPA set-up: frames come back as they were, a set-up ends the same however its bytes are cut, and
// two sides that get through agree on what they agreed on.
//
// Input: role, wishes of both sides, how to cut, then the peer's bytes.
#include <cstring>

#include "fuzz/fuzz.h"
#include "iwarp/setup.h"

namespace rpcrdma::fuzz {
namespace {

using iwarp::MpaFrame;
using iwarp::MpaSetup;
using iwarp::MpaWishes;
using State = MpaSetup::State;

bool same(const MpaFrame& a, const MpaFrame& b) {
  return a.reply == b.reply && a.markers == b.markers && a.crc == b.crc &&
         a.rejected == b.rejected && a.revision == b.revision && a.enhanced == b.enhanced &&
         equal(a.private_data, b.private_data);
}

void check_encoding(const MpaFrame& frame) {
  std::array<std::byte, iwarp::kMpaFrameMax> output{};
  const std::size_t size = encode(frame, output.data());
  FUZZ_CHECK(size <= output.size(), "a frame above its limit");
  const auto again = iwarp::decode(frame.reply, Bytes(output).first(size));
  FUZZ_CHECK(again && same(*again, frame), "a frame does not come back");
}

void check_frame(bool reply, Bytes input, const MpaWishes& wishes) {
  const auto size = iwarp::frame_size(reply, input);
  const auto frame = iwarp::decode(reply, input);
  FUZZ_CHECK(!frame || (size && *size == input.size()), "a frame of another size");
  if (!frame) return;
  FUZZ_CHECK(within(frame->private_data, input), "private data leaves the frame");
  FUZZ_CHECK(frame->private_data.size() <= iwarp::kMpaPrivateDataMax, "too much private data");
  check_encoding(*frame);
  for (std::size_t cut = 0; cut < input.size(); cut += 1 + input.size() / 16) {
    FUZZ_CHECK(!iwarp::decode(reply, input.first(cut)), "a part of a frame decodes");
  }
  if (reply) {
    const auto agreed = judge_reply(*frame, wishes);
    FUZZ_CHECK(!agreed || (agreed->ord <= wishes.ord && agreed->ird == wishes.ird),
               "more RDMA Reads than we wished for");
    return;
  }
  const iwarp::Acceptance accepted = iwarp::accept(*frame, wishes, {});
  check_encoding(accepted.reply);
  check_encoding(make_reject(*frame, {}));
  FUZZ_CHECK(accepted.negotiated.ird <= wishes.ird && accepted.negotiated.ord <= wishes.ord,
             "more RDMA Reads than we wished for");
  FUZZ_CHECK(accepted.negotiated.crc == (wishes.crc || frame->crc), "RFC 5044 on CRCs");
}

MpaWishes wishes_of(Choices& choices) {
  MpaWishes wishes;
  const std::uint8_t flags = choices.u8();
  wishes.crc = (flags & 1U) != 0;
  wishes.revision = (flags & 2U) != 0 ? 1 : 2;
  wishes.rtr = static_cast<iwarp::Rtr>((flags >> 2U) % 4);
  wishes.ird = choices.u8();
  wishes.ord = choices.u8();
  return wishes;
}

// Feeds `input` in pieces as a socket would and returns how much was taken.
std::size_t feed(MpaSetup& setup, Bytes input, std::size_t step) {
  std::size_t taken = 0;
  while (taken < input.size() && setup.state() == State::kReceiving) {
    const std::size_t wanted = setup.bytes_wanted();
    FUZZ_CHECK(wanted > 0 && wanted <= iwarp::kMpaFrameMax, "a set-up that waits for nothing");
    const std::size_t size = std::min({wanted, step, input.size() - taken});
    setup.handle_received(input.subspan(taken, size));
    taken += size;
  }
  FUZZ_CHECK(setup.state() == State::kReceiving || setup.bytes_wanted() == 0, "wants too much");
  return taken;
}

void send_all(MpaSetup& setup) {
  FUZZ_CHECK(setup.output().size() <= iwarp::kMpaFrameMax, "more output than a frame");
  setup.handle_sent(setup.output().size());
}

struct Outcome {
  State state;
  iwarp::SetupError error;
  std::size_t taken;
};

// One side of a set-up against the input.
Outcome converse(bool initiator, const MpaSetup::Options& options, Bytes input, std::size_t step,
                 std::uint8_t flags) {
  const Instant start{};
  const Buffer hello(flags % 9U);
  MpaSetup setup =
      initiator ? MpaSetup::initiator(options, hello, start) : MpaSetup::responder(options, start);
  if ((flags & 16U) == 0) send_all(setup);
  const std::size_t taken = feed(setup, input, step);
  if (setup.state() == State::kDeciding) {
    FUZZ_CHECK(!setup.deadline(), "the peer's time runs while we decide");
    FUZZ_CHECK(within(setup.peer_private_data(), setup.peer_private_data()), "private data");
    if ((flags & 32U) != 0) {
      setup.reject(hello);
    } else {
      const Buffer longest(iwarp::kMpaPrivateDataMax + 1);
      FUZZ_CHECK(!setup.accept(longest), "private data above the limit is taken");
      FUZZ_CHECK(setup.accept(Bytes(longest).first(iwarp::kMpaUserDataMax)), "refused what fits");
    }
  }
  send_all(setup);
  const Outcome outcome{setup.state(), setup.error(), taken};
  FUZZ_CHECK((outcome.state == State::kFailed) == (outcome.error != iwarp::SetupError::kNone),
             "an end without a reason");
  FUZZ_CHECK(outcome.state != State::kDone || (setup.negotiated().ird <= options.wishes.ird &&
                                               setup.negotiated().ord <= options.wishes.ord),
             "more RDMA Reads than we wished for");
  if ((flags & 64U) != 0) setup.handle_end_of_stream();
  setup.handle_timeout(start + options.timeout);
  FUZZ_CHECK(setup.state() == State::kDone || setup.state() == State::kFailed, "never ends");
  return outcome;
}

// Our initiator and our responder: whatever both wish for, what they agree on is the same.
void agree(const MpaWishes& a, const MpaWishes& b) {
  const Instant start{};
  MpaSetup initiator = MpaSetup::initiator({a, std::chrono::seconds(1)}, {}, start);
  MpaSetup responder = MpaSetup::responder({b, std::chrono::seconds(1)}, start);
  const Buffer request(initiator.output().begin(), initiator.output().end());
  send_all(initiator);
  feed(responder, request, request.size());
  FUZZ_CHECK(responder.state() == State::kDeciding, "our own Request is refused");
  FUZZ_CHECK(responder.accept({}), "nothing does not fit");
  const Buffer reply(responder.output().begin(), responder.output().end());
  send_all(responder);
  feed(initiator, reply, reply.size());
  if (initiator.state() != State::kDone) {
    FUZZ_CHECK(initiator.error() == iwarp::SetupError::kIrd ||
                   initiator.error() == iwarp::SetupError::kRtr,
               "our own Reply is refused");
    return;
  }
  const iwarp::Negotiated& ours = initiator.negotiated();
  const iwarp::Negotiated& theirs = responder.negotiated();
  FUZZ_CHECK(ours.crc == theirs.crc && ours.revision == theirs.revision && ours.rtr == theirs.rtr,
             "the two sides disagree");
  FUZZ_CHECK(a.revision < 2 || (ours.ord <= theirs.ird && theirs.ord <= ours.ird),
             "one side may ask for more RDMA Reads than the other one holds");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(mpa) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  const std::uint8_t flags = choices.u8();
  const bool initiator = choices.flag();
  rpcrdma::iwarp::MpaSetup::Options options;
  options.wishes = rpcrdma::fuzz::wishes_of(choices);
  const auto others = rpcrdma::fuzz::wishes_of(choices);
  const std::size_t step = 1 + choices.below(64);
  const rpcrdma::Bytes input = choices.rest();
  rpcrdma::fuzz::check_frame(false, input, options.wishes);
  rpcrdma::fuzz::check_frame(true, input, options.wishes);
  const auto whole = rpcrdma::fuzz::converse(initiator, options, input, ~std::size_t{0}, flags);
  const auto cut = rpcrdma::fuzz::converse(initiator, options, input, step, flags);
  FUZZ_CHECK(whole.state == cut.state && whole.error == cut.error, "cutting changes the outcome");
  FUZZ_CHECK(whole.state == rpcrdma::iwarp::MpaSetup::State::kFailed || whole.taken == cut.taken,
             "a byte behind the frame was taken");
  rpcrdma::fuzz::agree(options.wishes, others);
  return 0;
}
