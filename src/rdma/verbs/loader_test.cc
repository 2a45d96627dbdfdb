#include "rdma/verbs/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rpcrdma::rdma::verbs {
namespace {

using testing::Contains, testing::ElementsAre, testing::IsEmpty;

// An installed tree may be moved as a whole, and a build is one, too.
TEST(PluginPlaces, AreThoseOfTheTreeThatTheProgramIsIn) {
  for (const char* const program : {"/opt/x/bin/rpcrdma", "/opt/x/libexec/rpcrdma/bench"}) {
    const auto places = plugin_places(program);
    EXPECT_THAT(places, Contains("/opt/x/lib/librpcrdma_verbs.so")) << program;
    EXPECT_THAT(places, Contains("/opt/x/lib/rpcrdma/librpcrdma_verbs.so")) << program;
  }
  EXPECT_EQ(plugin_places("/opt/x/bin/rpcrdma").front(), "/opt/x/bin/librpcrdma_verbs.so");
}

// A program that is somewhere else finds it by the library that it is linked with.
TEST(PluginPlaces, AreBesideASharedLibraryAndNeverRelative) {
  EXPECT_THAT(
      places_beside("/opt/x/lib/librpcrdma.so.0.1"),
      ElementsAre("/opt/x/lib/librpcrdma_verbs.so", "/opt/x/lib/rpcrdma/librpcrdma_verbs.so"));
  EXPECT_THAT(places_beside("lib/librpcrdma.so.0.1"), IsEmpty());
  EXPECT_THAT(places_beside(""), IsEmpty());
}

}  // namespace
}  // namespace rpcrdma::rdma::verbs
