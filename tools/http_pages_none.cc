// Replaces ready_page.cc in builds without libmicrohttpd.
#include "tools/command.h"
#include "tools/ready_page.h"

namespace rpcrdma::tools {

std::unique_ptr<ReadyPage> ReadyPage::open(const std::string& /*host*/, std::uint16_t /*port*/,
                                           WhyNot /*why_not*/) {
  fail(kUsage,
       "--ready-port: this rpcrdma was built without HTTP; build it where libmicrohttpd-dev is, or "
       "ask with `rpcrdma ping --ready`");
}

}  // namespace rpcrdma::tools
