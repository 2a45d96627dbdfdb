// Helpers that the subcommands of `rpcrdma` share: options, exit codes, ways to report.
#ifndef RPCRDMA_TOOLS_COMMAND_H_
#define RPCRDMA_TOOLS_COMMAND_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/counters.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "tools/json.h"
#include "tools/options.h"

namespace rpcrdma::tools {

enum ExitCode : int {
  kSuccess = 0,
  kFailed = 1,        // the operation failed
  kUsage = 2,         // wrong command line
  kNoConnection = 3,  // the peer could not be reached
};

// Ends a subcommand, which has said why. main() catches it.
struct Exit {
  ExitCode code;
  std::string text{};  // as it was written to stderr, unless there were QuietFailures
};

// Logs out at the end of a command that went well: its security context is of no more use.
struct LogOutClient {
  void operator()(Client* client) const;
};
using ClientForCommand = std::unique_ptr<Client, LogOutClient>;

// Settings of a connection that every subcommand takes.
struct CommonOptions {
  ProviderOptions provider;
  ConnectionOptions connection;
  std::uint32_t inline_arguments = 65536;  // bytes
  std::string crc = "on";
  std::string profile = "rfc8166";
  std::string protocol = "1";  // of clients; servers have both
  std::string registration = "auto";
  bool json = false;
  const Command* command = nullptr;  // to which they were added

  void add_to(Command& command);
  // Ends the command if the command line has one of the options, which `are_for` something else.
  void refuse(std::initializer_list<const char*> options, const std::string& are_for) const;
  // Does so for all options of RDMA connections, but for --capture.
  void refuse_rdma(const std::string& are_for) const;
  void finish();  // after parsing: carries the texts over
  ProtocolVersion version() const;

 private:
  void refuse_idle() const;
};

struct ClientSettings {
  CommonOptions common;
  std::string url;        // or a host, whose rpcbind knows the rest
  std::uint32_t program;  // the blob program, unless somebody says something else
  std::uint32_t version;
  std::uint16_t rpcbind_port = 111;
  double timeout_s = 60;
  bool has_timeout = false;  // on the command line
  bool may_reconnect = false;
  bool no_reconnect = false;
  bool repeats_calls = true;  // those under way when the connection is lost
  bool step_up = false;
  bool show_characteristics = false;
  // --verbose says the terms of the connection, or also what the command does.
  enum class Verbose : std::uint8_t { kTermsOnly, kAlsoMore };
  Verbose verbose = Verbose::kTermsOnly;
  bool is_verbose = false;
  bool has_stats = false;
  std::string security = "sys";
  std::string service = "nfs";  // of Kerberos
  std::string request;          // "rbsiz=SIZE[@SECONDS]"

  ClientSettings();
  void add_to(Command& command);
  void add_reconnect_to(Command& command);  // for commands whose calls may be repeated
  void add_step_up_to(Command& command);    // for commands that speak the blob program
  // Adds what every client takes, also one of another program than the blob program: --timeout,
  // CommonOptions, and --verbose, which a command with kAlsoMore adds itself.
  void add_calls_to(Command& command, const char* timeout_help);
  ClientOptions client_options();
  // Ends the command if nothing answers.
  ClientForCommand connect();

 private:
  void ask(Client& client) const;
  void look_url_up();
  void check_scheme() const;
};

// Each adds a subcommand, which throws Exit unless all goes well.
void add_serve(Command& program);
void add_put(Command& program);
void add_get(Command& program);
enum class Also : std::uint8_t { kNothing, kNfs };  // which URLs beside those of the blob program
void add_ls(Command& program, Also also);
void add_rm(Command& program, Also also);
void add_blob(Command& program);  // put, get, ls and rm below one name
void add_ping(Command& program);
void add_top(Command& program);
void add_programs(Command& program);
void add_explain(Command& program);
void add_bench(Command& program);
void add_info(Command& program);
void add_run(Command& program);
void add_mount(Command& program);

// Says what is wrong with an empty value, as that of a shell's variable is that was not set.
std::string not_empty(const std::string& value);

// Says on stderr what the clients that --stats asked for have counted, when all of them are gone.
void say_client_stats() noexcept;

// A line to stderr, if that can be written to.
void say(const std::string& line) noexcept;
// Says why the command fails, "rpcrdma: …", in a line that the journal takes for an error.
void say_failure(const std::string& text) noexcept;
// While an object of this class lives, fail() prints nothing on this thread: the code that catches
// the Exit prints its text.
class QuietFailures {
 public:
  QuietFailures() noexcept;
  ~QuietFailures();
  QuietFailures(const QuietFailures&) = delete;
  QuietFailures& operator=(const QuietFailures&) = delete;
};
// Says why the command fails, and ends the subcommand.
[[noreturn]] void fail(const Error& error, const std::string& what = {});
[[noreturn]] void fail(ExitCode code, const std::string& text);
// Does the same for an error of a call: kNoConnection if the connection is lost.
[[noreturn]] void fail(const Error& error, const std::string& what, const Client& client);

// Returns the characteristics that both sides of a connection have announced, in lines.
std::string characteristics_text(const Client& client);
// Returns the terms of the connection in one line that names the server.
std::string terms_text(const Client& client);

// min, avg, p50, p99, p99.9, max of samples, in microseconds. Sorts them.
struct Latency {
  double min_us = 0, avg_us = 0, p50_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
  static Latency of(std::vector<std::uint64_t>& samples_ns);
};
Json to_json(const Latency& latency);
Json to_json(const TransferCounters& counters);
std::string size_text(std::uint64_t bytes);  // "1.5 MiB"

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_COMMAND_H_
