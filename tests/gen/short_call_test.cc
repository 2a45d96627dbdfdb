// Calls in one expression, over RDMA and TCP, blocking and awaited.
#include "rpcrdma/short_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "every.h"
#include "rpcrdma/client.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"
#include "support/rpc_fixture.h"

namespace rpcrdma {
namespace {

constexpr std::uint32_t kProgram = 0x20000777, kVersion = 1;
constexpr std::uint32_t kSize = 300'000;  // bytes
enum : std::uint32_t { kNull, kGet, kSum, kSwap, kPut, kFlip, kDenied };

class ShortCallTest : public testing::TestWithParam<const char*> {
 protected:
  ShortCallTest() : data_(test::pattern(kSize, 7)) {
    service_
        .on(kGet,
            [this](CallContext& call) {
              const std::string name(call.arguments().xdr().string(255, "name"));
              if (!call.arguments().finish() || name != "name") return AcceptStatus::kGarbageArgs;
              call.results().bulk(data_);
              return AcceptStatus::kSuccess;
            })
        .on(kSum,
            [](CallContext& call) {
              auto& xdr = call.arguments().xdr();
              double sum = xdr.u32("a");
              sum += static_cast<std::int32_t>(xdr.u32("b"));
              sum += static_cast<double>(xdr.u64("c"));
              sum += xdr.boolean("d") ? 1 : 0;
              if (!call.arguments().finish()) return AcceptStatus::kGarbageArgs;
              call.results().xdr().u64(std::bit_cast<std::uint64_t>(sum));
              return AcceptStatus::kSuccess;
            })
        .on(kSwap,
            [](CallContext& call) {
              auto& xdr = call.arguments().xdr();
              const std::string first(xdr.string(100, "first")), second(xdr.string(100, "second"));
              if (!call.arguments().finish()) return AcceptStatus::kGarbageArgs;
              call.results().xdr().string(second + first);
              return AcceptStatus::kSuccess;
            })
        .on(kPut,
            [this](CallContext& call) {
              const Bytes put = call.arguments().bulk(kSize, "data");
              is_right_ = call.arguments().finish() && std::ranges::equal(put, data_);
              return AcceptStatus::kSuccess;
            },
            {.bulk_argument_size_max = kSize})
        .on(kFlip,
            [](CallContext& call) {
              every::bytes_and_text value;
              decode(call.arguments(), value);
              if (!call.arguments().finish()) return AcceptStatus::kGarbageArgs;
              std::ranges::reverse(value.text);
              encode(value, call.results());
              return AcceptStatus::kSuccess;
            })
        .on(kDenied, [](CallContext& /*call*/) { return AcceptStatus::kSystemErr; });
    ServerOptions options;
    options.provider.name = "siwarp";
    const bool is_rdma = std::string(GetParam()) == "rdma";
    const std::string url = is_rdma ? "rdma://127.0.0.1:0" : "tcp://127.0.0.1:0";
    server_.emplace(Server::listen(url, options).value());
    EXPECT_TRUE(server_->add(kProgram, kVersion, service_));
    serving_ = std::thread([this] { server_->run(); });
    ClientOptions client;
    client.provider.name = "siwarp";
    client_.emplace(
        Client::connect(std::string(GetParam()) + "://" + std::string(server_->address()), client)
            .value());
  }
  ~ShortCallTest() override {
    client_.reset();
    server_->stop();
    serving_.join();
  }
  static Procedure procedure(std::uint32_t number) { return {kProgram, kVersion, number}; }

  const std::vector<std::byte> data_;
  FunctionService service_;
  std::optional<Server> server_;
  std::thread serving_;
  std::optional<Client> client_;
  bool is_right_ = false;
};

INSTANTIATE_TEST_SUITE_P(Transports, ShortCallTest, testing::Values("rdma", "tcp"));

TEST_P(ShortCallTest, PutsBulkDataIntoItsPlace) {
  std::vector<std::byte> page(kSize + 100);
  const auto got = client_->call(procedure(kGet), args("name"), into(page));
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->data(), page.data());
  EXPECT_TRUE(std::ranges::equal(*got, data_));
}

TEST_P(ShortCallTest, FailsWhereThePlaceIsTooSmall) {
  std::vector<std::byte> page(kSize - 1);
  const auto got = client_->call(procedure(kGet), args("name"), into(page));
  ASSERT_FALSE(got);
}

TEST_P(ShortCallTest, SendsAndReadsNumbers) {
  const auto sum =
      client_->call(procedure(kSum), args(7U, -3, std::uint64_t{1} << 40U, true), result<double>());
  ASSERT_TRUE(sum) << sum.error().message();
  EXPECT_EQ(*sum, 1099511627776.0 + 5);
}

TEST_P(ShortCallTest, SendsAndReadsTextOfAnyKind) {
  const std::string first = "first";
  const auto text = client_->call(procedure(kSwap), args(first, std::string_view("second")),
                                  result<std::string>());
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(*text, "secondfirst");
}

TEST_P(ShortCallTest, SendsBytesByReference) {
  const auto put = client_->call(procedure(kPut), args(data_));
  EXPECT_TRUE(put) << put.error().message();
  EXPECT_TRUE(is_right_);
}

TEST_P(ShortCallTest, SendsAndReadsGeneratedTypes) {
  every::bytes_and_text value;
  value.text = "abc";
  const auto flipped =
      client_->call(procedure(kFlip), args(value), result<every::bytes_and_text>());
  ASSERT_TRUE(flipped) << flipped.error().message();
  EXPECT_EQ(flipped->text, "cba");
}

TEST_P(ShortCallTest, CallWithoutArgumentsAndResultsIsShortest) {
  EXPECT_TRUE(client_->call(procedure(kNull), args()));
}

TEST_P(ShortCallTest, ReportsTheErrorOfTheServer) {
  const auto denied = client_->call(procedure(kDenied), args());
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Errc::kServerFault);
}

TEST_P(ShortCallTest, ResultsThatNobodyAskedForAreAnError) {
  const auto ignored = client_->call(procedure(kSwap), args("a", "b"));
  ASSERT_FALSE(ignored);
  EXPECT_EQ(ignored.error().code, Errc::kBadReply);
}

TEST_P(ShortCallTest, ResultsOfAnotherTypeAreAnError) {
  const auto wrong = client_->call(procedure(kSwap), args("a", "b"), result<std::uint32_t>());
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Errc::kBadReply);
}

TEST_P(ShortCallTest, TakesATimeLimitOfItsOwn) {
  const auto late =
      client_->call(procedure(kNull), args(), NoResult{}, {.timeout = std::chrono::nanoseconds(1)});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kTimedOut);
}

Task<void> talk(Client& client, std::vector<std::byte>& page, std::string& outcome) {
  const Procedure get{kProgram, kVersion, kGet};
  const auto got = co_await client.call_async(get, args("name"), into(page));
  if (!got) {
    outcome = got.error().message();
    co_return;
  }
  const Procedure swap{kProgram, kVersion, kSwap};
  const auto text = co_await client.call_async(swap, args("1", "2"), result<std::string>());
  outcome = text ? *text + " " + std::to_string(got->size()) : text.error().message();
}

TEST_P(ShortCallTest, IsAwaitedInACoroutine) {
  std::vector<std::byte> page(kSize);
  std::string outcome;
  start_detached(talk(*client_, page, outcome));
  client_->drain();
  EXPECT_EQ(outcome, "21 " + std::to_string(kSize));
  EXPECT_EQ(page, data_);
}

TEST_P(ShortCallTest, FailsOnAClientThatIsClosed) {
  client_->close();
  client_->progress();
  EXPECT_FALSE(client_->call(procedure(kNull), args()));
}

}  // namespace
}  // namespace rpcrdma
