#include "nfs/readiness.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "nfs/back_end/dispatch.h"
#include "nfs/results.h"

namespace nfs {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kAtOnce{0};
constexpr std::chrono::seconds kLong{60};

// Answers at once, or keeps the questions until answer() is called.
class Files final : public FileSystemOf<Files> {
 public:
  explicit Files(std::byte name) : name_(name) {}
  ~Files() override { answer(); }
  std::vector<std::byte> root() const override { return {name_}; }

  template <class Procedure>
  void run(Request<Procedure> request) {
    if constexpr (std::is_same_v<typename Procedure::Args, nfs3::GETATTR3args>) {
      ++questions;
      EXPECT_EQ(request.args.object.data, root());
      kept_.push_back(std::move(request.done));
      if (answers_at_once) answer();
    } else {
      ADD_FAILURE() << "something else was asked";
      request.done(failed<typename Procedure::Results>(nfs3::nfsstat3::NFS3ERR_NOTSUPP));
    }
  }
  void answer() {
    for (auto& done : std::exchange(kept_, {})) {
      if (status == nfs3::nfsstat3::NFS3_OK) {
        done(succeeded<nfs3::GETATTR3res>(nfs3::GETATTR3resok{}));
      } else {
        done(failed<nfs3::GETATTR3res>(status));
      }
    }
  }

  int questions = 0;
  bool answers_at_once = true;
  nfs3::nfsstat3 status = nfs3::nfsstat3::NFS3_OK;

 private:
  const std::byte name_;
  std::vector<Done<nfs3::GETATTR3res>> kept_;
};

class OfTwoExports : public ::testing::Test {
 protected:
  OfTwoExports() {
    for (const char* const name : {"/one", "/two"}) add(name);
    publish();
  }
  void add(const char* name) {
    Export made;
    made.name = name;
    ServedExport& served = table_.add(made);
    auto files = std::make_unique<Files>(std::byte(files_.size()));
    files_.push_back(files.get());
    table_.complete(served, std::move(files));
    entries_.push_back({std::move(made), &served});
  }
  void publish() {
    auto list = ExportList::make(entries_);
    ASSERT_TRUE(list) << list.error();
    table_.publish(std::move(*list));
  }

  Readiness readiness_{table_};  // first, as in Exporter: it outlives the files
  ExportTable table_{HandleKey::random()};
  std::vector<Files*> files_;
  std::vector<ExportList::Entry> entries_;
};

TEST_F(OfTwoExports, AsksTheExportsOfThisTimeAlone) {
  EXPECT_EQ(readiness_.why_not(kAtOnce), "");
  files_[1]->answers_at_once = false;
  entries_.pop_back();
  add("/three");
  publish();
  EXPECT_EQ(readiness_.why_not(kAtOnce), "") << "/two is exported no more";
  EXPECT_EQ(files_[2]->questions, 1);
}

TEST_F(OfTwoExports, IsThereWhenBothAnswer) {
  EXPECT_EQ(readiness_.why_not(kAtOnce), "");
  EXPECT_EQ(readiness_.why_not(kAtOnce), "");
  EXPECT_EQ(files_[1]->questions, 2) << "an answer of before says nothing of now";
}

TEST_F(OfTwoExports, NamesTheExportThatDoesNotAnswer) {
  files_[1]->answers_at_once = false;
  const std::string why = readiness_.why_not(kAtOnce);
  EXPECT_THAT(why, HasSubstr("/two has not answered"));
  EXPECT_THAT(why, ::testing::Not(HasSubstr("/one")));
}

TEST_F(OfTwoExports, NamesTheExportThatFails) {
  files_[0]->status = nfs3::nfsstat3::NFS3ERR_STALE;
  files_[1]->status = nfs3::nfsstat3::NFS3ERR_IO;
  const std::string why = readiness_.why_not(kAtOnce);
  EXPECT_THAT(why, HasSubstr("/one"));
  EXPECT_THAT(why, HasSubstr("/two cannot be looked at: the server's disk failed"));
}

// Whoever watches asks again and again: what hangs gets no more work by that.
TEST_F(OfTwoExports, AsksOnceWhileThereIsNoAnswer) {
  files_[1]->answers_at_once = false;
  for (int i = 0; i < 5; ++i) EXPECT_NE(readiness_.why_not(kAtOnce), "");
  EXPECT_EQ(files_[1]->questions, 1);
  files_[1]->answers_at_once = true;
  files_[1]->answer();
  EXPECT_EQ(readiness_.why_not(kAtOnce), "") << "it was not asked again";
  EXPECT_EQ(files_[1]->questions, 2);
}

TEST_F(OfTwoExports, TakesAnAnswerThatComesInTime) {
  files_[1]->answers_at_once = false;
  EXPECT_NE(readiness_.why_not(kAtOnce), "");
  std::string why = "unset";
  const auto begun = std::chrono::steady_clock::now();
  std::thread asking([&] { why = readiness_.why_not(kLong); });
  std::thread other([&] { EXPECT_EQ(readiness_.why_not(kLong), ""); });
  // Its question is under way already; the answer may come before they wait, and they ask anew.
  files_[1]->answers_at_once = true;
  files_[1]->answer();
  asking.join();
  other.join();
  EXPECT_EQ(why, "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kLong / 2) << "nobody was woken";
}

}  // namespace
}  // namespace nfs
