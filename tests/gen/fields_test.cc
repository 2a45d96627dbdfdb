// The fields of generated types, and what is made of them: text and comparison.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "every_fields.h"
#include "rpcrdma/generated/stub.h"

namespace rpcrdma {
namespace {

using Names = std::vector<std::string>;

template <class T>
Names names_of(const T& value) {
  Names names;
  fields(value, [&](std::string_view name, const auto&) {
    names.emplace_back(name);
    return true;
  });
  return names;
}

std::vector<std::byte> some_bytes(std::size_t size) {
  return std::vector<std::byte>(size, std::byte{0x2a});
}

TEST(Fields, AreVisitedOnceInTheirOrder) {
  EXPECT_EQ(names_of(every::everything{}), (Names{"a", "b", "c", "d", "e", "f", "g", "h"}));
  EXPECT_EQ(names_of(every::node{}), (Names{"value", "name"})) << "a list has no links";
}

TEST(Fields, AreTheDiscriminantOfAUnionAndTheArmThatIsSet) {
  every::by_int value;
  EXPECT_EQ(names_of(value), (Names{"which"}));
  value.set_data();
  EXPECT_EQ(names_of(value), (Names{"which", "data"}));
  value.set_rest(77, 5);
  EXPECT_EQ(names_of(value), (Names{"which", "rest"}));
}

TEST(Fields, NameTheValueOfAnEnumeration) {
  EXPECT_EQ(names_of(every::color::BLUE), (Names{"BLUE"}));
  EXPECT_EQ(names_of(every::color{7}), (Names{""}));
}

TEST(Fields, EndWhereTheVisitorReturnsFalse) {
  Names names;
  EXPECT_FALSE(fields(every::numbers{}, [&](std::string_view name, const auto&) {
    names.emplace_back(name);
    return names.size() < 3;
  }));
  EXPECT_EQ(names, (Names{"a", "b", "c"}));
  every::by_bool value;
  value.set_inner();
  EXPECT_FALSE(fields(value, [](std::string_view, const auto&) { return false; }));
}

TEST(Fields, AreVisitedTogetherInSeveralValues) {
  const every::node a{.value = 1, .name = "x"}, b{.value = 2, .name = "y"}, c{.value = 3};
  int visits = 0;
  fields(
      a,
      [&](std::string_view, const auto& first, const auto& second, const auto& third) {
        ++visits;
        EXPECT_NE(first, second);
        EXPECT_NE(second, third);
        return true;
      },
      b, c);
  EXPECT_EQ(visits, 2);
}

TEST(Text, ShowsNumbersAndNamesOfEnumerators) {
  every::numbers value;
  value.a = -1;
  value.d = std::numeric_limits<std::uint64_t>::max();
  value.e = 0.5F;
  value.f = -2.25;
  value.g = true;
  value.h = every::color::GREEN;
  value.i = every::counted{3};
  value.o = -128;
  value.p = 255;
  EXPECT_EQ(to_string(value),
            "{a: -1, b: 0, c: 0, d: 18446744073709551615, e: 0.5, f: -2.25, g: true, h: GREEN, "
            "i: 3, j: 0, k: 0, l: 0, m: 0, n: 0, o: -128, p: 255}");
  EXPECT_EQ(to_string(every::counted::TENTH), "TENTH");
  EXPECT_EQ(to_string(every::color{-9}), "-9");
}

TEST(Text, QuotesTextAndCountsBytes) {
  every::bytes_and_text value;
  value.bounded = some_bytes(2);
  value.any = some_bytes(17);
  value.text = "a \"b\"\n";
  EXPECT_EQ(to_string(value),
            "{one: <1 bytes: 00>, four: <4 bytes: 00 00 00 00>, "
            "seven: <7 bytes: 00 00 00 00 00 00 00>, bounded: <2 bytes: 2a 2a>, "
            "any: <17 bytes: 2a 2a 2a 2a 2a 2a 2a 2a 2a 2a 2a 2a 2a 2a 2a 2a …>, "
            "text: \"a \\\"b\\\"\\x0a\", any_words: \"\"}");
}

TEST(Text, ShowsListsOptionalsAndUnions) {
  every::lists list;
  list.head.resize(2);
  list.other.resize(1);
  EXPECT_EQ(to_string(list),
            "{head: [{value: 0, name: \"\"}, {value: 0, name: \"\"}], other: [{values: []}], "
            "behind: 0}");
  every::tree tree;
  tree.left.emplace().value = 4;
  EXPECT_EQ(to_string(tree), "{value: 0, left: {value: 4, left: none, right: none}, right: none}");
  every::by_bool choice;
  EXPECT_EQ(to_string(choice), "{which: false}");
  choice.set_inner().set_text(every::color::BLUE, "no");
  EXPECT_EQ(to_string(choice), "{which: true, inner: {which: BLUE, text: \"no\"}}");
}

TEST(Text, IsMadeOfTypedefsByTextOf) {
  EXPECT_EQ(codec::text_of(every::fixed_ints{1, 2, 3}), "[1, 2, 3]");
  EXPECT_EQ(codec::text_of(every::bools{true, false}), "[true, false]");
  EXPECT_EQ(codec::text_of(every::bounded_text{"ab"}), "\"ab\"");
  EXPECT_EQ(codec::text_of(every::maybe_int{}), "none");
  EXPECT_EQ(codec::text_of(every::bushes(1)), "[{name: \"\", branches: []}]");
}

TEST(Comparison, SeesEachMember) {
  every::numbers value;
  value.e = 1;
  EXPECT_EQ(value, value);
  every::numbers other = value;
  other.p = 1;
  EXPECT_NE(value, other);
  other = value;
  other.a = 1;
  EXPECT_NE(value, other);
  other = value;
  other.f = value.f = std::nan("");
  EXPECT_NE(value, other);
  EXPECT_NE(value, value);
}

TEST(Comparison, SeesWhichArmIsSetAndWhatItHolds) {
  every::by_enum red, blue, green;
  red.set_number(1);
  blue.set_text(every::color::BLUE, "a");
  green.set_text(every::color::GREEN, "a");
  EXPECT_NE(red, blue);
  EXPECT_NE(blue, green);
  EXPECT_EQ(blue, blue);
  every::by_enum other = blue;
  other.text()->push_back('b');
  EXPECT_NE(blue, other);
}

TEST(Comparison, ReachesIntoListsOptionalsAndBoxes) {
  every::everything value;
  value.c.some.resize(2);
  value.d.all.emplace();
  value.e.head.resize(1);
  value.f.left.emplace();
  value.g.branches.resize(1);
  every::everything other = value;
  EXPECT_EQ(value, other);
  other.c.some[1].a = 1;
  EXPECT_NE(value, other);
  other = value;
  other.d.all.reset();
  EXPECT_NE(value, other);
  other = value;
  other.e.head[0].value = 1;
  EXPECT_NE(value, other);
  other = value;
  other.f.left->value = 1;
  EXPECT_NE(value, other);
  other = value;
  other.g.branches[0].name = "x";
  EXPECT_NE(value, other);
  EXPECT_EQ(std::vector<every::node>(2), std::vector<every::node>(2));
}

TEST(Comparison, ComparesViewsByTheirBytes) {
  const std::vector<std::byte> one = some_bytes(5), same = some_bytes(5), other = some_bytes(6);
  every::placed value, copy;
  value.data = one;
  copy.data = same;
  EXPECT_EQ(value, copy);
  copy.data = other;
  EXPECT_NE(value, copy);
  every::named_like_ours view, copied;
  view.set_value(one);
  copied.set_value(same);
  EXPECT_EQ(view, copied);
  copied.set_value(other);
  EXPECT_NE(view, copied);
}

// The compiler knows from the types alone which of them can be compared.
template <class A, class B>
concept CanBeCompared = requires(const A& a, const B& b) {
  a == b;
};

TEST(Comparison, TakesAWithReplyForItsResults) {
  static_assert(CanBeCompared<WithReply<every::maybe_placed>, every::maybe_placed>);
  static_assert(CanBeCompared<every::maybe_placed, WithReply<every::maybe_placed>>);
  static_assert(!CanBeCompared<every::maybe_placed, every::placed>);
  static_assert(!CanBeCompared<every::color, every::counted>);
}

}  // namespace
}  // namespace rpcrdma
