#include "tools/mount_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rpcrdma::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

MountWords words_of(std::string_view text) {
  MountWords words;
  const auto read = read_mount_words(text, words);
  EXPECT_TRUE(read) << read.error();
  return words;
}

std::string refused(std::string_view text) {
  MountWords words;
  const auto read = read_mount_words(text, words);
  return read ? "" : read.error();
}

TEST(MountWords, HaveTheDefaultsOfNfs5) {
  const MountWords words = words_of("");
  EXPECT_EQ(words.file_min, seconds(3));
  EXPECT_EQ(words.file_max, seconds(60));
  EXPECT_EQ(words.directory_min, seconds(30));
  EXPECT_EQ(words.directory_max, seconds(60));
  EXPECT_FALSE(words.is_read_only);
}

TEST(MountWords, SetTimeOutsInSecondsAndTimeoInTenths) {
  const MountWords words = words_of("acregmin=1,acregmax=2,acdirmin=5,acdirmax=7,timeo=25");
  EXPECT_EQ(words.file_min, seconds(1));
  EXPECT_EQ(words.file_max, seconds(2));
  EXPECT_EQ(words.directory_min, seconds(5));
  EXPECT_EQ(words.directory_max, seconds(7));
  EXPECT_EQ(words.patience, milliseconds(2'500));
  EXPECT_EQ(words_of("noac").directory_max, seconds(0));
  EXPECT_EQ(words_of("actimeo=9").file_min, seconds(9));
}

TEST(MountWords, TakeWhatMountAndSystemdSay) {
  const MountWords words = words_of("rw,_netdev,nofail,x-systemd.automount,suid,nodev,ro,vers=3,");
  EXPECT_TRUE(words.is_read_only);
  EXPECT_THAT(words.fuse, testing::ElementsAre("suid", "nodev"));
}

TEST(MountWords, SetTheRest) {
  const MountWords words =
      words_of("allow_other,nocto,nconnect=4,mountport=20048,sec=krb5p,memory=64M");
  EXPECT_TRUE(words.is_for_all);
  EXPECT_FALSE(words.asks_at_open);
  EXPECT_EQ(words.connections, 4U);
  EXPECT_EQ(words.mount_port, 20048);
  EXPECT_EQ(words.security, "krb5p");
  EXPECT_EQ(words.memory, std::size_t{64} << 20U);
}

TEST(MountWords, TakeALineOfFstabThatWasForTheKernel) {
  const MountWords words = words_of(
      "rw,noatime,vers=3,rdma,port=20050,mountport=2049,mountproto=tcp,soft,nolock,local_lock=all,"
      "rsize=1048576,wsize=65536,timeo=600,sec=sys,nconnect=2,nofail,_netdev,intr,noacl");
  EXPECT_FALSE(words.is_read_only);
  EXPECT_EQ(words.port, 20050);
  EXPECT_EQ(words.is_rdma, true);
  EXPECT_EQ(words.read_size, 1U << 20U);
  EXPECT_EQ(words.write_size, 64U << 10U);
}

TEST(MountWords, SizesOfTransfersAreRoundedAsNfs5Says) {
  EXPECT_EQ(words_of("rsize=1000").read_size, 4096U);
  EXPECT_EQ(words_of("rsize=5000").read_size, 4096U);
  EXPECT_EQ(words_of("wsize=99999999").write_size, 1U << 20U);
}

TEST(MountWords, LastOfReadOnlyAndWritableCounts) {
  EXPECT_FALSE(words_of("ro,rw").is_read_only);
  EXPECT_TRUE(words_of("rw,ro").is_read_only);
}

TEST(MountWords, OwnersAndTheNumberOfFilesAreNumbers) {
  const MountWords words = words_of("uid=0,gid=1000,nodes=5000");
  EXPECT_EQ(words.uid, 0U);
  EXPECT_EQ(words.gid, 1000U);
  EXPECT_EQ(words.nodes, 5000U);
  EXPECT_EQ(words_of("").uid, std::nullopt);
}

TEST(MountWords, PortAndProtocolMustNotContradictTheUrl) {
  const auto url = [](const char* of, const char* words) {
    const auto made = with_words(of, words_of(words));
    return made ? *made : "refused: " + made.error();
  };
  EXPECT_EQ(url("nfs+rdma://h/data", "port=20050"), "nfs+rdma://h:20050/data");
  EXPECT_EQ(url("nfs+rdma://h,i:20050/data", "port=20050,proto=rdma"),
            "nfs+rdma://h:20050,i:20050/data");
  EXPECT_EQ(url("nfs+tcp://h/data", "proto=tcp"), "nfs+tcp://h/data");
  EXPECT_THAT(url("nfs+rdma://h:7/data", "port=8"), testing::StartsWith("refused"));
  EXPECT_THAT(url("nfs+tcp://h/data", "rdma"), testing::StartsWith("refused"));
}

TEST(MountWords, RefuseWhatIsWrongByItsName) {
  EXPECT_THAT(refused("ro,frobnicate"), testing::HasSubstr("-o frobnicate"));
  EXPECT_THAT(refused("timeo=x"), testing::HasSubstr("timeo= takes tenths"));
  EXPECT_THAT(refused("timeo=0"), testing::HasSubstr("timeo="));
  EXPECT_THAT(refused("acregmin=-1"), testing::HasSubstr("acregmin="));
  EXPECT_THAT(refused("acregmin=61"), testing::HasSubstr("at most"));
  EXPECT_THAT(refused("nconnect=17"), testing::HasSubstr("1 to 16"));
  EXPECT_THAT(refused("memory=1M"), testing::HasSubstr("16M at least"));
  EXPECT_THAT(refused("memory=99999999999G"), testing::HasSubstr("memory="));
  EXPECT_THAT(refused("sec=none"), testing::HasSubstr("krb5"));
  EXPECT_THAT(refused("hard"), testing::HasSubstr("unkillable"));
  EXPECT_THAT(refused("lock"), testing::HasSubstr("nolock"));
  EXPECT_THAT(refused("vers=4.2"), testing::HasSubstr("NFS version 3"));
  EXPECT_THAT(refused("retrans=2"), testing::HasSubstr("timeo="));
  EXPECT_THAT(refused("local_lock=none"), testing::HasSubstr("local_lock=all"));
  EXPECT_THAT(refused("mountproto=udp"), testing::HasSubstr("TCP"));
  EXPECT_THAT(refused("proto=udp"), testing::HasSubstr("rdma or tcp"));
  EXPECT_THAT(refused("rsize=0"), testing::HasSubstr("rsize="));
  EXPECT_THAT(refused("uid=root"), testing::HasSubstr("uid="));
  EXPECT_THAT(refused("nodes=255"), testing::HasSubstr("256 at least"));
}

}  // namespace
}  // namespace rpcrdma::tools
