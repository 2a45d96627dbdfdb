// An NFSv4.1 server of which back_channel_probe sees no more than it looks at, for its test.
#ifndef RPCRDMA_TESTS_INTEROP_NFS41_FAKE_SERVER_H_
#define RPCRDMA_TESTS_INTEROP_NFS41_FAKE_SERVER_H_

#include <map>
#include <optional>
#include <string>
#include <thread>

#include "nfs41.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace rpcrdma::interop {

// Names what it does otherwise than it should.
enum class Fault : std::uint8_t {
  kNone,
  kNoBackChannel,      // CREATE_SESSION does not accept it
  kNoDelegation,       // OPEN for reading gives none
  kNoRecall,           // OPEN for writing waits for ever
  kNoConflict,         // OPEN for writing does not wait
  kRecallOfAnother,    // CB_RECALL names another file
  kRecallInNoSession,  // CB_RECALL comes without CB_SEQUENCE
  kOldSequence,        // CB_SEQUENCE has a number that does not follow
  kNotFound,           // LOOKUP finds nothing
  kBusyAtFirst,        // the first EXCHANGE_ID is answered with NFS4ERR_DELAY, later ones are not
};

class FakeServer final : public nfs41::NFS_V4_Service {
 public:
  explicit FakeServer(Fault fault);
  ~FakeServer() override;
  std::string url() const { return "rdma://" + std::string(server_.address()); }

  void NFSPROC4_COMPOUND(Answer<nfs41::COMPOUND4res> answer, nfs41::COMPOUND4args args) override;

 private:
  struct Session {
    std::uint32_t next = 1;  // of slot 0
  };
  struct File {
    std::uint32_t opens = 0;
    std::optional<nfs41::stateid4> delegation;
    bool recalled = false;
  };

  nfs41::nfsstat4 execute(const nfs41::nfs_argop4& operation, const CallContext& context,
                          nfs41::nfs_resop4& result);
  void exchange_id(nfs41::EXCHANGE_ID4res& result);
  void create_session(const nfs41::CREATE_SESSION4args& args, const CallContext& context,
                      nfs41::CREATE_SESSION4res& result);
  void sequence(const nfs41::SEQUENCE4args& args, nfs41::SEQUENCE4res& result);
  void open(const nfs41::OPEN4args& args, nfs41::OPEN4res& result);
  nfs41::nfsstat4 return_delegation(const nfs41::stateid4& stateid);
  void recall(const std::string& name, File& file);

  const Fault fault_;
  Server server_;
  bool was_busy_ = false;
  std::uint32_t clients_ = 0;
  std::map<nfs41::sessionid4, Session> sessions_;
  std::map<std::string, File> files_;  // the name is the handle
  std::string current_;
  std::optional<Client> back_;  // to the client that has a back channel
  nfs41::sessionid4 back_session_{};
  std::uint32_t back_sequence_ = 1;
  std::thread thread_;  // goes first
};

}  // namespace rpcrdma::interop

#endif  // RPCRDMA_TESTS_INTEROP_NFS41_FAKE_SERVER_H_
