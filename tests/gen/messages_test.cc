// What rpcrdma-gen says: errors/NAME.x with the whole text in errors/NAME.txt. Files whose name
// begins with "warning_" are accepted, all others refused.
//
// RPCRDMA_UPDATE_GOLDEN=1 writes the .txt files anew; each line of the difference is to be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gen/compiler.h"

namespace rpcrdma::gen {
namespace {

namespace fs = std::filesystem;

bool updates() {
  const char* wish = std::getenv("RPCRDMA_UPDATE_GOLDEN");
  return wish != nullptr && std::string_view(wish) == "1";
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " cannot be read";
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Names without the extension, sorted.
std::vector<std::string> names(std::string_view extension) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(GEN_ERRORS)) {
    if (entry.path().extension() == extension) found.push_back(entry.path().stem().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path path_of(const std::string& name, const char* extension) {
  return fs::path(GEN_ERRORS) / (name + extension);
}

Compiled compile_file(const std::string& name) {
  return compile(read(path_of(name, ".x")), {name + ".x", {}, true});
}

class Messages : public testing::TestWithParam<std::string> {};

TEST_P(Messages, AreAsWritten) {
  const std::string name = GetParam();
  ASSERT_TRUE(fs::exists(path_of(name, ".x"))) << name << ".txt has no .x";
  const Compiled made = compile_file(name);
  const bool accepted = name.starts_with("warning_");
  EXPECT_EQ(made.ok, accepted) << made.messages;
  EXPECT_EQ(made.header.empty(), !accepted);
  EXPECT_EQ(made.source.empty(), !accepted);
  EXPECT_FALSE(made.messages.empty());
  EXPECT_EQ(made.messages.find(": error: ") == std::string::npos, accepted);
  if (updates()) {
    std::ofstream(path_of(name, ".txt"), std::ios::binary) << made.messages;
    return;
  }
  ASSERT_TRUE(fs::exists(path_of(name, ".txt")))
      << name << ".x has no .txt; RPCRDMA_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(made.messages, read(path_of(name, ".txt")));
}

// Of both extensions, so that a file that lost its partner is one that fails.
std::vector<std::string> all_names() {
  std::vector<std::string> all = names(".x");
  for (const std::string& name : names(".txt")) {
    if (!std::binary_search(all.begin(), all.end(), name)) {
      all.insert(std::lower_bound(all.begin(), all.end(), name), name);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Messages, testing::ValuesIn(all_names()),
                         [](const auto& param_info) { return param_info.param; });

// Also of files that were added after the tests were listed.
TEST(Messages, HaveBothFiles) {
  EXPECT_GT(names(".x").size(), 100U);
  if (!updates()) {
    EXPECT_EQ(names(".x"), names(".txt"));
  }
  for (const auto& entry : fs::directory_iterator(GEN_ERRORS)) {
    const std::string extension = entry.path().extension().string();
    EXPECT_TRUE(extension == ".x" || extension == ".txt") << entry.path();
  }
}

TEST(Messages, TellTheNameAsItWasGiven) {
  const Compiled made = compile("const A = B;\n", {"some/folder/a.x", {}, false});
  EXPECT_TRUE(made.messages.starts_with("some/folder/a.x:1:11: error: ")) << made.messages;
  EXPECT_EQ(made.stem, "a");
}

TEST(Compiling, IsDeterministic) {
  for (const std::string& name : names(".x")) {
    const Compiled first = compile_file(name);
    const Compiled second = compile_file(name);
    EXPECT_EQ(first.messages, second.messages);
    EXPECT_EQ(first.header, second.header);
    EXPECT_EQ(first.source, second.source);
    EXPECT_EQ(first.random, second.random);
  }
}

// Names decide, not where things lie in memory: between the two, the heap is another.
TEST(Compiling, DoesNotDependOnTheHeap) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i), next = std::to_string((i + 7) % 40);
    text += "struct s" + n + " { int a; u" + next + " *b; s" + next + " c<>; };\n";
    text += "union u" + n + " switch (bool b) { case TRUE: s" + next + " c; case FALSE: void; };\n";
    text += "enum e" + n + " { A" + n + ", B" + n + " };\ntypedef e" + n + " t" + n + "<3>;\n";
  }
  const Compiled first = compile(text, {"heap.x", {}, true});
  std::vector<std::vector<char>> held;
  for (std::size_t i = 1; i < 400; ++i) held.emplace_back(i * 7 % 500 + 1);
  for (std::size_t i = 0; i < held.size(); i += 3) held[i] = {};
  const Compiled second = compile(text, {"heap.x", {}, true});
  EXPECT_TRUE(first.ok) << first.messages;
  EXPECT_FALSE(first.header.empty());
  EXPECT_EQ(first.header, second.header);
  EXPECT_EQ(first.source, second.source);
  EXPECT_EQ(first.random, second.random);
}

// Deep and wide files are refused or compiled, but never bring the compiler down.
TEST(Compiling, EndsWithLargeFiles) {
  std::string brackets = "typedef ", conditions, signs = "#if ";
  for (int i = 0; i < 5000; ++i) {
    brackets += "struct {";
    conditions += "#if 1\n";
  }
  signs += std::string(200'000, '!') + "1\n#endif\nconst A = 1;\n";
  EXPECT_FALSE(compile(brackets, {"brackets.x", {}, true}).ok);
  EXPECT_FALSE(compile(conditions, {"conditions.x", {}, true}).ok);
  EXPECT_TRUE(compile(signs, {"signs.x", {}, true}).ok);
  EXPECT_TRUE(compile("", {"empty.x", {}, true}).ok);
}

// Structures that contain the next one, which is defined behind them or before; `shortcuts` lead to
// each hundredth one, so that the way to it is short.
std::string chain(int size, bool backwards, bool shortcuts) {
  std::string text, begin;
  for (int i = 0; i < size; ++i) {
    const std::string name = "s" + std::to_string(i);
    const std::string one = "struct " + name + " { s" + std::to_string(i + 1) + " a; };\n";
    text = backwards ? one + text : text + one;
    if (shortcuts && i % 100 == 0) begin = name + " *" + name + "; " + begin;
  }
  if (shortcuts) begin = "struct all { " + begin + "};\n";
  return begin + text + "struct s" + std::to_string(size) + " { int a; };\n";
}

TEST(Compiling, EndsWithDeepFiles) {
  for (const bool backwards : {false, true}) {
    EXPECT_TRUE(compile(chain(400, backwards, false), {"chain.x", {}, true}).ok);
    EXPECT_TRUE(compile(chain(3900, backwards, true), {"chain.x", {}, true}).ok);
  }
  std::string typedefs;
  for (int i = 0; i < 3900; ++i) {
    typedefs += "typedef t" + std::to_string(i + 1) + " *t" + std::to_string(i) + ";\n";
  }
  EXPECT_FALSE(compile(typedefs + "typedef int t3900;\n", {"typedefs.x", {}, true}).ok);
  const Compiled deep = compile(chain(3900, false, false), {"chain.x", {}, true});
  EXPECT_NE(deep.messages.find("error: types contain each other more than 500 deep here"),
            std::string::npos)
      << deep.messages;
}

}  // namespace
}  // namespace rpcrdma::gen
