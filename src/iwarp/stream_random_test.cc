// Two streams, random work of all kinds, cut at random places: data and completions must be those
// of a model.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "iwarp/stream_pair_for_test.h"

namespace rpcrdma::iwarp::test {
namespace {

// One side's memory and what it is owed.
struct Side {
  explicit Side(Stream& own) : stream(own) {}
  Stream& stream;
  std::deque<Buffer> receives;           // posted, oldest first
  std::deque<Buffer> expected;           // messages on their way to it
  std::map<std::uint64_t, Buffer> kept;  // memory of work that has not completed
  std::map<std::uint64_t, std::pair<Buffer, Buffer>> reads;  // sink, what it must become
  std::uint64_t completed = 0;
  std::uint64_t posted = 0;
};

class Model {
 public:
  Model(std::uint64_t seed, bool crc, std::size_t fpdu_size_max)
      : random_(seed), pair_(crc, fpdu_size_max, 3), a_(pair_.initiator), b_(pair_.responder) {
    pair_.open();
    for (Side* side : {&a_, &b_}) {
      side->receives.resize(8);
      target_memory_[side] = Buffer(kMemory);
      source_memory_[side] = random_bytes(random_, kMemory);
      targets_[side] = exposed(side->stream, target_memory_[side]);
      sources_[side] = exposed_source(side->stream, source_memory_[side]);
      for (Buffer& buffer : side->receives) {
        buffer.resize(kMessageMax);
        EXPECT_TRUE(test::post_receive(side->stream, 1, buffer));
      }
    }
    shadow_[&a_] = target_memory_[&a_];
    shadow_[&b_] = target_memory_[&b_];
  }

  void step() {
    Side& from = random_.one_in(2) ? a_ : b_;
    Side& to = &from == &a_ ? b_ : a_;
    if (random_.one_in(3)) post(from, to);
    if (random_.one_in(30)) {
      const std::uint64_t piece = random_.one_in(2) ? 0 : 1 + random_.below(70'000);
      (void)from.stream.split_reads(static_cast<std::uint32_t>(piece));
    }
    carry(from, to);
    poll(from);
    poll(to);
  }
  void finish() {
    for (int i = 0; i < 10'000; ++i) {
      carry(a_, b_);
      carry(b_, a_);
      poll(a_);
      poll(b_);
    }
    for (Side* side : {&a_, &b_}) {
      EXPECT_EQ(side->stream.phase(), Phase::kOpen) << to_string(side->stream.cause().fault);
      EXPECT_TRUE(side->expected.empty());
      EXPECT_TRUE(side->reads.empty());
      EXPECT_EQ(side->completed, side->posted);
      EXPECT_EQ(target_memory_[side], shadow_[side]);
    }
  }

 private:
  static constexpr std::size_t kMemory = 200'000;
  static constexpr std::size_t kMessageMax = 100'000;

  std::size_t any_size(std::size_t max) {
    switch (random_.below(4)) {
      case 0:
        return random_.below(5);
      case 1:
        return random_.below(300);
      case 2:
        return random_.below(9'000);
      default:
        return random_.below(max);
    }
  }
  std::vector<Bytes> scattered(Bytes bytes) {
    std::vector<Bytes> parts;
    while (!bytes.empty() && parts.size() + 1 < kSpansMax) {
      const std::size_t size = std::min<std::size_t>(bytes.size(), random_.below(bytes.size() + 9));
      parts.push_back(bytes.first(size));
      bytes = bytes.subspan(size);
    }
    if (!bytes.empty()) parts.push_back(bytes);
    return parts;
  }
  void post(Side& from, Side& to) {
    const std::uint64_t id = 1000 + from.posted;
    const std::uint64_t kind = random_.below(3);
    if (from.posted - from.completed > 20) return;
    if (kind == 0) {
      if (to.expected.size() >= 8) return;  // as many as it has Receives for
      Buffer& data = from.kept[id] = random_bytes(random_, any_size(kMessageMax));
      SendOptions how;
      how.solicited = random_.one_in(2);
      ASSERT_TRUE(from.stream.post_send(id, scattered(data), how));
      to.expected.push_back(data);
    } else if (kind == 1) {
      Buffer& data = from.kept[id] = random_bytes(random_, any_size(kMemory));
      const std::size_t at = random_.below(kMemory - data.size() + 1);
      const RemoteMemory remote{targets_[&to].tag, targets_[&to].address + at};
      ASSERT_TRUE(from.stream.post_write(id, scattered(data), remote));
      std::copy(data.begin(), data.end(), shadow_[&to].begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      auto& [sink, becomes] = from.reads[id];
      sink.resize(any_size(kMemory));
      const std::size_t at = random_.below(kMemory - sink.size() + 1);
      const auto begin = source_memory_[&to].begin() + static_cast<std::ptrdiff_t>(at);
      becomes.assign(begin, begin + static_cast<std::ptrdiff_t>(sink.size()));
      ASSERT_TRUE(from.stream.post_read(id, sink, {sources_[&to].tag, sources_[&to].address + at}));
    }
    ++from.posted;
  }
  void carry(Side& from, Side& to) {
    std::array<Bytes, 64> room;
    const std::size_t count = from.stream.transmit(std::span(room).first(1 + random_.below(64)));
    std::size_t limit = random_.one_in(3) ? 1 + random_.below(60) : 1 + random_.below(200'000);
    std::size_t size = 0;
    Buffer& wire = wires_[&to];
    for (std::size_t i = 0; i < count && limit > 0; ++i) {
      const Bytes part = room[i].first(std::min(limit, room[i].size()));
      wire.insert(wire.end(), part.begin(), part.end());
      limit -= part.size();
      size += part.size();
    }
    from.stream.handle_sent(size);
    const std::size_t take = random_.below(wire.size() + 1);
    receive(to.stream, Bytes(wire).first(take), 1 + random_.below(100'000));
    wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(take));
  }
  void poll(Side& side) {
    for (const Completion& done : completions(side.stream)) {
      ASSERT_EQ(done.status, Status::kOk);
      if (done.kind == WorkKind::kReceive) {
        take_message(side, done.size);
        continue;
      }
      ++side.completed;
      if (done.kind == WorkKind::kRead) {
        EXPECT_EQ(side.reads[done.id].first, side.reads[done.id].second);
        side.reads.erase(done.id);
      } else {
        side.kept.erase(done.id);
      }
    }
  }
  void take_message(Side& side, std::size_t size) {
    Buffer got = std::move(side.receives.front());
    side.receives.pop_front();
    got.resize(size);
    EXPECT_EQ(got, side.expected.front());
    side.expected.pop_front();
    side.receives.emplace_back(kMessageMax);
    ASSERT_TRUE(test::post_receive(side.stream, 1, side.receives.back()));
  }

  SeededRandom random_;
  StreamPair pair_;
  Side a_, b_;
  std::map<const Side*, Buffer> target_memory_, source_memory_, shadow_, wires_;
  std::map<const Side*, RemoteMemory> targets_, sources_;
};

TEST(StreamRandom, AllKindsOfWorkArriveWholeWhereverTheyAreCut) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    constexpr std::array<std::size_t, 4> kSizes{kFpduSizeMax, 1448, 9000, 200};
    Model model(seed, seed % 2 == 0, kSizes[seed % kSizes.size()]);
    for (int i = 0; i < 400; ++i) model.step();
    model.finish();
  }
}

TEST(StreamRandom, EverySplitOfAConversationGivesTheSame) {
  // Recorded once: a Send, a Write of three FPDUs, a Read Request, a Send with Invalidate.
  SeededRandom random(31);
  const Buffer data = random_bytes(random, 700);
  const Buffer note = text("note");
  const auto converse = [&](std::size_t cut) {
    StreamPair pair(true, 300);
    Buffer target(1000);
    Buffer source(400, std::byte{3});
    std::array<Buffer, 2> inbox{Buffer(64), Buffer(64)};
    const RemoteMemory to = exposed(pair.responder, target);
    const RemoteMemory from = exposed_source(pair.responder, source);
    for (Buffer& each : inbox) EXPECT_TRUE(test::post_receive(pair.responder, 1, each));
    Buffer sink(400);
    SendOptions how;
    how.invalidate = to.tag;
    EXPECT_TRUE(test::post_send(pair.initiator, 1, note));
    EXPECT_TRUE(test::post_write(pair.initiator, 2, data, to));
    EXPECT_TRUE(pair.initiator.post_read(3, sink, from));
    EXPECT_TRUE(test::post_send(pair.initiator, 4, note, how));
    const Buffer there = sent_by(pair.initiator);
    receive(pair.responder, Bytes(there).first(std::min(cut, there.size())));
    receive(pair.responder, Bytes(there).subspan(std::min(cut, there.size())));
    const Buffer back = sent_by(pair.responder);
    receive(pair.initiator, Bytes(back).first(std::min(cut, back.size())));
    receive(pair.initiator, Bytes(back).subspan(std::min(cut, back.size())));
    EXPECT_EQ(completions(pair.initiator).size(), 4U) << cut;
    EXPECT_EQ(completions(pair.responder).size(), 2U) << cut;
    EXPECT_EQ(sink, source);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), target.begin()));
    return there.size();
  };
  const std::size_t size = converse(0);
  for (std::size_t cut = 1; cut < size; ++cut) converse(cut);
}

}  // namespace
}  // namespace rpcrdma::iwarp::test
