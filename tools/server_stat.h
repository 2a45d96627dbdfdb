// `rpcrdma stat` of a running server: its counters since it began.
#ifndef RPCRDMA_TOOLS_SERVER_STAT_H_
#define RPCRDMA_TOOLS_SERVER_STAT_H_

#include <string>

namespace rpcrdma::tools {

// Returns whether a word names a server here, by its process or its socket, and no file elsewhere.
bool names_server(const std::string& word);
// Prints the counters as nfsstat and mountstats show theirs, or as one JSON object. Ends the
// command if the server cannot be asked.
void print_server_stat(const std::string& server, bool as_json);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVER_STAT_H_
