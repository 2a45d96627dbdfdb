// Compares the messages of rpcrdma-gen with those of errors/TOPIC.cases, byte by byte. A case whose
// name begins with "warning_" is accepted, all others are refused.
//
// RPCRDMA_UPDATE_GOLDEN=1 writes the messages anew; each line of the difference is to be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "gen/compiler.h"
#include "gen/message_cases.h"

namespace rpcrdma::gen {
namespace {

namespace fs = std::filesystem;

using Topics = std::map<std::string, std::vector<MessageCase>>;  // by the names of their files

bool updates() {
  const char* wish = std::getenv("RPCRDMA_UPDATE_GOLDEN");
  return wish != nullptr && std::string_view(wish) == "1";
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " cannot be read";
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Topics read_topics() {
  Topics topics;
  for (const auto& entry : fs::directory_iterator(GEN_ERRORS)) {
    topics[entry.path().filename().string()] = parse_cases(read(entry.path()));
  }
  return topics;
}

// Returns the names of all cases, sorted, each once.
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& [file, cases] : read_topics()) {
    for (const MessageCase& one : cases) names.push_back(one.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

CompileOptions for_all_files(const std::string& name) {
  return {.name = name, .namespace_name = {}, .fields = true, .random = true};
}

Compiled compile_case(const MessageCase& one) {
  return compile(one.text, for_all_files(one.name + ".x"));
}

// Writes the messages into the case of the file.
void update(const std::string& file, const std::string& name, const std::string& messages) {
  std::vector<MessageCase> cases = parse_cases(read(fs::path(GEN_ERRORS) / file));
  for (MessageCase& one : cases) {
    if (one.name == name) one.messages = messages;
  }
  std::ofstream(fs::path(GEN_ERRORS) / file, std::ios::binary) << format_cases(cases);
}

class Messages : public testing::TestWithParam<std::string> {};

TEST_P(Messages, AreAsWritten) {
  const std::string name = GetParam();
  std::string in_file;
  MessageCase found;
  for (const auto& [file, cases] : read_topics()) {
    for (const MessageCase& one : cases) {
      if (one.name != name) continue;
      ASSERT_TRUE(in_file.empty()) << name << " is in " << in_file << " and in " << file;
      in_file = file;
      found = one;
    }
  }
  ASSERT_FALSE(in_file.empty()) << name << " is gone";
  const Compiled made = compile_case(found);
  const bool accepted = name.starts_with("warning_");
  EXPECT_EQ(made.ok, accepted) << made.messages;
  EXPECT_EQ(made.header.empty(), !accepted);
  EXPECT_EQ(made.source.empty(), !accepted);
  EXPECT_TRUE(made.messages.ends_with('\n'));
  EXPECT_EQ(made.messages.find(": error: ") == std::string::npos, accepted);
  if (updates()) {
    update(in_file, name, made.messages);
    return;
  }
  ASSERT_TRUE(found.messages) << name << " has no messages; RPCRDMA_UPDATE_GOLDEN=1 writes them";
  EXPECT_EQ(made.messages, *found.messages);
}

INSTANTIATE_TEST_SUITE_P(All, Messages, testing::ValuesIn(all_names()),
                         [](const auto& param_info) { return param_info.param; });

// This also reads files that were added after the tests were listed.
TEST(Messages, AreInWholeFiles) {
  const Topics topics = read_topics();
  EXPECT_GT(all_names().size(), 200U);
  if (!updates()) {
    EXPECT_EQ(flaws_of_cases(topics), std::vector<std::string>());
  }
  for (const auto& [file, cases] : topics) {
    EXPECT_TRUE(file.ends_with(".cases")) << file;
    EXPECT_TRUE(updates() || format_cases(cases) == read(fs::path(GEN_ERRORS) / file)) << file;
  }
}

TEST(MessageCases, KeepEveryByte) {
  const std::vector<MessageCase> cases = {
      {"one", std::string("a\0b\r\n\t\xff\n\n", 9), "one.x: says\n"},
      {"cut", "const A", "cut.x: \xff\n\n"},
      {"nothing", "", "nothing.x: says\n"},
      {"line", "\n", "line.x: says\n"}};
  const std::string content = format_cases(cases);
  const std::vector<MessageCase> again = parse_cases(content);
  ASSERT_EQ(again.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(again[i].name, cases[i].name);
    EXPECT_EQ(again[i].text, cases[i].text);
    EXPECT_EQ(again[i].messages, cases[i].messages);
  }
  EXPECT_EQ(format_cases(again), content);
}

TEST(MessageCases, AreRefusedWhereSomethingIsMissing) {
  using Flaws = std::vector<std::string>;
  const std::string whole = "=== one\na\n---\nm\n";
  EXPECT_EQ(flaws_of_cases({{"a", parse_cases(whole)}}), Flaws());
  EXPECT_EQ(flaws_of_cases({{"a", parse_cases("")}}), Flaws{"a has no cases"});
  EXPECT_EQ(flaws_of_cases({{"a", parse_cases("=== one\na\n")}}), Flaws{"a: one has no messages"});
  EXPECT_EQ(flaws_of_cases({{"a", parse_cases(whole + whole)}}), Flaws{"a: one is in a already"});
  EXPECT_EQ(flaws_of_cases({{"a", parse_cases(whole)}, {"b", parse_cases(whole)}}),
            Flaws{"b: one is in a already"});
  EXPECT_EQ(flaws_of_cases({{"a", parse_cases("lost\n---\n" + whole)}}),
            Flaws{"a has a case named ''"});
}

TEST(Messages, TellTheNameAsItWasGiven) {
  const Compiled made =
      compile("const A = B;\n", {.name = "some/folder/a.x", .namespace_name = {}});
  EXPECT_TRUE(made.messages.starts_with("some/folder/a.x:1:11: error: ")) << made.messages;
  EXPECT_EQ(made.stem, "a");
}

TEST(Compiling, IsDeterministic) {
  for (const auto& [file, cases] : read_topics()) {
    for (const MessageCase& one : cases) {
      const Compiled first = compile_case(one);
      const Compiled second = compile_case(one);
      EXPECT_EQ(first.messages, second.messages);
      EXPECT_EQ(first.header, second.header);
      EXPECT_EQ(first.source, second.source);
      EXPECT_EQ(first.random, second.random);
    }
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
  const Compiled first = compile(text, for_all_files("heap.x"));
  std::vector<std::vector<char>> held;
  for (std::size_t i = 1; i < 400; ++i) held.emplace_back(i * 7 % 500 + 1);
  for (std::size_t i = 0; i < held.size(); i += 3) held[i] = {};
  const Compiled second = compile(text, for_all_files("heap.x"));
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
  EXPECT_FALSE(compile(brackets, for_all_files("brackets.x")).ok);
  EXPECT_FALSE(compile(conditions, for_all_files("conditions.x")).ok);
  EXPECT_TRUE(compile(signs, for_all_files("signs.x")).ok);
  EXPECT_TRUE(compile("", for_all_files("empty.x")).ok);
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
    EXPECT_TRUE(compile(chain(400, backwards, false), for_all_files("chain.x")).ok);
    EXPECT_TRUE(compile(chain(3900, backwards, true), for_all_files("chain.x")).ok);
  }
  std::string typedefs;
  for (int i = 0; i < 3900; ++i) {
    typedefs += "typedef t" + std::to_string(i + 1) + " *t" + std::to_string(i) + ";\n";
  }
  EXPECT_FALSE(compile(typedefs + "typedef int t3900;\n", for_all_files("typedefs.x")).ok);
  const Compiled deep = compile(chain(3900, false, false), for_all_files("chain.x"));
  EXPECT_NE(deep.messages.find("error: types contain each other more than 500 deep here"),
            std::string::npos)
      << deep.messages;
}

}  // namespace
}  // namespace rpcrdma::gen
