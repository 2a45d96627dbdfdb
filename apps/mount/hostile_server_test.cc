// A server that means no good: each lie is an error of the operation, and costs no memory of the
// server's choosing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mount/hostile_server_for_test.h"

namespace mounts {
namespace {

void list_two_files(nfs3::cookie3 /*from*/, nfs3::READDIRPLUS3resok& ok) {
  for (const unsigned each : {7U, 8U}) {
    nfs3::entryplus3& entry = ok.reply.entries.emplace_back();
    entry.cookie = each;
    entry.name = "name" + std::to_string(each);
    entry.name_handle.set_handle(handle_of(each));
    entry.name_attributes.set_attributes(attributes_of(ftype3::NF3REG, each));
  }
  ok.reply.eof = true;
}

TEST_F(Lied, DirectoryThatIsItsOwnParentIsRefused) {
  liar_.found = handle_of(0);
  liar_.found_attributes = attributes_of(ftype3::NF3DIR, 1);
  EXPECT_EQ(looked_up(), ELOOP);
}

TEST_F(Lied, EmptyHandleIsRefused) {
  liar_.found = {};
  EXPECT_EQ(looked_up(), EIO);
}

TEST_F(Lied, NameThatIsTooLongIsNotSent) {
  const auto found = mount_->run(mount_->names->look_up(mount_->root(), std::string(256, 'x'), {}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(), ENAMETOOLONG);
  EXPECT_EQ(mount_->tree->statistics().names_asked, 0U);
}

TEST_F(Lied, FileThatBecomesAnotherIsStale) {
  const Hold node = mount_->look_up("name");
  ASSERT_TRUE(node);
  liar_.attributes = [](const nfs3::nfs_fh3&) { return attributes_of(ftype3::NF3DIR, 7); };
  node->attributes.expire();
  const auto shown = mount_->run(mount_->attributes->get(mount_->tree->nodes().find(node->id), {}));
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error(), ESTALE);
  // The handle is of a new node from now on.
  liar_.found_attributes = attributes_of(ftype3::NF3DIR, 8);
  EXPECT_NE(mount_->look_up("another")->id, node->id);
}

// The kernel gives a node up for good whose type is another one.
TEST_F(Lied, ChangeThatShowsAnotherFileSaysNothingOfItsDirectory) {
  liar_.found_attributes = attributes_of(ftype3::NF3DIR, 7);
  for (const nfs3::fattr3& wrong :
       {attributes_of(ftype3::NF3REG, 1), attributes_of(ftype3::NF3DIR, 9)}) {
    liar_.directory_after = wrong;
    EXPECT_TRUE(mount_->run(mount_->names->make_directory(mount_->root(), "name", 0755, {})));
    const Hold root = mount_->root();
    EXPECT_EQ(root->attributes.fresh(Tree::now()), nullptr) << "the server has to be asked";
    const auto shown = mount_->run(mount_->attributes->get(mount_->root(), {}));
    ASSERT_TRUE(shown);
    EXPECT_EQ(shown->attributes.type, ftype3::NF3DIR);
    EXPECT_EQ(shown->attributes.fileid, 1U);
  }
}

TEST_F(Lied, ChangeThatShowsAnotherFileSaysNothingOfItsOwn) {
  liar_.is_honest = true;
  liar_.changed_at = UINT32_MAX;  // SETATTR without a guard
  liar_.attributes = [](const nfs3::nfs_fh3&) { return attributes_of(ftype3::NF3REG, 7); };
  const Hold node = mount_->look_up("name");
  const auto file = mount_->open("name", O_WRONLY).id;
  for (const nfs3::fattr3& wrong :
       {attributes_of(ftype3::NF3DIR, 7), attributes_of(ftype3::NF3REG, 9)}) {
    liar_.after_change = wrong;
    const auto set =
        mount_->run(mount_->attributes->set(mount_->tree->nodes().find(node->id), {}, {}));
    ASSERT_TRUE(set);
    EXPECT_TRUE(node->can_have(set->attributes));
    EXPECT_EQ(mount_->write(file, 0, "bytes"), 0);
    EXPECT_EQ(mount_->flush("name"), 0);
    EXPECT_TRUE(node->can_have(*node->attributes.last()));
    const auto made = mount_->run(mount_->names->create(mount_->root(), "name", 0644, true, {}));
    ASSERT_TRUE(made);
    EXPECT_TRUE(node->can_have(made->entry.attributes));
    EXPECT_EQ(made->entry.attributes_left, Clock::duration{});
  }
  mount_->run(mount_->files->release(file));
}

TEST_F(Lied, TargetsOfLinksThatNoProgramCanReadAreRefused) {
  liar_.found_attributes = attributes_of(ftype3::NF3LNK, 7);
  const Hold node = mount_->look_up("name");
  for (const std::string& each : {std::string(), std::string("a\0b", 3)}) {
    liar_.target = each;
    const auto read =
        mount_->run(mount_->attributes->read_link(mount_->tree->nodes().find(node->id), {}));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error(), EIO);
  }
}

TEST_F(Lied, NamesThatLeadElsewhereAreRefused) {
  for (const std::string& each : {std::string("../../etc"), std::string("a/b"), std::string()}) {
    liar_.list = [&](nfs3::cookie3, nfs3::READDIRPLUS3resok& ok) {
      nfs3::entryplus3& entry = ok.reply.entries.emplace_back();
      entry.name = each;
      entry.cookie = 1;
      ok.reply.eof = true;
    };
    const auto done = listed();
    ASSERT_FALSE(done) << each;
    EXPECT_EQ(done.error(), EIO);
  }
}

TEST_F(Lied, DirectoryWithoutEndTakesNoMemory) {
  // The same handle for all, and ever new names.
  liar_.list = [](nfs3::cookie3 cookie, nfs3::READDIRPLUS3resok& ok) {
    for (int i = 0; i < 100; ++i) {
      nfs3::entryplus3& entry = ok.reply.entries.emplace_back();
      entry.cookie = ++cookie;
      entry.name = "name" + std::to_string(cookie);
      entry.name_handle.set_handle(handle_of(7));
      entry.name_attributes.set_attributes(attributes_of(ftype3::NF3REG, cookie));
    }
  };
  EXPECT_TRUE(listed(20'000));
  EXPECT_EQ(mount_->tree->nodes().size(), 1U);
  EXPECT_EQ(mount_->directories->open_count(), 0U);
}

TEST_F(Lied, DirectoryThatGoesInCirclesEnds) {
  liar_.list = [](nfs3::cookie3 cookie, nfs3::READDIRPLUS3resok& ok) {
    for (int i = 0; i < 10; ++i) {
      nfs3::entryplus3& entry = ok.reply.entries.emplace_back();
      cookie = (cookie + 1) % 70;
      entry.cookie = cookie;
      entry.name = "name" + std::to_string(cookie);
    }
  };
  const auto done = listed();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), EIO);
}

TEST_F(Lied, MoreBytesThanWereAskedForAreAnError) {
  const Hold node = mount_->look_up("name");
  const auto opened = mount_->open("name");
  liar_.bytes = std::string(5000, 'x');
  BytesForTest sink;
  const auto read = mount_->run(mount_->files->read(opened.id, 500'000, 100, sink));
  EXPECT_FALSE(read);
  EXPECT_EQ(sink.text, "");
}

// Programs that wait for it hold slots, and the file its buffers.
TEST_F(Lied, BlockThatComesByteByByteHasOneTimeForAll) {
  mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, std::chrono::seconds(1));
  liar_.found_attributes.size = 1U << 20U;
  liar_.bytes = "x";
  liar_.reads_left = UINT32_MAX;
  const auto opened = mount_->open("name");
  const auto begun = Clock::now();
  BytesForTest sink;
  const auto read = mount_->run(mount_->files->read(opened.id, 0, 100'000, sink));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error(), ETIMEDOUT);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
  mount_->run(mount_->files->release(opened.id));
}

// The kernel takes a short answer for the end of the file.
TEST_F(Lied, ReadThatFailsBehindItsFirstPartIsAnError) {
  const Hold node = mount_->look_up("name");
  const auto opened = mount_->open("name");
  liar_.bytes = std::string(50, 'x');
  liar_.reads_left = 1;
  BytesForTest sink;
  const auto read = mount_->run(mount_->files->read(opened.id, 500'000, 100, sink));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error(), EIO);
  EXPECT_EQ(sink.text, "");
}

// The kernel takes the size of every reply; one from before a write would have the next program
// that appends write over these bytes.
class LiedAboutSizes : public Lied {
 protected:
  void SetUp() override {
    Lied::SetUp();
    liar_.is_honest = true;
    node_ = mount_->look_up("name");
    file_ = mount_->open("name", O_WRONLY).id;
    // Lookups and listings say what was before the write; GETATTR comes behind it.
    liar_.attributes = [](const nfs3::nfs_fh3& of) {
      auto made = of.data == handle_of(0).data ? attributes_of(ftype3::NF3DIR, 1)
                                               : attributes_of(ftype3::NF3REG, 7);
      made.size = 10;
      return made;
    };
  }
  void TearDown() override {
    node_ = {};
    Lied::TearDown();
  }
  Task<Outcome<void>> begin_write() {
    Buffer buffer = mount_->tree->buffers().take();
    co_return co_await mount_->files->write(file_, 0, buffer, 0, 10);
  }
  Task<Outcome<Entry>> write_and_look_up() {
    (void)co_await begin_write();
    co_return co_await mount_->names->look_up(mount_->root(), "name", {});
  }
  Task<Outcome<void>> write_and_list(NameSink& sink) {
    const auto id = mount_->directories->open(mount_->root());
    (void)co_await begin_write();
    co_return co_await mount_->directories->read(id, 0, true, sink, {});
  }

  Hold node_;
  FileOperations::FileId file_{};
};

TEST_F(LiedAboutSizes, LookupBesideAWriteAsksOnceMore) {
  auto found = mount_->run(write_and_look_up());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->attributes.size, 10U);
}

TEST_F(LiedAboutSizes, ListingBesideAWriteLeavesTheFileOut) {
  liar_.list = list_two_files;
  NamesForTest names;
  ASSERT_TRUE(mount_->run(write_and_list(names)));
  EXPECT_THAT(names.names, testing::ElementsAre("name7", "name8"));
  EXPECT_THAT(names.with_nodes, testing::ElementsAre("name8"));
}

// --- Bounds -------------------------------------------------------------------------------------

TreeOptions with_nodes(std::size_t most) {
  TreeOptions options;
  options.nodes_max = most;
  return options;
}

// The kernel forgets what it is asked to, and gives back each lookup.
int forget_as_the_kernel(MountForTest& mount, const std::vector<NodeId>& ids) {
  int count = 0;
  for (const NameOfNode& each : mount.tree->nodes().take_forgettable(SIZE_MAX)) {
    mount.tree->nodes().forget(ids.at(std::stoul(each.name)), 1);
    ++count;
  }
  return count;
}

TEST_F(Lied, NamesWithoutEndTakeNoMoreNodesThanTheBound) {
  constexpr std::size_t kMost = 200;
  MountForTest mount(url(), with_nodes(kMost));
  liar_.has_new_files = true;
  std::vector<NodeId> ids;
  int forgotten = 0;
  for (int i = 0; i < 3000; ++i) {
    auto found = mount.run(mount.names->look_up(mount.root(), std::to_string(i), {}));
    ASSERT_TRUE(found) << found.error();
    mount.show(*found);
    ids.push_back(found->node->id);
    found->node = {};
    forgotten += forget_as_the_kernel(mount, ids);
  }
  EXPECT_LE(mount.tree->nodes().most(), kMost);
  EXPECT_GE(forgotten, 2700);
  EXPECT_LE(mount.tree->names().size(), kMost);
  liar_.is_honest = true;
}

TEST_F(Lied, KernelThatForgetsNothingGetsNoFurtherNodes) {
  constexpr std::size_t kMost = 50;
  MountForTest mount(url(), with_nodes(kMost));
  liar_.has_new_files = true;
  const auto look_up = [&](int number, int thread = 0) {
    auto found =
        mount.run(mount.names->look_up(mount.root(), std::to_string(number), {.thread = thread}));
    if (!found) return found.error();
    mount.show(*found);
    return 0;
  };
  for (int i = 0; i < 49; ++i) EXPECT_EQ(look_up(i), 0);
  EXPECT_EQ(look_up(49), ENFILE);
  // The kernel unlocks the directory for one thread after the other, once each.
  EXPECT_EQ(look_up(49, 7), ESTALE);
  EXPECT_EQ(look_up(49, 8), ESTALE);
  EXPECT_EQ(look_up(49, 7), ENFILE);
  const auto made = mount.run(mount.names->make_directory(
      mount.root(), "d", 0755, {.deadline = Clock::now() + std::chrono::milliseconds(1)}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), ENFILE);
  EXPECT_EQ(mount.tree->nodes().size(), kMost);
  // Files that have a place need no other.
  liar_.has_new_files = false;
  liar_.set_number(1);
  EXPECT_EQ(look_up(1000), 0);
  mount.tree->nodes().forget(mount.tree->nodes().find(NodeId{2})->id, 2);
  liar_.has_new_files = true;
  EXPECT_EQ(look_up(49), 0);
}

TEST_F(Lied, FileWhoseCreationFailsBehindItsCallTakesNoNode) {
  liar_.changed_at = 1;  // SETATTR is refused
  const auto made = mount_->run(mount_->names->create(mount_->root(), "new", 0644, true, {}));
  EXPECT_FALSE(made);
  EXPECT_EQ(mount_->tree->nodes().size(), 1U);
}

TEST_F(Lied, ExclusiveCreationIsGuardedWhereTheServerKeepsNoVerifier) {
  using nfs3::createmode3;
  liar_.has_exclusive = false;
  const auto create = [&] {
    const auto made = mount_->run(mount_->names->create(mount_->root(), "new", 0644, true, {}));
    return made ? 0 : made.error();
  };
  EXPECT_EQ(create(), 0);
  EXPECT_THAT(liar_.modes, testing::ElementsAre(createmode3::EXCLUSIVE, createmode3::GUARDED));
  EXPECT_TRUE(liar_.guards.empty()) << "the mode came with the creation";
  liar_.is_there = true;
  EXPECT_EQ(create(), EEXIST);
}

TEST_F(Lied, ListingOfATableThatIsNearlyFullMakesNoNodes) {
  MountForTest mount(url(), with_nodes(20));
  liar_.list = [](nfs3::cookie3 cookie, nfs3::READDIRPLUS3resok& ok) {
    for (int i = 0; i < 50; ++i) {
      nfs3::entryplus3& entry = ok.reply.entries.emplace_back();
      entry.cookie = ++cookie;
      entry.name = "name" + std::to_string(cookie);
      entry.name_handle.set_handle(handle_of(static_cast<unsigned>(cookie)));
      entry.name_attributes.set_attributes(attributes_of(ftype3::NF3REG, cookie));
    }
    ok.reply.eof = true;
  };
  // The kernel keeps all that it gets.
  class Keeping final : public NameSink {
   public:
    explicit Keeping(MountForTest& mount) : mount_(mount) {}
    bool has_room_for(const DirectoryReader::Entry&) const override { return true; }
    bool add(const DirectoryReader::Entry&, Entry node) override {
      ++names;
      if (node.node) mount_.show(node), ++nodes;
      return true;
    }
    int names = 0, nodes = 0;

   private:
    MountForTest& mount_;
  } sink(mount);
  const auto id = mount.directories->open(mount.root());
  ASSERT_TRUE(mount.run(mount.directories->read(id, 0, true, sink, {})));
  EXPECT_EQ(sink.names, 50);
  EXPECT_EQ(sink.nodes, 14);  // with the root, 20 - 20 / 4
  mount.directories->release(id);
}

TEST_F(Lied, ManyOpenDirectoriesKeepThePagesOfAFew) {
  liar_.list = [](nfs3::cookie3 cookie, nfs3::READDIRPLUS3resok& ok) {
    for (int i = 0; i < 100; ++i) {
      nfs3::entryplus3& entry = ok.reply.entries.emplace_back();
      entry.cookie = ++cookie;
      entry.name = "name" + std::to_string(cookie);
    }
  };
  std::vector<DirectoryOperations::DirectoryId> open;
  for (int i = 0; i < 300; ++i) {
    const auto id = open.emplace_back(mount_->directories->open(mount_->root()));
    NamesForTest some(30);
    ASSERT_TRUE(mount_->run(mount_->directories->read(id, 0, true, some, {})));
  }
  EXPECT_LE(mount_->directories->names_in_memory(), DirectoryOperations::kWithMemoryMax * 130);
  // One that has lost its page goes on where it was.
  NamesForTest some(1);
  ASSERT_TRUE(mount_->run(mount_->directories->read(open.front(), 30, true, some, {})));
  EXPECT_THAT(some.names, testing::ElementsAre("name31"));
  for (const auto each : open) mount_->directories->release(each);
}

// --- Replies that come late ---------------------------------------------------------------------

TEST_F(Lied, LookupThatAChangeOfOursHasOvertakenNotesNoName) {
  liar_.holds_lookup = true;
  bool has_ended = false;
  const auto look_up = [&]() -> Task<void> {
    auto found = co_await mount_->names->look_up(mount_->root(), "name", {});
    EXPECT_TRUE(found);
    if (found) {
      // Nor does the kernel keep it.
      EXPECT_EQ(found->left, Clock::duration{});
    }
    has_ended = true;
  };
  const auto both = [&]() -> Task<void> {
    mount_->turns.begin(look_up());
    auto removed = co_await mount_->names->remove_directory(mount_->root(), "name", {});
    EXPECT_TRUE(removed);
  };
  mount_->run(both());
  EXPECT_TRUE(has_ended);
  liar_.holds_lookup = false;
  const auto asked = mount_->tree->statistics().names_asked;
  EXPECT_EQ(looked_up(), 0);
  EXPECT_EQ(mount_->tree->statistics().names_asked, asked + 1);
}

TEST_F(Lied, PageFromBeforeAChangeOfOursShowsTheKernelNoNode) {
  liar_.list = list_two_files;
  const auto id = mount_->directories->open(mount_->root());
  NamesForTest first(1), second;
  ASSERT_TRUE(mount_->run(mount_->directories->read(id, 0, true, first, {})));
  EXPECT_THAT(first.with_nodes, testing::ElementsAre("name7"));
  EXPECT_TRUE(mount_->run(mount_->names->remove_directory(mount_->root(), "name8", {})));
  ASSERT_TRUE(mount_->run(mount_->directories->read(id, first.last, true, second, {})));
  EXPECT_THAT(second.names, testing::ElementsAre("name8"));
  EXPECT_THAT(second.with_nodes, testing::ElementsAre());
  mount_->directories->release(id);
}

// The kernel takes no note of it, and would never give it back.
TEST_F(Lied, FileThatIsMadeAsSomethingElseTakesNoNode) {
  liar_.found_attributes.type = ftype3::NF3DIR;
  const auto made = mount_->run(mount_->names->create(mount_->root(), "name", 0644, false, {}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), EIO);
  EXPECT_EQ(mount_->tree->nodes().size(), 1U) << "the root";
}

// All buffers are full at once, and each write(2) has been answered.
TEST_F(Lied, BytesForAServerThatIsSlowHaveTheirTimeWhileItTakesSome) {
  constexpr auto kPatience = std::chrono::seconds(2);
  liar_.is_honest = true;
  mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, kPatience);
  liar_.time_of_write = std::chrono::milliseconds(30);
  const FileOperations::FileId file = mount_->open("name", O_WRONLY).id;
  const auto begun = Clock::now();
  const auto write_all = [&]() -> Task<Outcome<void>> {
    for (std::uint64_t i = 0; i < 100; ++i) {
      Buffer buffer = mount_->tree->buffers().take();
      auto done = co_await mount_->files->write(file, i << 20U, buffer, 0, 70'000);
      if (!done) co_return failed(done.error());
    }
    co_return co_await mount_->files->flush(file);
  };
  EXPECT_TRUE(mount_->run(write_all()));
  EXPECT_GT(Clock::now() - begun, kPatience);
  mount_->run(mount_->files->release(file));
}

// Each WRITE begins at once, and waits for those of the other files.
TEST_F(Lied, ManyFilesAtAServerThatIsSlowHaveTheirTimeWhileItTakesSome) {
  constexpr auto kPatience = std::chrono::seconds(2);
  liar_.is_honest = true;
  mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, kPatience);
  liar_.time_of_write = std::chrono::milliseconds(30);
  liar_.has_new_files = true;
  std::vector<FileOperations::FileId> files;
  for (int i = 0; i < 100; ++i) {
    const Hold node = mount_->look_up("name" + std::to_string(i));
    files.push_back(mount_->files->open_made(mount_->tree->nodes().find(node->id), {}).id);
  }
  const auto begun = Clock::now();
  const auto write_all = [&]() -> Task<void> {
    for (const auto each : files) {
      Buffer buffer = mount_->tree->buffers().take();
      EXPECT_TRUE(co_await mount_->files->write(each, 0, buffer, 0, 70'000));
    }
    for (const auto each : files) EXPECT_TRUE(co_await mount_->files->flush(each));
  };
  mount_->run(write_all());
  EXPECT_GT(Clock::now() - begun, kPatience);
  for (const auto each : files) mount_->run(mount_->files->release(each));
}

// Its storage is gone; it would keep its buffers as long as the server takes bytes of others.
TEST_F(Lied, FileThatHangsHasItsTimeAloneBesideOthersThatGoOn) {
  constexpr auto kPatience = std::chrono::seconds(2);
  liar_.is_honest = true;
  mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, kPatience);
  liar_.has_new_files = true;
  const Hold hanging = mount_->look_up("hanging"), other = mount_->look_up("other");
  liar_.hanging = hanging->handle;
  const auto open = [&](const Hold& node) {
    return mount_->files->open_made(mount_->tree->nodes().find(node->id), {}).id;
  };
  const auto file = open(hanging), goes_on = open(other);
  bool is_over = false;
  const auto write_on = [&]() -> Task<void> {
    while (!is_over) {
      Buffer buffer = co_await mount_->files->take_buffer();
      EXPECT_TRUE(co_await mount_->files->write(goes_on, 0, buffer, 0, 70'000));
      EXPECT_TRUE(co_await mount_->files->flush(goes_on));
      co_await mount_->turns.pause(std::chrono::milliseconds(5));
    }
  };
  const auto begun = Clock::now();
  const auto write_all = [&]() -> Task<void> {
    // More than are under way at a time.
    for (std::uint64_t i = 0; i < 60; ++i) {
      Buffer buffer = mount_->tree->buffers().take();
      EXPECT_TRUE(co_await mount_->files->write(file, i << 20U, buffer, 0, 70'000));
    }
    mount_->turns.begin(write_on());
    EXPECT_FALSE(co_await mount_->files->flush(file));
    is_over = true;
  };
  mount_->run(write_all());
  EXPECT_LT(Clock::now() - begun, 2 * kPatience);
  for (const auto each : {file, goes_on}) mount_->run(mount_->files->release(each));
}

// One of them may have lost the right to write: the other's bytes go all the same, and no others.
TEST_F(Lied, BytesOfEachProgramGoInItsName) {
  liar_.is_honest = true;
  const auto open_as = [this](std::uint32_t uid) {
    rpcrdma::AuthSys user;
    user.uid = uid;
    return mount_->run(mount_->files->open(mount_->look_up("name"), O_WRONLY, {uid, &user}))->id;
  };
  const auto first = open_as(1), second = open_as(2);
  const auto write = [this](FileOperations::FileId file, std::uint64_t offset) -> Task<void> {
    Buffer buffer = mount_->tree->buffers().take();
    EXPECT_TRUE(co_await mount_->files->write(file, offset, buffer, 0, 70'000));
  };
  // The second waits for the first, which it overlaps.
  mount_->run([&]() -> Task<void> {
    co_await write(first, 0);
    co_await write(second, 0);
    co_await write(first, 1U << 20U);
  }());
  EXPECT_EQ(mount_->flush("name"), 0);
  EXPECT_THAT(liar_.writers, testing::UnorderedElementsAre(1, 1, 2));
  for (const auto each : {first, second}) mount_->run(mount_->files->release(each));
}

// A shell opens the file, and gives it to a program of another user.
TEST_F(Lied, DescriptorThatIsOpenSetsTheSizeInTheNameOfWhoOpenedIt) {
  liar_.is_honest = true;
  rpcrdma::AuthSys opener, another;
  opener.uid = 1;
  another.uid = 2;
  const auto file =
      mount_->run(mount_->files->open(mount_->look_up("name"), O_WRONLY, {1, &opener}))->id;
  nfs3::sattr3 size;
  size.size.set_size(3);
  EXPECT_TRUE(mount_->run(mount_->files->set_size(file, size, {2, &another})));
  EXPECT_THAT(liar_.changers, testing::ElementsAre(1));
  const auto late = mount_->run(mount_->files->set_size(file, size, {2, &another, Clock::now()}));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), ETIMEDOUT);
  mount_->run(mount_->files->release(file));
}

// Another program writes it, and may wait for a server that hangs.
TEST_F(Lied, CloseOfAFileThatWasOpenedToReadWaitsForNobodysBytes) {
  liar_.is_honest = true;
  const auto writer = mount_->open("name", O_WRONLY).id, reader = mount_->open("name").id;
  EXPECT_EQ(mount_->write(writer, 0, "some bytes"), 0);
  EXPECT_TRUE(mount_->run(mount_->files->flush(reader)));
  EXPECT_EQ(liar_.commits, 0U);
  // Whereas fsync(2) is of the file.
  EXPECT_TRUE(mount_->run(mount_->files->sync(reader)));
  EXPECT_EQ(liar_.commits, 1U);
  for (const auto each : {writer, reader}) mount_->run(mount_->files->release(each));
}

// A rename over an open file puts that aside first.
class LiedAboutRenames : public Lied {
 protected:
  void SetUp() override {
    Lied::SetUp();
    // A call has a quarter of the patience, however little time is left of its request.
    mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, std::chrono::seconds(2));
    liar_.has_new_files = true;
    target_ = mount_->look_up("target");
    liar_.known_name = "target";
    liar_.known = target_->handle;
    liar_.known_attributes = attributes_of(ftype3::NF3REG, target_->fileid);
    file_ = mount_->open("target").id;
  }
  Outcome<void> renamed(Clock::duration time) {
    return mount_->run(mount_->names->rename(mount_->root(), "source", mount_->root(), "target",
                                             {.deadline = Clock::now() + time}));
  }
  void TearDown() override {
    target_ = {};
    Lied::TearDown();
  }
  Task<void> pause() { co_await mount_->turns.pause(std::chrono::milliseconds(1)); }

  Hold target_;
  FileOperations::FileId file_{};
};

TEST_F(LiedAboutRenames, FileThatWasPutAsideForNothingIsNotRemoved) {
  liar_.failing_rename = 2;
  EXPECT_FALSE(renamed(std::chrono::minutes(1)));
  EXPECT_EQ(liar_.renamed.size(), 3U);
  mount_->run(mount_->files->release(file_));
  EXPECT_THAT(liar_.removed, testing::ElementsAre());
}

// It would take the place of the other file, which may have got there.
TEST_F(LiedAboutRenames, FileThatWasPutAsideDoesNotComeBackWhereNobodyKnows) {
  liar_.held_rename = 2;
  EXPECT_FALSE(renamed(std::chrono::milliseconds(200)));
  EXPECT_THAT(liar_.renamed, testing::ElementsAre(testing::StartsWith(".nfs"), "target"));
  mount_->run(mount_->files->release(file_));
  EXPECT_THAT(liar_.removed, testing::ElementsAre()) << "it may be the only name of the file";
}

TEST_F(LiedAboutRenames, FileKeepsItsNameUntilTheOtherTakesIt) {
  liar_.makes_links = true;
  EXPECT_TRUE(renamed(std::chrono::minutes(1)));
  EXPECT_THAT(liar_.linked, testing::ElementsAre(testing::StartsWith(".nfs")));
  EXPECT_THAT(liar_.renamed, testing::ElementsAre("target"));
  EXPECT_THAT(liar_.removed, testing::ElementsAre());
  mount_->run(mount_->files->release(file_));
  EXPECT_EQ(liar_.removed, liar_.linked);
}

TEST_F(LiedAboutRenames, FileKeepsItsNameAlsoWhereNobodyKnowsWhetherTheOtherHasIt) {
  liar_.makes_links = true;
  liar_.held_rename = 1;
  EXPECT_FALSE(renamed(std::chrono::milliseconds(200)));
  EXPECT_THAT(liar_.renamed, testing::ElementsAre("target"));
  EXPECT_THAT(liar_.removed, testing::ElementsAre()) << "a program has the file open";
  mount_->run(mount_->files->release(file_));
  EXPECT_EQ(liar_.removed, liar_.linked);
}

TEST_F(LiedAboutRenames, NameOfOursGoesAtOnceWhenTheOtherFileIsRefused) {
  liar_.makes_links = true;
  liar_.failing_rename = 1;
  EXPECT_FALSE(renamed(std::chrono::minutes(1)));
  EXPECT_EQ(liar_.removed, liar_.linked);
  mount_->run(mount_->files->release(file_));
  EXPECT_EQ(liar_.removed.size(), 1U);
}

// The first attempt may have given the file its name of ours, or not: the file still needs one.
TEST_F(LiedAboutRenames, SecondAttemptTakesTheSameNameOfOurs) {
  liar_.makes_links = true;
  liar_.silent_links = 1;
  EXPECT_FALSE(renamed(std::chrono::milliseconds(200)));
  EXPECT_THAT(liar_.renamed, testing::ElementsAre());
  EXPECT_TRUE(renamed(std::chrono::minutes(1)));
  ASSERT_EQ(liar_.linked.size(), 2U);
  EXPECT_EQ(liar_.linked[0], liar_.linked[1]);
  mount_->run(mount_->files->release(file_));
  EXPECT_THAT(liar_.removed, testing::ElementsAre(liar_.linked[0]));
}

// The name of ours is the only one of the file then.
TEST_F(LiedAboutRenames, FileThatWasPutAsideForNothingOutlivesItsLastClose) {
  liar_.failing_rename = 2;
  bool is_over = false;
  mount_->turns.begin([](auto renaming, bool& ends) -> Task<void> {
    EXPECT_FALSE(co_await std::move(renaming));
    ends = true;
  }(mount_->names->rename(mount_->root(), "source", mount_->root(), "target", {}), is_over));
  while (liar_.renamed.empty()) mount_->progress();
  mount_->run(mount_->files->release(file_));
  EXPECT_TRUE(is_over);
  EXPECT_EQ(liar_.renamed.size(), 3U) << "its name has come back";
  EXPECT_THAT(liar_.removed, testing::ElementsAre());
}

// A file that is open is removed.
class LiedAboutRemovals : public LiedAboutRenames {
 protected:
  Outcome<void> remove(Who who) {
    return mount_->run(mount_->names->remove(mount_->root(), "target", who));
  }
};

// The user who closes it may have no right to.
TEST_F(LiedAboutRemovals, NameOfOursGoesInTheNameOfWhoRemovedTheFile) {
  rpcrdma::AuthSys somebody, another;
  somebody.uid = 4711;
  another.uid = 4712;
  EXPECT_TRUE(remove({.uid = 4711, .credential = &somebody}));
  EXPECT_TRUE(mount_->run(
      mount_->names->look_up(mount_->root(), "another", {.uid = 4712, .credential = &another})));
  mount_->run(mount_->files->release(file_));
  EXPECT_THAT(liar_.removers, testing::ElementsAre(4711));
}

TEST_F(LiedAboutRemovals, NameOfOursGoesWithTheLastCloseWhereNobodyKnowsWhetherItIsThere) {
  liar_.held_rename = 1;
  EXPECT_FALSE(remove({.deadline = Clock::now() + std::chrono::milliseconds(200)}));
  mount_->run(mount_->files->release(file_));
  EXPECT_EQ(liar_.removed, liar_.renamed);
}

TEST_F(LiedAboutRemovals, SecondAttemptTakesTheSameNameOfOurs) {
  liar_.held_rename = 1;
  EXPECT_FALSE(remove({.deadline = Clock::now() + std::chrono::milliseconds(200)}));
  EXPECT_TRUE(remove({}));
  ASSERT_EQ(liar_.renamed.size(), 2U);
  EXPECT_EQ(liar_.renamed[0], liar_.renamed[1]);
  mount_->run(mount_->files->release(file_));
  EXPECT_THAT(liar_.removed, testing::ElementsAre(liar_.renamed[0]));
}

// The file may have both, and nobody would ever remove the first one.
TEST_F(LiedAboutRemovals, NameOfOursInAnotherDirectoryIsNotForgottenForASecondOne) {
  liar_.found_attributes.type = ftype3::NF3DIR;
  const Hold other = mount_->look_up("other-directory"), root = mount_->root();
  liar_.held_rename = 1;
  EXPECT_FALSE(remove({.deadline = Clock::now() + std::chrono::milliseconds(200)}));
  EXPECT_TRUE(
      mount_->run(mount_->names->remove(mount_->tree->nodes().find(other->id), "target", {})));
  EXPECT_EQ(root->names_of_ours, 1U);
  EXPECT_EQ(other->names_of_ours, 1U);
  mount_->run(mount_->files->release(file_));
  EXPECT_EQ(liar_.renamed.size(), 2U);
  EXPECT_THAT(liar_.removed, testing::UnorderedElementsAreArray(liar_.renamed));
  EXPECT_EQ(root->names_of_ours, 0U);
  EXPECT_EQ(other->names_of_ours, 0U);
}

// Unmounting waits for them as long as one call may take.
TEST_F(LiedAboutRemovals, NamesOfOursInTwoDirectoriesAreRemovedAtTheSameTime) {
  liar_.found_attributes.type = ftype3::NF3DIR;
  const Hold other = mount_->look_up("other-directory");
  liar_.held_rename = 1;
  EXPECT_FALSE(remove({.deadline = Clock::now() + std::chrono::milliseconds(200)}));
  EXPECT_TRUE(
      mount_->run(mount_->names->remove(mount_->tree->nodes().find(other->id), "target", {})));
  liar_.silent_removals = 2;
  bool is_over = false;
  mount_->turns.begin([](auto closing, bool& ends) -> Task<void> {
    co_await std::move(closing);
    ends = true;
  }(mount_->files->release(file_), is_over));
  while (!is_over && liar_.removed.size() < 2) mount_->progress();
  EXPECT_THAT(liar_.removed, testing::UnorderedElementsAreArray(liar_.renamed));
  while (!is_over) mount_->run(pause());
}

TEST_F(LiedAboutRemovals, NameOfOursIsRemovedAgainWhenTheServerDoesNotAnswer) {
  EXPECT_TRUE(remove({}));
  liar_.silent_removals = 1;
  mount_->run(mount_->files->release(file_));
  EXPECT_GE(liar_.removed.size(), 2U);
}

// Readers of a file that others replace all the time would find it gone.
TEST_F(LiedAboutRemovals, OpenThatIsUnderWayKeepsTheFile) {
  mount_->run(mount_->files->release(file_));
  bool is_over = false;
  FileOperations::FileId file{};
  mount_->turns.begin([](auto opening, bool& ends, FileOperations::FileId& id) -> Task<void> {
    const auto opened = co_await std::move(opening);
    EXPECT_TRUE(opened);
    if (opened) id = opened->id;
    ends = true;
  }(mount_->files->open(mount_->tree->nodes().find(target_->id), O_RDONLY, {}), is_over, file));
  EXPECT_FALSE(is_over);
  EXPECT_TRUE(remove({}));
  EXPECT_THAT(liar_.renamed, testing::ElementsAre(testing::StartsWith(".nfs")));
  while (!is_over) mount_->run(pause());
  EXPECT_THAT(liar_.removed, testing::ElementsAre());
  mount_->run(mount_->files->release(file));
  EXPECT_EQ(liar_.removed, liar_.renamed);
}

TEST_F(LiedAboutRemovals, OpenThatFailsLeavesNoNameOfOurs) {
  mount_->run(mount_->files->release(file_));
  liar_.denied = nfs3::ACCESS3_READ;
  bool is_over = false;
  mount_->turns.begin([](auto opening, bool& ends) -> Task<void> {
    EXPECT_FALSE(co_await std::move(opening));
    ends = true;
  }(mount_->files->open(mount_->tree->nodes().find(target_->id), O_RDONLY, {}), is_over));
  EXPECT_FALSE(is_over);
  EXPECT_TRUE(remove({}));
  while (!is_over || liar_.removed.empty()) mount_->run(pause());
  EXPECT_EQ(liar_.removed, liar_.renamed);
}

TEST_F(Lied, PageFromBeforeAChangeElsewhereNotesNoName) {
  liar_.list = list_two_files;
  const auto id = mount_->directories->open(mount_->root());
  NamesForTest first(1), second;
  ASSERT_TRUE(mount_->run(mount_->directories->read(id, 0, true, first, {})));
  EXPECT_EQ(mount_->tree->names().size(), 1U);
  liar_.attributes = [](const nfs3::nfs_fh3&) {
    auto made = attributes_of(ftype3::NF3DIR, 1);
    made.mtime.seconds = 1;
    return made;
  };
  ASSERT_TRUE(mount_->run(mount_->tree->ask_attributes(*mount_->root(), {})));
  ASSERT_TRUE(mount_->run(mount_->directories->read(id, first.last, true, second, {})));
  EXPECT_THAT(second.names, testing::ElementsAre("name8"));
  EXPECT_EQ(mount_->tree->names().size(), 1U);
  mount_->directories->release(id);
}

// A SETATTR that was given up may reach the server behind later writes.
TEST_F(Lied, NewSizeIsSetOnlyIfNobodyHasChangedTheFileSince) {
  liar_.is_honest = true;
  liar_.found_attributes.ctime.seconds = 1;
  liar_.changed_at = 2;
  liar_.attributes = [&](const nfs3::nfs_fh3&) {
    auto made = attributes_of(ftype3::NF3REG, 7);
    made.ctime.seconds = liar_.changed_at;
    return made;
  };
  const Hold node = mount_->look_up("name");
  const auto held = [&] { return mount_->tree->nodes().find(node->id); };
  EXPECT_TRUE(mount_->run(mount_->files->open(held(), O_WRONLY | O_TRUNC, {})));
  EXPECT_EQ(liar_.guards, (std::vector<std::uint32_t>{1, 2}));
  liar_.guards.clear();
  nfs3::sattr3 size;
  size.size.set_size(3);
  EXPECT_TRUE(mount_->run(mount_->attributes->set(held(), size, {})));
  EXPECT_EQ(liar_.guards, std::vector<std::uint32_t>{2});
  // One whose time has passed is not begun.
  liar_.guards.clear();
  const auto late = mount_->run(mount_->attributes->set(held(), size, {.deadline = Clock::now()}));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), ETIMEDOUT);
  EXPECT_TRUE(liar_.guards.empty());
}

TEST_F(Lied, ServerThatNeverKeepsBytesIsAnErrorInTheEnd) {
  const Hold node = mount_->look_up("name");
  const auto opened = mount_->open("name", O_WRONLY);
  EXPECT_EQ(mount_->write(opened.id, 0, "some bytes"), 0);
  EXPECT_EQ(mount_->flush("name"), EIO);
  EXPECT_EQ(mount_->files->writes().dirty_count(), 0U);
  EXPECT_GE(mount_->tree->statistics().commits, 10U);
  liar_.is_honest = true;
  EXPECT_EQ(mount_->write(opened.id, 0, "some bytes"), 0);
  EXPECT_EQ(mount_->flush("name"), 0);
}

}  // namespace
}  // namespace mounts
