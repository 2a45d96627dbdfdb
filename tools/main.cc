// The `rpcrdma` command: argument parsing and printing; the work is done by the library.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "rpcrdma/version.h"
#include "tools/command.h"
#include "tools/manual.h"
#include "tools/nfs_commands.h"
#include "tools/text.h"

namespace {

// The parser would only say that it did not expect the word.
void check_command(const CLI::App& app, const char* word) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands({})) {
    if (each->get_name() == word) return;
    if (!each->get_group().empty()) names.push_back(each->get_name());
  }
  const std::string meant = rpcrdma::tools::nearest(word, names);
  rpcrdma::tools::fail(
      rpcrdma::tools::kUsage,
      fmt::format("there is no command '{}'{}; `rpcrdma help` lists them", word,
                  meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant)));
}

// What was printed may still be lost: the disk is full, or nobody has the other end of a pipe.
int flushed(int code) {
  const bool is_known = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !is_known) return code;
  if (!is_known) {
    rpcrdma::tools::say(fmt::format("rpcrdma: standard output: {}", std::strerror(errno)));
  }
  return code == rpcrdma::tools::kSuccess ? rpcrdma::tools::kFailed : code;
}

int run(int argc, char** argv) {
  CLI::App app{"RPC over RDMA in user space: serve files, move them, and look at servers.",
               "rpcrdma"};
  app.set_version_flag("-V,--version", std::string("rpcrdma ") + rpcrdma::kLibraryVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 success, 1 the operation failed, 2 wrong usage, 3 no connection.\n"
      "Try: rpcrdma serve --blob DIR &   then: rpcrdma put rdma://127.0.0.1 FILE");
  rpcrdma::tools::add_serve(app);
  rpcrdma::tools::add_put(app);
  rpcrdma::tools::add_get(app);
  rpcrdma::tools::add_ls(app, rpcrdma::tools::Also::kNfs);
  rpcrdma::tools::add_rm(app, rpcrdma::tools::Also::kNfs);
  rpcrdma::tools::add_blob(app);
  rpcrdma::tools::add_nfs_commands(app);
  rpcrdma::tools::add_ping(app);
  rpcrdma::tools::add_bench(app);
  rpcrdma::tools::add_info(app);
  rpcrdma::tools::add_manual(app);
  rpcrdma::tools::add_help(app);
  try {
    if (argc > 1 && argv[1][0] != '-') check_command(app, argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? rpcrdma::tools::kSuccess : rpcrdma::tools::kUsage;
  } catch (const std::exception& error) {
    const bool is_output = std::ferror(stdout) != 0;
    rpcrdma::tools::say(
        fmt::format("rpcrdma: {}{}", is_output ? "standard output: " : "", error.what()));
    return rpcrdma::tools::kFailed;
  }
  return rpcrdma::tools::kSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  return flushed(run(argc, argv));
}
