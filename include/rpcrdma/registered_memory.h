// Memory of the application that stays registered with the RDMA provider (RFC 5666 §7).
//
//   auto frames = client->register_memory(pool);       // once
//   call->place_result(frame_of_the_pool);              // costs no registration any more
//
// Registering memory is expensive on RDMA devices: pages are pinned and tables are written. Without
// this, each call registers its bulk items and the places of its results, and unregisters them when
// it ends. Registration alone gives the peer no access: a call still exposes exactly its own bytes,
// for as long as the call lasts.
#ifndef RPCRDMA_REGISTERED_MEMORY_H_
#define RPCRDMA_REGISTERED_MEMORY_H_

#include <cstdint>
#include <utility>

#include "rpcrdma/export.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

// Registers memory, and ends the registration. For the library.
class RPCRDMA_EXPORT MemoryRegistrar {
 public:
  virtual void unregister(std::uint32_t id) noexcept = 0;

 protected:
  ~MemoryRegistrar() = default;
};

// A registration; destroying it ends the registration. The memory stays the application's and must
// live until then. The object belongs to the thread of the client or server that created it, and
// must not outlive it. Precondition of destruction: no outstanding call uses the memory.
class RegisteredMemory {
 public:
  RegisteredMemory() noexcept = default;  // no registration
  RegisteredMemory(MemoryRegistrar& registrar, std::uint32_t id, Bytes memory) noexcept
      : registrar_(&registrar), id_(id), memory_(memory) {}
  RegisteredMemory(RegisteredMemory&& other) noexcept
      : registrar_(std::exchange(other.registrar_, nullptr)),
        id_(other.id_),
        memory_(std::exchange(other.memory_, {})) {}
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept {
    std::swap(registrar_, other.registrar_);
    std::swap(id_, other.id_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~RegisteredMemory() {
    if (registrar_ != nullptr) registrar_->unregister(id_);
  }

  Bytes memory() const noexcept { return memory_; }

 private:
  MemoryRegistrar* registrar_ = nullptr;
  std::uint32_t id_ = 0;
  Bytes memory_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_REGISTERED_MEMORY_H_
