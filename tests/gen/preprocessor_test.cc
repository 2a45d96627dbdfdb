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

TEST(Preprocessor, ReplacesNamesInOtherDefinitionsAsText) {
  EXPECT_EQ(sizes_in("%#define A 2+3\n%#define B A*2\nstruct s { opaque x[B]; };\n"), Sizes{8});
  EXPECT_EQ(sizes_in("%#define A (2+3)\n%#define B A*2\nstruct s { opaque x[B]; };\n"), Sizes{10});
  EXPECT_EQ(sizes_in("#define A 2+3\n#define B 2*A\n#define C B*B\n"
                     "struct s { opaque x[B]; opaque y[C]; };\n"),
            (Sizes{7, 2 * 2 + 3 * 2 * 2 + 3}));
  EXPECT_EQ(sizes_in("#define A -3\n#define B 10-A\nstruct s { opaque x[B]; };\n"), Sizes{13});
  EXPECT_EQ(sizes_in("#define A 4\n#define B A<<A|0x1u\nstruct s { opaque x[B]; };\n"), Sizes{65});
}

TEST(Preprocessor, ReplacesNamesWhereTheyAreUsed) {
  EXPECT_EQ(sizes_in("#define A 1\n#define B A\n#undef A\n#define A 2\n"
                     "struct s { opaque x[B]; };\n"),
            Sizes{2});
  EXPECT_EQ(sizes_in("#define A 1\n#define B A+1\nstruct s { opaque x[B]; };\n#define A 2*3\n"
                     "struct t { opaque x[B]; };\n"),
            (Sizes{2, 7}));
  EXPECT_EQ(sizes_in("#define C B\n#define B A\n#define A 3\nstruct s { opaque x[C]; };\n"),
            Sizes{3});
  EXPECT_EQ(compiled("#define B A\n#define A 3\n").messages, "");
  EXPECT_NE(compiled("#define A text\n#undef A\n").messages.find("'A' is no number"),
            std::string::npos);
  // It is text to rpcgen's preprocessor, which replaces the names in it there.
  EXPECT_EQ(sizes_in("#define A 1\n%#define B A\n#define A 2\nstruct s { opaque x[B]; };\n"),
            Sizes{1});
  const Compiled made = compiled("#define A 1\n#define B A\n#undef A\n#define A 2\n");
  EXPECT_NE(made.header.find(" B = 2;"), std::string::npos) << made.header;
  const std::string condition =
      "#define A 1\n#define B A\n#define A 0\n#if B\nconst YES = 1;\n#endif\n";
  EXPECT_EQ(compiled(condition).header.find(" YES = 1;"), std::string::npos);
}

TEST(Preprocessor, RefusesNamesThatAreNumbersElsewhereOnly) {
  const Compiled above = compiled(
      "#define N 5\n#define M N + 1\nstruct a { opaque x[M]; };\n#undef N\n"
      "struct b { opaque x[M]; };\n");
  EXPECT_FALSE(above.ok);
  EXPECT_NE(above.messages.find("a.x:5:21: error: 'M' is no number any more"), std::string::npos)
      << above.messages;
  const Compiled unused =
      compiled("#define N 5\n#define M N\n#undef N\nstruct a { opaque x[M]; };\n");
  EXPECT_NE(unused.messages.find("'M' is no number any more"), std::string::npos);
  const Compiled below =
      compiled("#define M N\nconst N = 7;\nstruct b { opaque x[M]; };\n#undef M\n#define M 5\n");
  EXPECT_FALSE(below.ok);
  EXPECT_NE(below.messages.find("a.x:3:21: error: 'M' is no number yet"), std::string::npos)
      << below.messages;
}

TEST(Preprocessor, LeavesNamesInsideOfTheirOwnText) {
  for (const std::string each : {"#define A A\n", "#define A B\n#define B A\n"}) {
    const Compiled made = compiled(each);
    EXPECT_TRUE(made.ok);
    EXPECT_NE(made.messages.find("a.x:1:1: warning: 'A' is no number"), std::string::npos);
    EXPECT_FALSE(compiled(each + "struct s { opaque x[A]; };\n").ok);
    EXPECT_EQ(sizes_in(each + "enum e { A = 4 };\nstruct s { opaque x[A]; };\n"), Sizes{4});
    EXPECT_TRUE(compiled(each + "#if A\n#error\n#endif\n").ok) << "it is 0 there";
  }
}

TEST(Preprocessor, EndsAtNamesThatStandForEachOtherTooDeep) {
  const auto chain = [](int size) {
    std::string text = "#define A0 1\n";
    for (int i = 1; i < size; ++i) {
      text += "#define A" + std::to_string(i) + " A" + std::to_string(i - 1) + "\n";
    }
    return text + "struct s { opaque x[A" + std::to_string(size - 1) + "]; };\n";
  };
  EXPECT_EQ(sizes_in(chain(150)), Sizes{1});
  EXPECT_FALSE(compiled(chain(400)).ok);
}

TEST(Preprocessor, DoesNotReplaceWithoutEnd) {
  std::string text = "#define A0 1+1\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "A" + std::to_string(i - 1);
    text += "#define A" + std::to_string(i) + " " + before + "+" + before + "\n";
  }
  const Compiled made = compiled(text);
  EXPECT_TRUE(made.ok);
  EXPECT_NE(made.messages.find("is no number; only #ifdef will know it"), std::string::npos);
}

TEST(Preprocessor, UnderstandsConditions) {
  const auto holds = [](const std::string& condition) {
    return compiled("#define FIVE 5\n#define SUM 2+3\n#define FLAG\n#if " + condition +
                    "\nconst YES = 1;\n#endif\n")
               .header.find(" YES = 1;") != std::string::npos;
  };
  for (const char* each :
       {"defined(RPC_HDR) || defined(OTHER)", "defined(OTHER)||defined RPC_SVC",
        "defined(FLAG) && !defined(OTHER)", "(defined(FLAG))", "!(defined ( OTHER ) || OTHER)",
        "FIVE == 5", "FIVE != 6 && FIVE", "FIVE > 4", "4 < FIVE", "FIVE >= 5 && FIVE <= 0x5",
        "SUM*2 == 8", "0 && 0 || 1", "1 || 0 && 0", "FLAG", "1 | 0 && 1", "!0 == 1", "1 << 2 > 3",
        "- -1 == 1", "OTHER == 0"}) {
    EXPECT_TRUE(holds(each)) << each;
  }
  for (const char* each :
       {"defined(OTHER) || defined(ELSE)", "defined(FLAG) && defined(OTHER)", "FIVE == 4",
        "!(FIVE)", "FIVE < 5", "FIVE > 5", "0 || 0", "1 && (0 || 0)", "FIVE != 5", "OTHER"}) {
    EXPECT_FALSE(holds(each)) << each;
    EXPECT_TRUE(compiled(std::string("#if ") + each + "\n#endif\n").ok) << each;
  }
}

TEST(Preprocessor, RefusesConditionsThatItDoesNotUnderstand) {
  for (const char* each : {"defined", "defined()", "defined(A", "defined(1)", "A ? 1 : 0", "(1",
                           "1)", "1 ||", "&& 1", "1 1", "1 = 1", "", "!", "A(1)"}) {
    EXPECT_FALSE(compiled(std::string("#if ") + each + "\n#endif\n").ok) << each;
  }
}

}  // namespace
}  // namespace rpcrdma::gen
