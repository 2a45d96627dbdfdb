#include "tools/json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

namespace rpcrdma::tools {
namespace {

TEST(Json, WritesAnObjectInTheOrderOfItsKeys) {
  Json object = {{"b", 1}, {"a", Json()}, {"B", true}};
  object.set("ab", "text");
  object.set("b", 2U);
  EXPECT_EQ(object.text(), R"({"B":true,"a":null,"ab":"text","b":2})");
}

TEST(Json, WritesAnOrderedObjectInTheOrderInWhichItWasMade) {
  Json object = Json::ordered_object();
  object.set("b", 1);
  object.set("a", 2);
  EXPECT_EQ(object.text(), R"({"b":1,"a":2})");
}

TEST(Json, FindsMembersAndElements) {
  Json array = Json::array();
  array.push_back({{"name", "a"}, {"size", 7UL}});
  EXPECT_EQ(array[0]["size"].text(), "7");
  EXPECT_TRUE(array[0]["mode"].is_null());
  EXPECT_TRUE(array[1].is_null());
  EXPECT_FALSE(array[0].is_null());
}

TEST(Json, IndentsByDepthWhenItWritesLines) {
  const Json value = {{"empty", Json::array()},
                      {"list", Json::array({"x", "y"})},
                      {"none", Json::object()},
                      {"object", {{"a", 1}}}};
  EXPECT_EQ(value.lines(),
            "{\n \"empty\": [],\n \"list\": [\n  \"x\",\n  \"y\"\n ],\n \"none\": {},\n"
            " \"object\": {\n  \"a\": 1\n }\n}");
  EXPECT_EQ(value.text(), R"({"empty":[],"list":["x","y"],"none":{},"object":{"a":1}})");
}

TEST(Json, EscapesWhatATextMustNotHold) {
  const std::string odd("a\"b\\c\n\t\r\b\f\x01\x1f\x7f/\0", 15);
  EXPECT_EQ(Json(odd).text(), "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f/\\u0000\"");
}

TEST(Json, ReplacesWhatIsNotUtf8) {
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(Json("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80").text(),
            "\"h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(Json("\xff").text(), '"' + mark + '"');
  EXPECT_EQ(Json("\xe2\x82(").text(), '"' + mark + "(\"") << "one mark for one beginning";
  EXPECT_EQ(Json("\xe2\x82").text(), '"' + mark + '"');
  EXPECT_EQ(Json("\xc0\xaf").text(), '"' + mark + mark + '"') << "a long form";
  EXPECT_EQ(Json("\xed\xa0\x80").text(), '"' + mark + mark + mark + '"') << "a surrogate";
  EXPECT_EQ(Json("\xf4\x90\x80\x80").text(), '"' + mark + mark + mark + mark + '"');
}

TEST(Json, WritesWholeNumbersAsTheyAre) {
  EXPECT_EQ(Json(-5).text(), "-5");
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).text(), "18446744073709551615");
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::min()).text(), "-9223372036854775808");
}

TEST(Json, WritesADoubleWithTheFewestDigitsAndItsFraction) {
  EXPECT_EQ(Json(0.0).text(), "0.0");
  EXPECT_EQ(Json(-0.0).text(), "-0.0");
  EXPECT_EQ(Json(5.0).text(), "5.0");
  EXPECT_EQ(Json(-1234.5).text(), "-1234.5");
  EXPECT_EQ(Json(0.1 + 0.2).text(), "0.30000000000000004");
  EXPECT_EQ(Json(0.0001).text(), "0.0001");
  EXPECT_EQ(Json(0.00001234).text(), "1.234e-05");
  EXPECT_EQ(Json(123456789012345.0).text(), "123456789012345.0");
  EXPECT_EQ(Json(1e15).text(), "1e+15");
  EXPECT_EQ(Json(-2.5e-300).text(), "-2.5e-300");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).text(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).text(), "null");
}

TEST(Json, WritesADoubleSoThatItIsReadBackUnchanged) {
  double value = 1e-30;
  for (int i = 0; i < 2000; ++i) {
    value *= 1.0733;
    EXPECT_EQ(std::strtod(Json(value).text().c_str(), nullptr), value);
  }
}

}  // namespace
}  // namespace rpcrdma::tools
