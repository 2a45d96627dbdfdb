#include "tools/mount_line.h"

#include <gtest/gtest.h>

namespace rpcrdma::tools {
namespace {

TEST(MountLineTest, NamesThePortOfMountWhereRpcbindDoesNotKnowIt) {
  const MountLine line{.host = "[::1]", .path = "/d", .port = "20049", .mount_port = "2049"};
  EXPECT_EQ(line.command(),
            "mount -t nfs -o vers=3,rdma,port=20049,mountport=2049,mountproto=tcp,nolock [::1]:/d "
            "/mnt");
  EXPECT_EQ(line.fstab(),
            "[::1]:/d /mnt nfs vers=3,rdma,port=20049,mountport=2049,mountproto=tcp,nolock,_netdev "
            "0 0");
}

TEST(MountLineTest, KeepsLocksOfAServerThatHasThem) {
  const MountLine line{.host = "h",
                       .path = "/d",
                       .port = "2049",
                       .security = "krb5p",
                       .is_rdma = false,
                       .has_locks = true};
  EXPECT_EQ(line.command(), "mount -t nfs -o vers=3,proto=tcp,port=2049,sec=krb5p h:/d /mnt");
}

TEST(MountLineTest, QuotesPathsForTheShellAndForFstab) {
  const MountLine line{.host = "h", .path = "/a b'\\", .port = "1", .has_locks = true};
  EXPECT_EQ(line.command(), "mount -t nfs -o vers=3,rdma,port=1 'h:/a b'\\''\\' /mnt");
  EXPECT_EQ(line.fstab(), "h:/a\\040b'\\134 /mnt nfs vers=3,rdma,port=1,_netdev 0 0");
}

}  // namespace
}  // namespace rpcrdma::tools
