#include "blob/client.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "blob/sha256.h"
#include "blob/status.h"

namespace blob {

using rpcrdma::Bytes;
using rpcrdma::Errc;
using rpcrdma::Error;
using rpcrdma::MutableBytes;
using rpcrdma::Unexpected;
using Clock = std::chrono::steady_clock;

// The buffer is what RDMA reads from or writes to; the state is what its callback leaves.
struct BlobClient::Piece {
  enum class State : std::uint8_t { kFree, kInFlight, kDone, kFailed };

  explicit Piece(std::size_t size_max)
      : memory(static_cast<std::byte*>(::operator new (size_max, std::align_val_t{4096}))),
        buffer(memory.get(), size_max) {}

  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{4096}); }
  };
  std::unique_ptr<std::byte, Free> memory;
  MutableBytes buffer;
  State state = State::kFree;
  std::uint64_t offset = 0;
  std::size_t size = 0;  // put: to send; get: arrived
  bool end = false;      // get: the blob ends with it
  Clock::time_point started, ended;
  std::optional<Error> error;
  blob_status status = blob_status::BLOB_OK;

  void finish(blob_status result) {
    status = result;
    state = status == blob_status::BLOB_OK ? State::kDone : State::kFailed;
    ended = Clock::now();
  }
  void fail(Error reason) {
    error = std::move(reason);
    state = State::kFailed;
    ended = Clock::now();
  }
  std::uint64_t latency_ns() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(ended - started).count());
  }
};

namespace {

blob_id random_id() {
  blob_id id{};
  // Up to 256 bytes never come back short (getrandom(2)).
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) std::abort();
  return id;
}

// Reading a whole file to sum it takes the server time that grows with the file.
std::chrono::seconds time_to_sum(std::uint64_t size) {
  return std::chrono::seconds(60 + size / (50U << 20U));
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Error BlobClient::failure(std::string_view what, blob_status status) const {
  const Errc code =
      status == blob_status::BLOB_NO_SUCH_BLOB ? Errc::kNotAvailable : Errc::kServerFault;
  return {code, std::string(what), std::string(client_.peer_address()),
          std::string(explain(status))};
}

// Of a call whose only result is a status.
BlobClient::Result<bool> BlobClient::done(const Result<blob_status>& status,
                                          std::string_view what) const {
  if (!status) return Unexpected<Error>(status.error());
  if (*status != blob_status::BLOB_OK) return Unexpected<Error>(failure(what, *status));
  return true;
}

// --- put ---------------------------------------------------------------------------------------

BlobClient::Result<bool> BlobClient::start_put(Piece& piece, const blob_id& id) {
  piece.state = Piece::State::kInFlight;
  piece.started = Clock::now();
  const put_data_args arguments{
      .id = id, .offset = piece.offset, .data = Bytes(piece.buffer).first(piece.size)};
  auto started = stub_.BLOB_PUT_DATA_start(arguments, [&piece](Result<blob_status> status) {
    if (!status) return piece.fail(std::move(status.error()));
    piece.finish(*status);
  });
  if (started) return true;
  piece.state = Piece::State::kFree;
  return Unexpected<Error>(started.error());
}

// All data of the upload, and its sum; the rest of the result grows meanwhile.
BlobClient::Result<bool> BlobClient::send_data(File& file, std::string_view name, const blob_id& id,
                                               std::uint64_t size, TransferResult& result) {
  result.latencies_ns.reserve(size / options_.size + 1);
  Sha256Stream sum;
  std::deque<Piece> pieces;
  std::optional<Error> error;
  const auto collect = [&](Piece& piece) {
    if (piece.state == Piece::State::kDone) {
      result.latencies_ns.push_back(piece.latency_ns());
      piece.state = Piece::State::kFree;
    } else if (piece.state == Piece::State::kFailed) {
      if (!error) error = piece.error ? *piece.error : failure("sending data", piece.status);
      piece.state = Piece::State::kFree;
    }
    return piece.state == Piece::State::kFree;
  };
  const auto free_piece = [&]() -> Piece* {
    for (Piece& piece : pieces) {
      if (collect(piece)) return &piece;
    }
    return pieces.size() < options_.depth ? &pieces.emplace_back(options_.size) : nullptr;
  };
  while (result.bytes < size && !error) {
    Piece* piece = free_piece();
    if (piece == nullptr) {
      client_.wait();
      client_.progress();
      continue;
    }
    const std::size_t want = std::min<std::uint64_t>(options_.size, size - result.bytes);
    const auto count = file.read_at(piece->buffer.first(want), result.bytes);
    if (!count || *count < want) {
      error = Error{Errc::kNoResources, "reading the file", std::string(name),
                    count ? "it became shorter meanwhile" : std::strerror(errno)};
      break;
    }
    sum.add(Bytes(piece->buffer).first(want));
    piece->offset = result.bytes;
    piece->size = want;
    if (auto started = start_put(*piece, id); !started) {
      error = started.error();
      break;
    }
    result.bytes += want;
    ++result.calls;
    if (options_.progress) options_.progress(result.bytes, size);
  }
  client_.drain();
  for (Piece& piece : pieces) collect(piece);
  if (error) return Unexpected<Error>(*error);
  result.sum = sum.finish();
  return true;
}

BlobClient::Result<TransferResult> BlobClient::put(File& file, std::string_view name) {
  const auto file_status = file.status();
  if (!file_status) {
    return Unexpected<Error>(
        Error{Errc::kNoResources, "reading the file", std::string(name), std::strerror(errno)});
  }
  const auto size = static_cast<std::uint64_t>(file_status->st_size);
  const auto start = Clock::now();
  const blob_id id = random_id();
  const put_begin_args first{.id = id, .name = std::string(name), .size = size};
  if (auto begun = done(stub_.BLOB_PUT_BEGIN(first), "starting the upload"); !begun) {
    return Unexpected<Error>(begun.error());
  }
  TransferResult result;
  if (auto sent = send_data(file, name, id, size, result); !sent) {
    return Unexpected<Error>(sent.error());
  }
  const auto committed =
      stub_.BLOB_PUT_COMMIT({.id = id, .sum = result.sum}, {.timeout = time_to_sum(size)});
  if (auto ended = done(committed, "finishing the upload"); !ended) {
    return Unexpected<Error>(ended.error());
  }
  result.seconds = seconds_since(start);
  return result;
}

// --- get ---------------------------------------------------------------------------------------

BlobClient::Result<bool> BlobClient::start_get(Piece& piece, const get_args& arguments) {
  piece.state = Piece::State::kInFlight;
  piece.started = Clock::now();
  auto started = stub_.BLOB_GET_start(arguments, piece.buffer, [&piece](auto got) {
    if (!got) return piece.fail(std::move(got.error()));
    if (const get_ok* ok = got->ok()) {
      piece.end = ok->end;
      piece.size = ok->data.size();  // it is in the piece's buffer
    }
    piece.finish(got->status());
  });
  if (started) return true;
  piece.state = Piece::State::kFree;
  return Unexpected<Error>(started.error());
}

BlobClient::Result<TransferResult> BlobClient::get(std::string_view name,
                                                   const std::function<bool(Bytes)>& write) {
  const auto start = Clock::now();
  TransferResult result;
  Sha256Stream sum;
  std::deque<Piece> pieces;  // a ring in order of offset
  for (std::uint32_t i = 0; i < options_.depth; ++i) pieces.emplace_back(options_.size);
  std::optional<Error> error;
  bool end = false;
  // How far to ask ahead; whether the blob really ends there is what its replies say.
  const auto blob_stat = stat(name);
  if (!blob_stat) return Unexpected<Error>(blob_stat.error());
  std::uint64_t next_offset = 0;
  get_args arguments{.name = std::string(name), .offset = 0, .count = options_.size};
  const auto issue = [&](Piece& piece) {
    arguments.offset = piece.offset = next_offset;
    if (auto started = start_get(piece, arguments); !started) {
      error = started.error();
    } else {
      next_offset += options_.size;
      ++result.calls;
    }
  };
  const auto ask_ahead = [&](Piece& piece) {
    if (!error && next_offset < blob_stat->size) issue(piece);
  };
  for (Piece& piece : pieces) ask_ahead(piece);
  for (std::size_t front = 0; !error && !end; front = (front + 1) % pieces.size()) {
    Piece& piece = pieces[front];
    if (piece.state == Piece::State::kFree) issue(piece);  // it is empty, or has grown meanwhile
    while (!error && piece.state == Piece::State::kInFlight) {
      client_.wait();
      client_.progress();
    }
    if (error) break;
    if (piece.state == Piece::State::kFailed) {
      error = piece.error ? *piece.error : failure("fetching data", piece.status);
      break;
    }
    const Bytes data = Bytes(piece.buffer).first(piece.size);
    result.latencies_ns.push_back(piece.latency_ns());
    result.bytes += data.size();
    sum.add(data);
    if (options_.progress) options_.progress(result.bytes, blob_stat->size);
    end = piece.end;
    if (!write(data)) {
      error =
          Error{Errc::kNoResources, "writing the file", std::string(name), std::strerror(errno)};
    } else if (!end && data.size() < options_.size) {
      error = Error{Errc::kBadReply, "fetching data", std::string(client_.peer_address()),
                    "the blob became shorter meanwhile"};
    }
    piece.state = Piece::State::kFree;
    if (!end) ask_ahead(piece);
  }
  client_.drain();  // the buffers are lent until then
  if (error) return Unexpected<Error>(*error);
  result.sum = sum.finish();
  result.seconds = seconds_since(start);
  return result;
}

// --- The small operations ----------------------------------------------------------------------

BlobClient::Result<stat_ok> BlobClient::stat(std::string_view name) {
  const auto results = stub_.BLOB_STAT(std::string(name));
  if (!results) return Unexpected<Error>(results.error());
  if (results->ok() == nullptr) return Unexpected<Error>(failure("stat", results->status()));
  return *results->ok();
}

BlobClient::Result<blob_sum> BlobClient::sum(std::string_view name, std::uint64_t size_hint) {
  const auto results = stub_.BLOB_SUM(std::string(name), {.timeout = time_to_sum(size_hint)});
  if (!results) return Unexpected<Error>(results.error());
  if (results->sum() == nullptr) return Unexpected<Error>(failure("sum", results->status()));
  return *results->sum();
}

BlobClient::Result<std::vector<list_entry>> BlobClient::list() {
  std::vector<list_entry> entries;
  std::uint64_t cookie = 0;
  for (bool end = false; !end;) {
    auto results = stub_.BLOB_LIST(cookie);
    if (!results) return Unexpected<Error>(results.error());
    list_ok* const listed = results->ok();
    if (listed == nullptr) return Unexpected<Error>(failure("list", results->status()));
    std::ranges::move(listed->entries, std::back_inserter(entries));
    end = listed->end;
    if (!end && listed->cookie <= cookie) {
      return Unexpected<Error>(failure("list", blob_status::BLOB_IO_ERROR));
    }
    cookie = listed->cookie;
  }
  return entries;
}

BlobClient::Result<bool> BlobClient::remove(std::string_view name) {
  return done(stub_.BLOB_REMOVE(std::string(name)), "removing");
}

}  // namespace blob
