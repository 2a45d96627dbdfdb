#include "blob/store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "blob/sha256.h"

namespace blob {
namespace {

using rpcrdma::Bytes;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string pattern = testing::TempDir() + "rpcrdma-store.XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    EXPECT_EQ(store().open(), blob_status::BLOB_OK);
  }
  ~StoreTest() override { std::filesystem::remove_all(directory_); }

  // A new one each time: nothing is kept but what is in the directory.
  Store store() const { return Store(directory_); }

  static std::vector<std::byte> data(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    return bytes;
  }
  static blob_sum sum_of(Bytes bytes) {
    Sha256Stream stream;
    stream.add(bytes);
    return stream.finish();
  }
  blob_status put(const blob_id& id, std::string_view name, Bytes bytes) {
    if (const blob_status status = store().put_begin(id, name, bytes.size());
        status != blob_status::BLOB_OK) {
      return status;
    }
    if (const blob_status status = store().put_data(id, 0, bytes); status != blob_status::BLOB_OK)
      return status;
    return store().put_commit(id, sum_of(bytes));
  }
  bool exists(const char* name) const { return std::filesystem::exists(directory_ + "/" + name); }

  std::string directory_;
  const blob_id id_{std::byte{1}, std::byte{2}};
  const blob_id other_id_{std::byte{9}};
};

TEST_F(StoreTest, BlobAppearsOnlyWhenItIsCommitted) {
  const auto bytes = data(1000);
  ASSERT_EQ(store().put_begin(id_, "name", 1000), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, bytes), blob_status::BLOB_OK);
  EXPECT_FALSE(exists("name"));
  EXPECT_EQ(store().stat("name").error(), blob_status::BLOB_NO_SUCH_BLOB);
  ASSERT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(store().stat("name")->size, 1000U);
  EXPECT_EQ(store().sum("name").value(), sum_of(bytes));
}

TEST_F(StoreTest, UploadGoesOnAfterARestart) {
  const auto bytes = data(10000);
  ASSERT_EQ(store().put_begin(id_, "name", bytes.size()), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 5000, Bytes(bytes).subspan(5000)), blob_status::BLOB_OK);
  Store restarted(directory_);
  ASSERT_EQ(restarted.open(), blob_status::BLOB_OK);
  ASSERT_EQ(restarted.put_data(id_, 0, Bytes(bytes).first(5000)), blob_status::BLOB_OK);
  ASSERT_EQ(restarted.put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(restarted.sum("name").value(), sum_of(bytes));
}

TEST_F(StoreTest, EveryOperationMayBeRepeatedWithTheSameOutcome) {
  const auto bytes = data(5000);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(store().put_begin(id_, "name", bytes.size()), blob_status::BLOB_OK);
    EXPECT_EQ(store().put_data(id_, 0, bytes), blob_status::BLOB_OK);
    EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
    EXPECT_EQ(store().sum("name").value(), sum_of(bytes));
  }
  for (int round = 0; round < 2; ++round) EXPECT_EQ(store().remove("name"), blob_status::BLOB_OK);
}

TEST_F(StoreTest, CommitThatWasCutOffBehindTheRenamingCanBeMadeAgain) {
  const auto bytes = data(1000);
  ASSERT_EQ(store().put_begin(id_, "name", 1000), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, bytes), blob_status::BLOB_OK);
  for (const auto& file : std::filesystem::directory_iterator(directory_ + "/.uploads")) {
    if (file.path().extension() == ".data") {
      std::filesystem::rename(file.path(), directory_ + "/name");
      break;
    }
  }
  ASSERT_TRUE(exists("name"));
  EXPECT_EQ(store().put_commit(id_, sum_of(data(999))), blob_status::BLOB_INCOMPLETE);
  EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(store().sum("name").value(), sum_of(bytes));
}

TEST_F(StoreTest, WrongSumLeavesTheOldBlobAndForgetsTheUpload) {
  ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
  const auto bytes = data(200);
  ASSERT_EQ(store().put_begin(other_id_, "name", 200), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(other_id_, 0, bytes), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_commit(other_id_, sum_of(data(199))), blob_status::BLOB_SUM_MISMATCH);
  EXPECT_EQ(store().stat("name")->size, 100U);
  EXPECT_EQ(store().put_commit(other_id_, sum_of(bytes)), blob_status::BLOB_NO_SUCH_UPLOAD);
}

TEST_F(StoreTest, IncompleteUploadIsNotCommitted) {
  ASSERT_EQ(store().put_begin(id_, "name", 200), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, data(100)), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_commit(id_, sum_of(data(100))), blob_status::BLOB_INCOMPLETE);
  EXPECT_FALSE(exists("name"));
}

TEST_F(StoreTest, DataBeyondTheAnnouncedSizeIsRefused) {
  ASSERT_EQ(store().put_begin(id_, "name", 100), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_data(id_, 1, data(100)), blob_status::BLOB_BAD_RANGE);
  EXPECT_EQ(store().put_data(id_, ~std::uint64_t{0}, data(2)), blob_status::BLOB_BAD_RANGE);
}

TEST_F(StoreTest, UploadIdIsForOneNameAndSize) {
  ASSERT_EQ(store().put_begin(id_, "name", 100), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_begin(id_, "other", 100), blob_status::BLOB_CONFLICT);
  EXPECT_EQ(store().put_begin(id_, "name", 101), blob_status::BLOB_CONFLICT);
  EXPECT_EQ(store().put_data(other_id_, 0, data(1)), blob_status::BLOB_NO_SUCH_UPLOAD);
}

TEST_F(StoreTest, NamesThatLeaveTheDirectoryAreRefused) {
  for (const std::string_view name :
       {std::string_view(""), std::string_view("."), std::string_view(".."),
        std::string_view("a/b"), std::string_view("/etc/passwd"), std::string_view("../x"),
        std::string_view("a\0b", 3), std::string_view(".uploads")}) {
    EXPECT_EQ(store().put_begin(id_, name, 1), blob_status::BLOB_BAD_NAME);
    EXPECT_EQ(store().stat(name).error(), blob_status::BLOB_BAD_NAME);
    EXPECT_EQ(store().sum(name).error(), blob_status::BLOB_BAD_NAME);
    EXPECT_EQ(store().remove(name), blob_status::BLOB_BAD_NAME);
    std::array<std::byte, 4> room{};
    EXPECT_EQ(store().get(name, 0, room).error(), blob_status::BLOB_BAD_NAME);
  }
  EXPECT_FALSE(valid_name(std::string(256, 'x')));
  EXPECT_TRUE(valid_name(std::string(255, 'x')));
}

TEST_F(StoreTest, GetTellsTheEnd) {
  ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
  std::array<std::byte, 60> room{};
  auto got = store().get("name", 0, room);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->size, 60U);
  EXPECT_FALSE(got->end);
  got = store().get("name", 60, room);
  EXPECT_EQ(got->size, 40U);
  EXPECT_TRUE(got->end);
  got = store().get("name", 1000, room);
  EXPECT_EQ(got->size, 0U);
  EXPECT_TRUE(got->end);
}

TEST_F(StoreTest, ListsBlobsByNameAndNothingElse) {
  ASSERT_EQ(put(id_, "b", data(1)), blob_status::BLOB_OK);
  ASSERT_EQ(put(other_id_, "a", data(2)), blob_status::BLOB_OK);
  std::filesystem::create_directory(directory_ + "/folder");
  const auto entries = store().list();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[1].size, 1U);
}

}  // namespace
}  // namespace blob
