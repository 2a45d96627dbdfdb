#include "posix/shared_object.h"

#include <gmock/gmock-more-matchers.h>
#include <gtest/gtest.h>

namespace rpcrdma::posix {
namespace {

using testing::Contains, testing::ElementsAre, testing::IsEmpty;

constexpr const char* kFile = "libx.so";

// An installed tree may be moved as a whole, and a build is one, too.
TEST(SharedObjectPlaces, AreThoseOfTheTreeThatTheProgramIsIn) {
  for (const char* const program : {"/opt/x/bin/rpcrdma", "/opt/x/libexec/rpcrdma/bench"}) {
    const auto places = places_of_program(program, kFile);
    EXPECT_THAT(places, Contains("/opt/x/lib/libx.so")) << program;
    EXPECT_THAT(places, Contains("/opt/x/lib/rpcrdma/libx.so")) << program;
  }
  EXPECT_EQ(places_of_program("/opt/x/bin/rpcrdma", kFile).front(), "/opt/x/bin/libx.so");
}

// A program that is somewhere else finds it by the library that it is linked with.
TEST(SharedObjectPlaces, AreBesideASharedLibraryAndNeverRelative) {
  EXPECT_THAT(places_beside("/opt/x/lib/librpcrdma.so.0.1", kFile),
              ElementsAre("/opt/x/lib/libx.so", "/opt/x/lib/rpcrdma/libx.so"));
  EXPECT_THAT(places_beside("lib/librpcrdma.so.0.1", kFile), IsEmpty());
  EXPECT_THAT(places_beside("", kFile), IsEmpty());
}

TEST(SharedObject, IsReportedIfItIsNowhere) {
  const auto object = load_shared_object({"libno-such-thing.so", "/nonexistent"});
  ASSERT_FALSE(object);
  EXPECT_FALSE(object.error().was_found);
  EXPECT_THAT(object.error().why, testing::HasSubstr("RPCRDMA_PROVIDER_DIR"));
}

}  // namespace
}  // namespace rpcrdma::posix
