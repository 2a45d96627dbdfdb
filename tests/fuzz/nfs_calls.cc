#include "fuzz/nfs_calls.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace rpcrdma::fuzz {
namespace {

// Procedures of NFS version 3.
enum Procedure : std::uint32_t {
  kNull,
  kGetattr,
  kSetattr,
  kLookup,
  kAccess,
  kReadlink,
  kRead,
  kWrite,
  kCreate,
  kMkdir,
  kSymlink,
  kMknod,
  kRemove,
  kRmdir,
  kRename,
  kLink,
  kReaddir,
  kReaddirplus,
  kFsstat,
  kFsinfo,
  kPathconf,
  kCommit,
  kProcedures
};

constexpr std::array<std::uint32_t, 26> kCounts{0,
                                                1,
                                                2,
                                                3,
                                                4,
                                                7,
                                                100,
                                                511,
                                                512,
                                                1024,
                                                4095,
                                                4096,
                                                8192,
                                                32768,
                                                65535,
                                                65536,
                                                100'000,
                                                1U << 20U,
                                                (1U << 20U) + 1,
                                                1U << 24U,
                                                (1U << 24U) + 1,
                                                0x7fffffff,
                                                0x80000000,
                                                0xfffffff0,
                                                0xfffffffc,
                                                0xffffffff};
constexpr std::uint64_t kTop = std::uint64_t{1} << 63U;
constexpr std::array<std::uint64_t, 18> kOffsets{0,
                                                 1,
                                                 100,
                                                 4095,
                                                 4096,
                                                 65536,
                                                 0x7fffffff,
                                                 0x80000000,
                                                 0xffffffff,
                                                 0x100000000,
                                                 std::uint64_t{1} << 44U,
                                                 kTop - 4097,
                                                 kTop - 2,
                                                 kTop - 1,
                                                 kTop,
                                                 kTop + 1,
                                                 ~std::uint64_t{0} - 4095,
                                                 ~std::uint64_t{0}};

std::vector<std::string> nasty_names() {
  const auto nul = [](const char* text, std::size_t size) { return std::string(text, size); };
  std::vector<std::string> names{"",
                                 ".",
                                 "..",
                                 "...",
                                 "/",
                                 "//",
                                 "a/b",
                                 "../x",
                                 "..\\x",
                                 "..%2f",
                                 "d0/..",
                                 "f0/",
                                 "/../..",
                                 "./f0",
                                 "\n",
                                 " ",
                                 "-rf",
                                 "\xff\xfe\x80",
                                 "\xc0\xae\xc0\xae",
                                 "proc",
                                 "self",
                                 "fd",
                                 "a(deleted)"};
  names.push_back(nul("..\0", 3));
  names.push_back(nul("a\0b", 3));
  names.push_back(nul("\0", 1));
  names.push_back(nul("../x\0y", 6));
  for (const std::size_t size : {254U, 255U, 256U, 257U, 1024U, 4096U}) {
    names.emplace_back(size, 'n');
  }
  return names;
}

// Names that stand for something in the tree that is fuzzed, or will.
constexpr std::array<std::string_view, 17> kNames{"d0",   "d1",   "d2",   "f0",   "f1",   "f2",
                                                  "sub",  "out0", "out1", "out2", "out3", "fifo",
                                                  "new0", "new1", "new2", "new3", "many"};

constexpr std::size_t kAuthMax = 400;  // bytes of a credential or a verifier (RFC 5531 §8.2)

void flip(Text& bytes, std::size_t from, Dice& dice) {
  if (bytes.size() <= from) return;
  const std::size_t at = from + dice.below(bytes.size() - from);
  bytes[at] ^= static_cast<std::byte>(1U << dice.below(8));
}

}  // namespace

Xdr& Xdr::u32(std::uint32_t value) {
  for (const unsigned shift : {24U, 16U, 8U, 0U})
    bytes.push_back(static_cast<std::byte>(value >> shift));
  return *this;
}
Xdr& Xdr::u64(std::uint64_t value) {
  return u32(static_cast<std::uint32_t>(value >> 32U)).u32(static_cast<std::uint32_t>(value));
}
Xdr& Xdr::opaque(Bytes data) {
  u32(static_cast<std::uint32_t>(data.size()));
  raw(data);
  while (bytes.size() % 4 != 0) bytes.push_back(std::byte{0});
  return *this;
}
Xdr& Xdr::raw(Bytes data) {
  bytes.insert(bytes.end(), data.begin(), data.end());
  return *this;
}

std::uint32_t word_at(Bytes message, std::size_t at) {
  if (at + 4 > message.size()) return 0;
  std::uint32_t value = 0;
  for (const std::byte each : message.subspan(at, 4)) {
    value = value << 8U | std::to_integer<std::uint32_t>(each);
  }
  return value;
}

void NfsCalls::add_handle(Bytes handle, Kind kind) {
  Known fresh{{handle.begin(), handle.end()}, kind};
  if (handles_.size() < kHandlesMax) return handles_.push_back(std::move(fresh));
  handles_[dice_.below(handles_.size())] = std::move(fresh);
}

NfsCalls::NfsCalls(std::uint64_t seed, std::vector<std::string> words)
    : dice_(seed), words_(nasty_names()), xid_(dice_.u32()) {
  std::ranges::move(words, std::back_inserter(words_));
}

Text NfsCalls::null_call(std::uint32_t xid) {
  Xdr xdr;
  for (const std::uint32_t each : {xid, 0U, 2U, kNfs, 3U, 0U, 0U, 0U, 0U, 0U}) xdr.u32(each);
  return xdr.bytes;
}

MadeCall NfsCalls::next() {
  MadeCall call;
  Xdr xdr;
  call.results_size = 512;
  if (dice_.one_in(16)) {
    const std::uint32_t procedure = dice_.one_in(12)  ? dice_.u32()
                                    : dice_.one_in(4) ? dice_.below(7)
                                                      : 1;
    call.procedure = procedure == 1 ? MadeCall::kMnt : MadeCall::kOther;
    header(xdr, call, kMount, procedure);
    const std::size_t header_size = xdr.bytes.size();
    mount_arguments(xdr, procedure);
    call.message = std::move(xdr.bytes);
    call.results_size = 8192;
    damage(call, header_size);
    return call;
  }
  call.procedure = static_cast<std::uint32_t>(dice_.below(kProcedures));
  // A number that is none, with arguments of one that is.
  constexpr std::array<std::uint32_t, 4> kNone{22, 23, 0x7fffffff, 0xffffffff};
  header(xdr, call, kNfs, dice_.one_in(100) ? dice_.of(kNone) : call.procedure);
  const std::size_t header_size = xdr.bytes.size();
  nfs_arguments(xdr, call);
  call.message = std::move(xdr.bytes);
  damage(call, header_size);
  return call;
}

void NfsCalls::header(Xdr& xdr, MadeCall& call, std::uint32_t program, std::uint32_t procedure) {
  const bool is_odd = dice_.one_in(40);
  const auto odd = [&](std::uint32_t right) {
    constexpr std::array<std::uint32_t, 6> kWrong{0, 1, 2, 4, 0x80000000, 0xffffffff};
    return is_odd && dice_.one_in(3) ? dice_.of(kWrong) : right;
  };
  xdr.u32(++xid_);
  const std::uint32_t direction = is_odd && dice_.one_in(6) ? 1 + dice_.below(2) : 0;
  xdr.u32(direction);
  call.is_rpc = direction == 0;
  xdr.u32(odd(2)).u32(odd(program)).u32(odd(3)).u32(procedure);
  credential(xdr, call);
  if (dice_.one_in(60)) {  // a verifier that is not empty, or longer than may be
    constexpr std::array<std::size_t, 5> kSizes{1, 4, 400, 401, 2000};
    const std::size_t size = dice_.of(kSizes);
    xdr.u32(dice_.below(4)).opaque(Text(size, std::byte{7}));
    call.is_rpc = call.is_rpc && size <= kAuthMax;
  } else {
    xdr.u32(0).u32(0);
  }
}

void NfsCalls::credential(Xdr& xdr, MadeCall& call) {
  if (dice_.one_in(30)) return (void)xdr.u32(0).u32(0);
  if (dice_.one_in(40)) {
    constexpr std::array<std::uint32_t, 5> kFlavors{2, 3, 6, 390003, 0xffffffff};
    constexpr std::array<std::size_t, 6> kSizes{0, 4, 20, 400, 401, 3000};
    const std::size_t size = dice_.of(kSizes);
    call.is_rpc = call.is_rpc && size <= kAuthMax;
    return (void)xdr.u32(dice_.of(kFlavors)).opaque(Text(size, std::byte{1}));
  }
  constexpr std::array<std::uint32_t, 5> kIds{0, 1, 1000, 65534, 0xffffffff};
  Xdr body;
  constexpr std::array<std::size_t, 5> kNameSizes{0, 1, 255, 256, 300};
  body.u32(dice_.u32());
  body.opaque(std::string(dice_.one_in(20) ? dice_.of(kNameSizes) : 7, 'm'));
  const bool is_root = !dice_.one_in(6);
  body.u32(is_root ? 0 : dice_.of(kIds)).u32(is_root ? 0 : dice_.of(kIds));
  constexpr std::array<std::uint32_t, 7> kGroups{1, 2, 15, 16, 17, 64, 0xffffffff};
  const std::uint32_t groups = dice_.one_in(12) ? dice_.of(kGroups) : 0;
  body.u32(groups);
  for (std::uint32_t i = 0; i < std::min(groups, 64U); ++i) body.u32(dice_.of(kIds));
  if (dice_.one_in(60)) body.bytes.resize(dice_.below(body.bytes.size() + 1));
  if (dice_.one_in(60)) body.u32(0);
  xdr.u32(1);
  call.is_rpc = call.is_rpc && body.bytes.size() <= kAuthMax;
  if (!dice_.one_in(80)) return (void)xdr.opaque(body.bytes);
  // A length that is not that of the body.
  call.is_rpc = false;
  xdr.u32(dice_.of(kCounts)).raw(body.bytes);
}

Text NfsCalls::handle(Kind kind) {
  if (handles_.empty()) return {};
  const Known* known = &dice_.of(handles_);
  for (int i = 0; i < 8 && known->kind != kind; ++i) known = &dice_.of(handles_);
  if (dice_.one_in(10)) known = &dice_.of(handles_);
  return dice_.one_in(10) ? changed_handle(known->handle) : known->handle;
}

Text NfsCalls::changed_handle(Text handle) {
  constexpr std::size_t kHead = 5, kSeal = 16;  // apps/nfs/handle_seal.h
  const Text& other = dice_.of(handles_).handle;
  const std::size_t cut = dice_.below(std::min(handle.size(), other.size()) + 1);
  switch (dice_.below(8)) {
    case 0:
      flip(handle, 0, dice_);
      break;
    case 1:
      handle.resize(dice_.below(handle.size() + 1));
      break;
    case 2:
      handle.resize(handle.size() + 1 + dice_.below(60));
      break;
    case 3:  // the beginning of one, the end of another
      handle.resize(cut);
      handle.insert(handle.end(), other.begin() + static_cast<std::ptrdiff_t>(cut), other.end());
      break;
    case 4:  // another's inside, or all but its inside
      if (handle.size() == other.size() && handle.size() > kHead + kSeal) {
        std::copy(other.begin() + kHead, other.end() - kSeal, handle.begin() + kHead);
      }
      break;
    case 5:
      if (handle.size() >= kHead && other.size() >= kHead) {
        std::copy_n(other.begin(), kHead, handle.begin());
      }
      break;
    case 6:
      handle.assign(dice_.below(70), static_cast<std::byte>(dice_.u32()));
      break;
    default:
      for (std::byte& each : handle) each = static_cast<std::byte>(dice_.u32());
  }
  return handle;
}

std::string NfsCalls::name() {
  if (!dice_.one_in(4)) return std::string(dice_.of(kNames));
  return dice_.of(words_);
}

std::string NfsCalls::path() {
  std::string path = dice_.one_in(3) ? std::string("/ro") : std::string("/data");
  if (dice_.one_in(6)) path = "/elsewhere";
  if (dice_.one_in(30)) return std::string(1023 + dice_.below(3), '/');
  for (std::size_t parts = dice_.below(4); parts > 0; --parts) path += "/" + name();
  return path;
}

std::uint32_t NfsCalls::count() {
  return dice_.one_in(8) ? dice_.u32() : dice_.of(kCounts);
}
std::uint64_t NfsCalls::offset() {
  return dice_.one_in(8) ? dice_.u64() : dice_.of(kOffsets);
}

void NfsCalls::attributes(Xdr& xdr) {
  constexpr std::array<std::uint32_t, 6> kModes{0644, 0755, 0, 07777, 0100644, 0xffffffff};
  constexpr std::array<std::uint32_t, 5> kIds{0, 1000, 65534, 0xfffffffe, 0xffffffff};
  for (const bool is_mode : {true, false, false}) {
    const bool is_set = dice_.one_in(3);
    xdr.u32(is_set ? 1 : 0);
    if (is_set) xdr.u32(is_mode ? dice_.of(kModes) : dice_.of(kIds));
  }
  const bool has_size = dice_.one_in(3);
  xdr.u32(has_size ? 1 : 0);
  if (has_size) xdr.u64(offset());
  constexpr std::array<std::uint32_t, 5> kNanoseconds{0, 999'999'999, 1'000'000'000, 0x3ffffffe,
                                                      0xffffffff};
  for (int i = 0; i < 2; ++i) {
    const auto how = static_cast<std::uint32_t>(dice_.below(dice_.one_in(10) ? 5 : 3));
    xdr.u32(how);
    if (how == 2) xdr.u32(dice_.one_in(2) ? dice_.u32() : 0).u32(dice_.of(kNanoseconds));
  }
}

void NfsCalls::mount_arguments(Xdr& xdr, std::uint32_t procedure) {
  if (procedure == 1 || procedure == 3 || dice_.one_in(10)) xdr.opaque(path());
}

void NfsCalls::nfs_arguments(Xdr& xdr, MadeCall& call) {
  switch (call.procedure) {
    case kNull:
      return;
    case kRead:
      xdr.opaque(handle(Kind::kFile)).u64(offset()).u32(count());
      call.place_size = dice_.one_in(8) ? 1 + dice_.below(2U << 20U) : 1 + dice_.below(70'000);
      return;
    case kReadlink:
      xdr.opaque(handle(Kind::kOther));
      call.place_size = 1 + dice_.below(5000);
      return;
    case kReaddir:
      xdr.opaque(handle(Kind::kDirectory))
          .u64(dice_.one_in(2) ? 0 : offset())
          .u64(dice_.one_in(20) ? 1 : 0)
          .u32(count());
      call.results_size = dice_.one_in(4) ? 600 : 70'000;
      return;
    case kReaddirplus:
      xdr.opaque(handle(Kind::kDirectory))
          .u64(dice_.one_in(2) ? 0 : offset())
          .u64(dice_.one_in(20) ? 1 : 0);
      xdr.u32(count()).u32(count());
      call.results_size = dice_.one_in(4) ? 600 : 70'000;
      return;
    case kAccess:
      xdr.opaque(handle(dice_.one_in(2) ? Kind::kFile : Kind::kDirectory))
          .u32(dice_.one_in(2) ? 0x3f : dice_.u32());
      return;
    case kLookup:
      xdr.opaque(handle(Kind::kDirectory)).opaque(name());
      return;
    case kCommit:
      xdr.opaque(handle(Kind::kFile)).u64(offset()).u32(count());
      return;
    case kWrite:
    case kSetattr:
    case kRemove:
    case kRmdir:
    case kRename:
    case kLink:
      return moving_arguments(xdr, call);
    case kCreate:
    case kMkdir:
    case kSymlink:
    case kMknod:
      return making_arguments(xdr, call);
    default:
      xdr.opaque(handle(dice_.one_in(2) ? Kind::kFile : Kind::kDirectory));
  }
}

void NfsCalls::making_arguments(Xdr& xdr, MadeCall& call) {
  xdr.opaque(handle(Kind::kDirectory)).opaque(name());
  const auto kind = static_cast<std::uint32_t>(dice_.below(dice_.one_in(10) ? 9 : 8));
  switch (call.procedure) {
    case kCreate:
      xdr.u32(kind % (dice_.one_in(20) ? 5 : 3));
      if (kind % 3 == 2) return (void)xdr.u64(dice_.one_in(2) ? 7 : dice_.u64());
      return attributes(xdr);
    case kMkdir:
      return attributes(xdr);
    case kSymlink: {
      attributes(xdr);
      constexpr std::array<std::size_t, 4> kSizes{0, 4095, 4096, 4097};
      std::string target = dice_.one_in(4) ? std::string(dice_.of(kSizes), '/') : path();
      if (dice_.one_in(3)) target = dice_.of(words_);
      call.bulk_at = xdr.bytes.size() + 4;
      call.bulk_size = target.size();
      return (void)xdr.opaque(target);
    }
    default:
      xdr.u32(kind);
      if (kind == 3 || kind == 4) {
        attributes(xdr);
        xdr.u32(dice_.one_in(2) ? 1 : dice_.u32()).u32(dice_.one_in(2) ? 3 : dice_.u32());
      } else if (kind == 6 || kind == 7) {
        attributes(xdr);
      }
  }
}

void NfsCalls::moving_arguments(Xdr& xdr, MadeCall& call) {
  const bool is_file =
      call.procedure == kWrite || call.procedure == kSetattr || call.procedure == kLink;
  xdr.opaque(handle(is_file ? Kind::kFile : Kind::kDirectory));
  switch (call.procedure) {
    case kWrite: {
      const std::size_t size = dice_.one_in(50)   ? dice_.below((1U << 20U) + 100)
                               : dice_.one_in(10) ? dice_.below(70'000)
                                                  : dice_.below(1000);
      const auto said = static_cast<std::uint32_t>(size);
      xdr.u64(offset()).u32(dice_.one_in(4) ? count() : said);
      xdr.u32(static_cast<std::uint32_t>(dice_.below(dice_.one_in(20) ? 5 : 3)));
      call.bulk_at = xdr.bytes.size() + 4;
      call.bulk_size = size;
      const Text data(size, static_cast<std::byte>(dice_.u32()));
      if (!dice_.one_in(30)) return (void)xdr.opaque(data);
      return (void)xdr.u32(count()).raw(data);  // a count that is not that of the data
    }
    case kSetattr: {
      attributes(xdr);
      const bool is_guarded = dice_.one_in(4);
      xdr.u32(is_guarded ? 1 : 0);
      if (is_guarded) xdr.u64(dice_.u64());
      return;
    }
    case kRename:
      xdr.opaque(name()).opaque(handle(Kind::kDirectory)).opaque(name());
      return;
    case kLink:
      xdr.opaque(handle(Kind::kDirectory)).opaque(name());
      return;
    default:
      xdr.opaque(name());
  }
}

// Most calls go as they are: what gets far does more than what is refused at once.
void NfsCalls::damage(MadeCall& call, std::size_t header_size) {
  Text& message = call.message;
  if (call.bulk_size == 0) call.bulk_at = 0;
  if (!dice_.one_in(5)) return;
  // Bytes where none are expected, or the wrong ones; of the header now and then.
  const bool is_header = dice_.one_in(10);
  if (is_header) call.is_rpc = false;
  const std::size_t from = is_header ? 8 : header_size;
  if (message.size() <= from) return;
  const std::size_t at = from + dice_.below(message.size() - from);
  const auto place = message.begin() + static_cast<std::ptrdiff_t>(at & ~std::size_t{3});
  switch (dice_.below(6)) {
    case 0:
      for (std::size_t i = 1 + dice_.below(4); i > 0; --i) flip(message, from, dice_);
      return;
    case 1:
      message.resize(at);
      break;
    case 2:
      message.resize(message.size() + 1 + dice_.below(dice_.one_in(4) ? 3000 : 8));
      return;
    case 3:
      message.insert(place, 4 * (1 + dice_.below(4)), static_cast<std::byte>(dice_.u32()));
      break;
    case 4:
      if (message.end() - place >= 4) message.erase(place, place + 4);
      break;
    default: {
      Xdr word;
      word.u32(count());
      std::copy_n(word.bytes.begin(), std::min<std::ptrdiff_t>(4, message.end() - place), place);
      return;
    }
  }
  // The data is elsewhere now: any place will do, and that is one more thing that is wrong.
  if (call.bulk_at >= message.size()) call.bulk_at = 0;
  call.bulk_size = std::min(call.bulk_size, message.size() - call.bulk_at);
}

void NfsCalls::learn(const MadeCall& call, Bytes reply) {
  // XID, REPLY, MSG_ACCEPTED, an empty verifier, SUCCESS, NFS3_OK.
  constexpr std::size_t kStatus = 24;
  if (reply.size() < kStatus + 8 || word_at(reply, 4) != 1 || word_at(reply, 8) != 0) return;
  if (word_at(reply, 20) != 0 || word_at(reply, kStatus) != 0) return;
  const bool makes = call.procedure >= kCreate && call.procedure <= kMknod;
  if (!makes && call.procedure != kLookup) return;
  const std::size_t at = kStatus + (makes ? 8 : 4);
  if (makes && word_at(reply, kStatus + 4) != 1) return;
  const std::uint32_t size = word_at(reply, at);
  if (size == 0 || size > 64 || reply.size() < at + 4 + size) return;
  // The attributes behind the handle say what LOOKUP found.
  const std::size_t behind = at + 4 + ((size + 3) & ~std::size_t{3});
  const std::uint32_t type = word_at(reply, behind) == 1 ? word_at(reply, behind + 4) : 0;
  constexpr std::uint32_t kRegular = 1, kDirectory = 2;
  add_handle(reply.subspan(at + 4, size), type == kRegular     ? Kind::kFile
                                          : type == kDirectory ? Kind::kDirectory
                                                               : Kind::kOther);
}

}  // namespace rpcrdma::fuzz
