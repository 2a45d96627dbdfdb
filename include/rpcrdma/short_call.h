// A call in one expression: arguments, the place for bulk data, and results.
//
//   using rpcrdma::args, rpcrdma::into, rpcrdma::result;
//   std::vector<std::byte> page(1 << 20);
//   auto data = client.call({kProgram, kVersion, kGet}, args("name"), into(page));
//   if (!data) return data.error();      // *data is in `page`, over RDMA and TCP
//   auto count = client.call({kProgram, kVersion, kCount}, args("name", 7U), result<uint32_t>());
//   auto nothing = co_await client.call_async({kProgram, kVersion, kPut}, args("name", data));
//
// Programs described in a .x file have typed functions instead (docs/idl.md); client.h has the long
// form, for whole messages, callbacks, and results that are read piece by piece.
#ifndef RPCRDMA_SHORT_CALL_H_
#define RPCRDMA_SHORT_CALL_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/error.h"
#include "rpcrdma/generated/codec.h"
#include "rpcrdma/generated/stub.h"
#include "rpcrdma/types.h"

namespace rpcrdma {
namespace detail {

template <class T>
inline constexpr bool kIsNumber = std::is_same_v<T, bool> || std::is_same_v<T, float> ||
                                  std::is_same_v<T, double> ||
                                  (std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8) &&
                                   !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char32_t>);

// A fixed array is opaque[n] in XDR, which has no count in front of it.
template <class T>
inline constexpr bool kIsFixedBytes =
    std::is_array_v<T>&& std::is_same_v<std::remove_extent_t<T>, std::byte>;
template <std::size_t N>
inline constexpr bool kIsFixedBytes<std::array<std::byte, N>> = true;

// An array of char that may change need not end with a zero.
template <class T>
inline constexpr bool kIsCharArray =
    std::is_array_v<T>&& std::is_same_v<std::remove_extent_t<T>, char>;

// GCC 12 destroys an aggregate twice that is created within an awaited expression.
template <class T>
inline constexpr bool kIsTemporaryAggregate =
    !std::is_reference_v<T> && std::is_aggregate_v<T> && !std::is_trivially_destructible_v<T>;

inline void measure_item(std::string_view value, SizeCounter& counter) noexcept {
  counter.add(4);
  counter.bytes(value.size());
}
inline void measure_item(Bytes value, SizeCounter& counter) noexcept {
  counter.bulk(value.size());
}
template <class T>
void measure_item(const T& value, SizeCounter& counter) {
  if constexpr (kIsNumber<T>) {
    counter.add(sizeof(T) == 8 ? 8 : 4);
  } else {
    measure(value, counter);
  }
}

inline void encode_item(std::string_view value, MessageWriter& writer) noexcept {
  writer.xdr().string(value);
}
inline void encode_item(Bytes value, MessageWriter& writer) noexcept {
  writer.bulk(value);
}
template <class T>
void encode_item(const T& value, MessageWriter& writer) {
  if constexpr (std::is_same_v<T, bool>) {
    writer.xdr().boolean(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    codec::write(writer, value);
  } else if constexpr (kIsNumber<T> && sizeof(T) == 8) {
    writer.xdr().u64(static_cast<std::uint64_t>(value));
  } else if constexpr (kIsNumber<T>) {
    writer.xdr().u32(static_cast<std::uint32_t>(value));
  } else {
    encode(value, writer);
  }
}

template <class T>
T decode_item(MessageReader& reader) {
  if constexpr (std::is_same_v<T, bool>) {
    return reader.xdr().boolean("the result");
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(reader.xdr().u32("the result"));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(reader.xdr().u64("the result"));
  } else if constexpr (kIsNumber<T> && sizeof(T) == 8) {
    return static_cast<T>(reader.xdr().u64("the result"));
  } else if constexpr (kIsNumber<T>) {
    return static_cast<T>(reader.xdr().u32("the result"));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return std::string(
        reader.xdr().string(std::numeric_limits<std::uint32_t>::max(), "the result"));
  } else if constexpr (std::is_same_v<T, std::vector<std::byte>>) {
    const Bytes bytes = reader.bulk(std::numeric_limits<std::uint32_t>::max(), "the result");
    return {bytes.begin(), bytes.end()};
  } else {
    T value{};
    decode(reader, value);
    return value;
  }
}

// Text and bytes by reference, numbers by value, other types by reference.
template <class T>
struct Keeping {
  using Plain = std::remove_cvref_t<T>;
  static_assert(!std::is_same_v<Plain, std::nullptr_t>, "an argument must be a value");
  static_assert(!kIsFixedBytes<Plain>,
                "write rpcrdma::Bytes(x) for opaque<>; opaque[n] is for the long form");
  static_assert(!kIsCharArray<std::remove_reference_t<T>>,
                "write std::string_view(x, size): an array need not end with a zero");
  using Type = std::conditional_t<
      kIsNumber<Plain>, Plain,
      std::conditional_t<std::is_convertible_v<T, std::string_view>, std::string_view,
                         std::conditional_t<std::is_convertible_v<T, Bytes>, Bytes, const Plain&>>>;
};

}  // namespace detail

// The arguments of one call, in order, by reference: use it within the expression of the call.
template <bool kIsAwaitable, class... Items>
class Args {
 public:
  static constexpr bool kMayBeAwaited = kIsAwaitable;

  explicit Args(Items... items) : items_(items...) {}

  void measure(SizeCounter& counter) const {
    std::apply([&](const auto&... item) { (detail::measure_item(item, counter), ...); }, items_);
  }
  void encode(MessageWriter& writer) const {
    std::apply([&](const auto&... item) { (detail::encode_item(item, writer), ...); }, items_);
  }

 private:
  std::tuple<Items...> items_;
};

// Numbers of four and eight bytes, bool, float and double; text (string<>); bytes (opaque<>, which
// RDMA may place directly: lent until the call has ended); and values of types that rpcrdma-gen
// makes.
template <class... Items>
auto args(Items&&... items) {
  constexpr bool kIsAwaitable = !(detail::kIsTemporaryAggregate<Items> || ...);
  return Args<kIsAwaitable, typename detail::Keeping<Items>::Type...>(items...);
}

// --- Results: into() and result() say what the procedure returns; without either, nothing.

struct NoResult {
  using Value = void;
  static constexpr std::uint32_t kSizeMax = 4;  // bytes
  Places places() const noexcept { return {}; }
  static Expected<void, Error> take(Reply&& reply) {
    (void)reply.results();
    if (auto error = reply.finish()) return Unexpected<Error>(std::move(*error));
    return {};
  }
};

// Bulk data (opaque<>), at most as long as its place.
struct Into {
  using Value = Bytes;  // the part of the place that was filled
  static constexpr std::uint32_t kSizeMax = 512;
  MutableBytes place;
  Places places() const noexcept { return place; }
  static Expected<Bytes, Error> take(Reply&& reply) {
    return reply.decode([](MessageReader& results) {
      return results.bulk(std::numeric_limits<std::uint32_t>::max(), "the result");
    });
  }
};
// The place is lent until the call has ended.
inline Into into(MutableBytes place) noexcept {
  return {place};
}

// A number, bool, std::string, std::vector<std::byte>, or a type that rpcrdma-gen makes, without
// views. Results over kUnboundedResultsMax need CallOptions::results_size_max.
template <class T>
struct Result {
  using Value = T;
  static constexpr std::uint32_t kSizeMax = kUnboundedResultsMax;
  Places places() const noexcept { return {}; }
  static Expected<T, Error> take(Reply&& reply) {
    return reply.decode([](MessageReader& results) { return detail::decode_item<T>(results); });
  }
};
template <class T>
Result<T> result() noexcept {
  return {};
}

namespace detail {

template <class Arguments, class Results>
Expected<Call, Error> prepare_short(Client& client, const Procedure& procedure,
                                    const Arguments& arguments, const Results& results,
                                    const CallOptions& options) {
  return stub::prepare_by(
      client, procedure, Results::kSizeMax, results.places(), options,
      [&](SizeCounter& counter) { arguments.measure(counter); },
      [&](MessageWriter& writer) { arguments.encode(writer); });
}

}  // namespace detail

template <class Arguments, class Results>
Expected<typename Results::Value, Error> Client::call(const Procedure& procedure,
                                                      const Arguments& arguments,
                                                      const Results& results,
                                                      const CallOptions& options) {
  auto prepared = detail::prepare_short(*this, procedure, arguments, results, options);
  if (!prepared) return Unexpected<Error>(std::move(prepared.error()));
  auto reply = call(std::move(*prepared));
  if (!reply) return Unexpected<Error>(std::move(reply.error()));
  return Results::take(std::move(*reply));
}

template <class Arguments, class Results>
ResultsAwaiter<typename Results::Value> Client::call_async(const Procedure& procedure,
                                                           const Arguments& arguments,
                                                           const Results& results,
                                                           const CallOptions& options) {
  static_assert(Arguments::kMayBeAwaited, "name the argument first: GCC 12 destroys it twice here");
  return {*this, detail::prepare_short(*this, procedure, arguments, results, options),
          &Results::take};
}

}  // namespace rpcrdma

#endif  // RPCRDMA_SHORT_CALL_H_
