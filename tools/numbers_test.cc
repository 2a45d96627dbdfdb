#include "tools/numbers.h"

#include <gtest/gtest.h>

#include <limits>

namespace rpcrdma::tools {
namespace {

// Returns the decimal digits, or what is wrong.
std::string read(std::string text, const Bounds& bounds, bool takes_units = false) {
  const std::string problem = read_whole(text, bounds, takes_units);
  return problem.empty() ? text : problem;
}

TEST(Numbers, AreReadInDecimalAndHexadecimal) {
  EXPECT_EQ(read("08", {0, 65535}), "8");
  EXPECT_EQ(read("0x20020049", {0, UINT32_MAX}), "537002057");
  EXPECT_EQ(read("18446744073709551615", {}), "18446744073709551615");
  EXPECT_EQ(read("-3", {-5, 5}), "-3");
}

TEST(Numbers, OutsideTheirBoundsAreRefusedInASentenceThatSaysThem) {
  EXPECT_EQ(read("70000", {0, 65535}), "takes a whole number from 0 to 65535, not '70000'");
  for (const char* const wrong :
       {"", "x", "1.5", "1 ", "+1", "0x", "-1", "1k", "18446744073709551616"}) {
    EXPECT_EQ(read(wrong, {}),
              "takes a whole number of at least 0, not '" + std::string(wrong) + "'");
  }
  EXPECT_NE(read("0", {1, 16}).find("from 1 to 16"), std::string::npos);
  EXPECT_NE(read("-6", {-5, 5}).find("from -5 to 5"), std::string::npos);
}

TEST(Numbers, WithAUnitAreSizes) {
  EXPECT_EQ(read("64k", {1, 65536}, true), "65536");
  EXPECT_EQ(read("2 MiB", {}, true), "2097152");
  EXPECT_EQ(read("5q", {1, 65536}, true),
            "takes a size from 1 to 65536 bytes (it may end in k, m or g), not '5q'");
  EXPECT_NE(read("65k", {1, 65536}, true).find("not '65k'"), std::string::npos);
  EXPECT_NE(read("17e", {}, true).find("not '17e'"), std::string::npos) << "above 2^64";
}

TEST(Numbers, WithDecimalsAreNeitherInfiniteNorNan) {
  EXPECT_EQ(problem_with_fraction("0.5", 0.001, 86400), "");
  EXPECT_EQ(problem_with_fraction("1e9", 0.001, 86400),
            "takes a number from 0.001 to 86400, not '1e9'");
  for (const char* const wrong : {"", "abc", "1s", "inf", "nan", "-1", "0"}) {
    EXPECT_NE(problem_with_fraction(wrong, 0.001, 86400), "") << wrong;
  }
}

TEST(Size, TakesUnits) {
  EXPECT_EQ(size_of("65536"), 65536U);
  EXPECT_EQ(size_of("64k"), 65536U);
  EXPECT_EQ(size_of("many"), std::nullopt);
  EXPECT_EQ(size_of(""), std::nullopt);
  EXPECT_EQ(size_of("99999999999999999999"), std::nullopt);
  EXPECT_EQ(size_of("99999999999999999999k"), std::nullopt);
}

}  // namespace
}  // namespace rpcrdma::tools
