// Reads packets from files and pipes in the formats pcap and pcapng.
//
// It is our own since libpcap refuses a pcapng file whose interfaces have different link types.
#ifndef RPCRDMA_APPS_EXPLAIN_CAPTURE_READER_H_
#define RPCRDMA_APPS_EXPLAIN_CAPTURE_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "explain/packet.h"
#include "rpcrdma/types.h"

namespace explaining {

class CaptureReader {
 public:
  // "-" is the standard input. problem() says why the file cannot be read, if it cannot. The
  // capture ends early, and without a problem, when the descriptor `stop` becomes readable; -1:
  // never.
  explicit CaptureReader(const std::string& path, int stop = -1);
  ~CaptureReader();
  CaptureReader(const CaptureReader&) = delete;
  CaptureReader& operator=(const CaptureReader&) = delete;

  // Reads the next packet, whose bytes are valid until the next call. False: there is none.
  bool next(rpcrdma::explain::Packet& packet);

  // Says why the file could not be opened, or not be read to its end; empty: all of it was read.
  const std::string& problem() const noexcept { return problem_; }
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  // Returns whether the descriptor `stop` ended the capture.
  bool was_stopped() const noexcept { return is_stopped_; }
  // Returns whether more can be had without waiting, as far as is known without asking.
  bool has_buffered() const noexcept { return begin_ != end_; }

 private:
  enum class Format : std::uint8_t { kUnknown, kPcap, kPcapng };
  struct Interface {
    std::uint32_t link = 0;
    std::uint64_t units_per_second = 1000000;
    std::int64_t offset = 0;  // seconds
  };

  bool start();
  bool next_pcap(rpcrdma::explain::Packet& packet);
  bool next_pcapng(rpcrdma::explain::Packet& packet);
  void add_interface(rpcrdma::Bytes block);
  bool take_enhanced(rpcrdma::Bytes block, bool is_old, rpcrdma::explain::Packet& packet);
  bool take_simple(rpcrdma::Bytes block, rpcrdma::explain::Packet& packet);
  // Makes at least `size` bytes available at the front of the buffer; false: there are fewer.
  bool want(std::size_t size);
  bool skip(std::uint64_t size);
  // Bytes at the front of the buffer that want() has made available; its next call moves them.
  rpcrdma::Bytes ahead(std::size_t size) const noexcept;
  rpcrdma::Bytes take(std::size_t size);
  std::uint32_t word(rpcrdma::Bytes bytes, std::size_t at) const noexcept;
  std::uint16_t half(rpcrdma::Bytes bytes, std::size_t at) const noexcept;
  bool cut(const std::string& what);
  bool end_of_pcapng();
  bool waits_in_vain();
  std::string why_not() const;

  int descriptor_ = -1, stop_ = -1;
  bool is_open_here_ = false;
  std::string name_, problem_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool is_at_end_ = false, is_stopped_ = false;
  std::uint64_t bytes_read_ = 0, packets_ = 0;
  std::uint64_t left_out_ = 0;  // packets behind which the file could be read on
  Format format_ = Format::kUnknown;
  bool is_swapped_ = false, is_nanoseconds_ = false;
  std::uint32_t link_ = 1;
  std::vector<Interface> interfaces_;
};

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_CAPTURE_READER_H_
