// An engine::Connection, as client or as server, of version 1 alone or with version 2, with a
// lawful provider and a peer that may send anything: raw bytes, headers made by hand in either
// version, options, replies that nearly fit, invalidations; while calls are started, canceled,
// answered and rejected, work completes or fails, time passes, and the link ends at any moment.
// EngineSide checks the invariants.
//
// Input: role and options, then operations until it ends.
#include "fuzz/engine_side.h"
#include "fuzz/fuzz.h"
#include "wire/v1/header.h"
#include "wire/v2/characteristics.h"
#include "wire/v2/header.h"

namespace rpcrdma::fuzz {
namespace {

using engine::CallId;
using engine::Role;
using wire::ChunkLists;
using wire::v1::Body;
using Call = EngineSide::Call;
using CallKey = EngineSide::CallKey;

engine::Options options_of(Choices& choices, std::uint32_t backward_calls) {
  engine::Options options;
  options.backward_calls = backward_calls;
  const std::uint8_t flags = choices.u8();
  options.credits = 1 + flags % 4U;
  options.calls_max = 1 + flags / 4U % 8U;
  options.reduce = (flags & 32U) == 0;
  options.remote_invalidation = (flags & 64U) == 0;
  options.return_form =
      (flags & 128U) != 0 ? engine::ReturnForm::kFull : engine::ReturnForm::kShortened;
  options.inline_send = 1024U + 16U * choices.u8();
  options.inline_receive = 1024U + 16U * choices.u8();
  options.reduce_size_min = choices.u8();
  options.read_chunk_size_max = 100'000;
  options.long_call_size_max = 50'000;
  return options;
}

// Version 2, alone or beside version 1.
void take_version_two(Choices& choices, engine::Options& options) {
  const std::uint8_t flags = choices.u8();
  options.versions = {(flags & 1U) != 0 ? 2U : 1U, 2};
  options.receive_size_max = 4096U * (flags / 2U % 8U);
  options.backward_support =
      (flags & 16U) != 0 ? BackwardSupport::kInline : BackwardSupport::kGeneral;
}

// Chooses what only Profile::kRfc5666 has.
void take_profile(Choices& choices, engine::Options& options) {
  options.profile = Profile::kRfc5666;
  options.remote_invalidation = false;
  const std::uint8_t flags = choices.u8();
  options.rfc5666.results_by_read = (flags & 1U) != 0;
  options.rfc5666.exposed_replies_max = 1 + flags / 2U % 4U;
  options.rfc5666.padding_base = (flags & 8U) != 0 ? PaddingBase::kStream : PaddingBase::kBuffer;
  options.rfc5666.padding_threshold = 8U * (flags / 16U);
}

struct Settings {
  explicit Settings(Choices& choices) : Settings(choices, choices.u8()) {}
  Settings(Choices& choices, std::uint8_t first)
      : role((first & 1U) != 0 ? Role::kServer : Role::kClient),
        options(options_of(choices, first / 2U % 4U)),
        queue_depth(1 + choices.below(40)),
        batch(1 + choices.below(8)),
        ends(choices.u8()) {
    // No input from before this has it.
    if ((first & 24U) == 16U) {
      take_profile(choices, options);
    } else if ((first & 224U) == 64U) {
      take_version_two(choices, options);
    }
  }
  Role role;
  engine::Options options;
  std::size_t queue_depth;
  std::size_t batch;
  std::uint8_t ends;  // how the link and the conversation end
};

class World {
 public:
  explicit World(Choices& choices) : World(choices, Settings(choices)) {}

  void run() {
    while (!choices_.empty()) step();
    side_.finish(stuck_);
  }

 private:
  World(Choices& choices, const Settings& settings)
      : choices_(choices),
        role_(settings.role),
        stuck_((settings.ends & 2U) != 0),
        side_(settings.role, settings.options, settings.queue_depth, settings.batch,
              (settings.ends & 1U) != 0) {}

  void step() {
    switch (choices_.below(12)) {
      case 0:
      case 1:
      case 2:
        act();
        break;
      case 3:
      case 4:
        side_.complete(choices_.u8(), true);
        break;
      case 5:
        for (std::size_t n = choices_.below(40); n > 0; --n) side_.complete(0, true);
        break;
      case 6:
      case 7:
      case 8:
        receive(made_message());
        break;
      case 9: {
        const Bytes raw = choices_.take(choices_.u8());
        receive({raw.begin(), raw.end()});
        break;
      }
      case 10:
        side_.pass_time(std::chrono::milliseconds{choices_.u16()});
        break;
      default:
        rarely();
        break;
    }
  }
  void rarely() {
    switch (choices_.below(8)) {
      case 0:
        side_.end_link();
        break;
      case 1:
        if (side_.connected()) side_.tell_end();
        break;
      case 2:
        side_.complete(choices_.u8(), false);
        break;
      case 3:
        side_.pass_to_timeout();
        break;
      case 4:
        side_.settle();
        break;
      case 5:
        may_speak_v2() ? change() : connect();
        break;
      default:
        connect();
        break;
    }
  }
  void connect() {
    engine::LinkParameters link;
    link.inline_send = std::min(side_.options().inline_send, 1024U + 16U * choices_.u8());
    link.inline_receive = std::min(side_.options().inline_receive, 1024U + 16U * choices_.u8());
    link.reads_in_flight_max = choices_.u8() % 4U;
    link.remote_invalidation = choices_.flag();
    if (has_profile()) {
      link.remote_invalidation = false;
      link.padding_alignment = static_cast<std::uint32_t>(choices_.size(5'000));
      // A client may be asked for its sizes again; a server tells them before anything else.
      if (role_ == Role::kServer) side_.configure(link);
    }
    side_.connect(link);
  }

  bool may_speak_v2() const { return side_.options().versions.high >= 2; }
  bool has_profile() const { return side_.options().profile == Profile::kRfc5666; }

  // Version 2: what is of no call.
  void change() {
    const std::uint8_t what = choices_.u8();
    const std::uint32_t size = 512U * choices_.u8();
    side_.set_memory((what & 16U) == 0);
    switch (what % 4U) {
      case 0:
        return side_.raise_receive_size(std::min(size, side_.options().receive_size_max));
      case 1:
        return side_.ask(engine::SmallValue::of(2, size));
      case 2:
        return side_.ask(engine::SmallValue::of(1 + what / 32U, size));
      default:
        return side_.take_change();
    }
  }

  // The layer above does something.
  void act() { goes_backward() != (role_ == Role::kServer) ? serve() : make_call(); }
  // Most of the time each side does what it mostly does.
  bool goes_backward() { return side_.options().backward_calls > 0 && choices_.below(3) == 2; }
  void make_call() {
    switch (choices_.below(6)) {
      case 0:
        with_call([](const Call& call) { return call.made && !call.ended; }, &EngineSide::cancel);
        break;
      case 1:
        with_call([](const Call& call) { return call.delivered; }, &EngineSide::release);
        break;
      default: {
        const std::chrono::seconds timeout{1 + choices_.u8()};
        side_.start_call(side_.message(choices_, true), timeout);
        break;
      }
    }
  }
  void with_call(bool (*choose)(const Call&), void (EngineSide::*verb)(CallId)) {
    const auto calls = side_.calls(choose);
    if (!calls.empty()) (side_.*verb)(calls[choices_.u8() % calls.size()].id);
  }
  void serve() {
    const auto calls = side_.calls([](const Call& call) { return call.in_service; });
    if (calls.empty()) return;
    const CallKey key = calls[choices_.u8() % calls.size()];
    const CallId id = key.id;
    const std::size_t answer = choices_.below(8);
    if (answer == 0) {
      side_.reject(id);
    } else if (side_.call(key).wanted && answer < 6) {
      side_.lend(id);
    } else {
      side_.start_reply(id, side_.message(choices_, false));
    }
  }

  void receive(Buffer message) {
    const std::uint8_t change = choices_.u8();
    if (change >= 192 && !message.empty()) {
      message[choices_.u16() % message.size()] ^= static_cast<std::byte>(1U << change % 8U);
    }
    std::optional<SteeringTag> invalidated;
    const std::uint8_t which = choices_.u8();
    if (which >= 160 && !side_.tags().empty()) {
      const SteeringTag tag = side_.tags()[which % side_.tags().size()];
      // A provider lets only live tags be invalidated.
      if (side_.is_live(tag)) invalidated = tag;
    }
    side_.receive(message, invalidated);
  }

  Body body() {
    switch (choices_.below(12)) {
      case 0:
      case 1:
        return wire::v1::NoMsg{};
      case 2:
        if (has_profile()) return wire::v1::Msgp{choices_.u8(), choices_.u8()};
        return wire::v1::Msgp{4, 4};
      case 3:
        return wire::v1::Done{};
      case 4:
        return wire::v1::ErrVers{1, choices_.u8()};
      case 5:
        return wire::v1::ErrChunk{};
      default:
        return wire::v1::Msg{};
    }
  }
  wire::Segment segment() {
    return {SteeringTag{1U + choices_.u8()}, static_cast<std::uint32_t>(choices_.size(60'000)),
            choices_.u8()};
  }
  // Lists as they come, or those of a Call of ours with other lengths.
  void fill_lists(ChunkLists& lists) {
    if (choices_.flag()) {
      for (std::size_t n = choices_.below(7); n > 0; --n) {
        const std::uint32_t position = choices_.u8() * 4U;
        (void)lists.reads.push_back({position, segment()});
      }
    }
    for (std::size_t n = choices_.below(4); n > 0; --n) {
      std::vector<wire::Segment> chunk(choices_.below(5));
      for (wire::Segment& each : chunk) each = segment();
      (void)lists.writes.push_back(chunk);
    }
    lists.has_reply = choices_.flag();
    if (!lists.has_reply) return;
    for (std::size_t n = choices_.below(4); n > 0; --n) (void)lists.reply.push_back(segment());
  }
  void return_lists(const ChunkLists& call, ChunkLists& lists) {
    for (std::size_t i = 0; i < call.writes.size(); ++i) {
      std::vector<wire::Segment> chunk(call.writes.chunk(i).begin(), call.writes.chunk(i).end());
      for (wire::Segment& each : chunk) {
        if (choices_.flag()) each.length = static_cast<std::uint32_t>(choices_.size(each.length));
      }
      (void)lists.writes.push_back(chunk);
    }
    if (has_profile() && choices_.flag()) {
      for (std::size_t n = choices_.below(5); n > 0; --n) {
        const auto position = static_cast<std::uint32_t>(4 * choices_.below(8));
        (void)lists.reads.push_back({position, segment()});
      }
    }
    lists.has_reply = call.has_reply;
    lists.reply = call.reply;
    for (wire::Segment& each : lists.reply) {
      each.length = static_cast<std::uint32_t>(choices_.size(each.length));
    }
  }

  // Values of characteristics, known ones and others.
  std::vector<wire::v2::CharacteristicValue> values(std::array<std::array<std::byte, 8>, 3>& room) {
    std::vector<wire::v2::CharacteristicValue> values;
    for (std::size_t n = choices_.below(4); n > 0; --n) {
      auto& data = room[n - 1];
      const std::uint8_t kind = choices_.u8();
      const std::uint32_t high = choices_.u8();
      const std::uint32_t word = 256U * high + choices_.u8() % 4U;
      xdr::store_word(data.data(), kind < 128 ? word : word % 4);
      const std::uint32_t id = kind % 4U == 3 ? 0xffffff00U + kind / 4U % 2U : 1U + kind % 4U;
      values.push_back({id, Bytes(data).first(kind % 64U == 63 ? 8 : 4)});
    }
    return values;
  }
  // Writes what an option says: well-formed mostly.
  std::size_t write_info(std::uint32_t type, MutableBytes output) {
    xdr::Writer writer(output);
    std::array<std::array<std::byte, 8>, 3> room{};
    const auto list = values(room);
    const std::uint8_t sets = choices_.u8();
    const std::array<std::uint32_t, 2> indices{0, 1};
    const auto subset = [&](unsigned shift) {
      return std::span(indices).subspan(sets >> shift & 1U, (sets >> shift & 2U) != 0 ? 1 : 0);
    };
    switch (type) {
      case 1:
        wire::v2::write_init(writer, list, subset(0));
        break;
      case 2:
        wire::v2::write_request(writer, list);
        break;
      case 3:
        wire::v2::write_response(writer, subset(0), subset(2), subset(4));
        break;
      case 4:
        if (!list.empty()) wire::v2::write_update(writer, list[0], (sets & 1U) != 0);
        break;
      default:
        writer.u32(sets);
    }
    return writer.position();
  }
  wire::v2::Body body2(bool is_reply, Buffer& info) {
    const auto direction = is_reply ? wire::v2::Direction::kReply : wire::v2::Direction::kCall;
    switch (choices_.below(12)) {
      case 0:
      case 1:
        return wire::v2::NoMsg{direction};
      case 2:
        return wire::v2::ErrVers{1, choices_.u8()};
      case 3:
        return wire::v2::ErrBadHeader{};
      case 4:
        return wire::v2::ErrInvalOption{};
      case 5:
      case 6:
      case 7: {
        const auto type = static_cast<std::uint32_t>(1 + choices_.below(5));
        info.resize(128);
        info.resize(write_info(type, info));
        return wire::v2::Optional{direction, type, info};
      }
      default:
        return wire::v2::Msg{direction};
    }
  }
  // As made_message().
  Buffer made_message2() {
    namespace v2 = wire::v2;
    ChunkLists lists;
    Buffer info;
    const bool is_reply = goes_backward() != (role_ == Role::kClient);
    const Xid xid{choices_.u8()};
    v2::Header header{xid, 2, choices_.u8(), body2(is_reply, info)};
    const auto calls = side_.calls([](const Call& call) { return call.sent && !call.answered; });
    const std::uint8_t how = choices_.u8();
    const bool has_lists = std::holds_alternative<v2::Msg>(header.body) ||
                           std::holds_alternative<v2::NoMsg>(header.body);
    if (!has_lists && how >= 128 && how < 192) {
      header.xid = side_.last_option();
    } else if (is_reply && how >= 32 && !calls.empty()) {
      const Call& call = side_.call(calls[how % calls.size()]);
      header.xid = call.xid;
      if (has_lists) how >= 64 ? return_lists(call.lists, lists) : fill_lists(lists);
    } else if (has_lists && (how & 2U) != 0) {
      fill_lists(lists);
    }
    const bool has_payload = std::holds_alternative<v2::Msg>(header.body);
    const std::size_t payload = has_payload ? 4 * (1 + choices_.size(200)) : 0;
    Buffer message(encoded_size(header, lists) + payload);
    const auto size = encode(header, lists, message);
    FUZZ_CHECK(size.has_value(), "the driver's own header does not fit");
    write_stream(header.xid, is_reply, how, MutableBytes(message).subspan(*size));
    return message;
  }

  // The start of an RPC message.
  static void write_stream(Xid xid, bool is_reply, std::uint8_t how, MutableBytes payload) {
    if (payload.empty()) return;
    xdr::Writer writer(payload);
    writer.u32(static_cast<std::uint32_t>(xid) ^ (how % 32U == 31U ? 1U : 0U));
    const bool turned = how % 32U == 30U;  // the RPC message goes the other way
    if (payload.size() > 4) writer.u32(is_reply != turned ? 1 : 0);
  }

  // A Call for who answers, a reply for who calls: mostly right.
  Buffer made_message() {
    if (may_speak_v2() && choices_.below(4) != 0) return made_message2();
    ChunkLists lists;
    const bool is_reply = goes_backward() != (role_ == Role::kClient);
    wire::v1::Header header{Xid{choices_.u8()}, 1, choices_.u8(), body()};
    if (choices_.below(16) == 0) header.version = choices_.u8();
    const auto calls = side_.calls([](const Call& call) { return call.sent && !call.answered; });
    const std::uint8_t how = choices_.u8();
    const auto served = side_.calls([](const Call& call) { return !call.made && !call.ended; });
    if (has_profile() && std::holds_alternative<wire::v1::Done>(header.body) && !served.empty()) {
      header.xid = side_.call(served[how % served.size()]).xid;
    }
    if (is_reply && how >= 32 && !calls.empty()) {
      const Call& call = side_.call(calls[how % calls.size()]);
      header.xid = call.xid;
      if (how >= 64) {
        return_lists(call.lists, lists);
      } else {
        fill_lists(lists);
      }
    } else {
      fill_lists(lists);
    }
    const bool has_payload = std::holds_alternative<wire::v1::Msg>(header.body) || (how & 1U) == 0;
    const std::size_t payload = has_payload ? 4 * (1 + choices_.size(200)) : 0;
    Buffer message(encoded_size(header, lists) + payload);
    const auto size = encode(header, lists, message);
    FUZZ_CHECK(size.has_value(), "the driver's own header does not fit");
    write_stream(header.xid, is_reply, how, MutableBytes(message).subspan(*size));
    return message;
  }

  Choices& choices_;
  const Role role_;
  const bool stuck_;
  EngineSide side_;
};

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(engine) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  rpcrdma::fuzz::World world(choices);
  world.run();
  return 0;
}
