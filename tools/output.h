// The destination of a fetched file: a regular file that appears when it is complete, or a stream.
#ifndef RPCRDMA_TOOLS_OUTPUT_H_
#define RPCRDMA_TOOLS_OUTPUT_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "files/file.h"
#include "rpcrdma/types.h"

namespace rpcrdma::tools {

// Says why no file can be written by this name, without a trace of having asked; empty: nothing is
// known that keeps it from being written.
std::string problem_with_new_file(const std::string& path);

// A regular file, and one that is not there yet, is written beside its place and takes it over at
// the end, with the permissions of the old file or those of the umask; symbolic links stay and what
// they lead to is replaced. Until then it has no name, or, where the file system wants one, a name
// that no other file has, which is removed on failure and on SIGINT, SIGTERM and SIGHUP. Anything
// else (a device, a FIFO, "-", a descriptor under /dev/fd) is written through, in order.
class Output {
 public:
  enum class Temporary : std::uint8_t { kAny, kNamed };  // kNamed: as without O_TMPFILE; for tests

  // Waits until the descriptor may be written to, doing other work meanwhile.
  using Wait = std::function<void(int descriptor)>;

  // "-": standard output. A directory: the file `name` in it. Opening a FIFO waits for a reader.
  Output(const std::string& path, const std::string& name, Temporary temporary = Temporary::kAny);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Returns why the bytes cannot be written to this place, in words; empty: they can.
  const std::string& problem() const noexcept { return problem_; }
  // Returns whether the bytes go to the standard output of this process.
  bool is_stdout() const noexcept { return is_stdout_; }
  const std::string& path() const noexcept { return path_; }

  // False: errno.
  bool write(Bytes data, const Wait& wait);
  // Gives a regular file its name. False: errno.
  bool finish();

 private:
  void open(Temporary temporary);
  void open_temporary(const std::string& directory, Temporary kind);
  bool give_name(const std::string& name) const;
  bool take_name();
  void remove_name() noexcept;

  std::string path_;            // as the user said it
  std::string target_;          // the regular file to be; empty: a stream
  std::string temporary_;       // its name until then; empty: none
  std::optional<mode_t> mode_;  // of the file that is replaced
  std::string problem_;
  files::File file_;
  bool is_stdout_ = false;
  bool is_slow_ = false;  // may block: a pipe, a terminal
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_OUTPUT_H_
