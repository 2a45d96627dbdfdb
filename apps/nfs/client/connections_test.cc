#include "nfs/client/connections.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "nfs/client/copier.h"
#include "nfs/client/mounted.h"
#include "nfs/relay_for_test.h"
#include "nfs/served_for_test.h"

namespace nfs {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Mounting : public testing::TestWithParam<std::string> {
 protected:
  Mounting() {
    std::string name = (fs::temp_directory_path() / "nfs-several-XXXXXX").string();
    here_ = ::mkdtemp(name.data());
  }
  ~Mounting() override { remove_tree(here_); }

  NfsUrl url_of(const std::vector<std::string>& addresses) const {
    std::string text = "nfs+" + GetParam() + "://";
    for (const std::string& each : addresses) text += (&each == &addresses[0] ? "" : ",") + each;
    return parse_nfs_url(text + "/data").value();
  }
  std::string first() const { return first_.address(GetParam()); }
  Result<std::unique_ptr<Mounted>> open(const std::vector<std::string>& addresses,
                                        std::uint32_t connections = 1,
                                        std::chrono::seconds patience = std::chrono::seconds(60)) {
    MountOptions options;
    options.client.provider.name = "siwarp";
    const std::string name(100, 'm');  // gone when connections are made again
    options.credential.emplace().machine_name = name;
    options.client.reconnect.enabled = true;
    options.client.call_timeout = patience;
    options.connections = connections;
    return Mounted::open(url_of(addresses), options);
  }
  // Until both servers can be called.
  static void wait_for_all(Mounted& server, std::size_t count) {
    const auto deadline = Connections::Clock::now() + std::chrono::seconds(60);
    while (server.connections().up_count() < count) {
      ASSERT_LT(Connections::Clock::now(), deadline);
      server.connections().wait(deadline);
      server.connections().progress();
    }
  }
  void write_files(int count, std::size_t size) const {
    fs::create_directory(here_ / "tree");
    for (int i = 0; i < count; ++i) {
      std::ofstream(here_ / "tree" / std::to_string(i))
          << std::string(size, static_cast<char>('a' + i % 26));
    }
  }
  static std::map<std::string, std::string> content(const fs::path& folder) {
    std::map<std::string, std::string> all;
    for (const auto& each : fs::directory_iterator(folder)) {
      all[each.path().filename()] = content_of(each.path());
    }
    return all;
  }
  static std::string messages(const CopyResult& result) {
    std::string text;
    for (const Failure& each : result.failures) text += each.message() + "\n";
    return text;
  }

  Served first_;
  fs::path here_;
};

class OverSeveral : public Mounting {
 protected:
  void SetUp() override {
    if (!first_.has_handles_for_all()) {
      GTEST_SKIP() << "two servers of one directory need handles of the kernel, and so root";
    }
    second_.emplace(first_, Served::Key::kSame);
  }
  std::string second() const { return second_->address(GetParam()); }

  std::optional<Served> second_;  // of the same directory
};
INSTANTIATE_TEST_SUITE_P(Over, OverSeveral, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(OverSeveral, FilesGoOverAllServers) {
  write_files(60, 3000);
  const auto server = open({first(), second()}).value();
  wait_for_all(*server, 2);
  const auto ended = Copier(*server, {.recursive = true, .keep = true, .verify = true})
                         .upload({here_ / "tree"}, "");
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(ended.rewritten, 0U);
  EXPECT_EQ(content(first_.path("tree")), content(here_ / "tree"));
  // Each file takes five calls at least: CREATE, WRITE, COMMIT, READ, SETATTR.
  first_.end();  // its thread has the counters until then
  second_->end();
  EXPECT_GE(first_.calls_served(), 150U);
  EXPECT_GE(second_->calls_served(), 150U);
}

TEST_P(OverSeveral, AServerThatEndsIsReplacedByTheOther) {
  write_files(40, 200'000);
  const auto server = open({first(), second()}).value();
  wait_for_all(*server, 2);
  for (const bool is_first_one : {true, false}) {
    Served& ending = is_first_one ? first_ : *second_;
    bool has_ended = false;
    CopyOptions options{.recursive = true, .verify = true, .buffers = 4};
    options.progress = [&](const CopyProgress& now) {
      if (now.files > 5 && !std::exchange(has_ended, true)) ending.end();
    };
    const std::string target = is_first_one ? "one" : "two";
    const auto up = Copier(*server, options).upload({here_ / "tree"}, target);
    EXPECT_TRUE(has_ended);
    EXPECT_EQ(messages(up), "");
    EXPECT_EQ(content(first_.path(target)), content(here_ / "tree"));
    options.progress = nullptr;
    const auto down = Copier(*server, options).download({target}, here_ / target);
    EXPECT_EQ(messages(down), "");
    EXPECT_EQ(content(here_ / target), content(here_ / "tree"));
    ending.begin();
    wait_for_all(*server, 2);
  }
}

TEST_P(OverSeveral, TheFirstThatIsThereIsEnough) {
  const std::string gone = first();
  first_.end();
  const auto server = open({gone, second()});
  ASSERT_TRUE(server) << server.error().message();
  const auto found = (*server)->wait_for((*server)->look_up_path(""));
  EXPECT_TRUE(found) << found.error().message();
  first_.begin();
  wait_for_all(**server, 2);
}

TEST_P(OverSeveral, NobodyThereIsSaidAfterTheTimeOfACall) {
  const auto server = open({first(), second()}, 1, std::chrono::seconds(1)).value();
  first_.end();
  second_->end();
  const auto begin = Connections::Clock::now();
  const auto found = server->wait_for(server->attributes(server->root()));
  ASSERT_FALSE(found);
  ASSERT_TRUE(found.error().error);
  EXPECT_LT(Connections::Clock::now() - begin, std::chrono::seconds(30));
  EXPECT_FALSE(server->connections().is_any_up());
}

TEST_P(OverSeveral, AServerWithAnotherKeyIsNotUsed) {
  const Served stranger(first_, Served::Key::kOwn);
  const auto server = open({first(), stranger.address(GetParam())}).value();
  const auto deadline = Connections::Clock::now() + std::chrono::seconds(60);
  while (server->connections().last_error().cause.empty()) {
    ASSERT_LT(Connections::Clock::now(), deadline);
    server->connections().wait(deadline);
    server->connections().progress();
  }
  EXPECT_THAT(server->connections().last_error().message(), HasSubstr("handle key"));
  EXPECT_EQ(server->connections().up_count(), 1U);
  write_files(20, 10);
  const auto ended = Copier(*server, {.recursive = true}).upload({here_ / "tree"}, "");
  EXPECT_EQ(messages(ended), "");
}

class OverOne : public Mounting {};
INSTANTIATE_TEST_SUITE_P(Over, OverOne, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(OverOne, ServerCanHaveSeveralConnections) {
  write_files(30, 100'000);
  const auto server = open({first()}, 4).value();
  wait_for_all(*server, 4);
  const auto ended =
      Copier(*server, {.recursive = true, .verify = true}).upload({here_ / "tree"}, "");
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(content(first_.path("tree")), content(here_ / "tree"));
}

// --- Answers that are lost ----------------------------------------------------------------------

class LostAnswers : public Mounting {
 protected:
  LostAnswers() : relay_(first()) {
    auto opened = open({relay_.address()});
    EXPECT_TRUE(opened) << opened.error().message();
    server_ = std::move(*opened);
  }
  // The next call is executed, and its answer lost.
  template <class T>
  Result<T> without_answer(rpcrdma::Task<Result<T>> task) {
    relay_.lose_after(0);
    auto result = server_->wait_for(std::move(task));
    EXPECT_TRUE(relay_.has_lost_it());
    return result;
  }

  // Renames over a connection that is lost before the answer; the calls before the RENAME are
  // answered.
  rpcrdma::Task<Result<void>> rename_without_answer(nfs3::nfs_fh3 top) {
    auto task = server_->rename(top, "a", top, "b");
    EXPECT_TRUE(co_await server_->look_up(top, "a"));
    relay_.lose_after(1);
    co_return co_await std::move(task);
  }

  Relay relay_;
  std::unique_ptr<Mounted> server_;
};
INSTANTIATE_TEST_SUITE_P(Over, LostAnswers, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(LostAnswers, AreNoFailuresOfTheChanges) {
  const nfs3::nfs_fh3 root = server_->root();
  const auto expect_ok = [](const auto& result) {
    EXPECT_TRUE(result) << result.error().message();
  };
  expect_ok(without_answer(server_->create(root, "file", 0644)));
  expect_ok(without_answer(server_->make_directory(root, "folder", 0755)));
  expect_ok(without_answer(server_->make_symbolic_link(root, "link", "target")));
  expect_ok(without_answer(server_->remove(root, "link", false)));
  expect_ok(without_answer(server_->remove(root, "folder", true)));
  EXPECT_EQ(content(first_.folder()), (std::map<std::string, std::string>{{"file", ""}}));
  const auto file = server_->wait_for(server_->look_up(root, "file")).value();
  const std::string data = "what is written";
  expect_ok(without_answer(server_->write(file.handle, 0, std::as_bytes(std::span(data)))));
  expect_ok(without_answer(server_->commit(file.handle)));
  EXPECT_EQ(first_.read_file("file"), data);
}

TEST_P(LostAnswers, MakeTheClientLookForARename) {
  const nfs3::nfs_fh3 root = server_->root();
  first_.write_file("a", "of a");
  first_.write_file("b", "of b");
  const auto renamed = server_->wait_for(rename_without_answer(root));
  EXPECT_TRUE(renamed) << renamed.error().message();
  EXPECT_EQ(content(first_.folder()), (std::map<std::string, std::string>{{"b", "of a"}}));
}

TEST_P(LostAnswers, HideNoFileThatReallyExistsOrIsMissing) {
  const nfs3::nfs_fh3 root = server_->root();
  first_.write_file("link", "in the way");
  const auto linked = without_answer(server_->make_symbolic_link(root, "link", "target"));
  ASSERT_FALSE(linked);
  EXPECT_EQ(linked.error().status, nfs3::nfsstat3::NFS3ERR_EXIST);
  const auto missing = server_->wait_for(server_->remove(root, "none", false));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().status, nfs3::nfsstat3::NFS3ERR_NOENT);
}

}  // namespace
}  // namespace nfs
