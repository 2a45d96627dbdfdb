// Three ways to put calls to a server: records over TCP, RPC-over-RDMA by the library's client, and
// RPC-over-RDMA as bytes, with chunk lists that do not fit.
#ifndef RPCRDMA_TESTS_FUZZ_NFS_LINKS_H_
#define RPCRDMA_TESTS_FUZZ_NFS_LINKS_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/nfs_calls.h"
#include "rpcrdma/client.h"
#include "support/raw_rpc.h"

namespace rpcrdma::fuzz {

// How many calls got which answer.
class Tally {
 public:
  enum Way : std::size_t { kTcp, kRdma, kRaw, kWays };

  // `secret`: what no answer may hold, since it is of a file that is not exported; empty: nothing.
  explicit Tally(std::string secret) : secret_(std::move(secret)) {}

  void sent(Way way) { ++calls_[way]; }
  // An RPC message that came back. `more`: what RDMA placed elsewhere.
  void answered(Way way, const MadeCall& call, Bytes reply, Bytes more = {});
  void note(Way way, const std::string& what) { ++kinds_[what][way]; }
  // Reports what must never be: the fuzzer fails.
  void found(Way way, const std::string& what);
  bool has_findings() const noexcept { return findings_ > 0; }
  std::uint64_t calls() const noexcept { return calls_[kTcp] + calls_[kRdma] + calls_[kRaw]; }
  void print() const;

 private:
  std::string secret_;
  std::array<std::uint64_t, kWays> calls_{};
  std::map<std::string, std::array<std::uint64_t, kWays>> kinds_;
  std::uint64_t findings_ = 0;
};

// Makes a few calls at a time and waits for their answers. The bytes that end a connection are
// noted, and the next burst has a new one.
class Link {
 public:
  virtual ~Link() = default;
  virtual void burst(NfsCalls& calls, Tally& tally) = 0;
};

// `address`: "ADDR:PORT".
std::unique_ptr<Link> tcp_link(const std::string& address);
std::unique_ptr<Link> rdma_link(const std::string& address);
std::unique_ptr<Link> raw_link(const std::string& address);

}  // namespace rpcrdma::fuzz

#endif  // RPCRDMA_TESTS_FUZZ_NFS_LINKS_H_
