// RPCSEC_GSS (RFC 2203): credentials, the results of control messages and wrapped bodies are read
// without leaving the input, and come back as they were; a body that nobody has wrapped is refused.
//
// Input: which of the four, then its bytes.
#include <array>
#include <vector>

#include "fuzz/fuzz.h"
#include "gss/message.h"
#include "support/fake_mechanism.h"
#include "support/gss_body.h"

namespace rpcrdma::fuzz {
namespace {

void check_credential(Bytes input) {
  const auto decoded = gss::decode_credential(input);
  if (!decoded) return;
  if (decoded->version != gss::kVersion) {
    FUZZ_CHECK(*decoded == gss::CredentialBody{.version = decoded->version}, "more is known of it");
    return;
  }
  FUZZ_CHECK(within(decoded->handle, input), "a handle leaves the credential");
  std::array<std::byte, kAuthBodySizeMax> output{};
  const std::size_t size = gss::encode_credential(*decoded, output);
  WithZeroFill expected(input);
  expected.clear_behind(decoded->handle);
  FUZZ_CHECK(equal(Bytes(output).first(size), expected.bytes()), "a credential does not come back");
}

void check_init_results(Bytes input) {
  const auto decoded = gss::decode_init_results(input);
  if (!decoded) return;
  FUZZ_CHECK(within(decoded->handle, input) && within(decoded->token, input), "a view leaves it");
  FUZZ_CHECK(gss::init_results_size(*decoded) == input.size(), "results of another size");
  Buffer output(input.size());
  xdr::Writer writer(output);
  gss::encode_init_results(*decoded, writer);
  WithZeroFill expected(input);
  expected.clear_behind(decoded->handle);
  expected.clear_behind(decoded->token);
  FUZZ_CHECK(writer.ok() && equal(output, expected.bytes()), "results do not come back");
}

// Whatever a peer says for a body. The two ends know each other.
void check_bodies(Bytes input, gss::Service service) {
  test::FakeContext ours({}, true, 7), theirs({}, false, 7);
  std::vector<std::byte> room(input.begin(), input.end());
  if (const auto found = gss::unwrap(theirs, service, 1, room)) {
    FUZZ_CHECK(within(*found, room), "a body leaves its message");
  }
  input = input.first(input.size() / xdr::kWordSize * xdr::kWordSize);  // XDR
  const Bytes first = input.first(input.size() / 2), second = input.subspan(input.size() / 2);
  const std::array<Bytes, 2> pieces{first, second};
  const auto wrapped = test::wrap_body(ours, service, 9, pieces);
  FUZZ_CHECK(!wrapped.empty(), "it cannot be wrapped");
  FUZZ_CHECK(wrapped.size() % xdr::kWordSize == 0, "this is no XDR");
  const auto found = test::unwrap_body(theirs, service, 9, wrapped);
  FUZZ_CHECK(found && equal(*found, input), "another body");
  FUZZ_CHECK(!test::unwrap_body(theirs, service, 8, wrapped), "that of another number");
  FUZZ_CHECK(!test::unwrap_body(ours, service, 9, wrapped), "one's own, sent back");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(gss_message) {
  using rpcrdma::gss::Service;
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  switch (choices.below(4)) {
    case 0:
      rpcrdma::fuzz::check_credential(choices.rest());
      break;
    case 1:
      rpcrdma::fuzz::check_init_results(choices.rest());
      break;
    case 2:
      rpcrdma::fuzz::check_bodies(choices.rest(), Service::kIntegrity);
      break;
    default:
      rpcrdma::fuzz::check_bodies(choices.rest(), Service::kPrivacy);
      break;
  }
  return 0;
}
