// Reports errors in a .x file, with their places, as a modern compiler does.
#ifndef RPCRDMA_GEN_DIAGNOSTIC_H_
#define RPCRDMA_GEN_DIAGNOSTIC_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace rpcrdma::gen {

// A run of bytes of the source: of one of its files, which stand behind each other.
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

// The files of one compilation: what the user names, and what that includes.
class Source {
 public:
  // The text is the caller's.
  Source(std::string_view name, std::string_view text) { add(name, text); }
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void add(std::string_view name, std::string_view text);
  // Keeps name and text.
  void include(std::string name, std::string text);

  std::size_t files() const { return files_.size(); }
  std::string_view name(std::size_t file) const { return files_[file].name; }
  std::string_view text(std::size_t file) const { return files_[file].text; }
  std::size_t begin(std::size_t file) const { return files_[file].begin; }

  std::string_view name_of(std::size_t offset) const { return at(offset).name; }
  std::size_t line_of(std::size_t offset) const;    // from 1
  std::size_t column_of(std::size_t offset) const;  // from 1, in bytes
  // Returns whether `behind` is on a later line than `before`, or in another file.
  bool is_later_line(std::size_t before, std::size_t behind) const;
  // Returns the offset of the line break, or the end of the file.
  std::size_t end_of_line(std::size_t offset) const;

  // FILE:LINE:COLUMN: error: TEXT, the line, and a caret below what is meant.
  std::string render(const Diagnostic& diagnostic) const;

 private:
  struct File {
    std::string_view name, text;
    std::size_t begin;
  };
  const File& at(std::size_t offset) const;
  // Returns what of the file's text is before the offset.
  std::string_view before(std::size_t offset) const;

  std::vector<File> files_;  // in the order of their offsets
  std::deque<std::string> owned_;
};

// Collects the findings of a compilation. Does not report more than so many errors or warnings.
class Diagnostics {
 public:
  static constexpr std::size_t kErrorsMax = 20;
  static constexpr std::size_t kWarningsMax = 20;

  void error(Location at, std::string text);
  void warning(Location at, std::string text);
  // Says more about the error or warning before it.
  void note(Location at, std::string text);

  bool ok() const { return errors_ == 0; }
  // Returns whether a further error would not be reported.
  bool full() const { return errors_ >= kErrorsMax; }
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
  std::size_t errors_ = 0;
  std::size_t warnings_ = 0;
};

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_DIAGNOSTIC_H_
