// Opens what two Linux kernels said to each other with RPCSEC_GSS over RDMA and TCP, with the keys
// of their contexts, and makes it again (tests/golden/gss/README.txt).
//
// Each message is made again from what was decoded. All of it is the same bytes then, given the
// numbers that the tokens of Kerberos have, but for what privacy enciphers, which begins with
// random bytes: of that the header and the size are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "golden/gss_capture.h"
#include "gss/message.h"
#include "gss/sequence_window.h"
#include "oncrpc/message.h"
#include "support/gss_body.h"
#include "support/hex.h"
#include "support/rfc4121_context.h"

namespace rpcrdma::gss {
namespace {

using test::GssCall;
using test::GssCapture;
using test::Rfc4121Context;
using test::to_hex;

// Counts what a capture has, and what was found good in it.
struct Counts {
  int calls = 0, replies = 0;
  int without = 0;               // calls without RPCSEC_GSS
  int contexts = 0, ended = 0;   // made by INIT, ended by DESTROY
  int verifiers_of_calls = 0;    // each of these and of the next is a checksum
  int verifiers_of_replies = 0;  // of windows and of errors as well
  int integrity_of_calls = 0, integrity_of_replies = 0;  // bodies, with a checksum each
  int privacy_of_calls = 0, privacy_of_replies = 0;      // bodies
  int denied = 0, garbage = 0;                           // CREDPROBLEM, GARBAGE_ARGS
  int sent_again = 0;                                    // calls, under another number
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << "calls " << counts.calls << ", replies " << counts.replies << ", without "
             << counts.without << ", contexts " << counts.contexts << ", ended " << counts.ended
             << ", verifiers " << counts.verifiers_of_calls << " + " << counts.verifiers_of_replies
             << ", integrity " << counts.integrity_of_calls << " + " << counts.integrity_of_replies
             << ", privacy " << counts.privacy_of_calls << " + " << counts.privacy_of_replies
             << ", denied " << counts.denied << ", garbage " << counts.garbage << ", sent again "
             << counts.sent_again;
}

// Both ends of a context.
struct Ends {
  explicit Ends(const test::Rfc4121Key& key)
      : client(key, Rfc4121Context::Side::kInitiator),
        server(key, Rfc4121Context::Side::kAcceptor) {}
  Rfc4121Context client, server;
  std::optional<SequenceWindow> window;  // of the server; its size comes with the reply to INIT
};

bool is_verified(Rfc4121Context& receiver, const Credential& verifier, Bytes covered) {
  return verifier.flavor == AuthFlavor::kRpcsecGss &&
         receiver.is_checksum_of({&covered, 1}, verifier.body);
}

std::array<std::byte, xdr::kWordSize> word_of(std::uint32_t value) {
  std::array<std::byte, xdr::kWordSize> word{};
  xdr::store_word(word.data(), value);
  return word;
}

template <class Encode>
void expect_encodes_to(Bytes captured, Encode&& encode) {
  std::vector<std::byte> made(captured.size());
  xdr::Writer writer(made);
  encode(writer);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(to_hex(Bytes(made).first(writer.position())), to_hex(captured));
}

void expect_makes_checksum(Rfc4121Context& sender, Bytes covered, Bytes captured) {
  sender.set_next_number(Rfc4121Context::number_of(captured));
  std::vector<std::byte> made;
  EXPECT_FALSE(sender.checksum({&covered, 1}, made).is_error());
  EXPECT_EQ(to_hex(made), to_hex(captured));
}

// --- Arguments and results that are wrapped ----------------------------------------------------

// In two pieces, of which the first one is no multiple of four bytes.
std::vector<std::byte> wrap_again(Rfc4121Context& sender, Service service, std::uint32_t sequence,
                                  Bytes plain) {
  const std::size_t cut = std::min<std::size_t>(plain.size(), 5);
  const std::array<Bytes, 2> pieces{plain.first(cut), plain.subspan(cut)};
  return test::wrap_body(sender, service, sequence, pieces);
}

void expect_wraps_again(Rfc4121Context& sender, Rfc4121Context& receiver, Service service,
                        std::uint32_t sequence, Bytes captured, Bytes plain) {
  if (service == Service::kIntegrity) {
    sender.set_next_number(Rfc4121Context::number_of(decode_integrity(captured)->checksum));
    EXPECT_EQ(to_hex(wrap_again(sender, service, sequence, plain)), to_hex(captured));
    return;
  }
  constexpr std::size_t kTokenHeaderSize = 16;
  std::vector<std::byte> copy(captured.begin(), captured.end());
  sender.set_next_number(Rfc4121Context::number_of(decode_privacy(copy)));
  const auto again = wrap_again(sender, service, sequence, plain);
  ASSERT_EQ(again.size(), captured.size());
  constexpr std::size_t kClear = xdr::kWordSize + kTokenHeaderSize;
  EXPECT_EQ(to_hex(Bytes(again).first(kClear)), to_hex(captured.first(kClear)));
  const auto opened = test::unwrap_body(receiver, service, sequence, again);
  ASSERT_TRUE(opened);
  EXPECT_EQ(to_hex(*opened), to_hex(plain));
}

// Returns whether it can be opened.
bool check_body(Rfc4121Context& sender, Rfc4121Context& receiver, const CredentialBody& credential,
                Bytes captured) {
  const Service service{credential.service};
  const auto plain = test::unwrap_body(receiver, service, credential.sequence, captured);
  if (!plain) return false;
  EXPECT_FALSE(test::unwrap_body(receiver, service, credential.sequence + 1, captured));
  expect_wraps_again(sender, receiver, service, credential.sequence, captured, *plain);
  return true;
}

// --- A capture ---------------------------------------------------------------------------------

class Playback {
 public:
  explicit Playback(const GssCapture& capture) {
    for (const auto& key : capture.keys) {
      ends_.emplace(key.handle, std::make_unique<Ends>(key.key));
    }
    for (const auto& message : capture.messages) {
      SCOPED_TRACE(message.where);
      message.is_call ? take_call(message.bytes) : take_reply(message.bytes);
      if (testing::Test::HasFatalFailure()) break;
    }
  }
  const Counts& counts() const noexcept { return counts_; }

 private:
  // nullptr: no key of it is known.
  Ends* ends_of(Bytes handle) const {
    const auto found = ends_.find(std::vector<std::byte>(handle.begin(), handle.end()));
    return found == ends_.end() ? nullptr : found->second.get();
  }

  void take_call(Bytes message) {
    ++counts_.calls;
    xdr::Reader reader(message);
    const auto header = oncrpc::decode_call(reader);
    ASSERT_TRUE(header);
    expect_encodes_to(message.first(reader.position()),
                      [&](xdr::Writer& writer) { oncrpc::encode_call(*header, writer); });
    auto& sent = calls_[header->xid];
    if (header->credential.flavor != AuthFlavor::kRpcsecGss) {
      ++counts_.without;
      EXPECT_EQ(header->verifier, Credential{});
      sent.emplace_back();
      return;
    }
    const auto call = test::open_gss_call(message);
    ASSERT_TRUE(call);
    counts_.sent_again += sent.empty() ? 0 : 1;
    sent.push_back(call->credential);
    expect_encodes_to(header->credential.body, [&](xdr::Writer& writer) {
      std::array<std::byte, kAuthBodySizeMax> made{};
      writer.opaque_fixed(Bytes(made).first(encode_credential(call->credential, made)));
    });
    Control{call->credential.control} == Control::kInit ? take_init(*call)
                                                        : take_protected_call(*call);
  }

  void take_init(const GssCall& call) {
    EXPECT_EQ(call.header.procedure.number, 0U);
    EXPECT_TRUE(call.credential.handle.empty());
    EXPECT_EQ(call.header.verifier, Credential{});
    xdr::Reader reader(call.arguments);
    const Bytes token = reader.opaque(64U << 10U, "gss_token");
    ASSERT_TRUE(reader.finish_all(token.size()));
    EXPECT_FALSE(token.empty());
    expect_encodes_to(call.arguments, [&](xdr::Writer& writer) { writer.opaque(token); });
  }

  void take_protected_call(const GssCall& call) {
    Ends* const ends = ends_of(call.credential.handle);
    ASSERT_NE(ends, nullptr);
    const Bytes verifier = call.header.verifier.body;
    ASSERT_TRUE(is_verified(ends->server, call.header.verifier, call.covered));
    ++counts_.verifiers_of_calls;
    expect_makes_checksum(ends->client, call.covered, verifier);
    ASSERT_TRUE(ends->window);
    EXPECT_TRUE(ends->window->take(call.credential.sequence));
    EXPECT_FALSE(ends->window->take(call.credential.sequence));
    if (Control{call.credential.control} == Control::kDestroy) {
      // The kernel gives it no body, whatever the service.
      EXPECT_TRUE(call.arguments.empty());
      ++counts_.ended;
      return;
    }
    ASSERT_EQ(Control{call.credential.control}, Control::kData);
    if (Service{call.credential.service} == Service::kNone) return;
    ASSERT_TRUE(check_body(ends->client, ends->server, call.credential, call.arguments));
    ++(Service{call.credential.service} == Service::kIntegrity ? counts_.integrity_of_calls
                                                               : counts_.privacy_of_calls);
  }

  void take_reply(Bytes message) {
    ++counts_.replies;
    xdr::Reader reader(message);
    const auto header = oncrpc::decode_reply(reader);
    ASSERT_TRUE(header);
    expect_encodes_to(message.first(reader.position()),
                      [&](xdr::Writer& writer) { oncrpc::encode_reply(*header, writer); });
    const auto found = calls_.find(header->xid);
    ASSERT_NE(found, calls_.end());
    const auto& sent = found->second;
    const Bytes results = reader.rest();
    if (const auto* const denial = std::get_if<oncrpc::AuthError>(&header->body)) {
      ++counts_.denied;
      EXPECT_EQ(denial->why, AuthStatus::kGssCredentialProblem);
      EXPECT_TRUE(results.empty());
      return;
    }
    const auto* const accepted = std::get_if<oncrpc::Accepted>(&header->body);
    ASSERT_NE(accepted, nullptr);
    if (!sent.back()) {
      EXPECT_EQ(accepted->verifier, Credential{});
      EXPECT_EQ(accepted->status, AcceptStatus::kSuccess);
    } else if (Control{sent.back()->control} == Control::kInit) {
      take_init_reply(*accepted, results);
    } else {
      take_protected_reply(*accepted, sent, results);
    }
  }

  void take_init_reply(const oncrpc::Accepted& accepted, Bytes results) {
    ASSERT_EQ(accepted.status, AcceptStatus::kSuccess);
    const auto made = decode_init_results(results);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->major, Status::kComplete);
    EXPECT_EQ(made->minor, 0U);
    EXPECT_EQ(made->window, 128U);
    EXPECT_FALSE(made->token.empty());
    EXPECT_EQ(init_results_size(*made), results.size());
    expect_encodes_to(results, [&](xdr::Writer& writer) { encode_init_results(*made, writer); });
    Ends* const ends = ends_of(made->handle);
    ASSERT_NE(ends, nullptr);
    EXPECT_FALSE(ends->window);  // the handle is a new one
    ends->window.emplace(made->window);
    const auto window = word_of(made->window);
    ASSERT_TRUE(is_verified(ends->client, accepted.verifier, window));
    ++counts_.verifiers_of_replies;
    ++counts_.contexts;
    expect_makes_checksum(ends->server, window, accepted.verifier.body);
  }

  // `sent`: all that went out under its XID, of which it answers the one whose number it proves.
  void take_protected_reply(const oncrpc::Accepted& accepted,
                            const std::vector<std::optional<CredentialBody>>& sent, Bytes results) {
    const CredentialBody* answered = nullptr;
    for (const auto& each : sent) {
      ASSERT_TRUE(each);
      Ends* const ends = ends_of(each->handle);
      if (!is_verified(ends->client, accepted.verifier, word_of(each->sequence))) continue;
      EXPECT_EQ(answered, nullptr);
      answered = &*each;
    }
    ASSERT_NE(answered, nullptr);
    ++counts_.verifiers_of_replies;
    Ends& ends = *ends_of(answered->handle);
    expect_makes_checksum(ends.server, word_of(answered->sequence), accepted.verifier.body);
    if (accepted.status == AcceptStatus::kGarbageArgs) {
      ++counts_.garbage;
      EXPECT_TRUE(results.empty());
      return;
    }
    ASSERT_EQ(accepted.status, AcceptStatus::kSuccess);
    if (Control{answered->control} == Control::kDestroy) {
      EXPECT_TRUE(results.empty());
      return;
    }
    if (Service{answered->service} == Service::kNone) return;
    ASSERT_TRUE(check_body(ends.server, ends.client, *answered, results));
    ++(Service{answered->service} == Service::kIntegrity ? counts_.integrity_of_replies
                                                         : counts_.privacy_of_replies);
  }

  std::map<std::vector<std::byte>, std::unique_ptr<Ends>> ends_;  // by handle
  // Credentials, whose handles are views into the capture; nullopt: another flavor.
  std::map<Xid, std::vector<std::optional<CredentialBody>>> calls_;
  Counts counts_;
};

struct ExpectedCounts {
  std::string name;
  Counts counts;
};
void PrintTo(const ExpectedCounts& expected, std::ostream* out) {
  *out << expected.name;
}

class GssGolden : public testing::TestWithParam<ExpectedCounts> {};

TEST_P(GssGolden, EveryMessageIsVerifiedDecodedAndMadeAgain) {
  const GssCapture capture = test::load_gss_capture(GetParam().name);
  const Playback playback(capture);
  EXPECT_EQ(playback.counts(), GetParam().counts);
}

// Calls and replies; those without RPCSEC_GSS; contexts made and ended; then of calls and of
// replies: verifiers, integrity, privacy; then what went wrong, and what was sent again.
INSTANTIATE_TEST_SUITE_P(
    Captures, GssGolden,
    testing::Values(
        ExpectedCounts{"v3-krb5", {75, 75, 2, 2, 1, 71, 73, 0, 0, 0, 0, 0, 0, 0}},
        ExpectedCounts{"v3-krb5i", {74, 74, 2, 2, 0, 70, 72, 70, 70, 0, 0, 0, 0, 0}},
        ExpectedCounts{"v3-krb5p", {74, 74, 2, 2, 0, 70, 72, 0, 0, 70, 70, 0, 0, 0}},
        ExpectedCounts{"v4.1-krb5", {81, 81, 1, 3, 3, 77, 80, 13, 13, 0, 0, 0, 0, 0}},
        ExpectedCounts{"v4.1-krb5i", {81, 81, 1, 3, 3, 77, 80, 74, 74, 0, 0, 0, 0, 0}},
        ExpectedCounts{"v4.1-krb5p", {83, 83, 1, 3, 3, 79, 82, 13, 13, 63, 63, 0, 0, 0}},
        ExpectedCounts{"events", {154, 154, 2, 4, 0, 148, 150, 148, 146, 0, 0, 2, 0, 3}},
        ExpectedCounts{"k61-v3-krb5i", {78, 78, 2, 2, 2, 74, 76, 72, 72, 0, 0, 0, 0, 0}},
        ExpectedCounts{"k61-v3-krb5p-refused", {12, 12, 2, 1, 0, 9, 10, 0, 0, 9, 0, 0, 9, 6}}),
    [](const auto& each) { return test::name_of_test(each.param.name); });

// The first call of a capture with a body that is protected.
GssCall first_protected(const GssCapture& capture, Bytes& message) {
  for (const auto& each : capture.messages) {
    const auto call = each.is_call ? test::open_gss_call(each.bytes) : std::nullopt;
    if (!call || Control{call->credential.control} != Control::kData) continue;
    message = each.bytes;
    return *call;
  }
  throw std::runtime_error("a capture without a call");
}

TEST(GssGoldenCall, WithAnyOneBitChangedIsNotTaken) {
  for (const std::string name : {"v3-krb5i", "v3-krb5p", "k61-v3-krb5i"}) {
    const GssCapture capture = test::load_gss_capture(name);
    Bytes original;
    const GssCall call = first_protected(capture, original);
    const auto key = std::ranges::find_if(capture.keys, [&](const GssCapture::Key& each) {
      return std::ranges::equal(each.handle, call.credential.handle);
    });
    ASSERT_NE(key, capture.keys.end());
    Ends ends(key->key);
    const auto is_taken = [&](Bytes message) {
      const auto found = test::open_gss_call(message);
      return found && std::ranges::equal(found->credential.handle, key->handle) &&
             is_verified(ends.server, found->header.verifier, found->covered) &&
             test::unwrap_body(ends.server, Service{found->credential.service},
                               found->credential.sequence, found->arguments);
    };
    EXPECT_TRUE(is_taken(original));
    for (std::size_t bit = 0; bit < original.size() * 8; ++bit) {
      std::vector<std::byte> changed(original.begin(), original.end());
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_FALSE(is_taken(changed)) << name << ", bit " << bit % 8 << " of byte " << bit / 8;
    }
  }
}

}  // namespace
}  // namespace rpcrdma::gss
