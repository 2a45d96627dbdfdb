// A descriptor that closes itself.
#ifndef RPCRDMA_POSIX_FD_H_
#define RPCRDMA_POSIX_FD_H_

namespace rpcrdma::posix {

// Owns a descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int value) noexcept : value_(value) {}
  Fd(Fd&& other) noexcept;
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int value() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ >= 0; }
  void close() noexcept;
  // The caller's to close from now on; -1: there is none.
  int release() noexcept;
  // Gives it the first free number from `from` on, where the limit of descriptors allows it. Its
  // number must not be in use anywhere yet. It is closed by exec() afterwards.
  void move_up(int from) noexcept;

 private:
  int value_ = -1;
};

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_FD_H_
