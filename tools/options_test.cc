#include "tools/options.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rpcrdma::tools {
namespace {

std::string problem_with_word(const std::string& text) {
  return text == "wrong" ? "it is the wrong word" : "";
}

// A command with one option of each kind.
struct Settings {
  bool flag = false;
  std::string text = "usual", word, positional;
  std::vector<std::string> many, separated;
  std::uint32_t size = 4096;
  std::uint64_t hidden = 5;
  double seconds = 1.5;
  std::optional<std::uint16_t> port;
  bool has_seconds = false;
};

class Options : public testing::Test {
 protected:
  Options() : command_("program", "does something") {
    command_.add({
        {"-f,--flag", &all_.flag, "a flag"},
        {"--text", &all_.text, "a text", {.choices = "usual|other"}},
        {"--word", &all_.word, "a word", {.check = problem_with_word, .needs = "--flag"}},
        {"--size", &all_.size, "a size", {.range = {1U, 65536U}, .takes_units = true}},
        {"--hidden", &all_.hidden, "a number", {.excludes = "--flag", .hides_default = true}},
        {"--seconds",
         &all_.seconds,
         "a time",
         {.range = {0.5, 10.0}, .is_given = &all_.has_seconds}},
        {"--port", &all_.port, "a port"},
        {"--separated", &all_.separated, "with commas", {.separator = ','}},
        {"FIRST", &all_.positional, "what comes first"},
        {"OTHERS", &all_.many, "some", {.least_values = 2, .most_values = 3}},
    });
  }

  // Returns what parse() does, and takes down what it prints.
  std::optional<int> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto status = command_.parse(static_cast<int>(words.size()), words.data());
    output_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return status;
  }
  // Returns whether the words are wrong usage, and the error says so.
  bool is_refused(const std::vector<const char*>& words, const char* why) {
    return parse(words) == 2 && output_.empty() && errors_.find(why) != std::string::npos;
  }
  OptionFacts facts(const std::string& name) const {
    for (const OptionFacts& each : command_.options()) {
      if (std::ranges::count(each.names, name) > 0) return each;
    }
    return {};
  }

  Settings all_;
  Command command_;
  std::string output_, errors_;
};

TEST_F(Options, KeepsDefaultsThatNothingReplaces) {
  EXPECT_EQ(parse({}), std::nullopt);
  EXPECT_EQ(all_.text, "usual");
  EXPECT_EQ(all_.size, 4096U);
  EXPECT_FALSE(all_.flag);
  EXPECT_FALSE(all_.port);
  EXPECT_FALSE(all_.has_seconds);
}

TEST_F(Options, StoresAValueOfEachType) {
  EXPECT_EQ(parse({"-f", "--text=other", "--word", "right", "--size", "16k", "--seconds", "2.5",
                   "--port", "7", "--separated", "a,b", "one", "two", "three"}),
            std::nullopt)
      << errors_;
  EXPECT_TRUE(all_.flag);
  EXPECT_EQ(all_.text, "other");
  EXPECT_EQ(all_.word, "right");
  EXPECT_EQ(all_.size, 16384U);
  EXPECT_EQ(all_.seconds, 2.5);
  EXPECT_TRUE(all_.has_seconds);
  EXPECT_EQ(all_.port, 7);
  EXPECT_EQ(all_.separated, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(all_.positional, "one");
  EXPECT_EQ(all_.many, (std::vector<std::string>{"two", "three"}));
}

// CLI11 takes such a word for a list of values, of which "[]" has none.
TEST_F(Options, KeepWordsInBracketsAsTheyAre) {
  EXPECT_EQ(parse({"[x]", "[a,b]", "[]", "[::1]"}), std::nullopt) << errors_;
  EXPECT_EQ(all_.positional, "[x]");
  EXPECT_EQ(all_.many, (std::vector<std::string>{"[a,b]", "[]", "[::1]"}));
  EXPECT_EQ(command_.given(), (std::vector<std::string>{"[x]", "[a,b]", "[]", "[::1]"}));
}

TEST_F(Options, KeepBracketsOfAValueBehindAnEqualsSign) {
  Command program("program", "does something");
  std::vector<std::string> list;
  program.add({{"-l,--list", &list, "a list"}});
  EXPECT_EQ(program.read({"--list=[x]", "-l[y]", "--list", "[z]", "[[u]]"}), "");
  EXPECT_EQ(list, (std::vector<std::string>{"[x]", "[y]", "[z]", "[[u]]"}));
  EXPECT_EQ(parse({"--separated", "[a,b]"}), std::nullopt) << errors_;
  EXPECT_EQ(all_.separated, (std::vector<std::string>{"[a", "b]"}));
}

TEST_F(Options, NameWrongWordsInBracketsAsTheyWereGiven) {
  EXPECT_TRUE(is_refused({"--size", "[1]"}, "not '[1]'"));
  EXPECT_TRUE(is_refused({"--text", "[usual]"}, "--text takes usual or other, not '[usual]'"));
  EXPECT_TRUE(is_refused({"--flag=[true]"}, "not '[true]'"));
  EXPECT_TRUE(is_refused({"--unknown]"}, "has no option '--unknown]'"));
  EXPECT_TRUE(is_refused({"1", "2", "3", "4", "[5]"}, "has 4 values"));
  Command program("program", "does something");
  std::string one;
  program.add({{"ONE", &one, "a word"}});
  EXPECT_NE(program.read({"a", "[b]"}).find("does not expect '[b]'"), std::string::npos);
}

TEST_F(Options, RefuseANumberAndSayWhichTheyTake) {
  EXPECT_TRUE(
      is_refused({"--size", "65537"},
                 "program: --size takes a size from 1 to 65536 bytes (it may end in k, m or "
                 "g), not '65537'; `program --help` says what it takes\n"));
  EXPECT_TRUE(is_refused({"--size", "0"}, "not '0'"));
  EXPECT_TRUE(
      is_refused({"--seconds", "0.4"}, "--seconds takes a number from 0.5 to 10, not '0.4'"));
  EXPECT_TRUE(is_refused({"--seconds", "nan"}, "not 'nan'"));
  EXPECT_TRUE(is_refused({"--port", "65536"}, "--port takes a whole number from 0 to 65535"));
  EXPECT_TRUE(is_refused({"--port", "x"}, "--port takes a whole number from 0 to 65535, not 'x'"));
  EXPECT_TRUE(
      is_refused({"--hidden", "-1"}, "--hidden takes a whole number of at least 0, not '-1'"));
}

TEST_F(Options, RefuseAValueThatIsNoChoiceAndNameTheChoices) {
  EXPECT_TRUE(is_refused({"--text", "odd"}, "--text takes usual or other, not 'odd'"));
  EXPECT_TRUE(is_refused({"--flag=perhaps"}, "takes no value but true and false, not 'perhaps'"));
  EXPECT_EQ(parse({"--flag=false"}), std::nullopt);
  EXPECT_FALSE(all_.flag);
}

TEST_F(Options, SayWhenTheyHaveTooFewOrTooManyValues) {
  EXPECT_TRUE(is_refused({"--text"}, "program: --text needs a value; "));
  EXPECT_TRUE(is_refused({"--port", "1", "--port", "2"}, "--port has 2 values, and takes one"));
  EXPECT_TRUE(is_refused({"one", "two"}, "OTHERS needs at least 2 values, and has 1"));
  EXPECT_TRUE(is_refused({"1", "2", "3", "4", "5"}, "OTHERS has 4 values, and takes at most 3"));
}

TEST_F(Options, AreNamedInTheirOrderWhereTheyAreUnknown) {
  EXPECT_TRUE(
      is_refused({"--zzzzzz=1", "--aaaaaa"}, "`program` has no options '--zzzzzz', '--aaaaaa'; "));
  EXPECT_TRUE(
      is_refused({"--second", "3"}, "has no option '--second' (did you mean '--seconds'?)"));
}

TEST_F(Options, RefusesWhatACheckRefusesAndSaysWhy) {
  EXPECT_TRUE(is_refused({"-f", "--word", "wrong"}, "it is the wrong word"));
}

TEST_F(Options, RefusesOptionsThatDoNotGoTogether) {
  EXPECT_TRUE(is_refused({"--word", "right"}, "--word requires --flag"));
  EXPECT_TRUE(is_refused({"--hidden", "1", "--flag"}, "excludes"));
}

TEST_F(Options, PrintsTheHelpAndEndsWithSuccess) {
  EXPECT_EQ(parse({"--help"}), 0);
  EXPECT_NE(output_.find("--text TEXT:{usual,other}=usual"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("=5"), std::string::npos) << "the default is hidden";
  EXPECT_EQ(output_, command_.help_page());
}

TEST_F(Options, GivesBackTheWordsOfTheCommandLine) {
  ASSERT_EQ(parse({"one", "--separated", "a,b", "-f"}), std::nullopt) << errors_;
  EXPECT_EQ(command_.given(), (std::vector<std::string>{"--flag", "--separated=a,b", "one"}));
}

TEST_F(Options, TellsWhatTheHelpSays) {
  const OptionFacts flag = facts("-f");
  EXPECT_EQ(flag.names, (std::vector<std::string>{"-f", "--flag"}));
  EXPECT_FALSE(flag.takes_value);
  const OptionFacts text = facts("--text");
  EXPECT_TRUE(text.takes_value);
  EXPECT_EQ(text.choices, (std::vector<std::string>{"usual", "other"}));
  EXPECT_EQ(text.default_text, "usual");
  EXPECT_EQ(text.help, "a text");
  EXPECT_EQ(facts("--hidden").default_text, "");
  EXPECT_EQ(command_.positionals().at(1).names, std::vector<std::string>{"OTHERS"});
}

struct Called {
  int count = 0;
};

void call(Called& called) {
  ++called.count;
}

TEST(Command, RunsTheSubcommandThatIsNamed) {
  Command program("program", "does something");
  Called& first = program.add_subcommand("first", "is first").on_call(call);
  Command& group = program.add_subcommand("group", "holds others");
  Called& inner = group.add_subcommand("inner", "is within").on_call(call);
  const char* const words[] = {"program", "group", "inner"};
  ASSERT_EQ(program.parse(3, words), std::nullopt);
  program.run();
  EXPECT_EQ(first.count, 0);
  EXPECT_EQ(inner.count, 1);
}

TEST(Command, NamesTheSubcommandThatWasMeantAndTheOptionOfIt) {
  Command program("program", "does something");
  Command& group = program.add_subcommand("group", "holds others");
  Command& inner = group.add_subcommand("inner", "is within");
  std::string place;
  inner.add({{"--place", &place, "where"}, {"NAME", &place, "a name", {.is_required = true}}});
  const auto errors = [&](std::vector<const char*> words) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(program.parse(static_cast<int>(words.size()), words.data()), 2);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(errors({"program"}),
            "program: `program` needs a command; `program --help` says what it takes\n");
  EXPECT_EQ(
      errors({"program", "group", "iner"}),
      "program: `program group` has no command 'iner' (did you mean 'inner'?); `program group "
      "--help` says what it takes\n");
  EXPECT_NE(errors({"program", "group", "inner", "--plac", "x"})
                .find("`program group inner` has no option '--plac' (did you mean '--place'?)"),
            std::string::npos);
  EXPECT_NE(errors({"program", "group", "inner", "x", "first", "--", "-y", "\x1b[1m"})
                .find("`program group inner` does not expect 'first', '-y', '\\x1b[1m'"),
            std::string::npos);
  EXPECT_NE(errors({"program", "group", "inner"}).find("program: NAME is required"),
            std::string::npos);
}

TEST(Command, HidesASubcommandFromTheHelp) {
  Command program("program", "does something");
  program.add_subcommand("shown", "is shown");
  program.add_subcommand("secret", "is hidden").hide();
  EXPECT_EQ(program.help_page().find("secret"), std::string::npos);
  EXPECT_NE(program.help_page().find("shown"), std::string::npos);
  EXPECT_TRUE(program.subcommands().at(1)->is_hidden());
}

TEST(Command, OptionTakesHFromTheHelp) {
  bool is_human = false;
  Command command("program", "does something");
  command.add({{"-h,--human", &is_human, "sizes for people"}});
  const std::vector<const char*> words{"program", "-h"};
  EXPECT_EQ(command.parse(2, words.data()), std::nullopt);
  EXPECT_TRUE(is_human);
  EXPECT_NE(command.help_page().find("--help "), std::string::npos);
  EXPECT_EQ(command.help_page().find("-h,--help"), std::string::npos);
}

}  // namespace
}  // namespace rpcrdma::tools
