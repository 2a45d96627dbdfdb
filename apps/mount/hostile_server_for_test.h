// A server that answers as a test says, and a client of it.
#ifndef RPCRDMA_MOUNT_HOSTILE_SERVER_FOR_TEST_H_
#define RPCRDMA_MOUNT_HOSTILE_SERVER_FOR_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mount/mounted_for_test.h"
#include "mount3.h"
#include "nfs/exporter.h"
#include "nfs3.h"
#include "rpcrdma/server.h"

namespace mounts {

using nfs3::ftype3;

inline nfs3::nfs_fh3 handle_of(unsigned number) {
  return {{std::byte{1}, static_cast<std::byte>(number)}};
}

inline nfs3::fattr3 attributes_of(ftype3 type, std::uint64_t fileid) {
  nfs3::fattr3 made;
  made.type = type;
  made.mode = 0777;
  made.nlink = 1;
  made.fileid = fileid;
  made.fsid = 1;
  return made;
}

class Exports : public mount3::MOUNT_V3_Service {
 public:
  void MOUNTPROC3_EXPORT(rpcrdma::Answer<mount3::exports> answer) override {
    answer.succeed({{"/data", {}}});
  }
  void MOUNTPROC3_MNT(rpcrdma::Answer<mount3::mountres3> answer,
                      mount3::dirpath /*path*/) override {
    mount3::mountres3 results;
    results.set_mountinfo().fhandle = handle_of(0).data;
    answer.succeed(results);
  }
};

// Answers as a test says; what a test does not say is unknown to the server.
class Liar : public nfs3::NFS_V3_Service {
 public:
  // The limits of the .x file are above those of a server.
  std::span<const rpcrdma::ProcedureTraits> all_traits() const noexcept override { return {}; }

  void NFSPROC3_FSINFO(rpcrdma::Answer<nfs3::FSINFO3res> answer,
                       nfs3::FSINFO3args /*args*/) override {
    nfs3::FSINFO3res results;
    nfs3::FSINFO3resok& ok = results.set_resok();
    ok.rtmax = ok.rtpref = ok.wtmax = ok.wtpref = 1U << 20U;
    answer.succeed(results);
  }
  void NFSPROC3_GETATTR(rpcrdma::Answer<nfs3::GETATTR3res> answer,
                        nfs3::GETATTR3args args) override {
    nfs3::GETATTR3res results;
    results.set_resok().obj_attributes =
        attributes ? attributes(args.object) : attributes_of(ftype3::NF3DIR, 1);
    if (std::exchange(holds_attributes, false)) {
      held_attributes.emplace(std::move(answer), results);
      return;
    }
    answer.succeed(results);
    if (held_attributes) held_attributes->first.succeed(held_attributes->second);
    held_attributes.reset();
    answer_held_lookup();
    nfs3::SETATTR3res changed;
    changed.set_resfail(nfs3::nfsstat3::NFS3ERR_NOT_SYNC);
    for (auto& each : held_changes) each.succeed(changed);
    held_changes.clear();
  }
  void NFSPROC3_LOOKUP(rpcrdma::Answer<nfs3::LOOKUP3res> answer, nfs3::LOOKUP3args args) override {
    if (!known_name.empty() && args.what.name == known_name) {
      nfs3::LOOKUP3res results;
      nfs3::LOOKUP3resok& ok = results.set_resok();
      ok.object = known;
      ok.obj_attributes.set_attributes(known_attributes);
      return answer.succeed(results);
    }
    if (holds_lookup) {
      held_lookup.emplace(std::move(answer));
      return;
    }
    answer_lookup(answer);
  }
  void answer_lookup(rpcrdma::Answer<nfs3::LOOKUP3res>& answer) {
    nfs3::LOOKUP3res results;
    if (!is_found) {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_NOENT);
      return answer.succeed(results);
    }
    nfs3::LOOKUP3resok& ok = results.set_resok();
    if (has_new_files) found = handle_of(0), found.data.resize(6), set_number(++last_number);
    ok.object = found;
    ok.obj_attributes.set_attributes(found_attributes);
    answer.succeed(results);
  }
  void NFSPROC3_MKDIR(rpcrdma::Answer<nfs3::MKDIR3res> answer, nfs3::MKDIR3args /*args*/) override {
    nfs3::MKDIR3res results;
    nfs3::MKDIR3resok& ok = results.set_resok();
    ok.obj.set_handle(found);
    ok.obj_attributes.set_attributes(found_attributes);
    ok.dir_wcc.before.set_attributes({});
    ok.dir_wcc.after.set_attributes(directory_after);
    answer.succeed(results);
  }
  // Answers this, and then the lookup that came before.
  void NFSPROC3_RMDIR(rpcrdma::Answer<nfs3::RMDIR3res> answer, nfs3::RMDIR3args /*args*/) override {
    nfs3::RMDIR3res results;
    nfs3::wcc_data& change = results.set_resok().dir_wcc;
    change.before.set_attributes({});
    change.after.set_attributes(directory_after);
    answer.succeed(results);
    answer_held_lookup();
  }
  void answer_held_lookup() {
    if (held_lookup) answer_lookup(*held_lookup);
    held_lookup.reset();
  }
  void NFSPROC3_SETATTR(rpcrdma::Answer<nfs3::SETATTR3res> answer,
                        nfs3::SETATTR3args args) override {
    const nfs3::nfstime3* const guard = args.guard.obj_ctime();
    const auto caller = rpcrdma::parse_auth_sys(answer.context().credential().body);
    changers.push_back(caller ? caller->uid : UINT32_MAX);
    guards.push_back(guard != nullptr ? guard->seconds : UINT32_MAX);
    if (holds_changes) return held_changes.push_back(std::move(answer));
    nfs3::SETATTR3res results;
    if (guards.back() != changed_at) {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_NOT_SYNC);
    } else {
      nfs3::wcc_data& change = results.set_resok().obj_wcc;
      if (after_change) change.after.set_attributes(*after_change);
    }
    answer.succeed(results);
    if (held_access) held_access->first.succeed(held_access->second);
    held_access.reset();
  }
  void NFSPROC3_RENAME(rpcrdma::Answer<nfs3::RENAME3res> answer, nfs3::RENAME3args args) override {
    renamed.emplace_back(args.to.name);
    if (renamed.size() == held_rename) {
      held_answer.emplace(std::move(answer));
      return;
    }
    nfs3::RENAME3res results;
    if (renamed.size() >= failing_rename) {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_IO);
    } else {
      results.set_resok();
    }
    answer.succeed(results);
    held_answer.reset();
  }
  void NFSPROC3_LINK(rpcrdma::Answer<nfs3::LINK3res> answer, nfs3::LINK3args args) override {
    nfs3::LINK3res results;
    if (makes_links) {
      linked.emplace_back(args.link.name);
      if (linked.size() <= silent_links) {
        held_link.emplace(std::move(answer));
        return;
      }
      results.set_resok();
    } else {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_NOTSUPP);
    }
    answer.succeed(results);
  }
  void NFSPROC3_REMOVE(rpcrdma::Answer<nfs3::REMOVE3res> answer, nfs3::REMOVE3args args) override {
    removed.emplace_back(args.object.name);
    const auto caller = rpcrdma::parse_auth_sys(answer.context().credential().body);
    removers.push_back(caller ? caller->uid : UINT32_MAX);
    if (removed.size() <= silent_removals) return silent.push_back(std::move(answer));
    nfs3::REMOVE3res results;
    results.set_resok();
    answer.succeed(results);
  }
  void NFSPROC3_CREATE(rpcrdma::Answer<nfs3::CREATE3res> answer, nfs3::CREATE3args args) override {
    nfs3::CREATE3res results;
    modes.push_back(args.how.mode());
    if (!has_exclusive && modes.back() == nfs3::createmode3::EXCLUSIVE) {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_NOTSUPP);
      return answer.succeed(results);
    }
    if (is_there) {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_EXIST);
      return answer.succeed(results);
    }
    nfs3::CREATE3resok& ok = results.set_resok();
    ok.obj.set_handle(found);
    ok.obj_attributes.set_attributes(found_attributes);
    answer.succeed(results);
  }
  void NFSPROC3_ACCESS(rpcrdma::Answer<nfs3::ACCESS3res> answer, nfs3::ACCESS3args args) override {
    nfs3::ACCESS3res results;
    nfs3::ACCESS3resok& ok = results.set_resok();
    ok.access = args.access & ~denied;
    ok.obj_attributes.set_attributes(found_attributes);
    if (std::exchange(holds_access, false)) {
      held_access.emplace(std::move(answer), results);
      return;
    }
    answer.succeed(results);
  }
  void NFSPROC3_READLINK(rpcrdma::Answer<nfs3::READLINK3res> answer,
                         nfs3::READLINK3args /*args*/) override {
    nfs3::READLINK3res results;
    results.set_resok().data = target;
    answer.succeed(results);
  }
  void NFSPROC3_READDIRPLUS(rpcrdma::Answer<nfs3::READDIRPLUS3res> answer,
                            nfs3::READDIRPLUS3args args) override {
    nfs3::READDIRPLUS3res results;
    list(args.cookie, results.set_resok());
    answer.succeed(results);
  }
  void NFSPROC3_READ(rpcrdma::Answer<nfs3::READ3res> answer, nfs3::READ3args args) override {
    nfs3::READ3res results;
    if (is_busy) {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_JUKEBOX);
      return answer.succeed(results);
    }
    if (content) {
      read_from.push_back(args.offset);
      const auto begin =
          static_cast<std::size_t>(std::min<std::uint64_t>(args.offset, content->size()));
      const auto part = std::string_view(*content).substr(begin, args.count);
      nfs3::READ3resok& ok = results.set_resok();
      ok.count = static_cast<std::uint32_t>(part.size());
      ok.data = nfs::bytes_of(part);
      ok.eof = begin + part.size() == content->size();
      return answer.succeed(results);
    }
    if (reads_left && (*reads_left)-- == 0) {
      results.set_resfail(nfs3::nfsstat3::NFS3ERR_IO);
      return answer.succeed(results);
    }
    nfs3::READ3resok& ok = results.set_resok();
    ok.count = static_cast<std::uint32_t>(bytes.size());
    ok.data = nfs::bytes_of(bytes);
    ok.eof = !reads_left;
    answer.succeed(results);
  }
  void NFSPROC3_WRITE(rpcrdma::Answer<nfs3::WRITE3res> answer, nfs3::WRITE3args args) override {
    if (args.file.data == hanging.data) return held_writes.push_back(std::move(answer));
    for (const auto end = Clock::now() + time_of_write; Clock::now() < end;) {
      std::this_thread::yield();
    }
    const auto caller = rpcrdma::parse_auth_sys(answer.context().credential().body);
    writers.push_back(caller ? caller->uid : UINT32_MAX);
    nfs3::WRITE3res results;
    nfs3::WRITE3resok& ok = results.set_resok();
    ok.count = args.count;
    if (after_change) ok.file_wcc.after.set_attributes(*after_change);
    ok.verf[0] = static_cast<std::byte>(is_honest ? verifier : ++verifier);
    answer.succeed(results);
  }
  void NFSPROC3_COMMIT(rpcrdma::Answer<nfs3::COMMIT3res> answer,
                       nfs3::COMMIT3args /*args*/) override {
    if (++commits <= silent_commits) return held_commits.push_back(std::move(answer));
    nfs3::COMMIT3res results;
    results.set_resok().verf[0] = static_cast<std::byte>(is_honest ? verifier : ++verifier);
    answer.succeed(results);
    // As from before a restart, by which the bytes would go again.
    results.set_resok().verf[0] = static_cast<std::byte>(verifier + 1);
    for (auto& each : held_commits) each.succeed(results);
    held_commits.clear();
  }

  void set_number(std::uint32_t number) {
    std::memcpy(found.data.data() + 2, &number, sizeof(number));
    found_attributes.fileid = 100 + number;
  }

  std::function<nfs3::fattr3(const nfs3::nfs_fh3&)> attributes;
  bool has_exclusive = true, is_there = false;  // as CREATE finds it
  std::vector<nfs3::createmode3> modes;         // that CREATE came with
  // The next GETATTR is answered behind the one that follows, with the attributes of before.
  bool holds_attributes = false;
  std::optional<std::pair<rpcrdma::Answer<nfs3::GETATTR3res>, nfs3::GETATTR3res>> held_attributes;
  bool holds_access = false;  // the next ACCESS is answered behind the SETATTR that follows
  std::optional<std::pair<rpcrdma::Answer<nfs3::ACCESS3res>, nfs3::ACCESS3res>> held_access;
  bool holds_lookup = false;
  bool is_found = true;  // lookups find their names
  std::optional<rpcrdma::Answer<nfs3::LOOKUP3res>> held_lookup;
  bool has_new_files = false;  // each lookup finds another one, but for that of this name
  std::string known_name;
  nfs3::nfs_fh3 known;
  nfs3::fattr3 known_attributes;
  std::uint32_t last_number = 0;
  std::optional<nfs3::fattr3> after_change;  // as SETATTR and WRITE show the file
  nfs3::fattr3 directory_after = attributes_of(ftype3::NF3DIR, 1);  // as MKDIR and RMDIR show it
  std::uint32_t changed_at = 0;         // seconds of the ctime of the file
  std::vector<std::uint32_t> guards;    // that SETATTR came with
  std::vector<std::uint32_t> changers;  // the users of these
  bool holds_changes = false;           // SETATTR is refused behind the next GETATTR
  std::vector<rpcrdma::Answer<nfs3::SETATTR3res>> held_changes;
  nfs3::nfs_fh3 found = handle_of(7);
  nfs3::fattr3 found_attributes = attributes_of(ftype3::NF3REG, 7);
  std::string target, bytes;
  bool is_busy = false;                  // READ is to be tried again later
  std::optional<std::string> content;    // of all files, in place of bytes that READ always has
  std::vector<std::uint64_t> read_from;  // offsets in it
  std::function<void(nfs3::cookie3, nfs3::READDIRPLUS3resok&)> list;
  std::optional<unsigned> reads_left;  // before one fails; none of them is of the file's end
  std::chrono::milliseconds time_of_write{0};  // that the server's one thread takes
  std::vector<std::uint32_t> writers;          // the users whose bytes came
  nfs3::nfs_fh3 hanging;                       // no WRITE to this file is answered
  std::vector<rpcrdma::Answer<nfs3::WRITE3res>> held_writes;
  std::size_t commits = 0, silent_commits = 0;  // the first ones are answered behind the next
  std::vector<rpcrdma::Answer<nfs3::COMMIT3res>> held_commits;
  unsigned verifier = 0;
  bool is_honest = false;
  std::vector<std::string> renamed, linked, removed;  // new names, and those that went
  std::vector<std::uint32_t> removers;                // their users
  bool makes_links = false;
  std::uint32_t denied = 0;                           // of what ACCESS is asked
  std::size_t silent_removals = 0, silent_links = 0;  // that are not answered
  std::optional<rpcrdma::Answer<nfs3::LINK3res>> held_link;
  std::vector<rpcrdma::Answer<nfs3::REMOVE3res>> silent;
  // The numbers of the first rename that fails, and of one that is not answered.
  std::size_t failing_rename = SIZE_MAX, held_rename = SIZE_MAX;
  std::optional<rpcrdma::Answer<nfs3::RENAME3res>> held_answer;
};

class Lied : public testing::Test {
 protected:
  void SetUp() override {
    rpcrdma::ServerOptions settings;
    settings.provider.name = "siwarp";
    nfs::Exporter::make_room_in(settings);
    auto server = rpcrdma::Server::listen("rdma://127.0.0.1:0", settings);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    ASSERT_TRUE(server_->add(nfs3::NFS_PROGRAM, nfs3::NFS_V3, liar_));
    ASSERT_TRUE(server_->add(mount3::MOUNT_PROGRAM, mount3::MOUNT_V3, exports_));
    thread_ = std::thread([this] { server_->run(); });
    mount_ = std::make_unique<MountForTest>(url());
  }
  std::string url() const { return "nfs+rdma://" + std::string(server_->address()) + "/data"; }
  void TearDown() override {
    liar_.is_honest = true;
    mount_.reset();
    // Calls without an answer would keep the server.
    liar_.silent.clear();
    liar_.held_writes.clear();
    liar_.held_commits.clear();
    liar_.held_changes.clear();
    liar_.held_answer.reset();
    liar_.held_link.reset();
    liar_.held_attributes.reset();
    liar_.held_access.reset();
    server_->stop();
    thread_.join();
  }
  int looked_up() {
    const auto found = mount_->run(mount_->names->look_up(mount_->root(), "name", {}));
    return found ? 0 : found.error();
  }
  Outcome<void> listed(std::size_t most = 100'000) {
    const auto id = mount_->directories->open(mount_->root());
    std::uint64_t offset = 0;
    Outcome<void> last;
    for (std::size_t count = 0; count < most;) {
      NamesForTest some(50);
      last = mount_->run(mount_->directories->read(id, offset, true, some, {}));
      if (!last || some.names.empty()) break;
      count += some.names.size();
      offset = some.last;
    }
    mount_->directories->release(id);
    return last;
  }

  Liar liar_;
  Exports exports_;
  std::optional<rpcrdma::Server> server_;
  std::thread thread_;
  std::unique_ptr<MountForTest> mount_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_HOSTILE_SERVER_FOR_TEST_H_
