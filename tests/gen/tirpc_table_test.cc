// The tables that --tirpc-table writes: which calls of xdr_bytes() and xdr_string() are of data
// that may be placed, where the .x file leaves no doubt.
#include <gtest/gtest.h>

#include <string>

#include "gen/compiler.h"

namespace rpcrdma::gen {
namespace {

// Returns the row of a procedure `result P(argument)` in front of its comment.
std::string row_of(const std::string& types, const std::string& result, const std::string& argument,
                   const std::string& behind = {}) {
  const std::string text = types + "program PR { version V { " + result + " P(" + argument +
                           ") = 3; " + behind + " } = 2; } = 0x20000001;";
  const Compiled made = compile(text, {.name = "a.x", .tirpc_table = true});
  EXPECT_TRUE(made.ok) << made.messages;
  EXPECT_EQ(made.messages, "");
  EXPECT_EQ(made.header + made.source, "");
  const std::size_t start = made.tirpc.find("  {3, ");
  const std::size_t end = made.tirpc.find("}, /* P */");
  EXPECT_NE(start, std::string::npos);
  EXPECT_NE(end, std::string::npos);
  return made.tirpc.substr(start + 3, end - start - 3);
}

constexpr const char* kData = "typedef opaque data<1000>; /* ddp */ ";

TEST(TirpcTable, NumbersTheDataOfArgumentsAndResults) {
  EXPECT_EQ(row_of(kData, "void", "data"), "3, 0x1, 0x0, 0U, 0U");
  EXPECT_EQ(row_of(kData, "data", "void"), "3, 0x0, 0x1, 1000U, 4U");
  EXPECT_EQ(row_of("struct s { opaque a<8>; string b<8>; opaque c[8]; opaque d<>; /* ddp */ }; ",
                   "void", "s"),
            "3, 0x4, 0x0, 0U, 0U");
  EXPECT_EQ(
      row_of(std::string(kData) + "struct s { data a; int b; string c<9>; data d; }; ", "s", "s"),
      "3, 0x5, 0x5, 1000U, 28U");
}

TEST(TirpcTable, TakesArmsOfAUnionThatAgree) {
  const std::string types = std::string(kData) +
                            "union u switch (int a) { case 0: data b; case 1: int c; "
                            "default: void; }; ";
  EXPECT_EQ(row_of(types, "u", "void"), "3, 0x0, 0x1, 1000U, 8U");
  EXPECT_EQ(row_of(types + "struct s { u a; data b; }; ", "s", "void"), "3, 0x0, 0x3, 1000U, 12U");
}

TEST(TirpcTable, LeavesOutNumbersThatOthersMayHave) {
  const std::string types = std::string(kData) + "typedef string name<10>; ";
  EXPECT_EQ(
      row_of(types + "union u switch (int a) { case 0: data b; case 1: name c; }; ", "u", "void"),
      "3, 0x0, 0x0, 0U, 1008U");
  // An option, an array of any length and a list hide how many calls were made before.
  EXPECT_EQ(row_of(types + "struct s { name *a; data b; }; ", "void", "s"), "3, 0x2, 0x0, 0U, 0U");
  EXPECT_EQ(row_of(types + "struct s { data *a; name b; }; ", "void", "s"), "3, 0x0, 0x0, 0U, 0U");
  EXPECT_EQ(row_of(types + "struct s { name a<>; data b; }; ", "void", "s"), "3, 0x0, 0x0, 0U, 0U");
  EXPECT_EQ(
      row_of(types + "struct n { name a; n *next; }; struct s { n *a; data b; }; ", "void", "s"),
      "3, 0x0, 0x0, 0U, 0U");
  EXPECT_EQ(row_of(types + "struct s { name a[3]; data b; data c[2]; }; ", "void", "s"),
            "3, 0x38, 0x0, 0U, 0U");
  EXPECT_EQ(row_of(types + "struct s { name a[40]; data b; }; ", "void", "s"),
            "3, 0x0, 0x0, 0U, 0U");
}

TEST(TirpcTable, HasTheBoundOfTheFile) {
  EXPECT_EQ(row_of("typedef int all<>; ", "all", "void"), "3, 0x0, 0x0, 0U, 0U");
  EXPECT_EQ(row_of("typedef opaque all<>; /* ddp */ ", "all", "void"),
            "3, 0x0, 0x1, 4294967295U, 4U");
  EXPECT_EQ(row_of("typedef int all<100>; ", "all", "void"), "3, 0x0, 0x0, 0U, 404U");
}

}  // namespace
}  // namespace rpcrdma::gen
