// Replaces http_pages.cc in builds without libmicrohttpd.
#include <fmt/core.h>

#include "tools/command.h"
#include "tools/http_pages.h"

namespace rpcrdma::tools {

std::unique_ptr<HttpPages> HttpPages::open(const Place& place, std::vector<Page> /*pages*/) {
  fail(kUsage, fmt::format("{}: this rpcrdma was built without HTTP; build it where "
                           "libmicrohttpd-dev is, or ask with `rpcrdma ping --ready` and `rpcrdma "
                           "stat`",
                           place.option));
}

}  // namespace rpcrdma::tools
