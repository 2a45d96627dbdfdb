// Transport characteristics (draft-dnoveck-nfsv4-rpcrdma-xcharext-02): the four operations that an
// RDMA2_OPTIONAL carries, as values. The draft's slips are read as ADR 22 says.
//
// Nothing allocates: lists of values and subsets are views of the message, checked when they were
// decoded. Rules are those of docs/conformance.md.
#ifndef RPCRDMA_WIRE_V2_CHARACTERISTICS_H_
#define RPCRDMA_WIRE_V2_CHARACTERISTICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::wire::v2 {

// rdma_opttype.
enum class Operation : std::uint32_t {
  kInitXch = 1,  // ROPT_INITXCH: values at the start of a connection
  kReqXch = 2,   // ROPT_REQXCH: asks for other values
  kRespXch = 3,  // ROPT_RESPXCH: the answer, with the XID of the request
  kUpdXch = 4,   // ROPT_UPDXCH: a value has changed
};

enum class CharacteristicId : std::uint32_t {
  kReceiveSize = 1,         // XCHAR_RBSIZ: u32, bytes of the Receives of who says it
  kRemoteInvalidation = 2,  // XCHAR_REQREMINV: bool, a reply to it may invalidate its handles
  kBackward = 3,            // XCHAR_BRS: enum, see BackwardSupport
};
// The range for experiments, never for a standard.
inline constexpr std::uint32_t kExperimentalFirst = 0xffffff00;

enum class BackwardSupport : std::uint32_t {
  kNone = 0,    // neither backward Calls nor replies
  kInline = 1,  // without chunks
  kGeneral = 2,
};

// xcharval: one value, which borrows its bytes.
struct CharacteristicValue {
  std::uint32_t id;
  Bytes data;
  bool operator==(const CharacteristicValue& other) const noexcept;
};

// The values of known types. nullopt: too short for its type, or no value of it. Bytes behind
// the value are ignored.
std::optional<std::uint32_t> as_number(const CharacteristicValue& value) noexcept;
std::optional<bool> as_boolean(const CharacteristicValue& value) noexcept;
std::optional<BackwardSupport> as_backward_support(const CharacteristicValue& value) noexcept;

// xcharspec: values in a row, of any ids.
class CharacteristicSpec {
 public:
  CharacteristicSpec() = default;

  std::uint32_t size() const noexcept { return count_; }
  // Calls `take(index, value)` for each.
  template <class Take>
  void for_each(Take&& take) const {
    xdr::Reader reader(bytes_);
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint32_t id = reader.u32("");
      take(i, CharacteristicValue{id, reader.opaque(kValueSizeMax, "")});
    }
  }
  Bytes bytes() const noexcept { return bytes_; }  // as encoded, without the count
  bool operator==(const CharacteristicSpec& other) const noexcept;

 private:
  friend CharacteristicSpec read_spec(xdr::Reader& reader);
  static constexpr std::uint32_t kValueSizeMax = 0xffffffff;  // the message is the bound

  std::uint32_t count_ = 0;
  Bytes bytes_;
};

// xcharsubset: a set of elements of a CharacteristicSpec, by their indices.
class CharacteristicSubset {
 public:
  CharacteristicSubset() = default;

  // Indices behind the words are not in it.
  bool contains(std::uint32_t index) const noexcept {
    const std::size_t word = index / 32;
    if (word >= bytes_.size() / xdr::kWordSize) return false;
    return (xdr::load_word(bytes_.data() + word * xdr::kWordSize) >> (index % 32) & 1U) != 0;
  }
  Bytes bytes() const noexcept { return bytes_; }  // whole words, as encoded, without their count
  bool operator==(const CharacteristicSubset& other) const noexcept;

 private:
  friend CharacteristicSubset read_subset(xdr::Reader& reader);
  Bytes bytes_;
};

struct InitXch {
  CharacteristicSpec start;
  CharacteristicSubset no_change;  // those of `start` that are not expected to change
  bool operator==(const InitXch&) const = default;
};
struct ReqXch {
  CharacteristicSpec want;
  bool operator==(const ReqXch&) const = default;
};
struct RespXch {
  CharacteristicSubset done, rejected, pending;  // of `want`
  bool operator==(const RespXch&) const = default;
};
struct UpdXch {
  CharacteristicValue now;
  bool clears_pending;
  bool operator==(const UpdXch&) const = default;
};
// The type of an OPTIONAL that is none of the four: to be answered INVAL_OPTION.
struct UnknownOption {
  bool operator==(const UnknownOption&) const = default;
};
using Option = std::variant<UnknownOption, InitXch, ReqXch, RespXch, UpdXch>;

// Decodes `info` of an Optional. Fails where it ends early, where a value reaches beyond it,
// or where bytes are left: to be answered BAD_HEADER.
Expected<Option, xdr::DecodeError> decode_option(std::uint32_t type, Bytes info);

// Write the information of an OPTIONAL. Indices of a subset are below the number of values, and at
// most kSubsetMax.
inline constexpr std::uint32_t kSubsetMax = 64;
void write_init(xdr::Writer& writer, std::span<const CharacteristicValue> start,
                std::span<const std::uint32_t> no_change) noexcept;
void write_request(xdr::Writer& writer, std::span<const CharacteristicValue> want) noexcept;
void write_response(xdr::Writer& writer, std::span<const std::uint32_t> done,
                    std::span<const std::uint32_t> rejected,
                    std::span<const std::uint32_t> pending) noexcept;
void write_update(xdr::Writer& writer, const CharacteristicValue& now,
                  bool clears_pending) noexcept;

}  // namespace rpcrdma::wire::v2

#endif  // RPCRDMA_WIRE_V2_CHARACTERISTICS_H_
