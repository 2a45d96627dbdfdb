// The connections of a client of one tree: to several servers of it, or several to one. The library
// makes one that is lost again; meanwhile calls go over the others.
//
// All on one thread. Coroutines are resumed inside progress().
#ifndef RPCRDMA_NFS_CLIENT_CONNECTIONS_H_
#define RPCRDMA_NFS_CLIENT_CONNECTIONS_H_

#include <poll.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/file.h"
#include "nfs3.h"
#include "rpcrdma/client.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/error.h"
#include "rpcrdma/registered_memory.h"

namespace nfs {

// Chooses one of several servers for a call: calls with the same number go to the same server, as
// long as it is there.
enum class Route : std::uint32_t {};

class Connections {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    // `reconnect`: of these, which all transports have. The name in the credential is copied.
    rpcrdma::ClientOptions client{};
    std::vector<std::string> urls{};  // for Client::connect(); one for each server
    std::uint32_t per_server = 1;
  };

  // kAsking: whether the server knows the tree's root by the handle that we have.
  enum class State : std::uint8_t { kDown, kAsking, kUp };

  class Connection {
   public:
    rpcrdma::Client& client() noexcept { return *client_; }
    nfs3::NFS_V3_Client& nfs() noexcept { return *nfs_; }
    std::size_t server() const noexcept { return server_; }  // by its place among the URLs
    void has_answered() noexcept { last_answer_ = Clock::now(); }

   private:
    friend class Connections;
    std::size_t server_ = 0;
    State state_ = State::kDown;
    std::unique_ptr<rpcrdma::Client> client_;
    std::optional<nfs3::NFS_V3_Client> nfs_;                            // of client_
    std::map<const std::byte*, rpcrdma::RegisteredMemory> registered_;  // by its beginning
    Clock::time_point next_look_{};  // when a server that was of no use is tried again
    Clock::time_point last_answer_{};
  };

  explicit Connections(Options options);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Connects to the first server that answers. Blocks.
  rpcrdma::Expected<Connection*, rpcrdma::Error> first();
  // The tree's root, by which servers are asked whether they have the same. Begins the others.
  void begin_others(const nfs3::nfs_fh3& root);
  // Registers memory as Client::register_memory() does, on each connection, also on those that are
  // made later. If registering fails, each call registers its own. The memory outlives the result.
  class Memory {
   public:
    Memory() = default;
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&&) = delete;
    ~Memory();

   private:
    friend class Connections;
    Connections* of_ = nullptr;
    std::list<rpcrdma::MutableBytes>::iterator at_{};
  };
  [[nodiscard]] Memory use_memory(rpcrdma::MutableBytes memory);

  // `co_await connections.pick(route, deadline)`: the connection to use now; null: there was none
  // until then, for the reason that why_none_is_up() gives.
  auto pick(Route route, Clock::time_point deadline) {
    struct Awaiter {
      Connections& of;
      Route route;
      Clock::time_point deadline;
      Connection* found = nullptr;
      bool await_ready() {
        found = of.find(route);
        return found != nullptr || Clock::now() >= deadline || !of.may_go_on();
      }
      void await_suspend(std::coroutine_handle<> coroutine) {
        of.waiting_.push_back({coroutine, deadline});
      }
      Connection* await_resume() { return found != nullptr ? found : of.find(route); }
    };
    return Awaiter{*this, route, deadline};
  }
  // The outcome of a call over it is unknown, and the call may go over another one.
  bool is_loss(const Connection& connection, const rpcrdma::Error& error) const;
  // If it has answered nothing since then, what is left of its calls ends, and it is made anew.
  void give_up_if_silent(Connection& connection, Clock::time_point since);

  void progress();
  // Waits until something has happened, at the latest until the given time.
  void wait(std::optional<Clock::time_point> until = std::nullopt);
  // For an event loop of another: polls as readable when progress() has work, which it also has at
  // next_time(), if there is such a time. The descriptor stays the same.
  int wait_fd();
  std::optional<Clock::time_point> next_time() const;
  // Waits for several at once.
  static void wait(const std::vector<Connections*>& any, std::optional<Clock::time_point> until);

  // Has each server that is up forget the security context of its connection (RFC 2203 §5.4), which
  // it would keep until the ticket ends; none without RPCSEC_GSS. For the end, when no call is
  // under way; blocks until all have answered, or for as long as one such call may take
  // (ClientIdentity::logout_call()), however many are silent.
  void log_out();
  std::size_t up_count() const noexcept;
  bool is_any_up() const noexcept { return up_count() > 0; }
  // More than one, or one that is made again.
  bool may_go_on() const noexcept { return options_.client.reconnect.enabled || all_.size() > 1; }
  std::size_t count() const noexcept { return all_.size(); }
  std::size_t server_count() const noexcept { return options_.urls.size(); }
  const rpcrdma::Error& last_error() const noexcept { return last_error_; }
  // Returns why pick() has found none.
  rpcrdma::Error why_none_is_up() const;
  // The provider of the first connection.
  std::string_view provider_name() const noexcept { return provider_name_; }
  // Returns the first connection's client; null if it was never connected.
  const rpcrdma::Client* first_client() const noexcept;

 private:
  struct Waiting {
    std::coroutine_handle<> coroutine;
    Clock::time_point deadline;
  };

  Connection* find(Route route);
  rpcrdma::ClientOptions client_options() const;
  void adopt(Connection& connection, rpcrdma::Client client, State state);
  void begin(Connection& connection);
  void look_at(Connection& connection);
  void put_off(Connection& connection, rpcrdma::Error why);
  void lose(Connection& connection);
  void set_up(Connection& connection);
  static void register_at(Connection& connection, rpcrdma::MutableBytes memory);
  rpcrdma::Task<void> ask(Connection& connection);
  void resume_waiting();
  void watch(const Connection& connection) const;
  // Adds the descriptors and the time that are to be waited for.
  void add_to(std::vector<pollfd>& entries, std::optional<Clock::time_point>& until) const;

  Options options_;
  const std::string machine_name_;  // of the credential, which borrows it
  bool has_recorded_ = false;       // a client has the file of --capture
  std::deque<Connection> all_;      // those of one server one behind the other
  std::size_t turn_ = 0;
  nfs3::nfs_fh3 root_{};
  std::list<rpcrdma::MutableBytes> memory_;
  std::vector<Waiting> waiting_;
  rpcrdma::Error last_error_{};
  std::string provider_name_;
  files::File epoll_;  // of all clients' descriptors, once somebody has asked for it
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_CONNECTIONS_H_
