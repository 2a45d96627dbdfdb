// A security mechanism that protects nothing and needs nobody: for tests of what stands on one. Its
// checksums and tokens have odd sizes, and it takes as many tokens each way as it is told to.
#ifndef RPCRDMA_TESTS_SUPPORT_FAKE_MECHANISM_H_
#define RPCRDMA_TESTS_SUPPORT_FAKE_MECHANISM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpcrdma/gss.h"

namespace rpcrdma::test {

struct FakeSettings {
  std::string user = "alice@FAKE";
  int exchanges = 1;  // of tokens
  std::optional<std::chrono::seconds> lifetime{};
  std::uint64_t nonce = 0;  // where those of initiators begin
};

class FakeContext final : public gss::Context {
 public:
  static constexpr std::size_t kChecksumSize = 10, kHeaderSize = 5, kTrailerSize = 7;  // bytes

  FakeContext(FakeSettings settings, bool initiates, std::uint64_t nonce)
      : settings_(std::move(settings)), initiates_(initiates), nonce_(nonce) {}

  // A token is the number of its exchange, the initiator's nonce, and who that is.
  gss::Status step(Bytes token, std::vector<std::byte>& answer) override {
    answer.clear();
    const bool is_first = initiates_ && exchanged_ == 0;
    if (is_first != token.empty()) return {gss::Status::kDefectiveToken, 1, "no such token"};
    if (!is_first) {
      if (token.size() < kTokenSizeMin ||
          token[0] != std::byte(exchanged_ + (initiates_ ? 0 : 1)) || token[1] != kMagic) {
        return {gss::Status::kDefectiveToken, 2, "this is no token"};
      }
      if (!initiates_) {
        nonce_ = 0;
        for (std::size_t i = 2; i < kTokenSizeMin; ++i) {
          nonce_ = nonce_ << 8U | std::to_integer<std::uint64_t>(token[i]);
        }
        user_.assign(reinterpret_cast<const char*>(token.data()) + kTokenSizeMin,
                     token.size() - kTokenSizeMin);
      }
    }
    const bool is_last = exchanged_ == settings_.exchanges - (initiates_ ? 0 : 1);
    if (initiates_ && is_last) return {};
    ++exchanged_;
    answer.push_back(std::byte(exchanged_));
    answer.push_back(kMagic);
    for (int shift = 56; shift >= 0; shift -= 8) answer.push_back(std::byte(nonce_ >> shift));
    if (initiates_) {
      for (const char each : settings_.user) answer.push_back(std::byte(each));
    }
    if (is_last) return {};
    return {gss::Status::kContinueNeeded, 0, {}};
  }

  std::optional<std::chrono::seconds> lifetime() const override { return settings_.lifetime; }

  gss::Status checksum(std::span<const Bytes> pieces, std::vector<std::byte>& checksum) override {
    if (fails) return {gss::Status::kFailure, 3, "it was told to fail"};
    const auto made = digest(pieces, initiates_);
    checksum.assign(made.begin(), made.end());
    return {};
  }
  bool is_checksum_of(std::span<const Bytes> pieces, Bytes checksum) override {
    return std::ranges::equal(digest(pieces, !initiates_), checksum);
  }

  std::size_t wrap_header_size() const override { return kHeaderSize; }
  std::size_t wrap_trailer_size() const override { return kTrailerSize; }
  gss::Status wrap(MutableBytes whole) override {
    if (fails) return {gss::Status::kFailure, 3, "it was told to fail"};
    const MutableBytes data = inside(whole);
    const auto sum = digest_of(data, initiates_);
    for (std::byte& each : data) each ^= kMask;
    std::ranges::fill(whole.first(kHeaderSize), kMagic);
    std::ranges::copy(std::span(sum).first(kTrailerSize), whole.last(kTrailerSize).begin());
    return {};
  }
  std::optional<MutableBytes> unwrap(MutableBytes token) override {
    if (token.size() < kHeaderSize + kTrailerSize || token[0] != kMagic) return std::nullopt;
    const MutableBytes data = inside(token);
    for (std::byte& each : data) each ^= kMask;
    const auto sum = digest_of(data, !initiates_);
    if (!std::ranges::equal(std::span(sum).first(kTrailerSize), token.last(kTrailerSize))) {
      return std::nullopt;
    }
    return data;
  }

  std::string_view principal() const override { return user_; }
  std::string local_user() override { return user_.substr(0, user_.find('@')); }

  std::atomic<bool> fails = false;  // to seal anything

 private:
  using Digest = std::array<std::byte, kChecksumSize>;
  static constexpr std::byte kMagic{0xfa}, kMask{0x55};
  static constexpr std::size_t kTokenSizeMin = 10;

  static MutableBytes inside(MutableBytes whole) {
    return whole.subspan(kHeaderSize, whole.size() - kHeaderSize - kTrailerSize);
  }
  Digest digest_of(Bytes data, bool by_initiator) const { return digest({&data, 1}, by_initiator); }
  // FNV-1a of the nonce, the direction and the data.
  Digest digest(std::span<const Bytes> pieces, bool by_initiator) const {
    std::uint64_t sum = 0xcbf29ce484222325 ^ nonce_ ^ (by_initiator ? 1U : 0U);
    for (const Bytes piece : pieces) {
      for (const std::byte each : piece) {
        sum = (sum ^ std::to_integer<std::uint64_t>(each)) * 0x100000001b3;
      }
    }
    Digest made{};
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = std::byte(sum >> (6 * i));
    return made;
  }

  const FakeSettings settings_;
  const bool initiates_;
  std::uint64_t nonce_;
  int exchanged_ = 0;  // tokens made
  std::string user_;   // an acceptor's
};

class FakeMechanism final : public gss::Mechanism {
 public:
  explicit FakeMechanism(FakeSettings settings = {})
      : settings_(std::move(settings)), nonces_(settings_.nonce) {}

  Expected<std::unique_ptr<gss::Context>, gss::Status> initiate(
      std::string_view /*service*/) override {
    ++initiated;
    if (has_no_ticket) {
      return Unexpected<gss::Status>(gss::Status{gss::Status::kFailure, 5, "there is no ticket"});
    }
    return std::make_unique<FakeContext>(settings_, true, ++nonces_ * 0x9e3779b97f4a7c15);
  }
  Expected<std::unique_ptr<gss::Context>, gss::Status> accept() override {
    if (has_no_key) {
      return Unexpected<gss::Status>(gss::Status{gss::Status::kFailure, 4, "there is no key"});
    }
    auto made = std::make_unique<FakeContext>(settings_, false, 0);
    last_accepted = made.get();
    return made;
  }

  std::atomic<bool> has_no_key = false;     // an acceptor's
  std::atomic<bool> has_no_ticket = false;  // an initiator's
  std::atomic<int> initiated = 0;           // contexts, also those that it has no ticket for
  std::atomic<FakeContext*> last_accepted = nullptr;  // it may be gone

 private:
  const FakeSettings settings_;
  std::atomic<std::uint64_t> nonces_;
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_FAKE_MECHANISM_H_
