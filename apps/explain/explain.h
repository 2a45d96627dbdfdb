// The application behind `rpcrdma explain`: what a capture says, as text, JSON, or pictures.
#ifndef RPCRDMA_APPS_EXPLAIN_EXPLAIN_H_
#define RPCRDMA_APPS_EXPLAIN_EXPLAIN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace explaining {

enum class View : std::uint8_t { kCalls, kLadder, kCheck, kSummary, kFrames };

// The calls that are shown. Each one that is given has to hold.
struct Filter {
  std::optional<std::uint32_t> xid;
  std::string procedure;               // "READ", "NFSv3 READ"; letters of any case
  std::string peer;                    // an address, or an address and a port, of either end
  std::string status;                  // "NFS3ERR_NOENT", "ok", "failed"
  std::optional<double> since, until;  // seconds from the first packet
  double slower_than = 0;              // seconds
};

struct Settings {
  View view = View::kCalls;
  std::string file = "-";
  Filter filter;
  bool is_json = false;
  std::string subject;         // of a ladder: an XID, or "#1" for a connection
  std::string html, svg;       // files to write; empty: none
  std::string interface_file;  // a .x file; empty: none
  int stop = -1;               // a descriptor: the capture ends when it is readable; -1: none
  // A socket at which a server shows its traffic, in place of `file`; -1: none. `on_live` is called
  // when the server has begun to.
  int live = -1;
  std::function<void()> on_live;
};

// Decides the exit status.
struct Result {
  std::string problem;  // the capture could not be read, or not to its end; empty: it could
  bool was_opened = false;
  std::uint64_t errors = 0;  // violations of severity error
};

// Reads the capture and prints to the standard output. Throws std::exception if it cannot print.
Result explain(const Settings& settings);

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_EXPLAIN_H_
