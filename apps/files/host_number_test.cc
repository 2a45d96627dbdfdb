#include "files/host_number.h"

#include <gtest/gtest.h>

namespace files {
namespace {

TEST(NumberOfHost, IsTheSameForAllPortsOfAHostAndNoOther) {
  EXPECT_EQ(number_of_host("192.0.2.1:700"), number_of_host("192.0.2.1:65535"));
  EXPECT_EQ(number_of_host("[2001:db8::1]:1"), number_of_host("[2001:db8::1]:2"));
  EXPECT_NE(number_of_host("192.0.2.1:700"), number_of_host("192.0.2.2:700"));
  EXPECT_NE(number_of_host("[2001:db8::1]:1"), number_of_host("[2001:db8::2]:1"));
}

TEST(NumberOfHost, IsTheUsersOverAUnixSocket) {
  EXPECT_EQ(number_of_host("local (user 7, process 1)"),
            number_of_host("local (user 7, process 2)"));
  EXPECT_NE(number_of_host("local (user 7, process 1)"),
            number_of_host("local (user 8, process 1)"));
}

}  // namespace
}  // namespace files
