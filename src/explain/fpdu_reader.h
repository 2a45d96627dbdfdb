// One direction of an MPA stream: cuts it into FPDUs, checks their CRCs, and finds its way back in
// where bytes are missing. Payload is handed on in place and is never copied.
#ifndef RPCRDMA_EXPLAIN_FPDU_READER_H_
#define RPCRDMA_EXPLAIN_FPDU_READER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "explain/facts.h"
#include "iwarp/crc32c.h"
#include "iwarp/headers.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

enum class Crc : std::uint8_t {
  kUnknown,  // a byte is missing
  kGood,
  kZero,  // the field is zero and the checksum is not: CRCs are off
  kBad,
};

// An FPDU's first bytes: as many as its header has.
struct FpduStart {
  Where where;
  Bytes raw;           // length field and header, 16 or 20 bytes; 4 where it is not understood
  iwarp::Fault fault;  // kNone: `header` is valid
  iwarp::Header header;
  std::uint32_t size = 0;  // ULPDU, bytes
  bool has_reserved_bits = false;
};

struct FpduEnd {
  Where where;
  bool is_whole = true;
  Crc crc = Crc::kUnknown;
  bool has_pad_bits = false;    // a fill byte is not zero
  bool has_bad_marker = false;  // a marker does not point at the FPDU's start
};

class FpduConsumer {
 public:
  virtual ~FpduConsumer() = default;
  virtual void on_fpdu(const FpduStart& start) = 0;
  // Bytes of its payload, from `offset` on.
  virtual void on_payload(Bytes bytes, std::uint32_t offset, const Where& where) = 0;
  virtual void on_fpdu_end(const FpduEnd& end) = 0;
  // The FPDU that was announced last is none; the reader looks for the next.
  virtual void on_lost(const Where& where) = 0;
};

// Returns whether a bit of these first four bytes of an FPDU is set that has no meaning.
bool has_reserved_bits(Bytes head) noexcept;

class FpduReader {
 public:
  explicit FpduReader(FpduConsumer& consumer) noexcept : consumer_(consumer) {}

  // The next byte begins an FPDU, or the marker in front of the first one.
  void begin(bool has_markers) noexcept;
  // It is unknown where the next FPDU begins, and whether there are markers.
  void begin_anywhere();

  void add(Bytes bytes, const Where& where);
  void gap(std::uint64_t size, const Where& where);
  // Takes what is left as the end of the stream.
  void end();

  bool is_searching() const noexcept { return state_ == State::kSearching; }
  std::uint64_t skipped_bytes() const noexcept { return skipped_; }
  // Memory in bytes, roughly.
  std::size_t footprint() const noexcept { return window_.capacity(); }

 private:
  enum class State : std::uint8_t { kHeader, kPayload, kTrailer, kSearching };
  enum class Markers : std::uint8_t {
    kNone,
    kPlaced,   // at each multiple of 512 of position_
    kUnknown,  // as long as too few bytes were seen
  };
  struct Run {  // of window_: the packet in which its bytes from `begin` on came
    std::size_t begin;
    Where where;
  };
  // The parts of an FPDU in the window, by their offsets there.
  struct Extent {
    std::size_t checked;  // first byte under the checksum: that of a marker in front, or its own
    std::size_t crc, end;
  };
  // Says whether an FPDU begins somewhere: yes, no, or not before there are more bytes.
  enum class Verdict : std::uint8_t { kYes, kNo, kMore };

  std::size_t step(Bytes bytes, const Where& where);
  std::size_t take(Bytes bytes, const Where& where);
  Bytes take_header(Bytes bytes, const Where& where);
  Bytes take_payload(Bytes bytes, const Where& where);
  Bytes take_trailer(Bytes bytes, const Where& where);
  void check_marker();
  void start_fpdu(const Where& where);
  void finish_fpdu(const Where& where);
  void lose(const Where& where);
  void clear_window();

  // The search, in fpdu_search.cc.
  void append(Bytes bytes, const Where& where);
  void search(bool is_end);
  void accept(std::size_t at);
  void emit(std::size_t at, std::size_t size);
  void resume(std::size_t at);
  bool feed(std::size_t begin, std::size_t end, std::size_t& at);
  void trim_window(std::size_t at);
  Verdict judge(std::size_t at);
  Verdict judge_plain(std::size_t at);
  Verdict judge_marked(std::size_t at);
  Verdict judge_markers(std::size_t at, std::size_t size);
  bool is_marker(std::size_t at) const noexcept;
  bool copy_head(std::size_t at, std::array<std::byte, 20>& head) const;
  Extent extent(std::size_t at, std::size_t size) const noexcept;
  bool has_good_pointers(std::size_t at, const Extent& extent) const;
  std::optional<std::uint32_t> checksum(const Extent& extent);

  FpduConsumer& consumer_;
  State state_ = State::kSearching;
  std::array<std::byte, 20> head_{};  // of the FPDU: length field and header
  std::size_t head_size_ = 0, head_wanted_ = 4;
  FpduStart start_{};
  std::uint32_t payload_at_ = 0, payload_size_ = 0;
  std::array<std::byte, 7> trailer_{};  // fill bytes and CRC
  std::size_t trailer_size_ = 0, trailer_wanted_ = 0;
  iwarp::Crc32c crc_;
  bool is_whole_ = true;

  Markers markers_ = Markers::kUnknown;
  bool has_bad_marker_ = false;
  std::uint64_t position_ = 0;  // in the stream, for markers
  std::uint64_t fpdu_position_ = 0;
  std::array<std::byte, 4> marker_{};

  std::vector<std::byte> window_;  // while searching
  std::uint64_t window_position_ = 0;
  std::vector<Run> runs_;
  std::size_t searched_ = 0;    // offsets of window_ that begin no FPDU
  std::size_t crc_budget_ = 0;  // bytes that may still be summed up in vain
  std::size_t chain_ = 0;       // bytes of FPDUs without a marker that follow each other
  std::uint64_t skipped_ = 0;
  bool is_resuming_ = false;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_FPDU_READER_H_
