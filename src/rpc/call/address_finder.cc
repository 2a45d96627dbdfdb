#include "rpc/call/address_finder.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "rpc/url.h"

namespace rpcrdma::rpc {
namespace {

using Addresses = std::vector<std::string>;

// Keeps signals of the process away from threads that are begun in its scope: handlers of the
// application run on threads of the application.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// getaddrinfo() has no time limit of ours: its thread owns all that it uses.
class ThreadedFinder final : public AddressFinder {
 public:
  explicit ThreadedFinder(std::string_view url) : url_(url) {}

  void begin() override {
    if (found_.valid()) return;
    std::packaged_task<Addresses()> task([url = url_] {
      auto addresses = addresses_of(url, false);
      return addresses ? std::move(*addresses) : Addresses();
    });
    found_ = task.get_future();
    const SignalsBlocked blocked;
    try {
      std::thread(std::move(task)).detach();
    } catch (const std::system_error&) {
      found_ = {};  // no thread is left; the next failure asks again
    }
  }

  Addresses take() override {
    if (!found_.valid() || found_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return {};
    }
    return found_.get();
  }

 private:
  const std::string url_;
  std::future<Addresses> found_;  // valid while a lookup is under way, or was not taken
};

}  // namespace

std::unique_ptr<AddressFinder> make_address_finder(std::string_view url) {
  return has_host_name(url) ? std::make_unique<ThreadedFinder>(url) : nullptr;
}

}  // namespace rpcrdma::rpc
