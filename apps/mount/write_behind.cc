#include "mount/write_behind.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace mounts {
namespace {

using Piece = WriteBehind::Piece;
using State = Piece::State;

constexpr unsigned kLossesMax = 16;

bool overlap(const Piece& a, const Piece& b) {
  return a.offset < b.end() && b.offset < a.end();
}

}  // namespace

void WriteBehind::add(std::uint64_t offset, Buffer buffer, std::size_t begin, std::size_t size,
                      Time deadline, Writer writer) {
  Piece& piece = pieces_.emplace_back();
  piece.number = ++last_;
  ++additions_;
  piece.offset = offset;
  piece.begin = begin;
  piece.size = size;
  piece.buffer = std::move(buffer);
  piece.deadline = piece.first_deadline = deadline;
  piece.writer = std::move(writer);
  ++unwritten_;
}

bool WriteBehind::append(std::uint64_t offset, rpcrdma::Bytes data, const Writer& writer) {
  if (pieces_.empty()) return false;
  Piece& last = pieces_.back();
  const auto memory = last.buffer.memory();
  const std::size_t used = last.begin + last.size;
  if (last.state != State::kWaiting || last.end() != offset || last.writer != writer ||
      memory.size() - used < data.size()) {
    return false;
  }
  std::ranges::copy(data, memory.subspan(used).begin());
  last.size += data.size();
  ++additions_;
  return true;
}

const Writer& WriteBehind::writer_to_commit() const noexcept {
  return std::ranges::find(pieces_, State::kWritten, &Piece::state)->writer;
}

void WriteBehind::write_whole() noexcept {
  for (Piece& each : pieces_) {
    if (each.state == State::kWaiting) each.done = 0;
  }
}

Piece* WriteBehind::begin_write() {
  for (auto each = pieces_.begin(); each != pieces_.end(); ++each) {
    if (each->state != State::kWaiting) continue;
    const bool has_to_wait = std::any_of(pieces_.begin(), each, [&](const Piece& earlier) {
      return earlier.state != State::kWritten && overlap(earlier, *each);
    });
    if (has_to_wait) continue;
    each->state = State::kUnderWay;
    ++under_way_;
    return &*each;
  }
  return nullptr;
}

void WriteBehind::drop(Piece& piece) {
  pieces_.remove_if([&](const Piece& each) { return &each == &piece; });
}

// An older piece that the server has lost goes once more, and would write over this one.
bool WriteBehind::is_above_others(const Piece& piece) const noexcept {
  return std::ranges::any_of(pieces_, [&](const Piece& each) {
    return each.number < piece.number && overlap(each, piece);
  });
}

void WriteBehind::note_error(int error) noexcept {
  if (error_ != 0) return;
  error_ = last_error_ = error;
  ++errors_;
}

bool WriteBehind::is_written_to(std::uint64_t number) const noexcept {
  if (unwritten_ == 0) return true;
  for (const Piece& each : pieces_) {
    if (each.number > number) break;
    if (each.state != State::kWritten) return false;
  }
  return true;
}

void WriteBehind::end_write(Piece& piece, std::size_t count, bool is_stable,
                            const nfs3::writeverf3& verifier) {
  --under_way_;
  piece.state = State::kWaiting;
  // Two verifiers: the server was restarted between two parts, and may have lost the first.
  const bool is_one_part = piece.done == 0 || piece.verifier == verifier;
  if (std::exchange(piece.goes_again, false) || !is_one_part) {
    written_twice_ += piece.done;
    piece.done = 0;
    if (is_one_part || ++piece.losses <= kLossesMax) return;
    --unwritten_;
    note_error(EIO);
    return drop(piece);
  }
  const bool is_whole = piece.done == 0 && count == piece.size;
  piece.verifier = verifier;
  piece.done += count;
  if (piece.done < piece.size) return;
  --unwritten_;
  piece.state = State::kWritten;
  if (is_whole && is_stable && !is_above_others(piece)) drop(piece);
}

void WriteBehind::fail_write(Piece& piece, int error) {
  --under_way_;
  --unwritten_;
  note_error(error);
  drop(piece);
}

// The server may have it, or parts of it; what it had said it has goes again only if it is lost.
void WriteBehind::repeat_write(Piece& piece, Time deadline) noexcept {
  --under_way_;
  piece.state = State::kWaiting;
  piece.deadline = deadline;
  if (!std::exchange(piece.goes_again, false)) return;
  written_twice_ += piece.done;
  piece.done = 0;
}

bool WriteBehind::needs_commit() const noexcept {
  return std::ranges::any_of(pieces_,
                             [](const Piece& each) { return each.state == State::kWritten; });
}

void WriteBehind::begin_commit() noexcept {
  is_committing_ = true;
  for (Piece& each : pieces_) each.is_committing = each.state == State::kWritten;
}

void WriteBehind::write_again(Piece& piece) {
  if (piece.state == State::kUnderWay) {
    piece.goes_again = true;
    return;
  }
  if (piece.state == State::kWritten) ++unwritten_;
  written_twice_ += piece.done;
  piece.state = State::kWaiting;
  piece.is_committing = false;
  piece.done = 0;
  piece.deadline = Time::max();
}

// Bytes that were written over a lost piece since then would be written over by it: they go again,
// too.
void WriteBehind::end_commit(const nfs3::writeverf3& verifier) {
  is_committing_ = false;
  std::vector<const Piece*> again;
  for (Piece& each : pieces_) {
    const bool is_lost = each.is_committing && each.verifier != verifier;
    const bool is_above =
        std::ranges::any_of(again, [&](const Piece* earlier) { return overlap(*earlier, each); });
    if (!is_lost && !is_above) continue;
    if (is_lost && ++each.losses > kLossesMax) {
      note_error(EIO);
      continue;  // and it goes with those that are kept
    }
    write_again(each);
    again.push_back(&each);
  }
  pieces_.remove_if([](const Piece& each) { return each.is_committing; });
}

void WriteBehind::fail_commit(int error) {
  is_committing_ = false;
  note_error(error);
  pieces_.remove_if([](const Piece& each) { return each.is_committing; });
}

void WriteBehind::give_up_commit() noexcept {
  is_committing_ = false;
  for (Piece& each : pieces_) each.is_committing = false;
}

int WriteBehind::take_error() noexcept {
  return std::exchange(error_, 0);
}

int WriteBehind::take_error(std::uint64_t& seen) noexcept {
  error_ = 0;
  const bool is_new = seen != errors_;
  seen = errors_;
  return is_new ? last_error_ : 0;
}

}  // namespace mounts
