// The options of exports, which a command line and a file of exports have in common.
#ifndef RPCRDMA_NFS_EXPORT_OPTIONS_H_
#define RPCRDMA_NFS_EXPORT_OPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "nfs/exports.h"

namespace nfs {

std::string in_quotes(std::string_view text);

// Calls `function` with each part until it returns false; the result is what it returned last.
template <class Function>
bool for_each_part(std::string_view text, char separator, Function function) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (!function(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

// Returns true if there is an option of this name.
bool is_option(std::string_view name);
// Returns the option that somebody meant who wrote this name; empty: none is like it.
std::string_view option_like(std::string_view name);

// Takes one option, of an export or of a client's rules. Returns what is wrong with it, or nothing.
// Adds a warning, once, where something else happens than the option says.
std::string take_option(std::string_view option, Export& into, ExportRules& rules,
                        std::vector<std::string>& warnings);
// Takes options with commas between.
std::string take_options(std::string_view options, Export& into, ExportRules& rules,
                         std::vector<std::string>& warnings);

// Takes the directory of an export, and its name from that. Returns what is wrong, or nothing.
std::string take_directory(std::string directory, Export& into);
bool is_elsewhere(std::string_view directory);  // "ceph:/PATH"
// Returns why clients cannot mount an export that is read as a whole, or nothing.
std::string trouble_of(const Export& made);

}  // namespace nfs

#endif  // RPCRDMA_NFS_EXPORT_OPTIONS_H_
