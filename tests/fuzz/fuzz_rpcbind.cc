// What rpcbind's peers say: universal addresses come back as they were; a stream of records means
// the same however it is cut, takes no byte behind the record and no more memory than allowed; what
// a reply or a Call holds is inside of it.
//
// Input: an even byte, the family, a text; or an odd byte, the bound on records, how to cut, then
// the stream.
#include <string_view>

#include "fuzz/fuzz.h"
#include "rpcbind.h"
#include "rpcbind/universal_address.h"
#include "rpcrdma/generated/codec.h"
#include "rpcrdma/xdr.h"
#include "stream/call.h"
#include "stream/record.h"

namespace rpcrdma::fuzz {
namespace {

using rpcbinding::Endpoint;
using stream::RecordReader;

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

// Gives the reader what it wants, in pieces of at most `step`; how much it took.
std::size_t feed(RecordReader& reader, Bytes stream, std::size_t step) {
  std::size_t taken = 0;
  while (reader.wanted() > 0 && taken < stream.size()) {
    const std::size_t size = std::min({step, reader.wanted(), stream.size() - taken});
    reader.take(stream.subspan(taken, size));
    taken += size;
  }
  return taken;
}

void check_list(Bytes results) {
  rpcbind::rpcblist_ptr list;
  MessageReader reader(results, 0, {});
  rpcbind::decode_rpcblist_ptr(reader, list);
  if (!reader.finish()) return;
  FUZZ_CHECK(rpcbind::encoded_size_rpcblist_ptr(list) == results.size(), "a list of another size");
}

void check_reply(Bytes record) {
  const std::uint32_t xid = record.size() < xdr::kWordSize ? 0 : xdr::load_word(record.data());
  const auto results = stream::open_reply(record, xid);
  const auto others = stream::open_reply(record, xid + 1);
  FUZZ_CHECK(!others && others.error().code == Errc::kBadReply, "a reply to two calls");
  if (!results) {
    FUZZ_CHECK(!results.error().cause.empty(), "no reason");
    return;
  }
  FUZZ_CHECK(within(*results, record), "results outside of the reply");
  check_list(*results);
}

void check_call(Bytes record) {
  const auto call = stream::open_call(record);
  if (!call) return;
  FUZZ_CHECK(call->xid == xdr::load_word(record.data()), "another XID");
  FUZZ_CHECK(within(call->arguments, record), "arguments outside of the Call");
  FUZZ_CHECK(call->rpc_version == stream::kRpcVersion || call->arguments.empty(),
             "more was read of another version");
}

void check_stream(std::uint32_t size_max, std::size_t step, Bytes stream) {
  RecordReader whole(size_max);
  RecordReader cut(size_max);
  const std::size_t taken = feed(whole, stream, stream.size());
  FUZZ_CHECK(feed(cut, stream, step) == taken, "cutting changes how much is taken");
  FUZZ_CHECK(whole.done() == cut.done() && whole.failure() == cut.failure() &&
                 equal(whole.record(), cut.record()),
             "cutting changes the outcome");
  FUZZ_CHECK(whole.record().size() <= std::min<std::size_t>(size_max, taken), "too long");
  FUZZ_CHECK(!whole.done() || whole.failure().empty(), "done and failed");
  FUZZ_CHECK(taken == stream.size() || whole.wanted() == 0, "stopped too early");
  if (!whole.done()) return;
  check_reply(whole.record());
  check_call(whole.record());
}

}  // namespace
}  // namespace rpcrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  if (!choices.flag()) {
    const bool six = choices.flag();
    const rpcrdma::Bytes text = choices.rest();
    rpcrdma::fuzz::check_address(six, {reinterpret_cast<const char*>(text.data()), text.size()});
    return 0;
  }
  const std::uint32_t size_max = choices.u16();
  const std::size_t step = 1 + choices.below(64);
  rpcrdma::fuzz::check_stream(size_max, step, choices.rest());
  return 0;
}
