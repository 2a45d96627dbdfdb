// BlobClient::put(): reads ahead of the calls, which go out as pieces become full.
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "blob/client.h"
#include "blob/piece.h"
#include "blob/sha256.h"

namespace blob {
namespace {

using rpcrdma::Bytes;
using rpcrdma::Errc;
using rpcrdma::Error;
using rpcrdma::Expected;
using Clock = std::chrono::steady_clock;
using State = Piece::State;

// An input may be silent for long. The server forgets uploads to which nothing comes, so it hears
// of this one so often.
constexpr std::chrono::milliseconds kKeepAlive{60'000};

blob_id random_id() {
  blob_id id{};
  // Up to 256 bytes never come back short (getrandom(2)).
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) std::abort();
  return id;
}

// The data of one upload on its way.
class Upload {
 public:
  Upload(rpcrdma::Client& client, const TransferOptions& options, Source& source,
         std::string_view name, const blob_id& id)
      : client_(client), stub_(client), options_(options), source_(source), name_(name), id_(id) {}

  // Sends everything; the error if it fails. No call is under way afterwards.
  std::optional<Error> send(TransferResult& result) {
    result.latencies_ns.reserve(source_.likely_size() / options_.size + 1);
    Sha256Stream sum;
    while (!ended_ && !error_) {
      Piece* const piece = free_piece();
      if (piece == nullptr) {
        client_.wait();
        client_.progress();
        continue;
      }
      fill(*piece);
      if (error_ || piece->size == 0) break;
      sum.add(Bytes(piece->buffer).first(piece->size));
      start(*piece);
      ++result.calls;
      if (options_.progress) options_.progress(bytes_, source_.likely_size());
    }
    client_.drain();
    for (Piece& piece : pieces_) collect(piece);
    if (!error_) result.sum = sum.finish();
    result.bytes = bytes_;
    result.latencies_ns.insert(result.latencies_ns.end(), latencies_ns_.begin(),
                               latencies_ns_.end());
    return std::move(error_);
  }

 private:
  void fail(Error error) {
    if (!error_) error_ = std::move(error);  // the first says why the others failed
  }
  void fail_reading(std::string cause) {
    fail({Errc::kNoResources, "reading the file", name_, std::move(cause)});
  }

  Piece* free_piece() {
    for (Piece& piece : pieces_) {
      collect(piece);
      if (piece.state == State::kFree) return &piece;
    }
    return pieces_.size() < options_.depth ? &pieces_.emplace_back(options_.size) : nullptr;
  }
  void collect(Piece& piece) {
    if (piece.state == State::kDone) latencies_ns_.push_back(piece.latency_ns());
    if (piece.state != State::kInFlight) piece.state = State::kFree;
  }

  // Reads until the piece is full or the source has ended, while calls go on.
  void fill(Piece& piece) {
    piece.offset = bytes_;
    piece.size = 0;
    const std::uint64_t left = source_.size() - bytes_;
    const std::size_t wanted = std::min<std::uint64_t>(options_.size, left);
    while (piece.size < wanted && !ended_ && !error_) {
      if (source_.may_block() && !wait_for_input()) continue;
      const ssize_t count = source_.read(piece.buffer.subspan(piece.size, wanted - piece.size));
      if (count < 0) {
        if (errno == EAGAIN) continue;
        return fail_reading(std::strerror(errno));
      }
      piece.size += static_cast<std::size_t>(count);
      ended_ = count == 0;
    }
    bytes_ += piece.size;
    if (source_.size() == BLOB_SIZE_UNKNOWN) return;
    if (ended_) fail_reading("it became shorter meanwhile");
    ended_ = bytes_ == source_.size();
  }

  // Returns whether a read will not block.
  bool wait_for_input() {
    pollfd entries[2] = {{source_.descriptor(), POLLIN, 0}, {client_.wait_fd(), POLLIN, 0}};
    const int count = ::poll(entries, 2, static_cast<int>(kKeepAlive.count()));
    if (entries[1].revents != 0) client_.progress();
    if (count == 0) keep_alive();
    if (client_.ended()) {
      // Only a call says why.
      if (!keeps_alive_) keep_alive();
      client_.drain();
    }
    return entries[0].revents != 0;
  }

  // A piece of no bytes.
  void keep_alive() {
    if (keeps_alive_ || client_.calls_in_flight() > 0) return;
    const put_data_args arguments{.id = id_, .offset = bytes_, .data = {}};
    auto started =
        stub_.BLOB_PUT_DATA_start(arguments, [this](Expected<blob_status, Error> status) {
          keeps_alive_ = false;
          if (auto error = BlobClient::error_of(client_, status, "sending data")) fail(*error);
        });
    keeps_alive_ = bool(started);
    if (!started) fail(started.error());
  }

  void start(Piece& piece) {
    piece.start();
    const put_data_args arguments{
        .id = id_, .offset = piece.offset, .data = Bytes(piece.buffer).first(piece.size)};
    auto started =
        stub_.BLOB_PUT_DATA_start(arguments, [this, &piece](Expected<blob_status, Error> status) {
          piece.finish();
          auto error = BlobClient::error_of(client_, status, "sending data");
          if (!error) return;
          piece.state = State::kFree;
          fail(std::move(*error));
        });
    if (started) return;
    piece.state = State::kFree;
    fail(started.error());
  }

  rpcrdma::Client& client_;
  BLOB_V1_Client stub_;
  const TransferOptions& options_;
  Source& source_;
  const std::string name_;
  const blob_id id_;
  std::deque<Piece> pieces_;
  std::vector<std::uint64_t> latencies_ns_;
  std::uint64_t bytes_ = 0;  // read so far
  bool ended_ = false;       // the source
  bool keeps_alive_ = false;
  std::optional<Error> error_;
};

}  // namespace

BlobClient::Result<TransferResult> BlobClient::put(Source& source, std::string_view name) {
  const auto begin = Clock::now();
  const blob_id id = random_id();
  const put_begin_args first{.id = id, .name = std::string(name), .size = source.size()};
  if (auto error = error_of(client_, stub_.BLOB_PUT_BEGIN(first), "starting the upload")) {
    return rpcrdma::Unexpected<Error>(std::move(*error));
  }
  TransferResult result;
  if (auto error = Upload(client_, options_, source, name, id).send(result)) {
    return rpcrdma::Unexpected<Error>(std::move(*error));
  }
  const auto committed =
      stub_.BLOB_PUT_COMMIT({.id = id, .sum = result.sum}, {.timeout = time_to_sum(result.bytes)});
  if (auto error = error_of(client_, committed, "finishing the upload")) {
    return rpcrdma::Unexpected<Error>(std::move(*error));
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

}  // namespace blob
