// Draws calls as ladders: two lifelines, time going down, one arrow for each step.
#ifndef RPCRDMA_APPS_EXPLAIN_DRAWING_H_
#define RPCRDMA_APPS_EXPLAIN_DRAWING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "explain/facts.h"

namespace explaining {

// The ladder has at most 100 columns; the reasons below it may have more.
std::vector<std::string> draw_text(const rpcrdma::explain::CallFact& call,
                                   const rpcrdma::explain::ConnectionFact& connection,
                                   std::int64_t start);
// Returns the drawing of a call from `height` on, which grows by its size.
std::string draw_svg_call(const rpcrdma::explain::CallFact& call,
                          const rpcrdma::explain::ConnectionFact& connection, std::int64_t start,
                          std::uint32_t& height);
// Puts drawings into a file of their own.
std::string frame_svg(const std::string& drawings, std::uint32_t height);

// A page of HTML that needs no network: calls as rows, which show their ladders when clicked.
class Page {
 public:
  explicit Page(std::size_t calls_max) : calls_max_(calls_max) {}

  void add(const rpcrdma::explain::CallFact& call,
           const rpcrdma::explain::ConnectionFact& connection, std::int64_t start);
  void add(const rpcrdma::explain::Finding& finding);
  // `filtered`: calls that the filters left out.
  std::string text(std::uint64_t filtered) const;
  std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  std::size_t calls_max_;
  // By what they matter: faulty ones first, then the slowest.
  std::multimap<std::pair<int, std::int64_t>, std::string> rows_;
  std::vector<std::string> findings_;
  std::uint64_t left_out_ = 0, findings_left_out_ = 0;
};

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_DRAWING_H_
