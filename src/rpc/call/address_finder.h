// Looks the host of a client's URL up again, for a client that goes on meanwhile: a server may have
// moved to another address since the first time.
#ifndef RPCRDMA_RPC_CALL_ADDRESS_FINDER_H_
#define RPCRDMA_RPC_CALL_ADDRESS_FINDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rpcrdma::rpc {

class AddressFinder {
 public:
  virtual ~AddressFinder() = default;
  // Begins to look them up, unless that is under way. Does not wait.
  virtual void begin() = 0;
  // Returns the addresses that were found since the last time, numeric and in the order to try.
  // Empty: the lookup is still under way, or has found none.
  virtual std::vector<std::string> take() = 0;
};

// Returns one that asks the system's resolver on a thread of its own, which it leaves behind where
// the resolver says nothing. Null: the URL has no name, and nothing would be found but what it has.
std::unique_ptr<AddressFinder> make_address_finder(std::string_view url);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_ADDRESS_FINDER_H_
