// The two sides of a fuzzed iWARP stream: ours, whose memory and work are watched, and the peer's,
// which only has to keep talking.
#ifndef RPCRDMA_TESTS_FUZZ_STREAM_SIDES_H_
#define RPCRDMA_TESTS_FUZZ_STREAM_SIDES_H_

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "fuzz/fuzz.h"
#include "iwarp/stream.h"

namespace rpcrdma::fuzz {

// Both sides were set up with this.
struct StreamSetup {
  explicit StreamSetup(Choices& choices);
  iwarp::StreamOptions stream{8, 6, 2, 2};
  iwarp::Negotiated ours;
  iwarp::Negotiated theirs;
  std::size_t fpdu_size_max = iwarp::kFpduSizeMax;
  std::size_t segment_size = 0;
  bool bare_receives = false;  // ours take memory when a message comes, as a server's do
};

// A place that the other side knows.
struct Known {
  iwarp::RemoteMemory memory;
  std::size_t size;
};

// Memory of one work request or exposure, in up to three runs with guard bytes around each.
class Place {
 public:
  Place(Choices& choices, std::size_t size_max, std::size_t runs);
  explicit Place(std::size_t size);  // one run
  // Guard bytes are as they were; so is all of it when only the peer may read it.
  void check(bool read_only) const;

  MutableBytes run(std::size_t index = 0);
  std::vector<MutableBytes> targets();
  std::vector<Bytes> sources();
  std::size_t size() const;

 private:
  static constexpr std::size_t kGuard = 32;
  std::vector<Buffer> runs_;
  std::uint8_t seed_;
};

// Parses what a side sends: whole FPDUs with a good CRC, and at most one Terminate, at the end.
class Output {
 public:
  explicit Output(bool crc) : crc_(crc) {}
  void add(Bytes bytes);
  // Sinks that were named in Read Requests since the last call.
  std::vector<Known> take_sinks();

 private:
  std::size_t take_fpdu(Bytes bytes);
  bool crc_;
  bool terminated_ = false;
  Buffer pending_;
  std::vector<Known> sinks_;
};

class OurSide final : private iwarp::ReceiveMemory {
 public:
  explicit OurSide(const StreamSetup& setup);

  void start();
  void post(Choices& choices, iwarp::RemoteMemory remote);
  void revoke(Choices& choices);
  void nudge() { stream_.nudge(); }
  void split_reads(Choices& choices);
  void close() { stream_.close(); }
  void end_of_stream() { stream_.handle_end_of_stream(); }
  // Hands up to `size` bytes from the front of `wire` over, `step` at a time.
  void receive(Buffer& wire, std::size_t size, std::size_t step);
  void transmit(Choices& choices, Buffer& wire);
  void poll();
  // Ends the stream if it is not over, and checks that everything came back.
  void end(bool by_peer);

  // Every place that the peer was ever told of, dead ones as well.
  const std::vector<Known>& places() const { return places_; }
  std::uint32_t messages_received() const { return messages_received_; }

 private:
  struct Work {
    iwarp::WorkKind kind;
    bool signaled;
    std::unique_ptr<Place> place;
    SteeringTag tag{};  // kRevoke
    bool readable = false;
    std::uint32_t size = 0;  // of a bare Receive, whose place is made by take()
  };
  struct Exposed {
    std::unique_ptr<Place> place;
    bool readable;
  };

  std::byte* take(std::uint64_t id, std::uint32_t size) override;
  void post_send(Choices& choices, iwarp::RemoteMemory remote);
  void post_write(Choices& choices, iwarp::RemoteMemory remote);
  void post_read(Choices& choices, iwarp::RemoteMemory remote);
  void post_receive(Choices& choices);
  void expose(Choices& choices);
  void note(bool posted, Work work);
  void completed(const iwarp::Completion& done);
  void check_message(const Work& work, const iwarp::Completion& done) const;
  void check_order(std::uint64_t id, const Work& work);
  void give_back(SteeringTag tag);
  void check_request(const Known& sink);

  const StreamSetup setup_;
  SeededRandom random_{77};
  iwarp::Stream stream_;
  Output output_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Work> works_;  // posted and not completed, in order of posting
  std::map<SteeringTag, Exposed> exposed_;
  std::deque<std::size_t> unrequested_;  // sizes of the Reads of which nothing is requested yet
  // Reads of which some is requested: the place of the next byte, and how many are left.
  std::map<SteeringTag, Known> requested_;
  std::vector<Known> places_;
  std::uint32_t messages_received_ = 0;
  std::uint64_t bytes_received_ = 0;
};

class TheirSide {
 public:
  explicit TheirSide(const StreamSetup& setup);

  void start();
  void post(Choices& choices, iwarp::RemoteMemory remote);
  void receive(Buffer& wire);
  void transmit(Buffer& wire);
  void close() { stream_.close(); }
  const std::vector<Known>& places() const { return places_; }

 private:
  void drop_completions();
  const StreamSetup setup_;
  SeededRandom random_{78};
  Buffer memory_;
  iwarp::Stream stream_;
  std::vector<Known> places_;
};

}  // namespace rpcrdma::fuzz

#endif  // RPCRDMA_TESTS_FUZZ_STREAM_SIDES_H_
