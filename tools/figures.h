// Reads the figures of a running server, as metrics.h writes them.
#ifndef RPCRDMA_TOOLS_FIGURES_H_
#define RPCRDMA_TOOLS_FIGURES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rpcrdma::tools {

// One line: rpcrdma_NAME{LABEL="…"} VALUE.
struct Figure {
  std::string name;  // without "rpcrdma_"
  std::map<std::string, std::string> labels;
  double value = 0;

  // Returns a label; empty: there is none.
  std::string_view label(const std::string& of) const;
};

// The counts of a histogram by their upper bounds, in seconds, as they stand in the text: each
// count includes the ones before.
class Spread {
 public:
  void add(double bound, double count) { below_[bound] += count; }
  // Returns what was counted since an earlier reading.
  Spread since(const Spread& before) const;
  double count() const { return below_.empty() ? 0 : below_.rbegin()->second; }
  // Returns the time that this share of all does not exceed, seconds: within a bucket, as if they
  // were spread evenly. 0: there are none.
  double quantile(double share) const;

 private:
  std::map<double, double> below_;
};

class Figures {
 public:
  // Ends the command if the text is not of a server.
  explicit Figures(std::string_view text);
  // Asks a server. `server`: the id of its process, a path, or empty, if there is only one. Ends
  // the command if there is none, or several.
  static Figures of(const std::string& server);
  // Does the same until this descriptor becomes readable; nullopt then.
  static std::optional<Figures> of(const std::string& server, int stop);

  const std::vector<Figure>& all() const noexcept { return all_; }
  // Returns the sum of all figures of this name; 0: there are none.
  double sum(std::string_view name) const;
  // Returns the first figure of this name; null: there is none.
  const Figure* first(std::string_view name) const;
  // Returns these figures, which are so many seconds older, where their server has run all the time
  // since; else, as it has begun anew, none.
  Figures before(const Figures& now, double seconds) const;
  // Adds up the histogram of this name over all figures with this label; an empty label: over all.
  Spread spread(std::string_view name, const std::string& label = {},
                std::string_view value = {}) const;

 private:
  Figures() = default;
  std::vector<Figure> all_;
};

// Returns the path of the socket of a server; see Figures::of().
std::string stat_socket_of(const std::string& server);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_FIGURES_H_
