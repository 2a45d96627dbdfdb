// Where something is in a .x file, and what is wrong there, told as a modern compiler tells it.
#ifndef RPCRDMA_GEN_DIAGNOSTIC_H_
#define RPCRDMA_GEN_DIAGNOSTIC_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rpcrdma::gen {

// A run of bytes of the source.
struct Location {
  std::size_t offset = 0;
  std::size_t size = 0;
};

enum class Severity { kError, kWarning, kNote };

struct Diagnostic {
  Severity severity;
  Location at;
  std::string text;
};

// One .x file. The text is the caller's.
class Source {
 public:
  Source(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  std::string_view name() const { return name_; }
  std::string_view text() const { return text_; }
  std::size_t line_of(std::size_t offset) const;    // from 1
  std::size_t column_of(std::size_t offset) const;  // from 1, in bytes

  // FILE:LINE:COLUMN: error: TEXT, the line, and a caret below what is meant.
  std::string render(const Diagnostic& diagnostic) const;

 private:
  std::string_view name_;
  std::string_view text_;
};

// What was found in one file. After so many errors or warnings the rest is not told.
class Diagnostics {
 public:
  static constexpr std::size_t kErrorsMax = 20;
  static constexpr std::size_t kWarningsMax = 20;

  void error(Location at, std::string text);
  void warning(Location at, std::string text);
  // Says more about the error or warning before it.
  void note(Location at, std::string text);

  bool ok() const { return errors_ == 0; }
  // Whether an error more would not be told.
  bool full() const { return errors_ >= kErrorsMax; }
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
  std::size_t errors_ = 0;
  std::size_t warnings_ = 0;
};

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_DIAGNOSTIC_H_
