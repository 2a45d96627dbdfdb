// The rules about calls: what a Call, a reply and their chunks have to be like.
#ifndef RPCRDMA_EXPLAIN_CALL_RULES_H_
#define RPCRDMA_EXPLAIN_CALL_RULES_H_

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "explain/call_record.h"
#include "explain/memory_map.h"
#include "explain/rpc_words.h"
#include "explain/rules.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

class CallRules {
 public:
  CallRules(Judge& judge, const ConnectionFact& connection) noexcept
      : judge_(judge), connection_(connection) {}

  // Any Send, before it is known what it is for.
  void judge_send(const MessageFact& message, const Terms& terms);
  // `open`: Calls of that side without a reply, this one included; `limit`: the most that any
  // grant in force allows, 0 if unknown.
  void judge_call(const CallRecord& call, Bytes payload, const Terms& terms,
                  const MemoryMap& memory);
  void judge_credits(const CallRecord& call, std::uint32_t open, std::uint32_t limit,
                     const Terms& terms);
  void judge_rpc_call(const CallFact& fact, RpcFault fault, const MessageFact& message, Bytes rpc);
  // `results` begin at `results_at` in the RPC message; only its first bytes may be there.
  void judge_reply(const CallRecord& call, const Terms& terms, Bytes results,
                   std::size_t results_at);
  void judge_rpc_reply(const CallFact& fact, RpcFault fault);
  void judge_invalidation(const MessageFact& message, const CallRecord* call, bool is_call);
  void judge_error(const CallRecord& call, const MessageFact& error);
  void report(RuleId id, const MessageFact& message, std::string detail = {});
  // Reports that the receiver of the message broke a rule because of it.
  void report_receiver(RuleId id, const MessageFact& message);

 private:
  void judge_reads(const CallRecord& call, Bytes payload);
  void judge_long_call(const CallRecord& call);
  void judge_special_chunks(const CallRecord& call, const Terms& terms);
  void judge_upper_layer(const CallRecord& call);
  void judge_returned_writes(const CallRecord& call, const Terms& terms);
  bool judge_lengths(const CallRecord& call, const Chunk& offered, const Chunk& returned,
                     const std::vector<std::uint64_t>& written, RuleId length, const Terms& terms);
  void judge_returned_reply(const CallRecord& call, const Terms& terms);
  void judge_number_of_segments(const MessageFact& asked, const MessageFact& reply,
                                const Terms& terms);
  void judge_results(const CallRecord& call, Bytes results, std::size_t results_at);

  Judge& judge_;
  const ConnectionFact& connection_;
  std::deque<std::uint32_t> gss_numbers_;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_CALL_RULES_H_
