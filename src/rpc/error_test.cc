#include "rpcrdma/error.h"

#include <gtest/gtest.h>

namespace rpcrdma {
namespace {

TEST(ErrorTest, MessageSaysWhatFailedAtWhichPeerAndWhy) {
  const Error error{Errc::kConnectionLost, "put", "10.0.0.1:20049", "the peer closed it"};
  const std::string message = error.message();
  EXPECT_EQ(message.find("put (10.0.0.1:20049) failed: "), 0U) << message;
  EXPECT_NE(message.find(": the peer closed it"), std::string::npos) << message;
}

TEST(ErrorTest, MessageOfWhatNeedsNoPeerNamesNone) {
  const Error error{Errc::kUnsupported, "loading Kerberos 5", "", "it is not installed"};
  const std::string message = error.message();
  EXPECT_EQ(message.find("loading Kerberos 5 failed: "), 0U) << message;
}

}  // namespace
}  // namespace rpcrdma
