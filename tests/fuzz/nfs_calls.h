// Calls of NFS version 3 and MOUNT for a server to stumble over: built as RFC 1813 says, with
// handles that the server gave, and then changed somewhere. The same seed and the same answers make
// the same calls.
#ifndef RPCRDMA_TESTS_FUZZ_NFS_CALLS_H_
#define RPCRDMA_TESTS_FUZZ_NFS_CALLS_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::fuzz {

using Text = std::vector<std::byte>;

// SplitMix64: the same numbers with every compiler.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t u64() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(u64()); }
  // 0 <= result < bound < 2^32.
  std::uint32_t below(std::size_t bound) { return static_cast<std::uint32_t>(u64() % bound); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class List>
  const auto& of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::uint64_t state_;
};

// XDR that grows, whatever is written.
class Xdr {
 public:
  Xdr& u32(std::uint32_t value);
  Xdr& u64(std::uint64_t value);
  Xdr& opaque(Bytes bytes);  // with its count and padding
  Xdr& opaque(std::string_view text) { return opaque(std::as_bytes(std::span(text))); }
  Xdr& raw(Bytes bytes);
  Text bytes;
};

// A big-endian word of a message; 0 behind its end.
std::uint32_t word_at(Bytes message, std::size_t at);

struct MadeCall {
  static constexpr std::uint32_t kMnt = 100, kOther = 101;  // of MOUNT

  Text message;                 // an RPC message from its XID on
  std::uint32_t procedure = 0;  // of NFS, or one of these
  bool is_rpc = true;           // its header is that of a Call, so that an answer is owed
  std::size_t bulk_at = 0;      // data that may move by a Read chunk; 0: none
  std::size_t bulk_size = 0;
  std::uint32_t place_size = 0;    // memory for a Write chunk, bytes; 0: none
  std::uint32_t results_size = 0;  // room for the rest of the Reply, bytes
};

class NfsCalls {
 public:
  static constexpr std::uint32_t kNfs = 100003, kMount = 100005;
  static constexpr std::size_t kHandlesMax = 96;

  // Says what a handle is of: most calls get one that they can do something with.
  enum class Kind : std::uint8_t { kFile, kDirectory, kOther };

  // `words`: names and paths to try beside the usual ones.
  NfsCalls(std::uint64_t seed, std::vector<std::string> words);

  Dice& dice() { return dice_; }
  // Handles that the server gave; of those beyond kHandlesMax, some.
  void add_handle(Bytes handle, Kind kind);
  void forget_handles() { handles_.clear(); }
  MadeCall next();
  static Text null_call(std::uint32_t xid);
  // Keeps the handle that a reply brings, if it does.
  void learn(const MadeCall& call, Bytes reply);

 private:
  void header(Xdr& xdr, MadeCall& call, std::uint32_t program, std::uint32_t procedure);
  void credential(Xdr& xdr, MadeCall& call);
  void mount_arguments(Xdr& xdr, std::uint32_t procedure);
  void nfs_arguments(Xdr& xdr, MadeCall& call);
  void making_arguments(Xdr& xdr, MadeCall& call);
  void moving_arguments(Xdr& xdr, MadeCall& call);
  void damage(MadeCall& call, std::size_t header_size);

  Text handle(Kind kind);
  Text changed_handle(Text handle);
  std::string name();
  std::string path();
  void attributes(Xdr& xdr);
  std::uint32_t count();
  std::uint64_t offset();

  Dice dice_;
  struct Known {
    Text handle;
    Kind kind;
  };
  std::vector<Known> handles_;
  std::vector<std::string> words_;
  std::uint32_t xid_;
};

}  // namespace rpcrdma::fuzz

#endif  // RPCRDMA_TESTS_FUZZ_NFS_CALLS_H_
