// A server, a client and a directory of this machine, for tests of Copier.
#ifndef RPCRDMA_NFS_CLIENT_COPYING_FOR_TEST_H_
#define RPCRDMA_NFS_CLIENT_COPYING_FOR_TEST_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nfs/client/copier.h"
#include "nfs/served_for_test.h"

namespace nfs {

namespace fs = std::filesystem;

// Returns type, mode, time and content of all below a directory, by their paths.
inline std::map<std::string, std::string> tree(const fs::path& top) {
  std::map<std::string, std::string> all;
  for (const auto& each : fs::recursive_directory_iterator(top)) {
    struct stat status {};
    EXPECT_EQ(::lstat(each.path().c_str(), &status), 0);
    std::string text;
    if (each.is_symlink()) {
      text = "link " + fs::read_symlink(each.path()).string();
    } else {
      text = std::to_string(status.st_mode) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
             std::to_string(status.st_mtim.tv_nsec);
    }
    if (each.is_regular_file() && !each.is_symlink()) {
      text += " " + content_of(each.path());
    }
    all[each.path().lexically_relative(top).string()] = text;
  }
  return all;
}

inline std::string bytes_of(std::size_t size) {
  std::string text(size, '\0');
  std::uint32_t state = 12345;
  for (char& each : text) each = static_cast<char>((state = state * 1664525 + 1013904223) >> 24U);
  return text;
}

inline void age(const fs::path& path, time_t seconds) {
  const timespec times[2] = {{seconds, 111}, {seconds, 123'456'789}};
  EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
}

inline std::string messages(const CopyResult& result) {
  std::string text;
  for (const Failure& each : result.failures) text += each.message() + "\n";
  return text;
}

class Copying : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    served_.emplace();
    std::string name = (fs::temp_directory_path() / "nfs-copier-XXXXXX").string();
    here_ = ::mkdtemp(name.data());
    mount();
  }
  void TearDown() override {
    if (!here_.empty()) remove_tree(here_);
  }

  void mount(std::uint16_t mount_port = 0) {
    MountOptions options;
    options.mount_port = mount_port;
    options.client.provider.name = "siwarp";
    options.credential.emplace().machine_name = "test";
    options.client.reconnect.enabled = may_reconnect_;
    auto opened = Mounted::open(parse_nfs_url(served_->url(GetParam(), "/data")).value(), options);
    ASSERT_TRUE(opened) << opened.error().message();
    server_ = std::move(*opened);
  }
  void write(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    std::ofstream(here_ / name, std::ios::binary) << content;
    EXPECT_EQ(::chmod((here_ / name).c_str(), mode), 0);
    age(here_ / name, 1'000'000'000);
  }
  void make_tree() const {
    fs::create_directories(here_ / "tree/deep/er/est");
    fs::create_directory(here_ / "tree/empty");
    write("tree/-r", "dash");
    write("tree/two\nlines \xe9\xff*", "odd");
    write("tree/none", "");
    write("tree/big", bytes_of((5 << 20) + 3), 0640);
    write("tree/deep/script", "#!/bin/sh\n", 0755);
    for (int i = 0; i < 60; ++i) {
      write("tree/deep/er/file" + std::to_string(i), bytes_of(static_cast<std::size_t>(i) * 997));
    }
    fs::create_symlink("../big", here_ / "tree/deep/link");
    fs::create_symlink("/nowhere at all", here_ / "tree/dangling");
    for (const char* each : {"tree/deep/er/est", "tree/deep/er", "tree/deep", "tree/empty"}) {
      age(here_ / each, 900'000'000);
    }
    EXPECT_EQ(::chmod((here_ / "tree/deep/er").c_str(), 0500), 0);
    EXPECT_EQ(::chmod((here_ / "tree/empty").c_str(), 01777), 0);
  }
  CopyResult up(const std::string& source, const std::string& target, CopyOptions options = {}) {
    return Copier(*server_, std::move(options)).upload({(here_ / source).string()}, target);
  }
  CopyResult down(const std::string& source, const std::string& target, CopyOptions options = {}) {
    return Copier(*server_, std::move(options)).download({source}, (here_ / target).string());
  }

  bool may_reconnect_ = true;
  std::optional<Served> served_;
  fs::path here_;
  std::unique_ptr<Mounted> server_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_COPYING_FOR_TEST_H_
