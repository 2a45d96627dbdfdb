// BlobClient::get(): asks ahead, and hands pieces over in order.
#include <algorithm>
#include <cerrno>
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

// The pieces of one blob on their way, as many bytes as it is said to have and not one more.
class Download {
 public:
  Download(rpcrdma::Client& client, const TransferOptions& options, std::string_view name,
           std::uint64_t size)
      : client_(client), stub_(client), options_(options), size_(size) {
    arguments_.name = std::string(name);
    const std::uint64_t pieces = size / options.size + (size % options.size != 0 ? 1 : 0);
    const auto depth = std::min<std::uint64_t>(options.depth, pieces);
    for (std::uint64_t i = 0; i < depth; ++i) pieces_.emplace_back(options.size);
  }

  // Fetches everything; the error if it fails. No call is under way afterwards.
  std::optional<Error> fetch(const std::function<bool(Bytes)>& write, TransferResult& result) {
    Sha256Stream sum;
    for (Piece& piece : pieces_) ask(piece, result);
    for (std::size_t front = 0; !error_ && result.bytes < size_;
         front = (front + 1) % pieces_.size()) {
      Piece& piece = pieces_[front];
      while (piece.state == State::kInFlight) {
        client_.wait();
        client_.progress();
      }
      if (piece.state == State::kFailed) {
        error_ = piece.error;
        break;
      }
      const Bytes data = Bytes(piece.buffer).first(piece.size);
      result.latencies_ns.push_back(piece.latency_ns());
      result.bytes += data.size();
      sum.add(data);
      if (options_.progress) options_.progress(result.bytes, size_);
      if (piece.end != (result.bytes == size_)) {
        error_ = bad_reply(piece.end ? "the file became shorter meanwhile; get it again"
                                     : "the file has grown meanwhile; get it again");
      } else if (!write(data)) {
        error_ =
            Error{Errc::kNoResources, "writing the file", arguments_.name, std::strerror(errno)};
      }
      piece.state = State::kFree;
      ask(piece, result);
    }
    client_.drain();  // the buffers are lent until then
    if (!error_) result.sum = sum.finish();
    return std::move(error_);
  }

 private:
  Error bad_reply(std::string cause) const {
    return {Errc::kBadReply, "fetching data", std::string(client_.connection().peer_address),
            std::move(cause)};
  }

  void ask(Piece& piece, TransferResult& result) {
    if (error_ || next_offset_ == size_) return;
    piece.start();
    piece.offset = next_offset_;
    piece.size = std::min<std::uint64_t>(options_.size, size_ - next_offset_);
    arguments_.offset = piece.offset;
    arguments_.count = static_cast<std::uint32_t>(piece.size);
    auto started = stub_.BLOB_GET_start(arguments_, piece.buffer.first(piece.size),
                                        [this, &piece](auto got) { take(piece, got); });
    if (!started) {
      error_ = started.error();
      piece.state = State::kFree;
      return;
    }
    next_offset_ += piece.size;
    ++result.calls;
  }

  // No peer is trusted to return what was asked for.
  template <class Got>
  void take(Piece& piece, Got& got) {
    if (!got) return piece.fail(std::move(got.error()));
    const get_ok* const ok = got->ok();
    if (ok == nullptr)
      return piece.fail(BlobClient::failure(client_, "fetching data", got->status()));
    if (ok->data.size() > piece.size) {
      return piece.fail(bad_reply("the server returned " + std::to_string(ok->data.size()) +
                                  " bytes where " + std::to_string(piece.size) +
                                  " were asked for: it does not keep to the blob program"));
    }
    if (ok->data.size() < piece.size) {
      return piece.fail(bad_reply("the file became shorter meanwhile; get it again"));
    }
    // Usually it is there.
    if (ok->data.data() != piece.buffer.data()) {
      std::copy(ok->data.begin(), ok->data.end(), piece.buffer.begin());
    }
    piece.end = ok->end;
    piece.finish();
  }

  rpcrdma::Client& client_;
  BLOB_V1_Client stub_;
  const TransferOptions& options_;
  const std::uint64_t size_;
  get_args arguments_{};
  std::uint64_t next_offset_ = 0;
  std::deque<Piece> pieces_;  // a ring in order of offset
  std::optional<Error> error_;
};

}  // namespace

BlobClient::Result<TransferResult> BlobClient::get(std::string_view name,
                                                   const std::function<bool(Bytes)>& write) {
  const auto begin = Clock::now();
  const auto found = stat(name);
  if (!found) return rpcrdma::Unexpected<Error>(found.error());
  TransferResult result;
  if (auto error = Download(client_, options_, name, found->size).fetch(write, result)) {
    return rpcrdma::Unexpected<Error>(std::move(*error));
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

}  // namespace blob
