// libtirpc's XDR handles over memory of ours: one that writes and grows, and one that reads a
// message that may lie in several places.
#ifndef RPCRDMA_ADAPTERS_TIRPC_XDR_STREAMS_H_
#define RPCRDMA_ADAPTERS_TIRPC_XDR_STREAMS_H_

#include <rpc/rpc.h>

#include <array>
#include <cstddef>
#include <memory>

#include "rpcrdma/message.h"
#include "rpcrdma/types.h"

namespace rpcrdma::tirpc {

// Writes into memory that grows by doubling. libtirpc's RPCSEC_GSS reads back what was written and
// goes to and fro in it, for which the message has to be in one piece; xdrrec's is not, which is
// why GSS integrity fails over TCP for arguments of more than 9 KB.
class XdrWriter {
 public:
  // Bytes that the caller keeps in place, at most kBulkItemsMax of a message.
  struct Item {
    std::size_t at;  // bytes of the written stream before it
    Bytes data;
  };

  // A message larger than `size_max` bytes fails to encode.
  explicit XdrWriter(std::size_t size_max) noexcept;
  XdrWriter(const XdrWriter&) = delete;
  XdrWriter& operator=(const XdrWriter&) = delete;

  // Begins a new message, in the memory of the last one.
  void restart() noexcept;
  XDR* handle() noexcept { return &xdr_; }
  // The written bytes, without the items.
  Bytes written() const noexcept { return {memory_.get(), size_}; }
  std::span<const Item> items() const noexcept { return {items_.data(), item_count_}; }
  // Gives the memory away, which the bytes of written() and items() need; restart() follows.
  std::unique_ptr<std::byte[]> release() noexcept;

  // Leaves the data where it is until the message was sent. False: there are too many such items,
  // and the caller writes it like any other data. Padding is not written here.
  bool refer(Bytes data) noexcept;

  // Returns the writer behind a handle, or null if the handle is not of this class.
  static XdrWriter* of(XDR* handle) noexcept;

 private:
  static const XDR::xdr_ops kOperations;
  // Returns where the next `size` bytes belong; null: the message would become too large, or there
  // is no memory.
  std::byte* take(std::size_t size) noexcept;
  bool reserve(std::size_t size) noexcept;

  XDR xdr_{};
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0, size_max_;
  std::size_t size_ = 0;  // the position, which setpos moves to and fro
  std::array<Item, kBulkItemsMax> items_{};
  std::size_t item_count_ = 0;
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
};

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_XDR_STREAMS_H_
