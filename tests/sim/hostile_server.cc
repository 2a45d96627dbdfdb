#include "sim/hostile_server.h"

#include <algorithm>
#include <utility>

namespace rpcrdma::simulation {
namespace {

constexpr std::uint32_t kMessageType = 0, kNoMessageType = 1, kErrorType = 4;
constexpr std::size_t kWordsMin = 5;  // of a message that it looks into

}  // namespace

HostileServer::HostileServer(rdma::sim::World& world, SeededRandom& random, Totals& totals)
    : random_(random), totals_(totals), provider_(world, "hostile") {
  auto listener = provider_.listen("hostile:0");
  if (!listener) return;
  listener_ = std::move(*listener);
  address_ = listener_->address();
}

void HostileServer::leave() noexcept {
  links_.clear();
  listener_.reset();
}

void HostileServer::act() {
  accept();
  std::erase_if(links_, [](const auto& link) { return !link->is_there(); });
  for (const auto& link : links_) {
    for (const Words& call : link->take_news()) answer(*link, call);
  }
}

void HostileServer::accept() {
  while (auto incoming = listener_ ? listener_->poll_incoming() : nullptr) {
    if (random_.one_in(20)) continue;  // it refuses this one
    auto link = std::make_unique<HostileLink>(random_, totals_);
    auto made = provider_.accept(std::move(incoming), link->draw_private_data());
    if (!made) continue;
    link->set_takes_messages(!random_.one_in(20));
    link->begin(std::move(*made));
    links_.push_back(std::move(link));
  }
}

void HostileServer::answer(HostileLink& link, const Words& call) {
  if (random_.one_in(40)) link.send_nonsense();
  if (random_.one_in(20)) link.set_answers_reads(!link.answers_reads());
  if (random_.one_in(60)) return random_.one_in(2) ? link.end() : link.disconnect();
  if (call.size() < kWordsMin || random_.one_in(15)) return;
  const Offer offer = offer_of(call);
  if (random_.one_in(2)) use_memory(link, offer);
  Words reply = make_reply(link, call, offer);
  if (random_.one_in(4)) link.spoil(reply);
  for (std::uint64_t left = random_.one_in(15) ? 2 : 1; left > 0; --left) link.send(reply);
}

void HostileServer::use_memory(HostileLink& link, const Offer& offer) {
  const std::vector<Segment> all = offer.all();
  if (!offer.readable.empty() && random_.one_in(2)) link.read(offer.readable.front());
  for (const auto& chunk : offer.writes) link.write(chunk[random_.below(chunk.size())]);
  if (random_.one_in(30)) link.write(link.any_of(all));
  if (random_.one_in(30)) link.read(link.any_of(all));
}

std::vector<HostileServer::Segment> HostileServer::Offer::all() const {
  std::vector<Segment> segments = readable;
  for (const auto& chunk : writes) segments.insert(segments.end(), chunk.begin(), chunk.end());
  segments.insert(segments.end(), reply.begin(), reply.end());
  return segments;
}

HostileServer::Offer HostileServer::offer_of(const Words& call) {
  Offer offer;
  std::size_t at = call[1] == 2 ? 5 : 4;
  const auto next = [&] { return at < call.size() ? call[at++] : 0; };
  const auto segment = [&] {
    const SteeringTag tag{next()};
    const std::uint32_t size = next();
    const std::uint64_t high = next();
    return Segment{tag, high << 32U | next(), size};
  };
  const auto segments = [&] {
    std::vector<Segment> chunk;
    for (std::uint32_t left = std::min(next(), 30U); left > 0; --left) chunk.push_back(segment());
    return chunk;
  };
  while (next() == 1) {
    (void)next();  // position
    offer.readable.push_back(segment());
  }
  while (next() == 1) {
    if (auto chunk = segments(); !chunk.empty()) offer.writes.push_back(std::move(chunk));
  }
  if (next() == 1) offer.reply = segments();
  return offer;
}

HostileServer::Words HostileServer::make_reply(HostileLink& link, const Words& call,
                                               const Offer& offer) {
  const std::uint32_t xid = random_.one_in(30) ? call[0] + 1 : call[0];
  const std::uint32_t version = call[1];
  const std::uint32_t credits = link.pick({1, 1, 8, 8, 32, 0, 100'000});
  if (random_.one_in(15)) {  // ERR_VERS or ERR_CHUNK
    Words error{xid, version, credits, kErrorType};
    if (version == 2) error.push_back(1);
    error.insert(error.end(),
                 {link.pick({1, 2, 3, 9}), link.pick({1, 2, 9}), link.pick({1, 2, 9})});
    return error;
  }
  const bool is_long = !offer.reply.empty() && random_.one_in(3);
  Words words{xid, version, credits, is_long ? kNoMessageType : kMessageType};
  if (version == 2) words.push_back(random_.one_in(40) ? 0 : 1);  // a reply
  add_lists(link, words, offer);
  words.push_back(is_long || (!offer.reply.empty() && random_.one_in(10)) ? 1 : 0);
  if (words.back() == 1) add_chunk(link, words, offer.reply);
  if (is_long) return words;
  const std::uint32_t status = random_.one_in(8) ? link.pick({1, 2, 3, 4, 5, 77}) : 0;
  const std::uint32_t flavor = random_.one_in(15) ? link.pick({1, 6, 99}) : 0;
  words.insert(words.end(), {xid, 1 /* REPLY */, random_.one_in(30) ? 1U : 0U, flavor, 0, status});
  for (std::uint64_t left = random_.below(60); left > 0; --left) {
    words.push_back(random_.one_in(3) ? static_cast<std::uint32_t>(random_.next())
                                      : static_cast<std::uint32_t>(random_.below(100)));
  }
  return words;
}

// Adds chunks of its own to read (RFC 5666), and those that the Call has offered, or some.
void HostileServer::add_lists(HostileLink& link, Words& words, const Offer& offer) {
  for (std::uint64_t left = random_.one_in(8) ? random_.below(3) : 0; left > 0; --left) {
    words.insert(words.end(), {1, link.pick({0, 24, 28, 30, 400})});
    HostileLink::add(words, link.any_of(link.readable()));
  }
  words.push_back(0);
  for (const auto& chunk : offer.writes) {
    if (random_.one_in(20)) break;
    words.push_back(1);
    add_chunk(link, words, chunk);
  }
  words.push_back(0);
}

// Adds the chunk as it was offered, or with other sizes or tags.
void HostileServer::add_chunk(HostileLink& link, Words& words,
                              const std::vector<Segment>& offered) {
  words.push_back(static_cast<std::uint32_t>(offered.size()));
  for (Segment segment : offered) {
    if (random_.one_in(10)) segment.size += link.pick({1, 4, 1000});
    if (random_.one_in(3))
      segment.size = static_cast<std::uint32_t>(random_.below(segment.size + 1ULL));
    if (random_.one_in(40)) segment = link.any_of(offered);
    HostileLink::add(words, segment);
  }
}

}  // namespace rpcrdma::simulation
