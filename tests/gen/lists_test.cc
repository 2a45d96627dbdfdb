// Linked lists: which declarations are some, whatever the order of the definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gen/compiler.h"

namespace rpcrdma::gen {
namespace {

// Returns the structure as it is in C++.
std::string struct_of(const std::string& header, const std::string& name) {
  const std::size_t begin = header.find("struct " + name + " {");
  if (begin == std::string::npos) return {};
  return header.substr(begin, header.find("\n};", begin) - begin);
}

TEST(Lists, AreTheSameInEveryOrderOfTheDefinitions) {
  std::vector<std::string> definitions = {
      "struct all { nodes *a; nodes b; nodes c<4>; more d[2]; maybe e; more *f; };\n",
      "struct node { int v; node *next; };\n", "typedef more *maybe;\n", "typedef node nodes;\n",
      "typedef nodes more;\n"};
  std::sort(definitions.begin(), definitions.end());
  const std::string wanted =
      "struct all {\n  std::optional<nodes> a;\n  nodes b{};\n  std::vector<nodes> c;\n"
      "  std::array<more, 2> d{};\n  maybe e{};\n  std::optional<more> f;";
  do {
    std::string text;
    for (const std::string& each : definitions) text += each;
    const Compiled made = compile(text, {.name = "a.x", .namespace_name = {}});
    ASSERT_TRUE(made.ok) << text << made.messages;
    ASSERT_EQ(struct_of(made.header, "all"), wanted) << text;
    ASSERT_NE(made.header.find("using maybe = std::optional<more>;"), std::string::npos) << text;
  } while (std::next_permutation(definitions.begin(), definitions.end()));
}

// rpcgen's C has no bool before each element, neither for the node nor for its typedef; it has one
// for a typedef of a pointer.
TEST(Lists, AreElementsOfArraysByTheTypedefThatTheMessageNames) {
  const auto made = [](const std::string& text) {
    return compile("struct node { int v; node *next; };\n" + text,
                   {.name = "a.x", .namespace_name = {}});
  };
  const Compiled refused = made("struct all { node a<4>; };\n");
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.messages.find("typedef node NAME"), std::string::npos) << refused.messages;
  const Compiled taken = made("typedef node NAME; struct all { NAME a<4>; };\n");
  ASSERT_TRUE(taken.ok) << taken.messages;
  EXPECT_NE(taken.source.find("if (value.empty()) return writer.fail(\"NAME\");"),
            std::string::npos)
      << "an element without nodes has no encoding";
}

}  // namespace
}  // namespace rpcrdma::gen
