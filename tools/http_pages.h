// http://ADDR:PORT/ready of `rpcrdma serve`: 200 while the server takes work, else 503, each with a
// line of text. For load balancers and whatever else watches services.
#ifndef RPCRDMA_TOOLS_READY_PAGE_H_
#define RPCRDMA_TOOLS_READY_PAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace rpcrdma::tools {

class ReadyPage {
 public:
  // Returns why the server takes no work; empty: it does. Called on any thread, several at a time.
  using WhyNot = std::function<std::string()>;

  // Ends the command if nobody can listen there, or this build has no HTTP (libmicrohttpd). `host`
  // is numeric; port 0 takes a free one.
  static std::unique_ptr<ReadyPage> open(const std::string& host, std::uint16_t port,
                                         WhyNot why_not);
  virtual ~ReadyPage() = default;
  ReadyPage(const ReadyPage&) = delete;
  ReadyPage& operator=(const ReadyPage&) = delete;

  const std::string& url() const noexcept { return url_; }

 protected:
  ReadyPage() = default;
  std::string url_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_READY_PAGE_H_
