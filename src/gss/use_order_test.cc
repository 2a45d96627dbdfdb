#include "gss/use_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <string>

#include "base/random.h"

namespace rpcrdma::gss {
namespace {

class Named final : public UseOrder::Item {
 public:
  using Item::Item;
};

class UseOrderTest : public ::testing::Test {
 protected:
  Named& add(const std::string& host) {
    items_.emplace_back(host);
    order_.add(items_.back());
    return items_.back();
  }

  UseOrder order_;
  std::list<Named> items_;
};

TEST_F(UseOrderTest, OneOfThoseUsedLongestAgoGoesWhereHostsHaveEqualShares) {
  Named& first = add("a");
  Named& second = add("b");
  add("c");
  EXPECT_EQ(&order_.next_to_go(), &first);
  order_.use(first);
  EXPECT_EQ(&order_.next_to_go(), &second);
}

TEST_F(UseOrderTest, HostWithMoreThanItsShareLosesTheOneThatItUsedLongestAgo) {
  add("quiet");
  Named& first = add("greedy");
  Named& second = add("greedy");
  EXPECT_EQ(&order_.next_to_go(), &first) << "that of the other host was used earlier";
  order_.use(first);
  EXPECT_EQ(&order_.next_to_go(), &second);
}

// One peer may have thousands of addresses, with an item each.
TEST_F(UseOrderTest, HostWithAFewThatItUsesLosesNoneToHostsWithOneEach) {
  UseOrder order(2);
  std::list<Named> items;
  const auto add_to = [&](const std::string& host) {
    items.emplace_back(host);
    order.add(items.back());
    return &items.back();
  };
  Named* const first = add_to("honest");
  Named* const second = add_to("honest");
  for (int i = 0; i < 10; ++i) add_to("2001:db8::" + std::to_string(i));
  for (int i = 10; i < 50; ++i) {
    order.use(*first);
    order.use(*second);
    UseOrder::Item& gone = order.next_to_go();
    ASSERT_NE(gone.host(), "honest") << i;
    order.remove(gone);
    add_to("2001:db8::" + std::to_string(i));
  }
}

TEST_F(UseOrderTest, CountsWhatEachHostHas) {
  Named& first = add("a");
  Named& second = add("a");
  add("b");
  EXPECT_EQ(order_.size(), 3U);
  EXPECT_EQ(order_.size_of("a"), 2U);
  EXPECT_EQ(order_.size_of("c"), 0U);
  EXPECT_EQ(&order_.oldest_of("a"), &first);
  order_.remove(first);
  EXPECT_EQ(&order_.oldest_of("a"), &second);
  order_.remove(second);
  EXPECT_EQ(order_.size(), 1U);
  EXPECT_EQ(order_.size_of("a"), 0U);
}

// However hosts come, use what they have and go: while one has more than an equal share, the one
// that has most loses an item.
TEST_F(UseOrderTest, HostThatHasItsShareLosesNothingToOneThatHasMore) {
  SeededRandom random(7);
  constexpr std::size_t kRoom = 12;
  std::map<std::string, std::size_t> has;
  std::list<Named*> kept;
  for (int step = 0; step < 5000; ++step) {
    if (!kept.empty() && random.one_in(3)) {
      auto which = std::next(kept.begin(), static_cast<std::ptrdiff_t>(random.below(kept.size())));
      if (random.one_in(2)) {
        order_.use(**which);
      } else {
        --has[(*which)->host()];
        order_.remove(**which);
        kept.erase(which);
      }
      continue;
    }
    if (order_.size() == kRoom) {
      auto& gone = static_cast<Named&>(order_.next_to_go());
      std::size_t hosts = 0, most = 0;
      for (const auto& [host, number] : has)
        hosts += number > 0 ? 1U : 0U, most = std::max(most, number);
      if (most * hosts > kRoom) {
        ASSERT_EQ(has[gone.host()], most) << "step " << step;
      }
      --has[gone.host()];
      order_.remove(gone);
      kept.remove(&gone);
    }
    // Some hosts come far more often than others.
    const std::string host(1, static_cast<char>('a' + random.below(1 + random.below(6))));
    kept.push_back(&add(host));
    ++has[host];
    for (const auto& [name, number] : has) ASSERT_EQ(order_.size_of(name), number);
  }
}

}  // namespace
}  // namespace rpcrdma::gss
