#include "rpc/serve/call_meter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/serve/serving_for_test.h"

namespace rpcrdma::rpc {
namespace {

using std::chrono::hours, std::chrono::microseconds, std::chrono::milliseconds;
using std::chrono::nanoseconds, std::chrono::seconds;

// --- TimeHistogram -----------------------------------------------------------------------------

TEST(TimeHistogram, CountsEachTimeBelowItsBound) {
  TimeHistogram times;
  times.note(nanoseconds(-1));
  times.note(TimeHistogram::bound(0) - nanoseconds(1));
  times.note(TimeHistogram::bound(0));
  times.note(TimeHistogram::bound(TimeHistogram::kBuckets - 2) - nanoseconds(1));
  times.note(TimeHistogram::bound(TimeHistogram::kBuckets - 2));
  times.note(hours(24));
  EXPECT_EQ(times.counts[0], 2U);
  EXPECT_EQ(times.counts[1], 1U);
  EXPECT_EQ(times.counts[TimeHistogram::kBuckets - 2], 1U);
  EXPECT_EQ(times.counts[TimeHistogram::kBuckets - 1], 2U);
  EXPECT_EQ(times.count(), 6U);
}

TEST(TimeHistogram, EstimatesQuantilesInsideOfABucket) {
  TimeHistogram times;
  EXPECT_EQ(times.quantile(0.5), nanoseconds(0));
  for (int i = 0; i < 99; ++i) times.note(nanoseconds(1500));
  times.note(milliseconds(1));
  EXPECT_GE(times.quantile(0.5), TimeHistogram::bound(0));
  EXPECT_LE(times.quantile(0.99), TimeHistogram::bound(1));
  EXPECT_GT(times.quantile(1), microseconds(500));
  EXPECT_LE(times.quantile(1), microseconds(1049));
}

TEST(TimeHistogram, TakesTimesToBeSpreadEvenlyWithinABucket) {
  TimeHistogram times;
  times.counts[3] = 100;
  const nanoseconds low = TimeHistogram::bound(2), high = TimeHistogram::bound(3);
  EXPECT_EQ(times.quantile(0), low);
  EXPECT_EQ(times.quantile(0.25), low + (high - low) / 4);
  EXPECT_EQ(times.quantile(1), high);
}

// --- CallMeter ---------------------------------------------------------------------------------

class Numbered final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    return procedure == 1 ? &kTraits : nullptr;
  }
  void call(CallContext& context) override {
    clock += takes;
    fails ? context.fail(AcceptStatus::kGarbageArgs) : context.succeed();
  }

  Instant now() const { return clock; }

  Instant clock{};
  nanoseconds takes{};
  bool fails = false;

 private:
  static constexpr ProcedureTraits kTraits{.number = 1, .name = "ONE"};
};

class Metered : public testing::Test {
 protected:
  Metered() {
    (void)registry_.add(100, 3, service_);
    carrier_.emplace(registry_, cache_, mailbox_, "10.0.0.1:700", &meter_);
  }
  void call(Procedure procedure, Credential credential = {}) {
    carrier_->receive(encode_for_test({Xid{7}, procedure, credential, {}}));
  }
  ServerStatistics statistics() const {
    ServerStatistics sum;
    meter_.add_to(sum);
    return sum;
  }

  Numbered service_;
  std::vector<std::string> reports_;
  const CallMeter::Report report_ = [this](const CallReport& call) {
    reports_.push_back(std::string(call.peer) + " " + std::string(call.name) + " " +
                       std::to_string(call.time.count()));
  };
  CallMeter meter_{clock_of(service_), report_};
  oncrpc::ServiceRegistry registry_;
  ReplyCache cache_{0, 0};
  MailboxForTest mailbox_;
  std::optional<CarrierForTest> carrier_;
};

TEST_F(Metered, CountsCallsAndErrorsOfEachProcedure) {
  call({100, 3, 1});
  call({100, 3, 0});
  service_.fails = true;
  call({100, 3, 1});
  const ServerStatistics found = statistics();
  ASSERT_EQ(found.procedures.size(), 2U);
  EXPECT_EQ(found.procedures[0].name, "NULL");
  EXPECT_EQ(found.procedures[0].calls, 1U);
  EXPECT_EQ(found.procedures[0].errors, 0U);
  EXPECT_EQ(found.procedures[1].name, "ONE");
  EXPECT_EQ(found.procedures[1].calls, 2U);
  EXPECT_EQ(found.procedures[1].errors, 1U);
}

TEST_F(Metered, MeasuresFromTheArrivalToTheAnswer) {
  service_.takes = microseconds(5);
  call({100, 3, 1});
  call({100, 3, 1});  // begins where the answer before was
  EXPECT_EQ(statistics().procedures.front().times.sum_ns, 10'000U);
  EXPECT_EQ(statistics().service_times.sum_ns, 10'000U);
  ASSERT_NE(carrier_->serving.times(), nullptr);
  EXPECT_EQ(carrier_->serving.times()->count(), 2U);
  service_.clock += seconds(1);
  meter_.begin_round(service_.clock);
  call({100, 3, 1});
  EXPECT_EQ(statistics().procedures.front().times.sum_ns, 15'000U) << "time between rounds counts";
}

TEST_F(Metered, MeasuresTheWaitForMemoryApartFromThatForReadChunks) {
  const Instant start = service_.clock;
  meter_.begin_round(start);
  MeteredCall call;
  meter_.note_arrival(call);

  meter_.note_memory_wait(call, microseconds(40));
  meter_.begin_round(start + microseconds(100));
  meter_.note_reads(call);
  const ServerStatistics found = statistics();
  EXPECT_EQ(found.memory_waits.count(), 1U);
  EXPECT_EQ(found.memory_waits.sum_ns, 40'000U);
  EXPECT_EQ(found.read_times.count(), 1U);
  EXPECT_EQ(found.read_times.sum_ns, 60'000U);
  EXPECT_EQ(found.service_times.count(), 0U);
}

TEST_F(Metered, ReportsEachCall) {
  service_.takes = microseconds(3);
  call({100, 3, 1});
  EXPECT_EQ(reports_, std::vector<std::string>{"10.0.0.1:700 ONE 3000"});
}

TEST_F(Metered, CountsRefusedCallsByTheirReason) {
  call({101, 3, 1});
  call({100, 4, 1});
  call({100, 3, 2});
  call({100, 3, 1}, {AuthFlavor::kShort, {}});
  const ServerStatistics found = statistics();
  EXPECT_EQ(found.refused.no_program, 1U);
  EXPECT_EQ(found.refused.wrong_version, 1U);
  EXPECT_EQ(found.refused.no_procedure, 1U);
  EXPECT_EQ(found.refused.denied, 1U);
  EXPECT_TRUE(found.procedures.empty());
}

// --- Numbers that peers choose -----------------------------------------------------------------

class Numbers : public testing::Test {
 protected:
  void answer(Procedure procedure) {
    MeteredCall call;
    meter_.note_arrival(call);
    meter_.note_answer(call, {Xid{1}, procedure, {}, {}}, nullptr, AcceptStatus::kSuccess, times_);
  }
  std::vector<ProcedureStatistics> procedures() const {
    ServerStatistics sum;
    meter_.add_to(sum);
    return sum.procedures;
  }

  const CallMeter::Report none_;
  TimeHistogram times_;
  CallMeter meter_{{[](const void*) { return Instant{}; }, nullptr}, none_};
};

TEST_F(Numbers, FillNoMemory) {
  for (std::uint32_t i = 0; i < 10'000; ++i) answer({1000 + i, 1, 0});
  const auto found = procedures();
  EXPECT_LE(found.size(), 64U);
  EXPECT_EQ(found.back().program, ProcedureStatistics::kOthers);
  EXPECT_EQ(found.back().calls + found.size() - 1, 10'000U);
}

TEST_F(Numbers, AreCountedTogetherForProceduresFrom64On) {
  for (const std::uint32_t number : {63U, 64U, 1000U, 0xfffffffeU}) answer({1000, 1, number});
  const auto found = procedures();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].number, 63U);
  EXPECT_EQ(found[1].number, ProcedureStatistics::kOthers);
  EXPECT_EQ(found[1].calls, 3U);
}

TEST_F(Numbers, AreAddedUpOverShards) {
  answer({1000, 1, 5});
  ServerStatistics sum;
  meter_.add_to(sum);
  meter_.add_to(sum);
  ASSERT_EQ(sum.procedures.size(), 1U);
  EXPECT_EQ(sum.procedures[0].calls, 2U);
  EXPECT_EQ(sum.procedures[0].times.count(), 2U);
}

}  // namespace
}  // namespace rpcrdma::rpc
