// The addresses of clients: ranges of them, and those that machines have by their names.
#ifndef RPCRDMA_NFS_ADDRESS_RANGE_H_
#define RPCRDMA_NFS_ADDRESS_RANGE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/types.h"

namespace nfs {

template <class T>
using Parsed = rpcrdma::Expected<T, std::string>;  // or what is wrong, for a person

// Addresses: all, one, or those that begin with the same bits.
class AddressRange {
 public:
  // "*", "ADDRESS", "ADDRESS/BITS" or, of IPv4, "ADDRESS/NETMASK"; nullopt: it is none of them.
  // Names are not looked up. IPv4 addresses are in ranges of IPv4 alone, which may be written with
  // "::ffff:" in front and at least 96 bits.
  static std::optional<AddressRange> parse(std::string_view text);
  // `peer` is CallContext::peer_address(): "ADDR:PORT", or the path of a Unix socket, which is in
  // "*" alone.
  bool contains(std::string_view peer) const;
  bool contains_all() const noexcept { return bits_ == 0 && is_any_; }

 private:
  std::array<std::uint8_t, 16> address_{};  // IPv4 as ::ffff:a.b.c.d
  unsigned bits_ = 0;                       // that count
  bool is_any_ = false;                     // also what is no address
};

// Returns the addresses of a machine, as texts; none: its name does not resolve.
using HostLookup = std::function<std::vector<std::string>(const std::string& name)>;
// Asks the system, which looks into /etc/hosts and asks DNS, say. It waits for the answer.
std::vector<std::string> addresses_of_host(const std::string& name);

// Returns the ranges that a client's word in a rule means: what AddressRange::parse() takes, or the
// name of a machine, which has several addresses perhaps. Empty: it is a name that does not
// resolve. The text says why it is no such word; netgroups and patterns of names are none.
Parsed<std::vector<AddressRange>> parse_addresses(std::string_view text, const HostLookup& look_up);

}  // namespace nfs

#endif  // RPCRDMA_NFS_ADDRESS_RANGE_H_
