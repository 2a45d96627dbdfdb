#include "support/rfc4121_context.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace rpcrdma::test {
namespace {

// RFC 4121 §4.2.2 and §4.2.6.
constexpr std::size_t kHeaderSize = 16, kConfounderSize = 16;  // bytes
constexpr std::size_t kFlagsAt = 2, kExtraAt = 4, kRotationAt = 6, kNumberAt = 8;
constexpr std::byte kSentByAcceptor{1}, kSealed{2}, kAcceptorSubkey{4};
constexpr std::byte kFiller{0xff};
constexpr std::uint16_t kChecksumToken = 0x0404, kWrapToken = 0x0504;
// RFC 4121 §2.
constexpr krb5_keyusage kAcceptorSeal = 22, kAcceptorSign = 23;
constexpr krb5_keyusage kInitiatorSeal = 24, kInitiatorSign = 25;

using Header = std::array<std::byte, kHeaderSize>;

void store(std::byte* at, std::uint64_t value, std::size_t size) noexcept {
  for (std::size_t i = size; i-- > 0; value >>= 8U) at[i] = std::byte(value);
}
std::uint64_t load(const std::byte* at, std::size_t size) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8U | std::to_integer<unsigned>(at[i]);
  return value;
}

// A wrap token's has zero in the place of the last four fill bytes: no extra count, no rotation.
Header header_of(std::uint16_t token, std::byte flags, std::uint64_t number) noexcept {
  Header header{};
  store(header.data(), token, 2);
  header[kFlagsAt] = flags;
  const std::size_t fill_end = token == kWrapToken ? kExtraAt : kNumberAt;
  std::fill(header.begin() + kFlagsAt + 1, header.begin() + fill_end, kFiller);
  store(header.data() + kNumberAt, number, 8);
  return header;
}

// Returns what a checksum is over: the message, and behind it the token's header (RFC 4121 §4.2.4).
std::vector<std::byte> joined(std::span<const Bytes> pieces, Bytes header) {
  std::vector<std::byte> all;
  for (const Bytes piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  all.insert(all.end(), header.begin(), header.end());
  return all;
}

// The library reads it only, though its types do not say so.
krb5_data data_of(Bytes bytes) noexcept {
  return {KV5M_DATA, static_cast<unsigned>(bytes.size()),
          const_cast<char*>(reinterpret_cast<const char*>(bytes.data()))};
}

void check(krb5_error_code error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string("MIT Kerberos: ") + what);
}

std::vector<std::byte> checksum_of(krb5_context library, const krb5_keyblock& key,
                                   krb5_keyusage usage, Bytes bytes) {
  const krb5_data input = data_of(bytes);
  krb5_checksum made{};
  check(krb5_c_make_checksum(library, 0, &key, usage, &input, &made), "making a checksum");
  const auto* const from = reinterpret_cast<const std::byte*>(made.contents);
  std::vector<std::byte> checksum(from, from + made.length);
  krb5_free_checksum_contents(library, &made);
  return checksum;
}

}  // namespace

Rfc4121Context::Rfc4121Context(const Rfc4121Key& key, Side side)
    : key_bytes_(key.bytes), side_(side) {
  key_ = {KV5M_KEYBLOCK, key.type, static_cast<unsigned>(key_bytes_.size()),
          reinterpret_cast<krb5_octet*>(key_bytes_.data())};
  check(krb5_init_context(&library_), "beginning");
  checksum_size_ = checksum_of(library_, key_, kInitiatorSign, {}).size();
}

Rfc4121Context::~Rfc4121Context() {
  krb5_free_context(library_);
}

std::uint64_t Rfc4121Context::number_of(Bytes token) noexcept {
  return load(token.data() + kNumberAt, 8);
}

std::byte Rfc4121Context::own_flags() const noexcept {
  return side_ == Side::kAcceptor ? kAcceptorSubkey | kSentByAcceptor : kAcceptorSubkey;
}
std::byte Rfc4121Context::peer_flags() const noexcept {
  return own_flags() ^ kSentByAcceptor;
}

gss::Status Rfc4121Context::step(Bytes /*token*/, std::vector<std::byte>& /*answer*/) {
  return {gss::Status::kFailure, 0, "it is complete from the beginning"};
}

gss::Status Rfc4121Context::checksum(std::span<const Bytes> pieces,
                                     std::vector<std::byte>& checksum) {
  const Header header = header_of(kChecksumToken, own_flags(), next_number_++);
  const auto usage = side_ == Side::kAcceptor ? kAcceptorSign : kInitiatorSign;
  const auto sum = checksum_of(library_, key_, usage, joined(pieces, header));
  checksum.assign(header.begin(), header.end());
  checksum.insert(checksum.end(), sum.begin(), sum.end());
  return {};
}

bool Rfc4121Context::is_checksum_of(std::span<const Bytes> pieces, Bytes checksum) {
  if (checksum.size() != kHeaderSize + checksum_size_) return false;
  const Bytes header = checksum.first(kHeaderSize);
  if (!std::ranges::equal(header, header_of(kChecksumToken, peer_flags(), number_of(checksum)))) {
    return false;
  }
  const auto message = joined(pieces, header);
  const krb5_data input = data_of(message);
  std::vector<std::byte> sum(checksum.begin() + kHeaderSize, checksum.end());
  krb5_checksum given{};
  given.magic = KV5M_CHECKSUM;
  given.length = static_cast<unsigned>(sum.size());
  given.contents = reinterpret_cast<krb5_octet*>(sum.data());
  const auto usage = side_ == Side::kAcceptor ? kInitiatorSign : kAcceptorSign;
  krb5_boolean is_valid = 0;
  check(krb5_c_verify_checksum(library_, &key_, usage, &input, &given, &is_valid),
        "verifying a checksum");
  return is_valid != 0;
}

// The message is enciphered with a copy of the header behind it (RFC 4121 §4.2.4), and with what
// the cipher adds: a confounder in front, a checksum at the end.
std::size_t Rfc4121Context::wrap_header_size() const {
  return kHeaderSize + kConfounderSize;
}
std::size_t Rfc4121Context::wrap_trailer_size() const {
  return kHeaderSize + checksum_size_;
}

gss::Status Rfc4121Context::wrap(MutableBytes whole) {
  const Header header = header_of(kWrapToken, own_flags() | kSealed, next_number_++);
  const std::size_t size = whole.size() - wrap_header_size() - wrap_trailer_size();
  const Bytes message = whole.subspan(wrap_header_size(), size);
  const auto plain = joined({&message, 1}, header);
  const krb5_data input = data_of(plain);
  std::ranges::copy(header, whole.begin());
  krb5_enc_data cipher{};
  cipher.magic = KV5M_ENC_DATA;
  cipher.enctype = key_.enctype;
  cipher.ciphertext = data_of(whole.subspan(kHeaderSize));
  const auto usage = side_ == Side::kAcceptor ? kAcceptorSeal : kInitiatorSeal;
  check(krb5_c_encrypt(library_, &key_, usage, nullptr, &input, &cipher), "enciphering");
  if (cipher.ciphertext.length != whole.size() - kHeaderSize) {
    return {gss::Status::kFailure, 0, "a token has another size than was said"};
  }
  return {};
}

std::optional<MutableBytes> Rfc4121Context::unwrap(MutableBytes token) {
  if (token.size() < wrap_header_size() + wrap_trailer_size()) return std::nullopt;
  const std::size_t extra = load(token.data() + kExtraAt, 2);
  const std::size_t rotation = load(token.data() + kRotationAt, 2);
  Header inner = header_of(kWrapToken, peer_flags() | kSealed, number_of(token));
  store(inner.data() + kExtraAt, extra, 2);
  Header outer = inner;
  store(outer.data() + kRotationAt, rotation, 2);
  if (!std::ranges::equal(token.first(kHeaderSize), outer)) return std::nullopt;
  // RFC 4121 §4.2.5: what follows the header was turned to the right.
  std::vector<std::byte> turned(token.begin() + kHeaderSize, token.end());
  std::rotate(turned.begin(),
              turned.begin() + static_cast<std::ptrdiff_t>(rotation % turned.size()), turned.end());
  krb5_enc_data cipher{};
  cipher.magic = KV5M_ENC_DATA;
  cipher.enctype = key_.enctype;
  cipher.ciphertext = data_of(turned);
  std::vector<std::byte> plain(turned.size());
  krb5_data output = data_of(plain);
  const auto usage = side_ == Side::kAcceptor ? kInitiatorSeal : kAcceptorSeal;
  if (krb5_c_decrypt(library_, &key_, usage, nullptr, &cipher, &output) != 0) return std::nullopt;
  plain.resize(output.length);
  if (plain.size() < extra + kHeaderSize ||
      !std::ranges::equal(Bytes(plain).last(kHeaderSize), inner)) {
    return std::nullopt;
  }
  plain.resize(plain.size() - kHeaderSize - extra);
  std::ranges::copy(plain, token.begin());
  return token.first(plain.size());
}

}  // namespace rpcrdma::test
