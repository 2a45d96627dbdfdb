// Text that others chose (names of files, messages), made fit for terminals, logs and JSON.
#ifndef RPCRDMA_TOOLS_TEXT_H_
#define RPCRDMA_TOOLS_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/expected.h"
#include "tools/json.h"

namespace rpcrdma::tools {

// Returns whether the descriptor is the stream of the journal that JOURNAL_STREAM names
// (systemd.exec(5)). A shell between systemd and this process may have led it elsewhere.
bool is_journal(int descriptor);
// Returns the line in which a program says on standard error why it fails: printable, and with the
// priority of an error in front where the journal reads it (sd-daemon(3)).
std::string failure_line(std::string_view text);

// A name as it is printed: a backslash as "\\", and each byte of what is not UTF-8, controls a
// terminal, or changes the direction of a line, as "\xHH". The name can be made again from it.
std::string escaped(std::string_view name);
// Does the same for a message, whose backslashes stay as they are.
std::string printable(std::string_view text);
bool is_utf8(std::string_view text) noexcept;

// Adds "name" to the object: as it is, or, when it is not UTF-8, escaped(), and "escaped": true
// beside it.
void add_name(Json& object, std::string_view name);
// Prints one line of JSON.
void print_json(const Json& value);

// Returns the bytes of a file, of at most size_max, or why it cannot be read ("Is a directory"),
// without its name. Files of the kernel may fail when they are read, too.
Expected<std::string, std::string> text_of_file(const std::string& path, std::size_t size_max);

// Returns the word that was probably meant; empty: none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_TEXT_H_
