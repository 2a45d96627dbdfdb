// Numbers and calls as people read them.
#ifndef RPCRDMA_APPS_EXPLAIN_TEXT_ROWS_H_
#define RPCRDMA_APPS_EXPLAIN_TEXT_ROWS_H_

#include <cstdint>
#include <string>

#include "explain/facts.h"

namespace explaining {

std::string grouped(std::uint64_t value);             // "65,536"
std::string duration_text(std::int64_t nanoseconds);  // "1.25 ms"
std::string bytes_text(std::uint64_t bytes);          // "65,536 B"

// "short 112 B", "chunked 140 B + 65,536 B read in 2", with the reason where it is not inline.
std::string call_half_text(const rpcrdma::explain::CallFact& call);
std::string reply_half_text(const rpcrdma::explain::CallFact& call);
// "server 0.21 ms, writes 0.80 ms"; only those that took time.
std::string phases_text(const rpcrdma::explain::CallFact& call);
// The chunks for results that the Call offers: "a Reply chunk of 1,024 B in 3 segments".
std::string offers_text(const rpcrdma::explain::CallFact& call);
// Where a call without a reply stands: "No reply is in the capture, and no RDMA Read either".
std::string waiting_text(const rpcrdma::explain::CallFact& call);
// One line about a call; `start` is the time of the first packet.
std::string call_line(const rpcrdma::explain::CallFact& call,
                      const rpcrdma::explain::ConnectionFact& connection, std::int64_t start);
std::string call_json(const rpcrdma::explain::CallFact& call,
                      const rpcrdma::explain::ConnectionFact& connection, std::int64_t start);
std::string message_json(const rpcrdma::explain::MessageFact& message);

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_TEXT_ROWS_H_
