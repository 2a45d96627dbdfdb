// The second wall: the back end by itself, without the service in front of it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nfs/posix/file_system.h"

namespace nfs::posix {
namespace {

namespace fs = std::filesystem;

struct Unsealed final : HandleMaker {
  nfs3::nfs_fh3 seal(std::span<const std::byte> inner) const override {
    return {{inner.begin(), inner.end()}};
  }
};

// An export, and beside it what nobody may reach. Names lead there, and to nothing that this
// machine has: a fault that is planted does what they say.
class NamesTest : public testing::Test {
 protected:
  NamesTest() {
    std::string name = (fs::temp_directory_path() / "names-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    fs::create_directories(folder_ / "export/directory");
    fs::create_directories(folder_ / "beside/empty");
    std::ofstream(folder_ / "export/file") << "x";
    std::ofstream(folder_ / "beside/file") << "secret";
    std::string why;
    files_ = std::move(*open_directory(folder_ / "export", {}, maker_, why));
    root_.data = files_->root();
  }
  ~NamesTest() override {
    EXPECT_TRUE(files_->stop(std::chrono::steady_clock::now() + std::chrono::hours(1)));
    files_.reset();
    fs::remove_all(folder_);
  }
  // Makes a call as root, and returns its status.
  template <std::uint32_t kNumber>
  nfs3::nfsstat3 call(typename Procedure<kNumber>::Args args) {
    using Results = typename Procedure<kNumber>::Results;
    std::promise<nfs3::nfsstat3> ended;
    files_->start(RequestOf<kNumber>{
        {}, std::move(args), {}, [&ended](Results results) { ended.set_value(results.status()); }});
    return ended.get_future().get();
  }
  std::vector<std::string> beside() const {
    std::vector<std::string> found;
    for (const auto& each : fs::recursive_directory_iterator(folder_ / "beside")) {
      found.push_back(each.path().filename());
    }
    std::ranges::sort(found);
    return found;
  }

  const Unsealed maker_;
  fs::path folder_;
  std::unique_ptr<FileSystem> files_;
  nfs3::nfs_fh3 root_;
};

TEST_F(NamesTest, FindNothingOutsideTheExport) {
  const auto refused = nfs3::nfsstat3::NFS3ERR_NOENT;
  for (const std::string& to : {std::string("../beside/"), folder_.string() + "/beside/",
                                std::string("directory/../../beside/")}) {
    const nfs3::diropargs3 file{root_, to + "file"}, empty{root_, to + "empty"},
        fresh{root_, to + "new"}, own{root_, "file"};
    nfs3::createhow3 how;
    how.set_obj_attributes(nfs3::createmode3::UNCHECKED, {});
    nfs3::mknoddata3 pipe;
    pipe.set_pipe_attributes(nfs3::ftype3::NF3FIFO, {});
    EXPECT_EQ(call<nfs3::NFSPROC3_CREATE>({fresh, how}), refused);
    EXPECT_EQ(call<nfs3::NFSPROC3_MKDIR>({fresh, {}}), refused);
    EXPECT_EQ(call<nfs3::NFSPROC3_SYMLINK>({fresh, {{}, "x"}}), refused);
    EXPECT_EQ(call<nfs3::NFSPROC3_MKNOD>({fresh, pipe}), refused);
    EXPECT_EQ(call<nfs3::NFSPROC3_REMOVE>({file}), refused);
    EXPECT_EQ(call<nfs3::NFSPROC3_RMDIR>({empty}), refused);
    EXPECT_EQ(call<nfs3::NFSPROC3_RENAME>({file, {root_, "taken"}}), refused);
    EXPECT_EQ(call<nfs3::NFSPROC3_RENAME>({own, fresh}), refused);
    EXPECT_NE(call<nfs3::NFSPROC3_LOOKUP>({file}), nfs3::nfsstat3::NFS3_OK);
  }
  EXPECT_EQ(beside(), (std::vector<std::string>{"empty", "file"}));
  EXPECT_TRUE(fs::exists(folder_ / "export/file"));
}

}  // namespace
}  // namespace nfs::posix
