// Takes what rpcbind's peers say: universal addresses come back as they were, and a list of
// registrations is as long as its bytes.
//
// Input: an even byte, the family, a text; or an odd byte, the results of RPCBPROC_DUMP.
#include <string_view>

#include "fuzz/fuzz.h"
#include "rpcbind.h"
#include "rpcbind/universal_address.h"
#include "rpcrdma/generated/codec.h"

namespace rpcrdma::fuzz {
namespace {

using rpcbinding::Endpoint;

void check_address(bool six, std::string_view text) {
  const std::string_view netid = six ? rpcbinding::kNetidRdma6 : rpcbinding::kNetidRdma;
  const std::string_view other = six ? rpcbinding::kNetidRdma : rpcbinding::kNetidRdma6;
  const auto endpoint = rpcbinding::from_universal(netid, text);
  if (endpoint) {
    FUZZ_CHECK(endpoint->netid() == netid, "another family");
    const std::string again = rpcbinding::to_universal(*endpoint);
    FUZZ_CHECK(rpcbinding::from_universal(netid, again) == *endpoint, "does not come back");
    FUZZ_CHECK(six || again == text, "there are two texts for one address");
    FUZZ_CHECK(!rpcbinding::from_universal(other, text), "it is of both families");
  }
  const auto socket = rpcbinding::from_socket_text(text);
  if (!socket) return;
  const std::string_view scheme = "rdma://";
  const std::string url = rpcbinding::to_url(socket->host(), socket->port);
  FUZZ_CHECK(rpcbinding::from_socket_text(std::string_view(url).substr(scheme.size())) == *socket,
             "a URL of another address");
}

void check_list(Bytes results) {
  rpcbind::rpcblist_ptr list;
  MessageReader reader(results, 0, {});
  rpcbind::decode_rpcblist_ptr(reader, list);
  if (!reader.finish()) return;
  FUZZ_CHECK(rpcbind::encoded_size_rpcblist_ptr(list) == results.size(), "a list of another size");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(rpcbind) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  if (!choices.flag()) {
    const bool six = choices.flag();
    const rpcrdma::Bytes text = choices.rest();
    rpcrdma::fuzz::check_address(six, {reinterpret_cast<const char*>(text.data()), text.size()});
    return 0;
  }
  rpcrdma::fuzz::check_list(choices.rest());
  return 0;
}
