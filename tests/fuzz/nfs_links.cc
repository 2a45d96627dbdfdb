#include "fuzz/nfs_links.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace rpcrdma::fuzz {
namespace {

constexpr int kPatienceS = 10;  // for an answer that is owed
constexpr std::uint32_t kLast = 0x80000000U;

std::string status_name(std::uint32_t status) {
  static const std::map<std::uint32_t, const char*> kStatusNames{{0, "OK"},
                                                                 {1, "PERM"},
                                                                 {2, "NOENT"},
                                                                 {5, "IO"},
                                                                 {6, "NXIO"},
                                                                 {13, "ACCES"},
                                                                 {17, "EXIST"},
                                                                 {18, "XDEV"},
                                                                 {19, "NODEV"},
                                                                 {20, "NOTDIR"},
                                                                 {21, "ISDIR"},
                                                                 {22, "INVAL"},
                                                                 {27, "FBIG"},
                                                                 {28, "NOSPC"},
                                                                 {30, "ROFS"},
                                                                 {31, "MLINK"},
                                                                 {63, "NAMETOOLONG"},
                                                                 {66, "NOTEMPTY"},
                                                                 {70, "STALE"},
                                                                 {10001, "BADHANDLE"},
                                                                 {10002, "NOT_SYNC"},
                                                                 {10003, "BAD_COOKIE"},
                                                                 {10004, "NOTSUPP"},
                                                                 {10005, "TOOSMALL"},
                                                                 {10006, "SERVERFAULT"},
                                                                 {10007, "BADTYPE"},
                                                                 {10008, "JUKEBOX"}};
  const auto found = kStatusNames.find(status);
  return found != kStatusNames.end() ? found->second : "status " + std::to_string(status);
}

// Returns what an RPC message says, in a few words.
std::string kind_of(const MadeCall& call, Bytes reply) {
  if (word_at(reply, 4) != 1) return "no reply";
  if (word_at(reply, 8) != 0) {
    return word_at(reply, 12) == 0 ? "denied: version of RPC"
                                   : "denied: AUTH_ERROR " + std::to_string(word_at(reply, 16));
  }
  static constexpr std::array<const char*, 6> kAccepted{
      "", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"};
  const std::uint32_t accepted = word_at(reply, 20);
  if (accepted >= kAccepted.size()) return "accept_stat " + std::to_string(accepted);
  if (accepted != 0) return kAccepted[accepted];
  if (call.procedure == 0 || call.procedure == MadeCall::kOther || reply.size() < 28) {
    return "done, without a status";
  }
  return (call.procedure == MadeCall::kMnt ? "MOUNT " : "NFS3 ") + status_name(word_at(reply, 24));
}

std::optional<sockaddr_in> parsed(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in result{};
  result.sin_family = AF_INET;
  if (colon == std::string::npos) return std::nullopt;
  result.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &result.sin_addr) != 1) {
    return std::nullopt;
  }
  return result;
}

// --- Records over TCP ---------------------------------------------------------------------------

class TcpLink final : public Link {
 public:
  explicit TcpLink(std::string address) : address_(std::move(address)) {}
  ~TcpLink() override { end(); }
  void burst(NfsCalls& calls, Tally& tally) override;

 private:
  bool connect();
  void end();
  bool send(Bytes bytes);
  bool receive(MutableBytes into);
  std::optional<Text> record();
  static void frame(Xdr& stream, Bytes message, Dice& dice);
  static void frame_badly(Xdr& stream, Bytes message, Dice& dice);

  const std::string address_;
  int socket_ = -1;
  bool is_silent_ = false;  // it ended because nothing came for kPatienceS
};

bool TcpLink::connect() {
  if (socket_ >= 0) return true;
  const auto where = parsed(address_);
  if (!where) return false;
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{kPatienceS, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&*where), sizeof(*where)) == 0) {
    return true;
  }
  end();
  return false;
}

void TcpLink::end() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool TcpLink::send(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool TcpLink::receive(MutableBytes into) {
  while (!into.empty()) {
    const ssize_t got = ::recv(socket_, into.data(), into.size(), 0);
    if (got <= 0) {
      is_silent_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
      return false;
    }
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::optional<Text> TcpLink::record() {
  Text whole;
  for (;;) {
    std::array<std::byte, 4> head;
    if (!receive(head)) return std::nullopt;
    const std::uint32_t word = word_at(head, 0);
    const std::size_t size = word & ~kLast;
    if (size > (16U << 20U)) return std::nullopt;
    const std::size_t before = whole.size();
    whole.resize(before + size);
    if (!receive(MutableBytes(whole).subspan(before))) return std::nullopt;
    if ((word & kLast) != 0) return whole;
  }
}

void TcpLink::frame(Xdr& stream, Bytes message, Dice& dice) {
  while (dice.one_in(8) && !message.empty()) {  // fragments, empty ones as well
    const std::size_t size = dice.below(message.size());
    stream.u32(static_cast<std::uint32_t>(size)).raw(message.first(size));
    message = message.subspan(size);
  }
  stream.u32(kLast | static_cast<std::uint32_t>(message.size())).raw(message);
}

// Behind it, no other record is one.
void TcpLink::frame_badly(Xdr& stream, Bytes message, Dice& dice) {
  constexpr std::array<std::uint32_t, 6> kHeads{0x7fffffff, 0xffffffff, 0x80000000 | (64U << 20U),
                                                1U << 24U,  0,          kLast};
  switch (dice.below(4)) {
    case 0:
      stream.u32(dice.of(kHeads)).raw(message);
      return;
    case 1:  // longer than what comes
      stream.u32(kLast | static_cast<std::uint32_t>(message.size() + 1000)).raw(message);
      return;
    case 2:  // shorter
      stream.u32(kLast | static_cast<std::uint32_t>(message.size() / 2)).raw(message);
      return;
    default:
      for (std::size_t i = dice.below(2000); i > 0; --i) stream.u32(0);  // no end in sight
  }
}

void TcpLink::burst(NfsCalls& calls, Tally& tally) {
  Dice& dice = calls.dice();
  if (dice.one_in(150)) end();
  if (!connect()) return tally.found(Tally::kTcp, "the server takes no connections");
  std::map<std::uint32_t, MadeCall> open;
  Xdr stream;
  std::size_t owed = 0;
  bool is_good = true;
  for (std::size_t left = 1 + dice.below(12); left > 0; --left) {
    MadeCall call = calls.next();
    tally.sent(Tally::kTcp);
    frame(stream, call.message, dice);
    if (call.is_rpc) ++owed;
    is_good = is_good && call.is_rpc;
    open.emplace(word_at(call.message, 0), std::move(call));
  }
  const std::uint32_t marker = 0xfffffff0U | static_cast<std::uint32_t>(dice.below(16));
  frame(stream, NfsCalls::null_call(marker), dice);
  const bool ends_badly = dice.one_in(25);
  if (ends_badly) frame_badly(stream, calls.next().message, dice);
  bool is_open = send(stream.bytes), is_marked = false;
  while (is_open && (owed > 0 || !is_marked)) {
    const auto reply = record();
    if (!reply) break;
    const std::uint32_t xid = word_at(*reply, 0);
    is_marked = is_marked || xid == marker;
    const auto found = open.find(xid);
    if (found == open.end()) continue;
    tally.answered(Tally::kTcp, found->second, *reply);
    calls.learn(found->second, *reply);
    if (found->second.is_rpc) --owed;
    open.erase(found);
  }
  if (owed == 0 && is_marked) {
    if (ends_badly) end();
    return;
  }
  if (is_silent_) {
    tally.found(Tally::kTcp, "a call was not answered for 10 s");
  } else if (is_good && !ends_badly) {
    tally.found(Tally::kTcp, "the connection ended under good calls");
  } else {
    tally.note(Tally::kTcp, "the connection ended");
  }
  is_silent_ = false;
  end();
}

// --- The library's client -----------------------------------------------------------------------

class RdmaLink final : public Link {
 public:
  explicit RdmaLink(const std::string& address) : url_("rdma://" + address) {}
  void burst(NfsCalls& calls, Tally& tally) override;

 private:
  struct UnderWay {
    MadeCall made;
    Text place;
  };
  bool connect();
  void start(UnderWay& call, NfsCalls& calls, Tally& tally, std::size_t& left);

  const std::string url_;
  std::optional<Client> client_;
};

bool RdmaLink::connect() {
  if (client_ && client_->connected()) return true;
  client_.reset();
  ClientOptions options;
  options.provider.name = "siwarp";
  options.call_timeout = std::chrono::seconds(kPatienceS);
  auto made = Client::connect(url_, options);
  if (!made) return false;
  client_.emplace(std::move(*made));
  return true;
}

void RdmaLink::start(UnderWay& call, NfsCalls& calls, Tally& tally, std::size_t& left) {
  auto prepared = client_->prepare_message(8192);
  if (!prepared) return tally.note(Tally::kRdma, "not sent");
  MadeCall& made = call.made;
  const Bytes message = made.message;
  MessageWriter& writer = prepared->arguments();
  const std::size_t after = made.bulk_at + ((made.bulk_size + 3) & ~std::size_t{3});
  if (made.bulk_at != 0 && made.bulk_at % 4 == 0 && after <= message.size()) {
    writer.lend(message.first(made.bulk_at));
    writer.bulk_fixed(message.subspan(made.bulk_at, made.bulk_size));
    if (after < message.size()) writer.lend(message.subspan(after));
  } else {
    made.message.resize((message.size() + 3) & ~std::size_t{3});
    writer.lend(made.message);
  }
  if (made.place_size != 0) {
    call.place.resize(made.place_size);
    prepared->place_result(call.place);
  }
  prepared->expect_results(made.results_size);
  auto started = client_->start(std::move(*prepared), [&](Expected<Reply, Error> reply) {
    --left;
    if (!reply) {
      const Errc code = reply.error().code;
      if (code == Errc::kTimedOut)
        return tally.found(Tally::kRdma, "a call was not answered for 10 s");
      return tally.note(Tally::kRdma, "failed: " + std::string(to_string(code)));
    }
    const Bytes rest = reply->results().xdr().rest();
    reply->ignore_rest();
    tally.answered(Tally::kRdma, call.made, rest, call.place);
    calls.learn(call.made, rest);
  });
  if (!started) return tally.note(Tally::kRdma, "not sent");
  tally.sent(Tally::kRdma);
  ++left;
}

void RdmaLink::burst(NfsCalls& calls, Tally& tally) {
  Dice& dice = calls.dice();
  if (dice.one_in(150)) client_.reset();
  if (!connect()) return tally.found(Tally::kRdma, "the server takes no connections");
  std::vector<std::unique_ptr<UnderWay>> open;
  std::size_t left = 0;
  for (std::size_t count = 1 + dice.below(12); count > 0; --count) {
    open.push_back(std::make_unique<UnderWay>());
    open.back()->made = calls.next();
    // To others no answer is owed, and none to wait for; they go the other two ways.
    if (open.back()->made.is_rpc) start(*open.back(), calls, tally, left);
  }
  while (left > 0) {
    client_->wait();
    client_->progress();
  }
}

// --- Bytes over iWARP ---------------------------------------------------------------------------

class RawLink final : public Link {
 public:
  explicit RawLink(std::string address) : address_(std::move(address)) {}
  void burst(NfsCalls& calls, Tally& tally) override;

 private:
  bool connect();
  static Text header(const MadeCall& call, Dice& dice);
  static Text odd_header(const MadeCall& call, Dice& dice);
  // False: the connection is to end.
  bool serve(const iwarp::ReadRequest& request, Bytes message, Dice& dice);
  void wait_for_marker(std::uint32_t marker, const MadeCall& call, NfsCalls& calls, Tally& tally);

  static constexpr std::size_t kInlineMax = 3500;  // bytes; more does not go with its lists
  static constexpr std::uint32_t kTag = 0x4711;
  static constexpr std::uint64_t kAddress = 0x1000;

  const std::string address_;
  std::optional<test::RawTalk> talk_;
};

bool RawLink::connect() {
  if (talk_) return true;
  auto peer = test::RawPeer::connect(address_, [] { ::poll(nullptr, 0, 1); });
  if (!peer || peer->initiate(test::RawTalk::mpa(true)).empty()) return false;
  talk_.emplace(std::move(peer), true);
  return true;
}

// The header and chunk lists that fit what is behind, and the whole message by Reads, or not.
Text RawLink::header(const MadeCall& call, Dice& dice) {
  const auto size = static_cast<std::uint32_t>(call.message.size());
  const bool is_long = size > kInlineMax || dice.one_in(3);
  Xdr xdr;
  xdr.u32(word_at(call.message, 0)).u32(1).u32(32).u32(is_long ? 1 : 0);
  const std::uint32_t part = (size / (1 + dice.below(3)) + 3) & ~3U;
  for (std::uint32_t at = 0; is_long && at < size; at += part) {
    xdr.u32(1).u32(0).u32(kTag).u32(std::min(part, size - at)).u64(kAddress + at);
  }
  xdr.u32(0);
  if (call.place_size != 0) xdr.u32(1).u32(1).u32(kTag).u32(call.place_size).u64(kAddress);
  xdr.u32(0);
  const bool has_reply_chunk = dice.one_in(3);
  xdr.u32(has_reply_chunk ? 1 : 0);
  if (has_reply_chunk) xdr.u32(1).u32(kTag).u32(call.results_size).u64(kAddress);
  return xdr.bytes;
}

// The same with lists most of which do not fit.
Text RawLink::odd_header(const MadeCall& call, Dice& dice) {
  constexpr std::array<std::uint32_t, 9> kSizes{
      0, 1, 100, 4096, 70'000, 1U << 20U, (1U << 20U) + 1, 0x7fffffff, 0xffffffff};
  constexpr std::array<std::uint32_t, 6> kVersions{0, 2, 3, 4, 0x7fffffff, 0xffffffff};
  constexpr std::array<std::uint32_t, 5> kCredits{0, 1, 32, 65536, 0xffffffff};
  const auto size = static_cast<std::uint32_t>(call.message.size());
  Xdr xdr;
  const std::uint32_t type = dice.one_in(3) ? dice.below(dice.one_in(5) ? 10 : 3) : 0;
  xdr.u32(word_at(call.message, 0)).u32(dice.one_in(10) ? dice.of(kVersions) : 1);
  xdr.u32(dice.of(kCredits)).u32(type);
  if (type == 2) xdr.u32(dice.of(kSizes)).u32(dice.of(kSizes));  // RDMA_MSGP
  const auto segment = [&] {
    xdr.u32(kTag + dice.below(2)).u32(dice.one_in(2) ? size : dice.of(kSizes));
    xdr.u64(dice.one_in(4) ? dice.u64() : kAddress);
  };
  for (std::uint32_t count = dice.below(4); count > 0; --count) {
    const std::uint32_t position = type == 1 && dice.one_in(2) ? 0 : 4 * dice.below(size / 2 + 1);
    xdr.u32(1).u32(dice.one_in(10) ? dice.u32() : position);
    segment();
  }
  xdr.u32(0);
  const auto chunk = [&] {
    const std::uint32_t count = dice.below(4);
    xdr.u32(dice.one_in(20) ? dice.of(kSizes) : count);
    for (std::uint32_t i = 0; i < count; ++i) segment();
  };
  for (std::uint32_t count = dice.below(3); count > 0; --count) {
    xdr.u32(1);
    chunk();
  }
  xdr.u32(0);
  const bool has_reply_chunk = dice.one_in(3);
  xdr.u32(has_reply_chunk ? 1 : 0);
  if (has_reply_chunk) chunk();
  if (dice.one_in(12)) xdr.bytes[dice.below(xdr.bytes.size())] ^= std::byte{0x10};
  return xdr.bytes;
}

bool RawLink::serve(const iwarp::ReadRequest& request, Bytes message, Dice& dice) {
  if (dice.one_in(12)) return (void)talk_->terminate(iwarp::Fault::kProtectionInvalidStag), false;
  if (request.size > (4U << 20U)) return false;
  Text data(request.size, std::byte{0x2f});
  const std::uint64_t from = request.source_address - kAddress;
  if (from < message.size()) {
    const Bytes rest = message.subspan(from);
    std::copy_n(rest.begin(), std::min(rest.size(), data.size()), data.begin());
  }
  if (dice.one_in(20)) data.resize(dice.below(data.size() + 1));  // less, and then the end
  constexpr std::size_t kPart = 16 << 10;
  const auto sink = static_cast<std::uint32_t>(request.sink_tag);
  for (std::size_t at = 0; at < data.size() || at == 0; at += kPart) {
    const Bytes part = Bytes(data).subspan(at, std::min(kPart, data.size() - at));
    const bool is_last = at + kPart >= data.size();
    if (!talk_->read_response(sink, request.sink_address + at, part, is_last)) return false;
  }
  return data.size() == request.size;
}

void RawLink::wait_for_marker(std::uint32_t marker, const MadeCall& call, NfsCalls& calls,
                              Tally& tally) {
  const auto begin = std::chrono::steady_clock::now();
  while (auto said = talk_->next()) {
    if (said->header.opcode == iwarp::Opcode::kReadRequest) {
      const auto request = iwarp::decode_read_request(said->payload);
      if (serve(request, call.message, calls.dice())) continue;
      tally.note(Tally::kRaw, "ended by the client under a Read");
      return talk_.reset();
    }
    if (!iwarp::is_send(said->header.opcode)) continue;  // an RDMA Write, a Terminate
    const Bytes message = said->payload;
    const std::uint32_t xid = word_at(message, 0);
    if (xid == marker && word_at(message, 12) == 0) return;
    if (xid != word_at(call.message, 0)) continue;
    if (word_at(message, 12) == 4) {
      tally.note(Tally::kRaw, word_at(message, 16) == 1 ? "ERR_VERS" : "ERR_CHUNK");
    } else {
      // Where the RPC message begins is behind lists that are as long as ours; its status will do.
      tally.answered(Tally::kRaw, {}, message);
    }
  }
  const auto waited = std::chrono::steady_clock::now() - begin;
  if (waited >= test::RawPeer::kPatience) {
    tally.note(Tally::kRaw, "silence for 5 s");
  } else {
    tally.note(Tally::kRaw, "the connection ended");
  }
  talk_.reset();
}

void RawLink::burst(NfsCalls& calls, Tally& tally) {
  Dice& dice = calls.dice();
  if (!connect()) return tally.found(Tally::kRaw, "the server takes no connections");
  for (std::size_t left = 1 + dice.below(4); left > 0 && talk_; --left) {
    MadeCall call = calls.next();
    const bool is_odd = !dice.one_in(3);
    Text message = is_odd ? odd_header(call, dice) : header(call, dice);
    // Beside lists that fit, the message comes in one way alone.
    if (is_odd || word_at(message, 12) == 0) {
      const Bytes inlined = Bytes(call.message).first(std::min(call.message.size(), kInlineMax));
      message.insert(message.end(), inlined.begin(), inlined.end());
    }
    const std::uint32_t marker = 0xfffffff0U | static_cast<std::uint32_t>(dice.below(16));
    const test::Message null = test::join(
        {test::raw_header(marker, 0), test::words({0, 0, 0}), NfsCalls::null_call(marker)});
    if (!talk_->send(null)) return talk_.reset();  // brings credits
    wait_for_marker(marker, call, calls, tally);
    if (!talk_) return;
    tally.sent(Tally::kRaw);
    if (!talk_->send(message) || !talk_->send(null)) return talk_.reset();
    wait_for_marker(marker, call, calls, tally);
  }
}

}  // namespace

void Tally::answered(Way way, const MadeCall& call, Bytes reply, Bytes more) {
  note(way, way == kRaw ? "an RPC reply" : kind_of(call, reply));
  if (secret_.empty()) return;
  const Bytes secret = std::as_bytes(std::span(secret_));
  for (const Bytes each : {reply, more}) {
    // Not by std::ranges: Clang 14 does not compile the subrange of libstdc++.
    if (std::search(each.begin(), each.end(), secret.begin(), secret.end()) == each.end()) continue;
    found(way, "an answer holds what is not exported");
  }
}

void Tally::found(Way way, const std::string& what) {
  if (++findings_ < 20) std::fprintf(stderr, "nfs_wire_fuzz: FINDING: %s\n", what.c_str());
  note(way, "FINDING: " + what);
}

void Tally::print() const {
  std::printf("%-48s %12s %12s %12s\n", "calls, and their answers", "TCP", "RDMA", "raw RDMA");
  const auto row = [](const char* what, const auto& counts) {
    std::printf("%-48s %12llu %12llu %12llu\n", what, static_cast<unsigned long long>(counts[kTcp]),
                static_cast<unsigned long long>(counts[kRdma]),
                static_cast<unsigned long long>(counts[kRaw]));
  };
  row("calls", calls_);
  for (const auto& [what, counts] : kinds_) row(what.c_str(), counts);
}

std::unique_ptr<Link> tcp_link(const std::string& address) {
  return std::make_unique<TcpLink>(address);
}
std::unique_ptr<Link> rdma_link(const std::string& address) {
  return std::make_unique<RdmaLink>(address);
}
std::unique_ptr<Link> raw_link(const std::string& address) {
  return std::make_unique<RawLink>(address);
}

}  // namespace rpcrdma::fuzz
