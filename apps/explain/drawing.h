// Draws calls as ladders: two lifelines, time going down, one arrow for each step.
#ifndef RPCRDMA_APPS_EXPLAIN_DRAWING_H_
#define RPCRDMA_APPS_EXPLAIN_DRAWING_H_

#include <cstdint>
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

// The pieces of a ladder, for other ways to draw it.
std::string step_text(const rpcrdma::explain::StepFact& step,
                      const rpcrdma::explain::CallFact& call);
std::string packets_text(const rpcrdma::explain::StepFact& step);
// The reasons, below the ladder.
std::vector<std::string> notes_of(const rpcrdma::explain::CallFact& call);

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_DRAWING_H_
