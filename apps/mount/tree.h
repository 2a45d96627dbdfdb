// The parts that the operations on a mounted export share: calls, nodes, buffers, options, counts.
//
// Everything is on one thread, that of the connections. An operation is a coroutine, which may hold
// nodes, and never a pointer to one without a hold, while it waits.
#ifndef RPCRDMA_MOUNT_TREE_H_
#define RPCRDMA_MOUNT_TREE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "mount/attribute_cache.h"
#include "mount/buffer_pool.h"
#include "mount/errors.h"
#include "mount/node_table.h"
#include "mount/read_ahead.h"
#include "nfs/client/connections.h"
#include "nfs/client/file_calls.h"
#include "nfs/client/mounted.h"
#include "nfs/client/turns.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/oncrpc.h"

namespace mounts {

using rpcrdma::Task;
using Hold = NodeTable::Hold;

inline constexpr std::size_t kTransferMax = 1U << 20U;  // of one request of the kernel, bytes

struct TreeOptions {
  TimeOuts time_outs{};
  std::size_t memory = 128U << 20U;              // for bytes that are read and written, at most
  std::size_t nodes_max = NodeTable::kNodesMax;  // files and directories in mind, at most
  std::uint32_t read_size = kTransferMax, write_size = kTransferMax;  // of a call, at most
  bool asks_at_open = true;                                           // false: as `nocto` of nfs(5)
  Clock::duration new_directory_life = NewDirectory::kLife;
};

struct Statistics {
  std::uint64_t attributes_cached = 0, attributes_asked = 0;
  std::uint64_t names_cached = 0, names_asked = 0;
  std::uint64_t bytes_read_ahead = 0, bytes_in_vain = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;  // by programs
  std::uint64_t bytes_written_twice = 0;
  std::uint64_t commits = 0;
  std::uint64_t names_forgotten = 0;  // which the kernel was asked for
};

// A program's user, for calls that are made in its name.
struct Who {
  std::uint32_t uid = 0;
  // Null: the connections' own.
  const rpcrdma::AuthSys* credential = nullptr;
  Time deadline = Time::max();  // of the request, for all its calls
  int thread = 0;               // of the program; 0: it has no number here
  nfs::CallAs as(bool* was_repeated = nullptr) const {
    return {
        .route = {}, .credential = credential, .was_repeated = was_repeated, .deadline = deadline};
  }
};

// A name's file for the kernel, which has it once Tree::note_shown() says so.
struct Entry {
  Hold node;  // empty: there is none of the name, which may be remembered for `left`
  nfs3::fattr3 attributes{};
  std::uint64_t version = 0;  // of these attributes
  Clock::duration attributes_left{}, left{};
};

// A file that programs have opened.
struct OpenFile {
  OpenFile(Hold of, std::uint64_t block_size, std::uint32_t blocks_max)
      : node(std::move(of)), ahead(block_size, blocks_max) {}

  Hold node;
  ReadAhead ahead;
  std::optional<rpcrdma::AuthSys> credential;  // of the program that opened it
  std::uint32_t uid = 0;
  std::uint64_t reads_under_way = 0;  // of blocks
  std::uint64_t errors_reported = 0;  // of the file's writes
  bool may_write = true;
  bool is_closed = false;

  Who who() const { return {uid, credential ? &*credential : nullptr}; }
};

class Tree {
 public:
  // The server and the turns outlive the tree.
  Tree(nfs::Mounted& server, nfs::Turns& turns, const TreeOptions& options);
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  nfs::FileCalls& calls() noexcept { return calls_; }
  nfs::Turns& turns() noexcept { return turns_; }
  NodeTable& nodes() noexcept { return nodes_; }
  NameCache& names() noexcept { return names_; }
  // A directory that this user has just made has no names yet; its MKDIR began at `begun`.
  void note_empty(Node& directory, Who who, Time begun);
  // It may get this name, from before the call that makes it on.
  void note_possible(Node& directory, std::string_view name);
  // Returns for how long there is certainly no such name; zero: it may exist.
  Clock::duration certain_lack(Node& directory, std::string_view name, Who who);
  BufferPool& buffers() noexcept { return buffers_; }
  Statistics& statistics() noexcept { return statistics_; }
  const TreeOptions& options() const noexcept { return options_; }
  nfs::Mounted& server() noexcept { return server_; }
  std::uint32_t read_size() const noexcept {
    return std::min(options_.read_size, server_.read_size());
  }
  std::uint32_t write_size() const noexcept {
    return std::min(options_.write_size, server_.write_size());
  }
  static Time now() { return Clock::now(); }

  // Makes the root's node, of the directory that the URL names. Everything else comes later.
  Task<Outcome<void>> begin();

  struct Asked {
    nfs3::fattr3 attributes;
    std::uint64_t version;  // of these attributes; kNoVersion if newer ones may be on their way
  };
  // Asks the server. An answer that a change of ours or a later call may have overtaken is not
  // kept: then the result is what came meanwhile, if that is fresh.
  Task<Outcome<Asked>> ask_attributes(Node& node, Who who);
  // Waits until the server has what programs have written so far.
  static Task<void> wait_until_written(Hold node);
  // Returns errno's value of a refusal. A handle that is stale is of no node any more.
  int refusal(Node& node, nfs3::nfsstat3 status);
  // Takes attributes of a reply, if there are any. Returns false for those of another file.
  bool note(Node& node, const nfs3::post_op_attr& attributes, AttributeCache::Point begun);
  bool note(Node& node, const nfs3::fattr3& attributes, AttributeCache::Point begun);

  // Makes the entry of a node that was found under this name. `is_current` is false if a change of
  // ours may have taken the name away since then.
  Entry entry_of(Hold node, Node& parent, std::string_view name, const nfs3::fattr3& attributes,
                 bool is_current);
  // The kernel took a reply with this node, and counts it as a lookup; it has the node's attributes
  // of this version.
  void note_shown(Node& node, std::uint64_t version);
  // Waits a while for the kernel to forget nodes, if there is no room for another. Returns 0, or
  // the error to answer with: ENFILE, or once for each thread ESTALE.
  Task<int> wait_for_room(Who who);

 private:
  void drop_expired();

  nfs::Mounted& server_;
  nfs::Turns& turns_;
  const TreeOptions options_;
  nfs::FileCalls calls_;
  Statistics statistics_;
  BufferPool buffers_;  // behind nodes and files in time: these have some of them
  nfs::Connections::Memory registered_;
  std::size_t names_of_new_ = 0;  // of NewDirectory, which nodes have
  std::deque<NodeId> made_here_;  // nodes that may have one
  NodeTable nodes_;
  NameCache names_;
  std::set<int> sent_back_;  // threads that got ESTALE for want of room
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_TREE_H_
