// The `rpcrdma` command: argument parsing and printing; the work is done by the library.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "rpcrdma/version.h"
#include "tools/command.h"
#include "tools/doctor.h"
#include "tools/manual.h"
#include "tools/nfs_commands.h"
#include "tools/text.h"

namespace {

using rpcrdma::tools::Command;

// The parser would only say that it did not expect the word.
void check_command(const Command& program, const char* word) {
  std::vector<std::string> names;
  for (const auto& each : program.subcommands()) {
    if (each->name() == word) return;
    if (!each->is_hidden()) names.push_back(each->name());
  }
  const std::string meant = rpcrdma::tools::nearest(word, names);
  rpcrdma::tools::fail(
      rpcrdma::tools::kUsage,
      fmt::format("there is no command '{}'{}; `rpcrdma help` lists them", word,
                  meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant)));
}

// Flushes the standard output and returns the exit code. Output may still be lost: the disk is
// full, or nobody has the other end of a pipe.
int flushed(int code) {
  const bool has_failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !has_failed) return code;
  if (!has_failed) {
    rpcrdma::tools::say_failure(fmt::format("standard output: {}", std::strerror(errno)));
  } else if (code == rpcrdma::tools::kSuccess) {
    // A command that has said so would have failed. The reason was that of another call.
    rpcrdma::tools::say_failure("standard output: some of it could not be written");
  }
  return code == rpcrdma::tools::kSuccess ? rpcrdma::tools::kFailed : code;
}

// A file or a connection would get the place of a stream that is closed, and what is printed would
// go there. The use of such a stream still fails: it is open in the wrong direction.
void fill_closed_streams() {
  for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(each, F_GETFD) >= 0) continue;
    const int direction = each == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", direction) != each) std::abort();
  }
}

int run(int argc, char** argv) {
  Command program("rpcrdma",
                  "RPC over RDMA in user space: serve files, move them, and look at servers.");
  program.add_version_flag("-V,--version", std::string("rpcrdma ") + rpcrdma::kLibraryVersion);
  program.set_footer(
      "Exit status: 0 success, 1 the operation failed, 2 wrong usage, 3 no connection; doctor has "
      "more.\n"
      "Try: rpcrdma serve --blob DIR &   then: rpcrdma put rdma://127.0.0.1 FILE");
  rpcrdma::tools::add_serve(program);
  rpcrdma::tools::add_put(program);
  rpcrdma::tools::add_get(program);
  rpcrdma::tools::add_ls(program, rpcrdma::tools::Also::kNfs);
  rpcrdma::tools::add_rm(program, rpcrdma::tools::Also::kNfs);
  rpcrdma::tools::add_blob(program);
  rpcrdma::tools::add_nfs_commands(program);
  rpcrdma::tools::add_mount(program);
  rpcrdma::tools::add_ping(program);
  rpcrdma::tools::add_top(program);
  rpcrdma::tools::add_doctor(program);
  rpcrdma::tools::add_programs(program);
  rpcrdma::tools::add_explain(program);
  rpcrdma::tools::add_bench(program);
  rpcrdma::tools::add_run(program);
  rpcrdma::tools::add_info(program);
  rpcrdma::tools::add_manual(program);
  rpcrdma::tools::add_help(program);
  try {
    if (argc > 1 && argv[1][0] != '-') check_command(program, argv[1]);
    if (const auto status = program.parse(argc, argv)) return *status;
    program.run();
    rpcrdma::tools::say_client_stats();
  } catch (const rpcrdma::tools::Exit& exit) {
    rpcrdma::tools::say_client_stats();  // the more so
    return exit.code;
  } catch (const std::exception& error) {
    const bool is_output = std::ferror(stdout) != 0;
    rpcrdma::tools::say_failure(
        fmt::format("{}{}", is_output ? "standard output: " : "", error.what()));
    return rpcrdma::tools::kFailed;
  }
  return rpcrdma::tools::kSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  return flushed(run(argc, argv));
}
