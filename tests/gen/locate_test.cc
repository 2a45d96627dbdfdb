// locate_items() of generated bindings: it finds what an encoder marks, and judges XDR as decoding
// does.
#include "rpcrdma/generated/locate.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "every_random.h"
#include "nfs3.h"

namespace rpcrdma {
namespace {

using testing::ElementsAre;

using Every = every::EVERY_V1_Binding;
enum Procedure : std::uint32_t {
  kNull = 0,
  kEcho = 1,
  kPlaced = 6,
  kNothing = 7,
  kTree = 8,
  kNamed = 11,
};

// Several values behind each other, with the items that the encoder says.
struct Encoded {
  std::vector<std::byte> bytes;
  std::vector<ItemPlace> items;

  template <class T>
  void add(const T& value) {
    std::vector<std::byte> room(encoded_size(value));
    MessageWriter writer(room);
    encode(value, writer);
    ASSERT_TRUE(writer.ok());
    std::size_t moved = bytes.size();  // the stream has data in place that the writer has not
    for (const BulkItem& item : writer.items()) {
      items.push_back({static_cast<std::uint32_t>(item.at + moved),
                       static_cast<std::uint32_t>(item.data.size())});
      moved += item.data.size();
    }
    const auto whole = to_bytes(value);
    bytes.insert(bytes.end(), whole.begin(), whole.end());
  }
  void add_word(std::uint32_t value) {
    bytes.resize(bytes.size() + xdr::kWordSize);
    xdr::store_word(bytes.data() + bytes.size() - xdr::kWordSize, value);
  }
};

// In memory of just that size, so that a sanitizer sees each byte that is read behind it.
Expected<ItemPlaces, xdr::DecodeError> locate(std::uint32_t procedure, XdrPart part, Bytes bytes) {
  const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(exact.get(), bytes.data(), bytes.size());
  return Every::locate_items(procedure, part, Bytes(exact.get(), bytes.size()));
}

template <class T>
T random_value(std::mt19937_64& random) {
  T value{};
  randomize(value, random, 4);
  return value;
}

std::vector<ItemPlace> list(const ItemPlaces& found) {
  return {found.begin(), found.end()};
}

TEST(LocateItems, FindsThemInArgumentsWhereTheEncoderHasThem) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    Encoded encoded;
    encoded.add(random_value<every::placed>(random));
    encoded.add_word(7);  // the second argument
    const auto found = locate(kPlaced, XdrPart::kArguments, encoded.bytes);
    ASSERT_TRUE(found) << found.error().field;
    EXPECT_EQ(list(*found), encoded.items);
    EXPECT_EQ(found->size(), 2U);
  }
}

TEST(LocateItems, FindsThemInResultsByTheArmOfAUnion) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    Encoded placed, named;
    placed.add(random_value<every::maybe_placed>(random));
    named.add(random_value<every::named_like_ours>(random));
    const auto found = locate(kPlaced, XdrPart::kResults, placed.bytes);
    ASSERT_TRUE(found);
    EXPECT_EQ(list(*found), placed.items);
    const auto other = locate(kNamed, XdrPart::kResults, named.bytes);
    ASSERT_TRUE(other);
    EXPECT_EQ(list(*other), named.items);
  }
}

TEST(LocateItems, FindsTheDataOfAnNfsWrite) {
  // A handle of 5 bytes: a count and 8 bytes; offset, count and stable_how: 16; the data's count.
  const std::vector<std::byte> data(1001);
  nfs3::WRITE3args args{};
  args.file.data.resize(5);
  args.stable = nfs3::stable_how::FILE_SYNC;
  args.data = data;
  const auto bytes = to_bytes(args);
  const auto found = nfs3::NFS_V3_Binding::locate_items(7, XdrPart::kArguments, bytes);
  ASSERT_TRUE(found);
  EXPECT_THAT(list(*found), ElementsAre(ItemPlace{4 + 8 + 16 + 4, 1001}));
  EXPECT_EQ(find_traits(nfs3::NFS_V3_Binding::kProcedures, 7)->name, "NFSPROC3_WRITE");
}

TEST(LocateItems, FindsNoneWhereTheFileMarksNone) {
  std::mt19937_64 random(3);
  Encoded encoded;
  encoded.add(random_value<every::everything>(random));
  for (const XdrPart part : {XdrPart::kArguments, XdrPart::kResults}) {
    const auto found = locate(kEcho, part, encoded.bytes);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->empty());
    EXPECT_TRUE(locate(kNull, part, {}));
  }
  EXPECT_TRUE(locate(kNothing, XdrPart::kResults, {}));
}

TEST(LocateItems, RefusesEveryPrefixOfAMessage) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20; ++i) {
    Encoded placed, everything;
    placed.add(random_value<every::placed>(random));
    placed.add_word(7);
    for (std::size_t size = 0; size < placed.bytes.size(); ++size) {
      ASSERT_FALSE(locate(kPlaced, XdrPart::kArguments, Bytes(placed.bytes).first(size))) << size;
    }
    everything.add(random_value<every::everything>(random));
    const std::size_t step = 1 + everything.bytes.size() / 2000;
    for (std::size_t size = 0; size < everything.bytes.size(); size += step) {
      ASSERT_FALSE(locate(kEcho, XdrPart::kResults, Bytes(everything.bytes).first(size))) << size;
    }
  }
}

TEST(LocateItems, RefusesBytesBehindTheMessage) {
  Encoded encoded;
  encoded.add(every::placed{});
  encoded.add_word(7);
  encoded.add_word(0);
  const auto found = locate(kPlaced, XdrPart::kArguments, encoded.bytes);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, xdr::Errc::kTrailing);
  const auto null = locate(kNull, XdrPart::kResults, encoded.bytes);
  ASSERT_FALSE(null);
  EXPECT_EQ(null.error().code, xdr::Errc::kTrailing);
}

TEST(LocateItems, JudgesDamagedMessagesAsDecodingDoes) {
  std::mt19937_64 random(5);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto bytes = to_bytes(random_value<every::everything>(random));
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t word = random() % (bytes.size() / xdr::kWordSize);
      const auto value = static_cast<std::uint32_t>(random() % 2 == 0 ? random() % 8 : random());
      xdr::store_word(bytes.data() + word * xdr::kWordSize, value);
    }
    const auto decoded = from_bytes<every::everything>(bytes);
    const auto found = locate(kEcho, XdrPart::kArguments, bytes);
    ASSERT_EQ(found.has_value(), decoded.has_value());
    if (found) continue;
    ++refused;
    EXPECT_EQ(found.error().code, decoded.error().code);
    EXPECT_EQ(found.error().offset, decoded.error().offset);
    EXPECT_EQ(found.error().field, decoded.error().field);
  }
  EXPECT_GT(refused, 300);
}

TEST(LocateItems, RefusesItemsOverTheirLimit) {
  Encoded encoded;
  encoded.add_word(0);  // the arm with opaque value<64>
  encoded.add_word(65);
  encoded.bytes.resize(encoded.bytes.size() + 68);
  const auto found = locate(kNamed, XdrPart::kResults, encoded.bytes);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, xdr::Errc::kOverLimit);
}

TEST(LocateItems, RefusesNestingThatIsTooDeep) {
  Encoded deep;
  for (int i = 0; i < 1000; ++i) {
    deep.add_word(0);
    deep.add_word(1);  // there is a left one
  }
  const auto found = locate(kTree, XdrPart::kResults, deep.bytes);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, xdr::Errc::kOverLimit);
}

TEST(LocateItems, RefusesProceduresThatTheFileDoesNotHave) {
  const auto found = locate(12, XdrPart::kArguments, {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().field, "procedure");
}

TEST(ItemPlaces, LeavesOutItemsBehindThoseThatAMessageCarriesAsBulk) {
  ItemPlaces places;
  for (std::uint32_t i = 0; i < kBulkItemsMax + 2; ++i) places.add({i * 4, 4});
  ASSERT_EQ(places.size(), kBulkItemsMax);
  EXPECT_EQ(places[kBulkItemsMax - 1].position, (kBulkItemsMax - 1) * 4);
}

}  // namespace
// A field that a program leaves out of a structure is then not there, rather than there and zero.
TEST(NewUnion, IsTheDefaultWhereThatHasTheValueZero) {
  EXPECT_FALSE(nfs3::set_mode3().set_it());
  EXPECT_EQ(nfs3::set_mode3().mode(), nullptr);
  EXPECT_EQ(nfs3::set_atime().set_it(), nfs3::time_how::DONT_CHANGE);
  EXPECT_FALSE(nfs3::post_op_attr().attributes_follow());
  EXPECT_EQ(nfs3::GETATTR3res().status(), nfs3::nfsstat3::NFS3_OK);
  EXPECT_NE(nfs3::GETATTR3res().resok(), nullptr);
}

// The default arm is that of the enumerators without a case, not of every number.
TEST(ArmOf, FindsNoneForANumberThatIsNoEnumerator) {
  EXPECT_EQ(nfs3::GETATTR3res::arm_of(nfs3::nfsstat3::NFS3_OK), 0);
  EXPECT_EQ(nfs3::GETATTR3res::arm_of(nfs3::nfsstat3::NFS3ERR_STALE), 1);
  EXPECT_EQ(nfs3::GETATTR3res::arm_of(static_cast<nfs3::nfsstat3>(4711)), -1);
  EXPECT_EQ(nfs3::set_atime::arm_of(static_cast<nfs3::time_how>(3)), -1);
}

// A union's value lives in memory that its arms share: each copy, move and change has to keep to
// the type that is in there. The sanitizers see where one does not.
TEST(UnionValue, IsCopiedMovedAndReplacedWithItsArm) {
  nfs3::post_op_fh3 handle;
  handle.set_handle().data.assign(100, std::byte{7});
  nfs3::post_op_fh3 copy = handle;
  copy.handle()->data[0] = std::byte{8};
  EXPECT_EQ(handle.handle()->data[0], std::byte{7}) << "the copy is deep";
  const nfs3::post_op_fh3 moved = std::move(handle);
  EXPECT_EQ(moved.handle()->data.size(), 100U);
  copy = moved;
  EXPECT_EQ(copy.handle()->data[0], std::byte{7});
  copy = std::as_const(copy);
  EXPECT_EQ(copy.handle()->data.size(), 100U) << "a value may be assigned to itself";
  copy.set_handle().data.push_back(std::byte{9});
  EXPECT_EQ(copy.handle()->data.size(), 1U) << "an arm that is set again is a new value";
  copy.set_void(false);
  EXPECT_EQ(copy.handle(), nullptr);
  copy = nfs3::post_op_fh3(moved);
  EXPECT_EQ(copy.handle()->data.size(), 100U);
}

// The value that is moved is inside of the one that it replaces.
TEST(UnionValue, MayBeMovedOutOfItsOwnArm) {
  struct Link {
    codec::Arm<8> next;
    int number = 0;
  };
  codec::Arm<8> chain;
  Link& first = chain.emplace<Box<Link>>(1).emplace();
  first.number = 1;
  first.next.emplace<Box<Link>>(1).emplace().number = 2;
  chain = std::move(first.next);
  EXPECT_EQ(chain.get<Box<Link>>(1)->get()->number, 2);
  EXPECT_EQ(chain.get<Box<Link>>(1)->get()->next.get<Box<Link>>(1), nullptr);
}

TEST(UnionValue, CopiesAnArmOnTheHeapDeeply) {
  nfs3::post_op_attr one;
  one.set_attributes().size = 1;
  nfs3::post_op_attr other = one;
  other.attributes()->size = 2;
  EXPECT_EQ(one.attributes()->size, 1U);
  one = std::move(other);
  EXPECT_EQ(one.attributes()->size, 2U);
}

}  // namespace rpcrdma
