// The memory that requests of the kernel are received into.
//
// A WRITE keeps the buffer that its bytes came in until the server has them. When all buffers are
// taken, requests come into a reserve: the interruption of a program that waits needs no buffer,
// nor does the end of one that was killed. The bytes of a WRITE that comes there lie outside the
// buffers until one is free, in their turn and up to a bound; only beyond that nothing is received.
#ifndef RPCRDMA_MOUNT_RECEIVE_ROOM_H_
#define RPCRDMA_MOUNT_RECEIVE_ROOM_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "mount/buffer_pool.h"
#include "rpcrdma/types.h"

namespace mounts {

class ReceiveRoom {
 public:
  // At most `outside_max` bytes and those of one request more lie outside the buffers.
  ReceiveRoom(BufferPool& pool, std::size_t outside_max) : pool_(pool), outside_max_(outside_max) {}
  ReceiveRoom(const ReceiveRoom&) = delete;
  ReceiveRoom& operator=(const ReceiveRoom&) = delete;

  // Returns the memory for the next request; empty: there is none at the time.
  rpcrdma::MutableBytes memory() {
    if (!buffer_ && outside_count_ == 0) buffer_ = pool_.take();
    if (buffer_) return buffer_.memory();
    if (!has_memory()) return {};
    reserve_.resize(pool_.all().size() / pool_.count());
    return reserve_;
  }
  bool has_memory() const noexcept {
    const bool may_take = outside_count_ == 0 && pool_.free_count() > 0;
    return buffer_ || may_take || outside_ < outside_max_;
  }
  void give_back() { buffer_ = {}; }

  // The bytes of one WRITE; the room outlives them.
  class Data {
   public:
    Data(Data&& other) noexcept
        : room_(std::exchange(other.room_, nullptr)),
          outside_(std::move(other.outside_)),
          buffer_(std::move(other.buffer_)),
          begin_(other.begin_),
          size_(other.size_) {}
    Data& operator=(Data&&) = delete;
    ~Data() { leave(); }

    // They wait for a buffer until put_into(), or until nobody wants them any more.
    bool is_outside() const noexcept { return room_ != nullptr; }
    void put_into(Buffer buffer) {
      std::ranges::copy(outside_, buffer.memory().begin());
      buffer_ = std::move(buffer);
      begin_ = 0;
      leave();
    }
    void drop() {
      leave();
      size_ = 0;
    }
    Buffer& buffer() noexcept { return buffer_; }
    std::size_t begin() const noexcept { return begin_; }
    std::size_t size() const noexcept { return size_; }

   private:
    friend class ReceiveRoom;
    Data() = default;
    void leave() {
      if (room_ == nullptr) return;
      --room_->outside_count_;
      room_->outside_ -= outside_.size();
      room_ = nullptr;
      outside_ = {};
    }

    ReceiveRoom* room_ = nullptr;     // null: they lie in the buffer
    std::vector<std::byte> outside_;  // until then
    Buffer buffer_;
    std::size_t begin_ = 0, size_ = 0;
  };
  // Takes the bytes out of memory(), where they came.
  Data take(rpcrdma::Bytes bytes) {
    Data data;
    data.size_ = bytes.size();
    if (buffer_) {
      data.begin_ = static_cast<std::size_t>(bytes.data() - buffer_.memory().data());
      data.buffer_ = std::move(buffer_);
      return data;
    }
    data.outside_.assign(bytes.begin(), bytes.end());
    data.room_ = this;
    ++outside_count_;
    outside_ += bytes.size();
    return data;
  }

 private:
  BufferPool& pool_;
  const std::size_t outside_max_;
  Buffer buffer_;
  std::vector<std::byte> reserve_;  // empty until it is needed
  std::size_t outside_count_ = 0, outside_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_RECEIVE_ROOM_H_
