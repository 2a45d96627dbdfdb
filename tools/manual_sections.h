// The parts of manual pages that the parser of the command line does not know: examples, files,
// environment, signals, exit status, security.
#ifndef RPCRDMA_TOOLS_MANUAL_SECTIONS_H_
#define RPCRDMA_TOOLS_MANUAL_SECTIONS_H_

#include <string_view>

namespace rpcrdma::tools {

// Plain text. Lists have a line for each entry: a term, a tab, and its text; an entry of examples
// begins with the text, and has the command behind the tab. An empty part is left out.
struct ManualSections {
  std::string_view name{};  // of the subcommand; empty: of the program
  std::string_view examples{}, files{}, environment{}, signals{}, exit_status{};
  std::string_view security{};  // paragraphs, with an empty line between them
  std::string_view see_also{};  // "rpcrdma(1) serve.toml(5)"
};

// The name under which `rpcrdma manual` prints the page of the settings, in section 5.
inline constexpr std::string_view kSettingsPage = "serve.toml";

// Returns the parts of a page; those of a name without any are empty, but for its exit status.
const ManualSections& sections_of(std::string_view name);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_MANUAL_SECTIONS_H_
