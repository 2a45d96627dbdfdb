// Pages that `rpcrdma serve` answers by HTTP, for load balancers and monitoring systems. Its
// threads are its own: a client that stalls, or many of them, cost no call of the server.
#ifndef RPCRDMA_TOOLS_HTTP_PAGES_H_
#define RPCRDMA_TOOLS_HTTP_PAGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rpcrdma::tools {

class HttpPages {
 public:
  struct Answer {
    bool is_available = true;  // 200, else 503
    std::string text;          // with its last line's end
  };
  struct Page {
    std::string path;  // "/ready"
    // Called on any thread, several at a time.
    std::function<Answer()> answer;
    const char* content_type = "text/plain; charset=utf-8";
  };
  // Names the place, as the option `option` gave it. `host` is numeric; port 0 takes a free one.
  struct Place {
    std::string host;
    std::uint16_t port;
    const char* option;
  };

  // Ends the command if nobody can listen there, or this build has no HTTP (libmicrohttpd).
  static std::unique_ptr<HttpPages> open(const Place& place, std::vector<Page> pages);
  virtual ~HttpPages() = default;
  HttpPages(const HttpPages&) = delete;
  HttpPages& operator=(const HttpPages&) = delete;

  // Returns "http://ADDR:PORT", with the real port.
  const std::string& url() const noexcept { return url_; }

 protected:
  HttpPages() = default;
  std::string url_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_HTTP_PAGES_H_
