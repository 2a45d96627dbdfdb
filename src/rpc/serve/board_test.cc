#include "rpc/serve/board.h"

#include <gtest/gtest.h>

#include <thread>

namespace rpcrdma::rpc {
namespace {

constexpr std::chrono::milliseconds kLong{60'000};

ServerStatistics figures_with(std::size_t memory_in_use) {
  ServerStatistics figures;
  figures.memory_in_use = memory_in_use;
  return figures;
}

TEST(Board, MakesNoFiguresThatNobodyAskedFor) {
  Board board;
  board.answer([]() -> ServerStatistics {
    ADD_FAILURE() << "made for nobody";
    return {};
  });
}

TEST(Board, TellsWhoAsksWhatIsMadeThen) {
  Board board;
  board.ask();
  board.answer([] { return figures_with(7); });
  EXPECT_TRUE(board.wait_for(kLong));
  EXPECT_EQ(board.latest().memory_in_use, 7U);
  board.answer([] { return figures_with(8); });
  EXPECT_EQ(board.latest().memory_in_use, 7U) << "an answer that nobody has asked for";
}

// A thread that waits is woken: nothing else ends the wait before its time.
TEST(Board, WakesWhoWaits) {
  Board board;
  board.ask();
  const auto begun = std::chrono::steady_clock::now();
  std::thread shard([&board] { board.answer([] { return figures_with(7); }); });
  EXPECT_TRUE(board.wait_for(kLong));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kLong / 2);
  shard.join();
  EXPECT_EQ(board.latest().memory_in_use, 7U);
}

TEST(Board, TellsWhatItToldLastWhenAShardIsBusy) {
  Board board;
  board.ask();
  board.answer([] { return figures_with(7); });
  board.ask();
  EXPECT_FALSE(board.wait_for(std::chrono::milliseconds(1)));
  EXPECT_EQ(board.latest().memory_in_use, 7U);
}

}  // namespace
}  // namespace rpcrdma::rpc
