// A page of HTML with the calls of a capture, and the rules that were broken.
#ifndef RPCRDMA_APPS_EXPLAIN_PAGE_H_
#define RPCRDMA_APPS_EXPLAIN_PAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "explain/facts.h"

namespace explaining {

// Needs no network. Calls are rows, which show their ladders when clicked, or when the fragment of
// the address names them: #call=2fa1c5d1, or #call=2fa1c5d1@1 with the number of the connection.
class Page {
 public:
  explicit Page(std::size_t calls_max) : calls_max_(calls_max) {}

  void add(const rpcrdma::explain::CallFact& call,
           const rpcrdma::explain::ConnectionFact& connection, std::int64_t start);
  void add(const rpcrdma::explain::Finding& finding,
           const rpcrdma::explain::ConnectionFact& connection);
  // `filtered`: calls that the filters left out.
  std::string text(std::uint64_t filtered) const;
  std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  // A rule that a side broke: the first time, and how often.
  struct Group {
    rpcrdma::explain::Finding first;
    std::string side;
    std::uint64_t count = 1;
  };

  std::size_t calls_max_;
  // By what they matter: faulty ones first, then the slowest.
  std::multimap<std::pair<int, std::int64_t>, std::string> rows_;
  std::map<std::tuple<std::uint64_t, int, const rpcrdma::explain::Rule*>, Group> groups_;
  std::uint64_t left_out_ = 0, groups_left_out_ = 0;
};

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_PAGE_H_
