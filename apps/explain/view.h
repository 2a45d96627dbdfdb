// A way to show facts. Each prints to the standard output.
#ifndef RPCRDMA_APPS_EXPLAIN_VIEW_H_
#define RPCRDMA_APPS_EXPLAIN_VIEW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "explain/decoder.h"
#include "explain/explain.h"
#include "explain/facts.h"

namespace explaining {

class ShownView : public rpcrdma::explain::Sink {
 public:
  // `start`: the time of the first packet.
  virtual void begin(std::int64_t start) { start_ = start; }
  // Says why a part of the capture was not read; empty: all of it was. Comes before finish().
  void set_problem(std::string problem) { problem_ = std::move(problem); }
  // All facts were reported.
  virtual void finish(const rpcrdma::explain::Decoder::Counts& counts) = 0;
  // Violations of severity error.
  virtual std::uint64_t errors() const noexcept { return 0; }

 protected:
  std::int64_t start() const noexcept { return start_; }
  const std::string& problem() const noexcept { return problem_; }

 private:
  std::string problem_;
  std::int64_t start_ = 0;
};

std::unique_ptr<ShownView> make_calls_view(const Settings& settings);
std::unique_ptr<ShownView> make_frames_view();
std::unique_ptr<ShownView> make_check_view(const Settings& settings);
std::unique_ptr<ShownView> make_summary_view(const Settings& settings);
std::unique_ptr<ShownView> make_ladder_view(const Settings& settings);

// Prints a line to the standard output. Throws std::runtime_error if that fails.
void print_line(const std::string& line);

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_VIEW_H_
