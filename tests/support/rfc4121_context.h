// A security context of Kerberos 5 that begins with its key, for what others have sealed with it.
// The tokens are those of RFC 4121, made here by the cryptography of MIT's library: a second
// opinion beside the GSS-API that the library itself uses.
#ifndef RPCRDMA_TESTS_SUPPORT_RFC4121_CONTEXT_H_
#define RPCRDMA_TESTS_SUPPORT_RFC4121_CONTEXT_H_

#include <krb5/krb5.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/gss.h"

namespace rpcrdma::test {

// The subkey that the acceptor has chosen: it protects both directions.
struct Rfc4121Key {
  krb5_enctype type = 0;  // 17 to 20: AES with SHA-1 (RFC 3962) or SHA-2 (RFC 8009)
  std::vector<std::byte> bytes;
};

// Throws std::runtime_error where MIT's library fails for another reason than a bad token.
class Rfc4121Context : public gss::Context {
 public:
  enum class Side : std::uint8_t { kInitiator, kAcceptor };

  Rfc4121Context(const Rfc4121Key& key, Side side);
  Rfc4121Context(const Rfc4121Context&) = delete;
  Rfc4121Context& operator=(const Rfc4121Context&) = delete;
  ~Rfc4121Context() override;

  // The number in a token's header: it counts tokens, and RPCSEC_GSS has no use for it.
  // Precondition: the token has a header.
  static std::uint64_t number_of(Bytes token) noexcept;
  // That of the next token made here; each takes one more.
  void set_next_number(std::uint64_t number) noexcept { next_number_ = number; }

  gss::Status step(Bytes token, std::vector<std::byte>& answer) override;
  std::optional<std::chrono::seconds> lifetime() const override { return std::nullopt; }
  gss::Status checksum(std::span<const Bytes> pieces, std::vector<std::byte>& checksum) override;
  bool is_checksum_of(std::span<const Bytes> pieces, Bytes checksum) override;
  std::size_t wrap_header_size() const override;
  std::size_t wrap_trailer_size() const override;
  gss::Status wrap(MutableBytes whole) override;
  std::optional<MutableBytes> unwrap(MutableBytes token) override;
  std::string_view principal() const override { return {}; }
  std::string local_user() override { return {}; }

 private:
  std::byte own_flags() const noexcept;
  std::byte peer_flags() const noexcept;

  std::vector<std::byte> key_bytes_;
  krb5_keyblock key_{};  // of key_bytes_
  const Side side_;
  krb5_context library_ = nullptr;
  std::size_t checksum_size_ = 0;  // bytes, without a header
  std::uint64_t next_number_ = 0;
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_RFC4121_CONTEXT_H_
