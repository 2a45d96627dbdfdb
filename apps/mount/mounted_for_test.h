// A client of a mounted export without FUSE, which runs one operation at a time.
#ifndef RPCRDMA_MOUNT_MOUNTED_FOR_TEST_H_
#define RPCRDMA_MOUNT_MOUNTED_FOR_TEST_H_

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mount/attribute_operations.h"
#include "mount/directory_operations.h"
#include "mount/file_operations.h"
#include "mount/name_operations.h"
#include "mount/tree.h"
#include "nfs/served_for_test.h"

namespace mounts {

class BytesForTest final : public ReadSink {
 public:
  void give(std::span<const rpcrdma::Bytes> pieces) override {
    for (const rpcrdma::Bytes each : pieces) {
      text.append(reinterpret_cast<const char*>(each.data()), each.size());
    }
  }
  std::string text;
};

class NamesForTest final : public NameSink {
 public:
  explicit NamesForTest(std::size_t most = SIZE_MAX) : most_(most) {}
  bool has_room_for(const DirectoryReader::Entry& /*entry*/) const override {
    return names.size() < most_;
  }
  bool add(const DirectoryReader::Entry& entry, Entry node) override {
    names.push_back(entry.name);
    last = entry.cookie;
    if (node.node) with_nodes.push_back(entry.name);
    return true;
  }
  std::vector<std::string> names, with_nodes;
  std::uint64_t last = 0;

 private:
  std::size_t most_;
};

// A client with its own caches.
class MountForTest {
 public:
  // `calls_max`: of a connection.
  explicit MountForTest(const std::string& url, const TreeOptions& options = {},
                        std::uint32_t calls_max = 128,
                        std::chrono::nanoseconds patience = std::chrono::seconds(60)) {
    nfs::MountOptions mounting;
    mounting.client.call_timeout = patience;
    mounting.client.calls_max = calls_max;
    mounting.client.provider.name = "siwarp";
    mounting.credential.emplace().machine_name = "test";
    mounting.client.reconnect.enabled = true;
    server = nfs::Mounted::open(nfs::parse_nfs_url(url).value(), mounting).value();
    tree.emplace(*server, turns, options);
    names.emplace(*tree);
    files.emplace(*tree, *names);
    attributes.emplace(*tree, files->writes());
    directories.emplace(*tree);
    tree->buffers().on_return([this] { files->buffer_returned(); });
    EXPECT_TRUE(run(tree->begin()));
  }
  ~MountForTest() { (void)run(files->end_all()); }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    turns.run({&server->connections()}, keep(std::move(task), result));
    return std::move(*result);
  }
  // One turn of all tasks that were begun.
  void progress() {
    turns.resume_ready();
    server->connections().progress();
  }
  void run(Task<void> task) { turns.run({&server->connections()}, std::move(task)); }
  template <class T>
  static Task<void> keep(Task<T> task, std::optional<T>& into) {
    into.emplace(co_await std::move(task));
  }

  // The kernel took the reply.
  void show(const Entry& entry) { tree->note_shown(*entry.node, entry.version); }
  Hold root() { return tree->nodes().find(kRootNode); }
  Hold look_up(const std::string& name) {
    auto found = run(names->look_up(root(), name, {}));
    EXPECT_TRUE(found) << name;
    if (!found || !found->node) return {};
    return std::move(found->node);
  }
  FileOperations::FileId create(const std::string& name) {
    auto made = run(names->create(root(), name, 0644, true, {}));
    EXPECT_TRUE(made) << name;
    const NodeId id = made->entry.node->id;
    return files->open_made(tree->nodes().find(id), {}).id;
  }
  FileOperations::Opened open(const std::string& name, int flags = O_RDONLY) {
    auto opened = run(files->open(look_up(name), flags, {}));
    EXPECT_TRUE(opened) << name;
    return opened ? *opened : FileOperations::Opened();
  }
  int write(FileOperations::FileId file, std::uint64_t offset, std::string_view text) {
    Buffer buffer = tree->buffers().take();
    std::ranges::copy(nfs::bytes_of(text), buffer.memory().begin());
    const auto done = run(files->write(file, offset, buffer, 0, text.size()));
    return done ? 0 : done.error();
  }
  std::string read(FileOperations::FileId file, std::uint64_t offset, std::size_t size) {
    BytesForTest sink;
    const auto done = run(files->read(file, offset, size, sink));
    EXPECT_TRUE(done) << done.error();
    return sink.text;
  }
  int flush(const std::string& name) {
    const auto done = run(files->writes().flush(look_up(name)));
    return done ? 0 : done.error();
  }
  std::uint64_t size(const std::string& name) {
    const auto shown = run(attributes->get(look_up(name), {}));
    EXPECT_TRUE(shown);
    return shown->attributes.size;
  }

  nfs::Turns turns;
  std::unique_ptr<nfs::Mounted> server;
  std::optional<Tree> tree;
  std::optional<NameOperations> names;
  std::optional<FileOperations> files;
  std::optional<AttributeOperations> attributes;
  std::optional<DirectoryOperations> directories;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_MOUNTED_FOR_TEST_H_
