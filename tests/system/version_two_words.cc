#include "system/version_two_words.h"

#include <utility>

namespace rpcrdma::test::draft {
namespace {

// Takes words from the front; once one is missing, `failed` stays set.
class WordReader {
 public:
  explicit WordReader(const Words& words) : words_(words) {}

  std::uint32_t take() {
    if (at_ < words_.size()) return words_[at_++];
    failed_ = true;
    return 0;
  }
  Words take(std::size_t count) {
    if (words_.size() - at_ < count) {
      failed_ = true;
      return {};
    }
    const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += count;
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  Words rest() { return take(words_.size() - at_); }
  bool at_end() const { return at_ == words_.size(); }
  bool failed() const { return failed_; }
  void fail() { failed_ = true; }

  // Fails unless the word is 0 or 1, the values of XDR's bool.
  bool take_bool() {
    const std::uint32_t word = take();
    if (word > 1) failed_ = true;
    return word == 1;
  }
  // Takes an opaque<>, whose length is a multiple of four in all known options.
  Words take_opaque() {
    const std::uint32_t size = take();
    if (size % 4 != 0) failed_ = true;
    return take(size / 4);
  }
  Words take_subset() { return take(take()); }
  Segment take_segment() {
    Segment segment;
    segment.handle = take();
    segment.size = take();
    segment.offset = std::uint64_t{take()} << 32U;
    segment.offset |= take();
    return segment;
  }
  std::vector<Segment> take_chunk() {
    std::vector<Segment> chunk;
    const std::uint32_t count = take();
    for (std::uint32_t i = 0; i < count && !failed_; ++i) chunk.push_back(take_segment());
    return chunk;
  }

 private:
  const Words& words_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

void read_lists(WordReader& reader, Seen& seen) {
  while (reader.take_bool() && !reader.failed()) {
    const std::uint32_t position = reader.take();
    seen.reads.emplace_back(position, reader.take_segment());
  }
  while (reader.take_bool() && !reader.failed()) seen.writes.push_back(reader.take_chunk());
  seen.has_reply_chunk = reader.take_bool();
  if (seen.has_reply_chunk) seen.reply_chunk = reader.take_chunk();
}

void read_error(WordReader& reader, Seen& seen) {
  seen.error = reader.take();
  if (seen.error == kErrVers) {
    seen.low = reader.take();
    seen.high = reader.take();
  } else if (seen.vers != 2 || (seen.error != kErrBadHeader && seen.error != kErrInvalOption)) {
    reader.fail();
  }
}

std::vector<Value> read_spec(WordReader& reader) {
  std::vector<Value> values;
  const std::uint32_t count = reader.take();
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) {
    Value value;
    value.id = reader.take();
    value.data = reader.take_opaque();
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

std::vector<std::byte> bytes_of(const Words& words) {
  std::vector<std::byte> bytes;
  bytes.reserve(4 * words.size());
  for (const std::uint32_t word : words) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      bytes.push_back(static_cast<std::byte>((word >> shift) & 0xffU));
    }
  }
  return bytes;
}

Words words_of(Bytes bytes) {
  Words words;
  for (; bytes.size() >= 4; bytes = bytes.subspan(4)) {
    std::uint32_t word = 0;
    for (const std::byte each : bytes.first(4)) {
      word = (word << 8U) | std::to_integer<std::uint32_t>(each);
    }
    words.push_back(word);
  }
  return words;
}

Words join(std::initializer_list<Words> parts) {
  Words whole;
  for (const Words& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

Words prefix(std::uint32_t xid, std::uint32_t credit, std::uint32_t proc, std::uint32_t vers) {
  return {xid, vers, credit, proc};
}

Words msg(std::uint32_t xid, std::uint32_t credit, std::uint32_t direction, const Words& payload,
          const Words& lists) {
  return join({prefix(xid, credit, kMsg), {direction}, lists, payload});
}

Words nomsg(std::uint32_t xid, std::uint32_t credit, std::uint32_t direction, const Words& lists) {
  return join({prefix(xid, credit, kNomsg), {direction}, lists});
}

Words error(std::uint32_t xid, std::uint32_t credit, std::uint32_t code) {
  return join({prefix(xid, credit, kError), {code}});
}

Words error_vers(std::uint32_t xid, std::uint32_t credit, std::uint32_t low, std::uint32_t high,
                 std::uint32_t vers) {
  return join({prefix(xid, credit, kError, vers), {kErrVers, low, high}});
}

Words option(std::uint32_t xid, std::uint32_t credit, std::uint32_t direction, std::uint32_t type,
             const Words& info) {
  const auto size = static_cast<std::uint32_t>(4 * info.size());
  return join({prefix(xid, credit, kOptional), {direction, type, size}, info});
}

Words value(std::uint32_t id, std::uint32_t data) {
  return {id, 4, data};
}

Words spec(std::initializer_list<Words> values) {
  return join({{static_cast<std::uint32_t>(values.size())}, join(values)});
}

Words initxch(std::initializer_list<Words> values, const Words& nochg_bits) {
  return join({spec(values), {static_cast<std::uint32_t>(nochg_bits.size())}, nochg_bits});
}

Words respxch(std::uint32_t done, std::uint32_t rejected, std::uint32_t pending) {
  Words info;
  for (const std::uint32_t bits : {done, rejected, pending}) {
    info = join({info, bits == 0 ? Words{0} : Words{1, bits}});
  }
  return info;
}

Words updxch(const Words& value, bool clears_pending) {
  return join({value, {clears_pending ? 1U : 0U}});
}

Words rpc_call(std::uint32_t xid, std::uint32_t program, std::uint32_t version,
               std::uint32_t procedure, const Words& arguments) {
  return join({{xid, kCall, 2, program, version, procedure, 0, 0, 0, 0}, arguments});
}

Words rpc_reply(std::uint32_t xid, const Words& results) {
  return join({{xid, kReply, 0, 0, 0, 0}, results});
}

Words read_entry(std::uint32_t position, const Segment& segment) {
  return {1,
          position,
          segment.handle,
          segment.size,
          static_cast<std::uint32_t>(segment.offset >> 32U),
          static_cast<std::uint32_t>(segment.offset & 0xffffffffU)};
}

Words chunk_of(const Segment& segment) {
  return {1, segment.handle, segment.size, static_cast<std::uint32_t>(segment.offset >> 32U),
          static_cast<std::uint32_t>(segment.offset & 0xffffffffU)};
}

std::string to_string(const Seen& seen) {
  std::string text = "XID " + std::to_string(seen.xid) + " version " + std::to_string(seen.vers) +
                     " credit " + std::to_string(seen.credit);
  const std::string direction = seen.direction == kCall ? " CALL" : " REPLY";
  if (seen.is(kMsg)) return text + " MSG" + direction;
  if (seen.is(kNomsg)) return text + " NOMSG" + direction;
  if (seen.is(kError)) return text + " ERROR " + std::to_string(seen.error);
  return text + " OPTIONAL" + direction + " type " + std::to_string(seen.option);
}

std::optional<Seen> decode(const Words& message) {
  WordReader reader(message);
  Seen seen;
  seen.xid = reader.take();
  seen.vers = reader.take();
  seen.credit = reader.take();
  seen.proc = reader.take();
  // Some responders copy the version that they refuse into their ERR_VERS.
  if (seen.vers != 1 && seen.vers != 2 && seen.proc != kError) return std::nullopt;
  switch (seen.proc) {
    case kMsg:
    case kNomsg:
      if (seen.vers == 2) seen.direction = reader.take_bool() ? kReply : kCall;
      read_lists(reader, seen);
      if (seen.is(kMsg)) seen.payload = reader.rest();
      if (seen.is(kMsg) && seen.payload.empty()) reader.fail();
      break;
    case kError:
      read_error(reader, seen);
      break;
    case kOptional:
      seen.direction = reader.take_bool() ? kReply : kCall;
      seen.option = reader.take();
      seen.info = reader.take_opaque();
      seen.payload = reader.rest();
      break;
    default:
      return std::nullopt;
  }
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  return seen;
}

std::optional<std::vector<Value>> decode_values(const Seen& option, Words* nochg) {
  WordReader reader(option.info);
  std::vector<Value> values = read_spec(reader);
  if (option.is_option(kInitxch)) {
    const Words bits = reader.take_subset();
    if (nochg != nullptr) *nochg = bits;
  } else if (!option.is_option(kReqxch)) {
    return std::nullopt;
  }
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  return values;
}

std::optional<Answer> decode_respxch(const Seen& option) {
  if (!option.is_option(kRespxch)) return std::nullopt;
  WordReader reader(option.info);
  Answer answer;
  answer.done = reader.take_subset();
  answer.rejected = reader.take_subset();
  answer.pending = reader.take_subset();
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  return answer;
}

std::optional<Update> decode_updxch(const Seen& option) {
  if (!option.is_option(kUpdxch)) return std::nullopt;
  WordReader reader(option.info);
  Update update;
  update.now.id = reader.take();
  update.now.data = reader.take_opaque();
  update.clears_pending = reader.take_bool();
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  return update;
}

}  // namespace rpcrdma::test::draft
