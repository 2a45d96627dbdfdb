#include "blob/client.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>

#include "blob/sha256.h"

namespace blob {

using rpcrdma::Bytes;
using rpcrdma::Call;
using rpcrdma::Errc;
using rpcrdma::Error;
using rpcrdma::MutableBytes;
using rpcrdma::Reply;
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
  Status status = Status::kOk;

  void finish(State result) {
    state = result;
    ended = Clock::now();
  }
  std::uint64_t latency_ns() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(ended - started).count());
  }
};

namespace {

UploadId random_id() {
  UploadId id{};
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

Error BlobClient::failure(std::string_view what, Status status) const {
  const Errc code = status == Status::kNoSuchBlob ? Errc::kNotAvailable : Errc::kServerFault;
  return {code, std::string(what), std::string(client_.peer_address()),
          std::string(to_string(status))};
}

// Makes a call whose only result is a status.
BlobClient::Result<bool> BlobClient::simple(Call call, std::string_view what) {
  auto reply = client_.call(std::move(call));
  if (!reply) return Unexpected<Error>(reply.error());
  const auto status = static_cast<Status>(reply->results().xdr().u32("status"));
  if (auto error = reply->finish()) return Unexpected<Error>(*error);
  if (status != Status::kOk) return Unexpected<Error>(failure(what, status));
  return true;
}

// --- put ---------------------------------------------------------------------------------------

BlobClient::Result<bool> BlobClient::begin(const UploadId& id, std::string_view name,
                                           std::uint64_t size) {
  auto call = client_.prepare(procedure(Number::kPutBegin));
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().opaque_fixed(id);
  call->arguments().xdr().string(name);
  call->arguments().xdr().u64(size);
  return simple(std::move(*call), "starting the upload");
}

BlobClient::Result<bool> BlobClient::commit(const UploadId& id, const Sha256& sum,
                                            std::uint64_t size) {
  auto call = client_.prepare(procedure(Number::kPutCommit));
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().opaque_fixed(id);
  call->arguments().xdr().opaque_fixed(sum);
  call->time_out_after(time_to_sum(size));
  return simple(std::move(*call), "finishing the upload");
}

BlobClient::Result<bool> BlobClient::start_put(Piece& piece, const UploadId& id) {
  // Data that stays in the stream needs room there only by its count and padding.
  auto call = client_.prepare(procedure(Number::kPutData));
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().opaque_fixed(id);
  call->arguments().xdr().u64(piece.offset);
  call->arguments().bulk(Bytes(piece.buffer).first(piece.size));
  call->expect_results(4);
  piece.state = Piece::State::kInFlight;
  piece.started = Clock::now();
  auto started = client_.start(std::move(*call), [&piece](auto reply) {
    if (!reply) {
      piece.error = reply.error();
      return piece.finish(Piece::State::kFailed);
    }
    piece.status = static_cast<Status>(reply->results().xdr().u32("status"));
    piece.error = reply->finish();
    piece.finish(piece.error || piece.status != Status::kOk ? Piece::State::kFailed
                                                            : Piece::State::kDone);
  });
  if (started) return true;
  piece.state = Piece::State::kFree;
  return Unexpected<Error>(started.error());
}

BlobClient::Result<TransferResult> BlobClient::put(File& file, std::string_view name) {
  const auto file_status = file.status();
  if (!file_status) {
    return Unexpected<Error>(
        Error{Errc::kNoResources, "reading the file", std::string(name), std::strerror(errno)});
  }
  const auto size = static_cast<std::uint64_t>(file_status->st_size);
  const auto start = Clock::now();
  const UploadId id = random_id();
  if (auto begun = begin(id, name, size); !begun) return Unexpected<Error>(begun.error());

  TransferResult result;
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
  if (auto done = commit(id, result.sum, size); !done) return Unexpected<Error>(done.error());
  result.seconds = seconds_since(start);
  return result;
}

// --- get ---------------------------------------------------------------------------------------

BlobClient::Result<bool> BlobClient::start_get(Piece& piece, std::string_view name) {
  auto call = client_.prepare(procedure(Number::kGet));
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().string(name);
  call->arguments().xdr().u64(piece.offset);
  call->arguments().xdr().u32(options_.size);
  call->place_result(piece.buffer);
  call->expect_results(12);
  piece.state = Piece::State::kInFlight;
  piece.started = Clock::now();
  auto started = client_.start(std::move(*call), [&piece](auto reply) {
    if (!reply) {
      piece.error = reply.error();
      return piece.finish(Piece::State::kFailed);
    }
    auto& results = reply->results();
    piece.status = static_cast<Status>(results.xdr().u32("status"));
    if (piece.status == Status::kOk) {
      piece.end = results.xdr().boolean("end");
      const Bytes data = results.bulk(static_cast<std::uint32_t>(piece.buffer.size()), "data");
      if (!results.last_was_placed()) std::copy(data.begin(), data.end(), piece.buffer.begin());
      piece.size = data.size();
      piece.error = reply->finish();
    }
    piece.finish(piece.error || piece.status != Status::kOk ? Piece::State::kFailed
                                                            : Piece::State::kDone);
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
  const auto issue = [&](Piece& piece) {
    piece.offset = next_offset;
    if (auto started = start_get(piece, name); !started) {
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

BlobClient::Result<BlobClient::Stat> BlobClient::stat(std::string_view name) {
  auto call = client_.prepare(procedure(Number::kStat));
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().string(name);
  auto reply = client_.call(std::move(*call));
  if (!reply) return Unexpected<Error>(reply.error());
  auto& results = reply->results().xdr();
  const auto status = static_cast<Status>(results.u32("status"));
  if (status != Status::kOk) return Unexpected<Error>(failure("stat", status));
  const Stat stat{results.u64("size"), results.u64("time")};
  if (auto error = reply->finish()) return Unexpected<Error>(*error);
  return stat;
}

BlobClient::Result<Sha256> BlobClient::sum(std::string_view name, std::uint64_t size_hint) {
  auto call = client_.prepare(procedure(Number::kSum));
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().string(name);
  call->time_out_after(time_to_sum(size_hint));
  auto reply = client_.call(std::move(*call));
  if (!reply) return Unexpected<Error>(reply.error());
  auto& results = reply->results().xdr();
  const auto status = static_cast<Status>(results.u32("status"));
  if (status != Status::kOk) return Unexpected<Error>(failure("sum", status));
  Sha256 sum{};
  const Bytes bytes = results.opaque_fixed(sum.size(), "sum");
  std::copy(bytes.begin(), bytes.end(), sum.begin());
  if (auto error = reply->finish()) return Unexpected<Error>(*error);
  return sum;
}

BlobClient::Result<std::vector<BlobClient::Entry>> BlobClient::list() {
  std::vector<Entry> entries;
  std::uint64_t cookie = 0;
  for (bool end = false; !end;) {
    auto call = client_.prepare(procedure(Number::kList));
    if (!call) return Unexpected<Error>(call.error());
    call->arguments().xdr().u64(cookie);
    call->expect_results(kListSizeMax);
    auto reply = client_.call(std::move(*call));
    if (!reply) return Unexpected<Error>(reply.error());
    auto& results = reply->results().xdr();
    const auto status = static_cast<Status>(results.u32("status"));
    if (status != Status::kOk) return Unexpected<Error>(failure("list", status));
    const std::uint64_t next = results.u64("cookie");
    end = results.boolean("end");
    std::uint32_t count = results.u32("count");
    if (count > kListEntriesMax) results.fail(rpcrdma::xdr::Errc::kOverLimit, "count");
    for (; count > 0 && results.ok(); --count) {
      const std::string name(results.string(kNameSizeMax, "name"));
      entries.push_back({name, results.u64("size")});
    }
    if (auto error = reply->finish()) return Unexpected<Error>(*error);
    if (!end && next <= cookie) return Unexpected<Error>(failure("list", Status::kIoError));
    cookie = next;
  }
  return entries;
}

BlobClient::Result<bool> BlobClient::remove(std::string_view name) {
  auto call = client_.prepare(procedure(Number::kRemove));
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().string(name);
  return simple(std::move(*call), "removing");
}

}  // namespace blob
