// libtirpc's XDR handles over memory of ours: one that writes and grows, and one that reads a
// message that may lie in several places.
#ifndef RPCRDMA_ADAPTERS_TIRPC_XDR_STREAMS_H_
#define RPCRDMA_ADAPTERS_TIRPC_XDR_STREAMS_H_

#include <rpc/rpc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "rpcrdma/message.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::tirpc {

// xdr_void() as libtirpc takes routines, which all have the type of another function.
inline xdrproc_t void_routine() noexcept {
  return reinterpret_cast<xdrproc_t>(reinterpret_cast<void (*)()>(xdr_void));
}

// Numbers the calls of xdr_bytes() and xdr_string() for one message, and knows which are of data
// that RDMA may place (rpcrdma_tirpc_procedure).
class ItemNumbers {
 public:
  void restart(std::uint32_t eligible) noexcept {
    eligible_ = eligible;
    next_ = 0;
  }
  bool next_is_eligible() noexcept {
    const std::uint32_t number = next_++;
    return number < 32 && (eligible_ >> number & 1U) != 0;
  }

 private:
  std::uint32_t eligible_ = 0, next_ = 0;
};

// Writes into memory that grows by doubling. libtirpc's RPCSEC_GSS reads back what was written and
// goes to and fro in it, for which the message has to be in one piece; xdrrec's is not, which is
// why GSS integrity fails over TCP for arguments of more than 9 KB.
class XdrWriter {
 public:
  // Bytes that are not written among the others, and neither is their padding.
  struct Item {
    std::size_t at;  // bytes of the written stream before it
    Bytes data;
    bool is_eligible;  // for direct data placement; else `data` has its padding
  };
  // Gives memory that lasts until the message is sent.
  class Keeper {
   public:
    virtual MutableBytes make(std::size_t size) noexcept = 0;  // shorter: there is none

   protected:
    ~Keeper() = default;
  };

  // A message larger than `size_max` bytes fails to encode.
  explicit XdrWriter(std::size_t size_max) noexcept;
  XdrWriter(const XdrWriter&) = delete;
  XdrWriter& operator=(const XdrWriter&) = delete;

  // Begins a new message, in the memory of the last one.
  void restart() noexcept;
  XDR* handle() noexcept { return &xdr_; }
  // The bytes in front of the position, without the items.
  Bytes written() const noexcept { return {memory_.get(), size_}; }
  std::span<const Item> items() const noexcept { return {items_.data(), passed_}; }

  // The calls of xdr_bytes() and xdr_string() from now on are numbered from 0. Bit i of `eligible`:
  // call i has data that RDMA may place. With a keeper the data is copied to its memory at once: a
  // program's routine may free it, or change it, as soon as xdr_bytes() has returned. Data that is
  // large goes there in any case then, since the message is copied once more from here. Without one
  // the data stays where the program has it.
  void bind(std::uint32_t eligible, Keeper* keeper) noexcept;
  // Writes the count of the next of these calls, and notes where its data is. False: nothing was
  // written, and it is done as libtirpc does it.
  bool refer_next(Bytes data) noexcept;

  // Returns the writer behind a handle, or null if the handle is not of this class.
  static XdrWriter* of(XDR* handle) noexcept;

 private:
  static const XDR::xdr_ops kOperations;
  // Each of them may have other data in front of it, which is lent as an item as well.
  static constexpr std::size_t kItemsMax = (kBulkItemsMax - 1) / 2;
  static std::size_t size_of(const Item& item) noexcept {
    return xdr::padded_memory(item.data.size());
  }
  // Positions count the items, as if they were written.
  std::size_t position() const noexcept;
  bool move_to(std::size_t position) noexcept;
  // Returns where the next `size` bytes belong; null: the message would become too large, or there
  // is no memory.
  std::byte* take(std::size_t size) noexcept;
  bool reserve(std::size_t size) noexcept;

  XDR xdr_{};
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0, size_max_;
  std::size_t size_ = 0;  // in front of the position, which setpos moves to and fro
  std::array<Item, kItemsMax> items_{};
  std::size_t item_count_ = 0, passed_ = 0;  // `passed_` of them are in front of the position
  ItemNumbers numbers_;
  Keeper* keeper_ = nullptr;
  bool keeps_others_ = false;
};

// Memory in which a result lands that RDMA places, and which the program may get: it frees the data
// of results by free().
class ResultPlace {
 public:
  // Returns memory of this size, and of a byte more for the end of a text; empty: there is none.
  MutableBytes make(std::size_t size) noexcept;
  // Gives the memory away if this data lies at its beginning and fills most of it. Null: it does
  // not, and has to be copied.
  char* give(Bytes data) noexcept;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

// Reads a message whose parts lie one behind the other, or in several places.
class XdrReader {
 public:
  XdrReader() noexcept;
  XdrReader(const XdrReader&) = delete;
  XdrReader& operator=(const XdrReader&) = delete;

  // Reads the message of a MessageReader from its current position on. The views of `message` stay
  // valid as long as this is used. Data that was placed apart gets its padding. False: the places
  // contradict the message.
  bool open(MessageReader& message) noexcept;
  void close() noexcept;
  // As XdrWriter::bind(), for results whose data lies where the client has offered memory.
  void bind(std::uint32_t eligible, ResultPlace* place = nullptr) noexcept {
    numbers_.restart(eligible);
    place_ = place;
  }
  // The place of bind(); null: there is none.
  ResultPlace* place() noexcept { return place_; }
  // The item that xdr_bytes() or xdr_string() reads next: its count, and its place if it has one.
  struct Next {
    std::uint32_t size;
    Bytes placed;  // empty: the data follows in the message, as far as there is any
  };
  // Reads the count of the next of these calls. False: the message ends here, or contradicts what
  // was placed; nobody allocates memory for such a count.
  bool read_next(Next& next) noexcept;
  // Reads the data of such an item and its padding. libtirpc's xdr_opaque() would write the padding
  // into memory that all threads share.
  bool read_data(std::byte* to, std::uint32_t size) noexcept {
    const std::uint64_t end = position_ + xdr::padded(size);
    return end <= size_ && read(to, size) && seek(static_cast<std::size_t>(end));
  }
  XDR* handle() noexcept { return &xdr_; }
  std::size_t remaining() const noexcept { return size_ - position_; }

  static XdrReader* of(XDR* handle) noexcept;

 private:
  static const XDR::xdr_ops kOperations;
  // Each placed item has the bytes in front of it, itself and its padding.
  static constexpr std::size_t kRunsMax = 3 * kBulkItemsMax + 1;
  void append(Bytes run) noexcept;
  bool read(std::byte* to, std::size_t size) noexcept;
  bool seek(std::size_t position) noexcept;
  // Returns the next bytes if they lie in one piece; else null.
  const std::byte* view(std::size_t size) noexcept;

  XDR xdr_{};
  std::array<Bytes, kRunsMax> runs_{};
  std::size_t run_count_ = 0;
  std::size_t run_ = 0, offset_ = 0;  // the next byte: which run, and where in it
  std::size_t position_ = 0, size_ = 0;
  ItemNumbers numbers_;
  ResultPlace* place_ = nullptr;
  std::array<Bytes, kBulkItemsMax> placed_{};  // results, in their order
  std::size_t placed_count_ = 0, next_placed_ = 0;
};

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_XDR_STREAMS_H_
