// A security mechanism that protects nothing and needs nobody: for tests of what stands on one. Its
// checksums and tokens have odd sizes, and it takes as many tokens each way as its settings say.
#ifndef RPCRDMA_TESTS_SUPPORT_FAKE_MECHANISM_H_
#define RPCRDMA_TESTS_SUPPORT_FAKE_MECHANISM_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
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
  std::size_t checksum_size = 10, header_size = 5, trailer_size = 7;  // bytes
};

class FakeContext final : public gss::Context {
 public:
  static constexpr std::size_t kChecksumSize = 10;  // bytes, by default

  // `overlaps`, which outlives all uses, counts those by several threads at a time; null: nothing
  // does.
  FakeContext(FakeSettings settings, bool initiates, std::uint64_t nonce,
              std::atomic<int>* overlaps = nullptr)
      : settings_(std::move(settings)), initiates_(initiates), overlaps_(overlaps), nonce_(nonce) {}

  // A token is the number of its exchange, the initiator's nonce, and of an initiator who that is,
  // with a mark behind: one that was cut off anywhere is none.
  gss::Status step(Bytes token, std::vector<std::byte>& answer) override {
    const Use use(*this);
    answer.clear();
    const bool is_first = initiates_ && exchanged_ == 0;
    if (is_first != token.empty()) return {gss::Status::kDefectiveToken, 1, "no such token"};
    if (!is_first) {
      if (token.size() < kTokenSizeMin ||
          token[0] != std::byte(exchanged_ + (initiates_ ? 0 : 1)) || token[1] != kMagic) {
        return {gss::Status::kDefectiveToken, 2, "this is no token"};
      }
      if (!initiates_) {
        if (token.size() == kTokenSizeMin || token.back() != kMagic) {
          return {gss::Status::kDefectiveToken, 3, "the end of this token is missing"};
        }
        nonce_ = 0;
        for (std::size_t i = 2; i < kTokenSizeMin; ++i) {
          nonce_ = nonce_ << 8U | std::to_integer<std::uint64_t>(token[i]);
        }
        user_.assign(reinterpret_cast<const char*>(token.data()) + kTokenSizeMin,
                     token.size() - kTokenSizeMin - 1);
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
      answer.push_back(kMagic);
    }
    if (is_last) return {};
    return {gss::Status::kContinueNeeded, 0, {}};
  }

  std::optional<std::chrono::seconds> lifetime() const override { return settings_.lifetime; }

  gss::Status checksum(std::span<const Bytes> pieces, std::vector<std::byte>& checksum) override {
    const Use use(*this);
    if (fails) return {gss::Status::kFailure, 3, "its settings let it fail"};
    checksum = digest(pieces, initiates_, settings_.checksum_size);
    return {};
  }
  bool is_checksum_of(std::span<const Bytes> pieces, Bytes checksum) override {
    const Use use(*this);
    return std::ranges::equal(digest(pieces, !initiates_, settings_.checksum_size), checksum);
  }

  std::size_t wrap_header_size() const override { return settings_.header_size; }
  std::size_t wrap_trailer_size() const override { return settings_.trailer_size; }
  gss::Status wrap(MutableBytes whole) override {
    const Use use(*this);
    if (fails) return {gss::Status::kFailure, 3, "its settings let it fail"};
    const MutableBytes data = inside(whole);
    const auto sum = trailer_of(data, initiates_);
    mask(data);
    std::ranges::fill(whole.first(settings_.header_size), kMagic);
    std::ranges::copy(sum, whole.last(sum.size()).begin());
    return {};
  }
  std::optional<MutableBytes> unwrap(MutableBytes token) override {
    const Use use(*this);
    if (token.size() < settings_.header_size + settings_.trailer_size ||
        std::ranges::count(token.first(settings_.header_size), kMagic) !=
            static_cast<std::ptrdiff_t>(settings_.header_size)) {
      return std::nullopt;
    }
    const MutableBytes data = inside(token);
    mask(data);
    const auto sum = trailer_of(data, !initiates_);
    if (!std::ranges::equal(sum, token.last(sum.size()))) return std::nullopt;
    return data;
  }

  std::string_view principal() const override { return user_; }
  std::string local_user() override { return user_.substr(0, user_.find('@')); }

  std::atomic<bool> fails = false;  // to seal anything

 private:
  static constexpr std::byte kMagic{0xfa}, kMask{0x55};
  static constexpr std::size_t kTokenSizeMin = 10;

  class Use {
   public:
    explicit Use(FakeContext& context) : context_(context) {
      const bool is_overlap = context_.is_used_.exchange(true);
      if (is_overlap && context_.overlaps_ != nullptr) ++*context_.overlaps_;
    }
    ~Use() { context_.is_used_ = false; }

   private:
    FakeContext& context_;
  };

  static void mask(MutableBytes data) {
    for (std::byte *at = data.data(), *end = at + data.size(); at != end; ++at) *at ^= kMask;
  }
  MutableBytes inside(MutableBytes whole) const {
    return whole.subspan(settings_.header_size,
                         whole.size() - settings_.header_size - settings_.trailer_size);
  }
  std::vector<std::byte> trailer_of(Bytes data, bool by_initiator) const {
    return digest({&data, 1}, by_initiator, settings_.trailer_size);
  }
  // FNV-1a of the nonce, the direction and the data.
  std::vector<std::byte> digest(std::span<const Bytes> pieces, bool by_initiator,
                                std::size_t size) const {
    std::uint64_t sum = 0xcbf29ce484222325 ^ nonce_ ^ (by_initiator ? 1U : 0U);
    for (const Bytes piece : pieces) {
      // By pointers, here and in mask(): builds that are not optimised call a function for each
      // step of an iterator.
      for (const std::byte *at = piece.data(), *end = at + piece.size(); at != end; ++at) {
        sum = (sum ^ std::to_integer<std::uint64_t>(*at)) * 0x100000001b3;
      }
    }
    std::vector<std::byte> made(size);
    for (std::size_t i = 0; i < size; ++i) made[i] = std::byte(sum >> (6 * i % 58));
    return made;
  }

  const FakeSettings settings_;
  const bool initiates_;
  std::atomic<int>* const overlaps_;
  std::atomic<bool> is_used_ = false;
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
    return std::make_unique<FakeContext>(settings_, true, ++nonces_ * 0x9e3779b97f4a7c15,
                                         &overlaps);
  }
  Expected<std::unique_ptr<gss::Context>, gss::Status> accept() override {
    if (has_no_key) {
      return Unexpected<gss::Status>(gss::Status{gss::Status::kFailure, 4, "there is no key"});
    }
    auto made = std::make_unique<FakeContext>(settings_, false, 0, &overlaps);
    last_accepted = made.get();
    return made;
  }

  std::atomic<bool> has_no_key = false;     // an acceptor's
  std::atomic<bool> has_no_ticket = false;  // an initiator's
  std::atomic<int> initiated = 0;           // contexts, also those that it has no ticket for
  std::atomic<FakeContext*> last_accepted = nullptr;  // it may be gone
  // How often a context was used by several threads at a time, which none of Kerberos may be.
  std::atomic<int> overlaps = 0;

 private:
  const FakeSettings settings_;
  std::atomic<std::uint64_t> nonces_;
};

// Handles that a test can tell beforehand.
inline std::function<std::uint64_t()> counted_handles(std::uint64_t first) {
  return [next = first]() mutable { return next++; };
}

// Steps that the library would leave to another thread end before it goes on.
class AtOnce final : public gss::Executor {
 public:
  void submit(Work work) override { work(); }
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_FAKE_MECHANISM_H_
