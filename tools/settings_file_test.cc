#include "tools/settings_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rpcrdma::tools {
namespace {

TEST(SettingsFile, HasAWordForEachKindOfValueInTheOrderOfTheFile) {
  const auto settings = parse_settings(
      "# a comment\n"
      "port = 20049\n"
      "nfs = ['/srv/b:rw', \"/srv/a\"]\n"
      "drain = 2.5\n"
      "bench = true\n"
      "log-level = \"debug\"\n");
  ASSERT_TRUE(settings) << settings.error();
  std::vector<std::string> lines;
  for (const Setting& each : *settings) {
    std::string line = std::to_string(each.line) + " " + each.name;
    for (const std::string& value : each.values) line += " " + value;
    lines.push_back(line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"2 port 20049", "3 nfs /srv/b:rw /srv/a",
                                             "4 drain 2.5", "5 bench true", "6 log-level debug"}));
}

TEST(SettingsFile, NamesTheLineOfAMistake) {
  EXPECT_EQ(parse_settings("a = 1\n[nfs]\nport = 1\n").error(),
            "line 2: 'nfs' is a table; settings stand outside of tables, as key = value");
  EXPECT_EQ(parse_settings("a = 1\n\nb = 2026-11-27\n").error(),
            "line 3: 'b' has a value that is neither text, a number, true or false, nor a list of "
            "these");
  EXPECT_EQ(parse_settings("a = [[1], 2]\n").error().substr(0, 8), "line 1: ");
  EXPECT_EQ(parse_settings("a = 1\nb = \n").error().substr(0, 8), "line 2: ");
  EXPECT_EQ(parse_settings("a = 1\na = 2\n").error().substr(0, 8), "line 2: ");
}

// The system ends a name at its first NUL, and would open what stands before it.
TEST(SettingsFile, RefusesAByteOfZero) {
  for (const char* const text :
       {"a = 1\nblob = \"/srv\\u0000/public\"\n", "a = 1\nnfs = ['/a', \"/b\\u0000:rw\"]\n",
        "a = 1\n\"b\\u0000\" = 1\n"}) {
    const auto settings = parse_settings(text);
    ASSERT_FALSE(settings) << text;
    EXPECT_EQ(settings.error(),
              "line 2: a setting has a byte of zero, which no word of a command line has");
  }
}

TEST(SettingsFile, FileThatCannotBeReadIsNamed) {
  EXPECT_EQ(read_settings("/nowhere/serve.toml").error(),
            "/nowhere/serve.toml: No such file or directory");
  EXPECT_EQ(read_settings("/").error().substr(0, 3), "/: ");
}

}  // namespace
}  // namespace rpcrdma::tools
