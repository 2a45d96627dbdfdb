// A client of NFSv4.1 that has one session of one slot on one connection. It does what
// back_channel_probe needs; each step that fails throws Failed, which names it.
#ifndef RPCRDMA_TESTS_INTEROP_NFS41_CLIENT_H_
#define RPCRDMA_TESTS_INTEROP_NFS41_CLIENT_H_

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "interop/nfs41/callbacks.h"
#include "interop/nfs41/loop.h"
#include "nfs41.h"
#include "rpcrdma/client.h"

namespace rpcrdma::interop {

class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class BackChannel : std::uint8_t { kNone, kOnThisConnection };

class NfsClient {
 public:
  struct Opened {
    nfs41::nfs_fh4 handle;
    nfs41::stateid4 stateid;
    nfs41::open_delegation4 delegation;
  };

  // Connects. `name` is in the client's owner, so that no two clients of a server may share it, and
  // in messages.
  NfsClient(Loop& loop, std::string name, const std::string& url, ClientOptions options,
            BackChannel back_channel);
  NfsClient(const NfsClient&) = delete;
  NfsClient& operator=(const NfsClient&) = delete;

  // EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE. The server has to take the back channel, if
  // there is to be one.
  void begin_session();
  // NFS4ERR_DELAY is an answer, other errors are failures. `access`: OPEN4_SHARE_ACCESS_...
  std::variant<Opened, nfs41::nfsstat4> open(const std::string& path, std::uint32_t access);
  void close(const Opened& opened);
  void return_delegation(const Delegation& delegation);
  // DESTROY_SESSION, DESTROY_CLIENTID.
  void end_session();

  Callbacks& callbacks() noexcept { return callbacks_; }
  std::string_view provider_name() const noexcept { return client_.connection().provider_name; }

 private:
  using Operations = std::vector<nfs41::nfs_argop4>;

  // Within the session, once there is one. NFS4ERR_GRACE is waited for.
  nfs41::COMPOUND4res compound(const std::string& step, const Operations& operations);
  nfs41::COMPOUND4res compound_once(const std::string& step, const Operations& operations);
  // The same where NFS4ERR_DELAY is waited for too, and other errors are failures.
  nfs41::COMPOUND4res succeed(const std::string& step, const Operations& operations);
  [[noreturn]] void fail(const std::string& step, const std::string& why) const;
  [[noreturn]] void fail(const std::string& step, const nfs41::COMPOUND4res& results) const;
  nfs41::nfs_argop4 sequence() const;
  void note_sequence(const std::string& step, const nfs41::COMPOUND4res& results);
  void exchange_id();
  void create_session();

  Loop& loop_;
  std::string name_;
  BackChannel back_channel_;
  Callbacks callbacks_;  // outlives the client that it answers for
  Client client_;
  nfs41::NFS_V4_Client calls_;
  nfs41::clientid4 id_ = 0;
  std::uint32_t create_sequence_ = 0;
  nfs41::sessionid4 session_{};
  bool in_session_ = false;
  std::uint32_t sequence_ = 1;  // of slot 0: the next
};

}  // namespace rpcrdma::interop

#endif  // RPCRDMA_TESTS_INTEROP_NFS41_CLIENT_H_
