// Files of captures that somebody made up: whatever they hold, reader and decoder end, within their
// bounds.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "explain/capture_reader.h"
#include "explain/decoder.h"
#include "explain/facts.h"
#include "explain/names.h"
#include "explain/text_rows.h"
#include "fuzz/fuzz.h"

namespace rpcrdma::fuzz {
namespace {

class ExplainReader : public explain::Sink {
 public:
  void on_message(const explain::MessageFact& message, const explain::ConnectionFact&) override {
    FUZZ_CHECK(message.header_size <= message.size, "a header larger than its message");
    FUZZ_CHECK(message.side == 0 || message.side == 1, "a third side");
    text_ = explaining::message_json(message);
  }
  void on_call(const explain::CallFact& call, const explain::ConnectionFact& connection) override {
    FUZZ_CHECK(call.has_call || call.has_reply, "a call of nothing");
    FUZZ_CHECK(call.steps.size() <= 64, "more steps than a ladder has room for");
    text_ = explaining::call_line(call, connection, 0);
    text_ = explaining::call_json(call, connection, 0);
  }
  void on_finding(const explain::Finding& finding, const explain::ConnectionFact&) override {
    FUZZ_CHECK(finding.rule != nullptr && !finding.rule->section.empty(), "no rule");
  }

 private:
  std::string text_;
};

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(explain) {
  static const int kFile = ::memfd_create("capture", MFD_CLOEXEC);
  FUZZ_CHECK(kFile >= 0 && ::ftruncate(kFile, 0) == 0, "no file in memory");
  FUZZ_CHECK(::pwrite(kFile, data, size, 0) == static_cast<ssize_t>(size), "no room in memory");
  explaining::CaptureReader reader("/proc/self/fd/" + std::to_string(kFile));
  rpcrdma::fuzz::ExplainReader sink;
  rpcrdma::explain::Decoder decoder(sink, {.connections_max = 64});
  rpcrdma::explain::Packet packet;
  std::uint64_t before = 0;
  while (reader.next(packet)) {
    FUZZ_CHECK(packet.where.packet > before, "packets out of order");
    before = packet.where.packet;
    FUZZ_CHECK(packet.data.size() <= packet.size, "more was captured than was there");
    decoder.add(packet);
  }
  decoder.finish();
  return 0;
}
