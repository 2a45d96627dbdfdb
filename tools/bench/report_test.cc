#include "tools/bench/report.h"

#include <gtest/gtest.h>

#include "tools/bench/meter.h"

namespace rpcrdma::tools::bench {
namespace {

TEST(Histogram, FindsQuantilesWithinTwoPercent) {
  Histogram histogram;
  for (int us = 1; us <= 1000; ++us) histogram.add(std::chrono::microseconds(us));
  EXPECT_NEAR(histogram.quantile_us(0.50), 500, 10);
  EXPECT_NEAR(histogram.quantile_us(0.99), 990, 20);
  Histogram both;
  EXPECT_EQ(both.quantile_us(0.5), 0);
  both.add(histogram);
  for (int i = 0; i < 2000; ++i) both.add(std::chrono::microseconds(2000));
  EXPECT_NEAR(both.quantile_us(0.33), 990, 20);
  EXPECT_NEAR(both.quantile_us(0.34), 2000, 40);
  histogram.add(Nanoseconds(-5));  // a clock that stood still
  histogram.add(std::chrono::hours(24));
  EXPECT_GT(histogram.quantile_us(1), 1e6);
}

TEST(Report, TakesTheMedianAndItsSpread) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(interquartile_range({1}), 0);
  EXPECT_EQ(interquartile_range({1, 2, 3, 4, 5}), 2);
}

TEST(Report, GivesFiguresPerCallAndPerByteAndTheWorstOfWhatMustNotHappen) {
  Result result{{"read_4k_qd1", Who::kRpcrdma, Kind::kRead, 4096, 1, true}, {}, {}};
  for (const std::uint64_t calls : {1000U, 2000U, 3000U}) {
    Sample sample;
    sample.calls = calls;
    sample.seconds = 2;
    sample.payload_bytes = calls * 4096;
    sample.allocations = calls == 3000 ? 3 : 0;
    sample.bytes_copied = calls * 41;
    result.samples.push_back(sample);
    result.ratios.push_back(static_cast<double>(calls) / 4000);
  }
  const auto json = to_json({&result, 1});
  EXPECT_EQ(json[0]["case"].text(), "\"read_4k_qd1\"");
  EXPECT_EQ(json[0]["crc"].text(), "true");
  EXPECT_EQ(json[0]["ops_per_s"].text(), "1000.0");
  EXPECT_DOUBLE_EQ(std::stod(json[0]["gb_per_s"].text()), 1000 * 4096 / 1e9);
  EXPECT_EQ(json[0]["ratio_to_raw"].text(), "0.5");
  EXPECT_EQ(json[0]["allocations_per_call"].text(), "0.001");
  EXPECT_NEAR(std::stod(json[0]["user_copies_per_byte"].text()), 0.01, 1e-4);
}

TEST(Cases, AreChosenByNameAndByCrcWithTheirRawCase) {
  std::vector<std::string> unknown;
  const auto all = select({}, "both", unknown);
  EXPECT_EQ(all.size(), 8U);
  const auto some = select({"read_64k_qd8", "nothing"}, "off", unknown);
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].raw.name, "raw_64k_qd8");
  ASSERT_EQ(some[0].cases.size(), 1U);
  EXPECT_FALSE(some[0].cases[0].crc);
  EXPECT_EQ(unknown, std::vector<std::string>{"nothing"});
}

TEST(Cases, AreAlsoMadeOfTheirNames) {
  std::vector<std::string> unknown;
  const auto groups =
      select({"null_qd256", "read_512_qd8", "write_16m_qd1", "raw_512_qd8"}, "off", unknown);
  EXPECT_TRUE(unknown.empty());
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].raw.depth, 256);
  EXPECT_EQ(groups[1].cases.at(0).size, 512U);
  EXPECT_EQ(groups[2].cases.at(0).size, 16U << 20U);
  for (const char* wrong : {"null_qd0", "null_qd2000", "read_17m_qd1", "read_4x_qd1", "read_0_qd1",
                            "read__qd1", "copy_4k_qd1", "null_qd", "null_qd8x", "qd8", ""}) {
    unknown.clear();
    (void)select({wrong}, "off", unknown);
    EXPECT_EQ(unknown, std::vector<std::string>{wrong});
  }
}

}  // namespace
}  // namespace rpcrdma::tools::bench
