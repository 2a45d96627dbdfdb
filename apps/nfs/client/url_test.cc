#include "nfs/client/url.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

namespace nfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NfsUrl, NamesOneServerOrSeveral) {
  const auto one = parse_nfs_url("nfs+rdma://host/data/a");
  ASSERT_TRUE(one) << one.error();
  EXPECT_THAT(one->transport_urls(), ElementsAre("rdma://host:20049"));
  EXPECT_EQ(one->path, "/data/a");

  const auto several = parse_nfs_url("nfs+tcp://a,b:77,[2001:db8::1],[::2]:5/data");
  ASSERT_TRUE(several) << several.error();
  EXPECT_THAT(several->transport_urls(), ElementsAre("tcp://a:2049", "tcp://b:77",
                                                     "tcp://[2001:db8::1]:2049", "tcp://[::2]:5"));
  EXPECT_EQ(several->text(), "nfs+tcp://a:2049,b:77,[2001:db8::1]:2049,[::2]:5/data");
  EXPECT_EQ(parse_nfs_url("nfs+tcp://a/b,c")->path, "/b,c") << "commas of names are theirs";
}

TEST(NfsUrl, SaysWhatIsWrong) {
  for (const char* const text :
       {"nfs+rdma:///data", "nfs+rdma://a,/data", "nfs+rdma://,a/data", "nfs+rdma://a:0/data",
        "nfs+rdma://a,b:x/data", "nfs+rdma://[::1/data", "nfs+rdma://u@a/data", "nfs://a/data",
        "nfs+rdma://a/data/%zz", "nfs+rdma://a/data/../b"}) {
    EXPECT_FALSE(parse_nfs_url(text)) << text;
  }
  const std::string longest(255, 'x');
  EXPECT_TRUE(parse_nfs_url("nfs+tcp://a/" + longest + "/b"));
  EXPECT_FALSE(parse_nfs_url("nfs+tcp://a/" + longest + "x/b")) << "no file system has such a name";
  std::string many = "nfs+rdma://a";
  for (int i = 0; i < 16; ++i) many += ",a";
  EXPECT_THAT(parse_nfs_url(many + "/data").error(), HasSubstr("more than 16 servers"));
}

}  // namespace
}  // namespace nfs
