#include "tools/text.h"

#include <gtest/gtest.h>

#include <string>

namespace rpcrdma::tools {
namespace {

// Reverses escaped(), as its comment describes.
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
    } else if (text[i + 1] == '\\') {
      out += text[++i];
    } else {
      out += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    }
  }
  return out;
}

TEST(Text, NamesThatCanBeSeenStay) {
  for (const char* const name : {"", "a b", "Grüße.txt", "日本語", "😀", "~!@#$%^&*()'\""}) {
    EXPECT_EQ(escaped(name), name);
    EXPECT_TRUE(is_utf8(name));
  }
}

TEST(Text, EscapesCharactersThatControlATerminal) {
  EXPECT_EQ(escaped("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(escaped("a\nb\tc\r\x7f"), "a\\x0ab\\x09c\\x0d\\x7f");
  EXPECT_EQ(escaped("\xc2\x9b"), "\\xc2\\x9b") << "CSI in one character";
  EXPECT_EQ(escaped("\xe2\x80\xae"
                    "fdp.exe"),
            "\\xe2\\x80\\xae"
            "fdp.exe")
      << "right to left";
  EXPECT_EQ(printable("C:\\x\n"), "C:\\x\\x0a");
}

TEST(Text, EscapesBytesThatAreNotUtf8) {
  for (const char* const name : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\xe2\x82", "a\xffz"}) {
    EXPECT_FALSE(is_utf8(name));
    EXPECT_EQ(unescaped(escaped(name)), name);
  }
}

TEST(Text, EscapingCanBeUndone) {
  std::string all;
  for (int i = 1; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(unescaped(escaped(all)), all);
  EXPECT_EQ(escaped("\\x41"), "\\\\x41");
  EXPECT_EQ(unescaped(escaped("\\x41")), "\\x41");
}

TEST(Text, JsonTakesEveryName) {
  Json plain = Json::object(), odd = Json::object();
  add_name(plain, "a\nb\\");
  EXPECT_EQ(plain.text(), R"({"name":"a\nb\\"})");
  add_name(odd, "a\\\xff");
  EXPECT_EQ(odd.text(), R"({"escaped":true,"name":"a\\\\\\xff"})");
}

TEST(Text, NearestIsWhatWasMeant) {
  const std::vector<std::string> words = {"serve", "put", "get", "ls", "rm", "ping", "completion"};
  EXPECT_EQ(nearest("serv", words), "serve");
  EXPECT_EQ(nearest("srve", words), "serve");
  EXPECT_EQ(nearest("pign", words), "ping");
  EXPECT_EQ(nearest("comp", words), "completion");
  EXPECT_EQ(nearest("frobnicate", words), "");
}

}  // namespace
}  // namespace rpcrdma::tools
