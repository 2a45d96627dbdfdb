#include "posix/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace rpcrdma::posix {

Fd::Fd(Fd&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    close();
    value_ = std::exchange(other.value_, -1);
  }
  return *this;
}
Fd::~Fd() {
  close();
}
int Fd::release() noexcept {
  return std::exchange(value_, -1);
}
void Fd::move_up(int from) noexcept {
  if (value_ < 0 || value_ >= from) return;
  const int moved = ::fcntl(value_, F_DUPFD_CLOEXEC, from);
  if (moved >= 0) *this = Fd(moved);
}
void Fd::close() noexcept {
  if (value_ >= 0) ::close(value_);
  value_ = -1;
}

}  // namespace rpcrdma::posix
