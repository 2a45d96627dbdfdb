// Record marking: the same records come out however the stream is cut and wherever it is read to,
// nothing is larger than the limits, and memory follows what has come.
//
// Input: limits, how to cut, then the stream.
#include <iterator>
#include <utility>
#include <vector>

#include "fuzz/fuzz.h"
#include "tcp/record.h"

namespace rpcrdma::fuzz {
namespace {

using tcp::RecordError;

class Meter final : public tcp::Memory {
 public:
  ~Meter() { FUZZ_CHECK(in_use == 0, "memory that nobody has"); }
  MutableBytes take(std::size_t size, std::size_t whole) override {
    in_use += size;
    return heap_.take(size, whole);
  }
  void give_back(MutableBytes buffer) override {
    in_use -= buffer.size();
    heap_.give_back(buffer);
  }
  std::size_t in_use = 0;  // bytes

 private:
  tcp::HeapMemory heap_;
};

struct Outcome {
  std::vector<Buffer> records;
  RecordError error = RecordError::kNone;
  bool operator==(const Outcome&) const = default;
};

// `in_place`: as a socket that reads fragments to their place, and nothing behind the record.
Outcome read(const tcp::RecordLimits& limits, Bytes input, std::size_t step, bool in_place) {
  Meter meter;
  tcp::RecordReader reader(meter, limits);
  Outcome outcome;
  std::size_t came = 0;  // bytes of the record that is under way
  while (!input.empty()) {
    Bytes piece = input.first(std::min(step, input.size()));
    if (in_place) piece = piece.first(std::min(piece.size(), reader.wanted()));
    const MutableBytes place = in_place ? reader.place() : MutableBytes{};
    std::size_t taken = 0;
    if (!place.empty()) {
      taken = std::min(place.size(), piece.size());
      std::ranges::copy(piece.first(taken), place.begin());
      reader.handle_placed(taken);
    } else {
      taken = reader.take(piece);
    }
    came += taken;
    input = input.subspan(taken);
    FUZZ_CHECK(meter.in_use <= std::max(tcp::RecordReader::kFirstSize, 4 * came),
               "too much memory");
    FUZZ_CHECK(!reader.starved(), "there is memory");
    outcome.error = reader.error();
    if (outcome.error != RecordError::kNone) break;
    FUZZ_CHECK(taken > 0, "neither done nor going on");
    if (!reader.done()) continue;
    const tcp::Message message = reader.release();
    FUZZ_CHECK(message.bytes().size() <= limits.size_max, "a record above its limit");
    FUZZ_CHECK(!message.is_cut() || limits.excess != tcp::Excess::kRefused,
               "a record is cut though none may be");
    FUZZ_CHECK(reader.at_start() && reader.wanted() == tcp::kMarkSize, "no new start");
    outcome.records.emplace_back(message.bytes().begin(), message.bytes().end());
    came = 0;
  }
  return outcome;
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(record) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  rpcrdma::tcp::RecordLimits limits;
  limits.size_max = choices.u16();
  limits.fragments_max = 1U + choices.u8();
  constexpr rpcrdma::tcp::Excess kWays[] = {rpcrdma::tcp::Excess::kCutCalls,
                                            rpcrdma::tcp::Excess::kRefused,
                                            rpcrdma::tcp::Excess::kCutReplies};
  limits.excess = kWays[limits.fragments_max % std::size(kWays)];
  const std::size_t step = 1U + choices.u8();
  const rpcrdma::Bytes input = choices.rest();
  const auto whole = rpcrdma::fuzz::read(limits, input, ~std::size_t{0}, false);
  FUZZ_CHECK(whole == rpcrdma::fuzz::read(limits, input, step, false), "cutting changes records");
  FUZZ_CHECK(whole == rpcrdma::fuzz::read(limits, input, step, true), "places change records");
  return 0;
}
