// Names that the C preprocessor, which rpcgen runs first, would have replaced.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gen/compiler.h"

namespace rpcrdma::gen {
namespace {

Compiled compiled(const std::string& text) {
  return compile(text, {.name = "a.x", .namespace_name = {}});
}

// Returns the sizes of the arrays of bytes, in the order in which they stand in the header.
std::vector<int> sizes_in(const std::string& text) {
  const Compiled made = compiled(text);
  EXPECT_TRUE(made.ok) << made.messages;
  std::vector<int> sizes;
  const std::string array = "std::array<std::byte, ";
  for (std::size_t at = made.header.find(array); at != std::string::npos;
       at = made.header.find(array, at + 1)) {
    sizes.push_back(std::stoi(made.header.substr(at + array.size())));
  }
  return sizes;
}

using Sizes = std::vector<int>;

TEST(Preprocessor, GivesEachNameTheNumberThatItHasThere) {
  EXPECT_EQ(sizes_in("#define N 5\nstruct a { opaque x[N]; };\n#undef N\n#define N 6\n"
                     "struct b { opaque x[N]; };\n"),
            (Sizes{5, 6}));
  EXPECT_EQ(sizes_in("#define N 5\nstruct a { opaque x[N]; };\n#define N 6\n"
                     "struct b { opaque x[N]; };\n"),
            (Sizes{5, 6}));
  EXPECT_EQ(sizes_in("#define N 5\n#define M N + 1\nstruct a { opaque x[N]; };\n#undef N\n"
                     "struct b { opaque x[M]; };\n"),
            (Sizes{5, 6}));
  EXPECT_EQ(sizes_in("#define N 5\nconst A = N;\n#undef N\nconst N = 7;\n"
                     "struct a { opaque x[A]; opaque y[N]; };\n"),
            (Sizes{5, 7}));
  EXPECT_EQ(sizes_in("struct a { opaque x[N]; };\n#define N 5\n"), Sizes{5})
      << "constants may stand below";
}

TEST(Preprocessor, GivesProceduresTheNumbersThatTheirNamesHaveThere) {
  const Compiled made = compiled(
      "#define ONE 1\nprogram P { version V { void A(void) = ONE; } = ONE; } = 7;\n#undef ONE\n"
      "#define ONE 2\nprogram Q { version W { void B(void) = ONE; } = ONE; } = 8;\n"
      "const OF_A = A; const OF_B = B;\n");
  ASSERT_TRUE(made.ok) << made.messages;
  EXPECT_NE(made.header.find(" OF_A = 1;"), std::string::npos) << made.header;
  EXPECT_NE(made.header.find(" OF_B = 2;"), std::string::npos);
}

TEST(Preprocessor, LeavesTheLastNumberAsAConstant) {
  const Compiled made = compiled("#define N 5\n#define M 4\n#undef M\n#define N 6\n");
  ASSERT_TRUE(made.ok) << made.messages;
  EXPECT_NE(made.messages.find("a.x:4:1: warning: 'N' is defined already"), std::string::npos);
  EXPECT_NE(made.header.find(" N = 6;"), std::string::npos);
  EXPECT_EQ(made.header.find(" M = "), std::string::npos);
}

TEST(Preprocessor, DoesNotWarnOfTheSameNumber) {
  EXPECT_EQ(compiled("#define N 5\n#define N 0x5\n").messages, "");
  EXPECT_EQ(compiled("%#define N 5\n#define N 6\n").messages, "");
}

}  // namespace
}  // namespace rpcrdma::gen
