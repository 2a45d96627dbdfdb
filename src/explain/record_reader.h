// One direction of ONC RPC over TCP: cuts the stream into records (RFC 5531 §11).
#ifndef RPCRDMA_EXPLAIN_RECORD_READER_H_
#define RPCRDMA_EXPLAIN_RECORD_READER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "explain/facts.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// Returns whether these 16 bytes look like the start of a record with an RPC message.
bool looks_like_record(Bytes bytes) noexcept;

class RecordConsumer {
 public:
  virtual ~RecordConsumer() = default;
  // `kept`: the first bytes of the record.
  virtual void on_record(const Where& first, const Where& last, Bytes kept, std::uint64_t size,
                         bool is_whole) = 0;
};

class RecordReader {
 public:
  explicit RecordReader(RecordConsumer& consumer) noexcept : consumer_(consumer) {}

  // Returns the bytes that it does not take, because no record begins there: none, or those from a
  // place between two records on.
  Bytes add(Bytes bytes, const Where& where);
  void gap(std::uint64_t size, const Where& where);
  // Memory in bytes, roughly.
  std::size_t footprint() const noexcept { return kept_.capacity(); }
  bool is_between() const noexcept { return header_size_ == 0 && kept_.empty() && size_ == 0; }

 private:
  void finish(const Where& where);

  RecordConsumer& consumer_;
  std::array<std::byte, 4> header_{};
  std::size_t header_size_ = 0;
  std::uint64_t fragment_left_ = 0;
  bool is_last_ = false, is_whole_ = true, is_lost_ = false;
  std::vector<std::byte> kept_;
  std::uint64_t size_ = 0;
  Where first_;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_RECORD_READER_H_
