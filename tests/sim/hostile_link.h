// One end of a connection whose owner keeps no rule: the memory that it exposes, messages of any
// words, and those that it gets.
#ifndef RPCRDMA_TESTS_SIM_HOSTILE_LINK_H_
#define RPCRDMA_TESTS_SIM_HOSTILE_LINK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/random.h"
#include "rdma/sim/queue_pair.h"
#include "sim/totals.h"

namespace rpcrdma::simulation {

class HostileLink {
 public:
  using Words = std::vector<std::uint32_t>;
  static constexpr std::uint16_t kReceives = 16;
  // Memory at the one end that the other may use, or is said to.
  struct Segment {
    SteeringTag tag;
    std::uint64_t address;
    std::uint32_t size;  // bytes
  };

  // Both outlive it.
  HostileLink(SeededRandom& random, Totals& totals);
  HostileLink(const HostileLink&) = delete;
  HostileLink& operator=(const HostileLink&) = delete;

  // Takes a connection of the simulator's provider, of which this is the hostile end.
  void begin(std::unique_ptr<rdma::QueuePair> queue_pair);
  void end() noexcept;
  void disconnect();
  bool is_there() const noexcept { return queue_pair_ != nullptr; }
  bool is_connected() const noexcept { return is_connected_; }

  // Takes what has happened; it may have ended then. Returns the messages that have come.
  std::vector<Words> take_news();
  // Posts Receives from the connection's beginning on, or none. Called before it is connected.
  void set_takes_messages(bool does) noexcept { takes_messages_ = does; }
  bool takes_messages() const noexcept { return takes_messages_; }
  bool answers_reads() const noexcept { return answers_reads_; }
  void set_answers_reads(bool does) noexcept;
  // Returns how many RDMA Reads of its memory wait.
  std::size_t waiting_reads() const noexcept;

  // Sends a message, if there is room for one more. At times it is cut within a word, or names a
  // steering tag that nobody has given out.
  void send(const Words& words);
  void send_nonsense();
  void write(const Segment& to);  // by RDMA Write, any bytes
  void read(const Segment& from);
  static void add(Words& words, const Segment& segment);
  // Changes some words.
  void spoil(Words& words);
  // Memory that was exposed, or at times any other; of any size within it, and at times beyond.
  Segment any_of(const std::vector<Segment>& exposed);
  const std::vector<Segment>& readable() const noexcept { return readable_; }
  const std::vector<Segment>& writable() const noexcept { return writable_; }

  std::uint32_t pick(std::initializer_list<std::uint32_t> values) {
    return values.begin()[random_.below(values.size())];
  }
  // Draws private data of a set-up: right ones, nonsense, or none.
  std::vector<std::byte> draw_private_data();

 private:
  void post_receives();
  void expose(std::uint64_t offset, std::uint32_t size, bool for_reading);
  void post(std::uint64_t id, decltype(work::Request::work) work);

  SeededRandom& random_;
  Totals& totals_;
  std::vector<std::byte> memory_;
  std::unique_ptr<rdma::QueuePair> queue_pair_;
  rdma::sim::QueuePair* simulated_ = nullptr;  // the same
  work::RegionId region_{};
  bool is_connected_ = false;
  bool takes_messages_ = true;
  bool answers_reads_ = true;
  std::array<bool, kReceives> is_posted_{};  // Receives, by number
  std::size_t posted_ = 0;                   // Sends, Writes and Reads that are not complete
  std::size_t next_slot_ = 0;
  std::vector<Segment> readable_, writable_;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_HOSTILE_LINK_H_
