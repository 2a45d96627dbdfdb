// The files in which an administrator configures a server, whatever stands in them: settings in
// TOML, and exports. A mistake is named with its line, and what is accepted means the same when it
// is written in other words.
//
// Input: a byte that chooses the form (settings, a file of exports, an export of the command line),
// then its text.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"
#include "nfs/exports.h"
#include "nfs/exports_file.h"
#include "tools/settings_file.h"

namespace rpcrdma::fuzz {
namespace {

std::size_t lines_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
}

// Checks that a message begins with "line N: ", N being a line of the text.
void check_line(std::string_view message, std::string_view text) {
  constexpr std::string_view kBegin = "line ";
  FUZZ_CHECK(message.starts_with(kBegin), "a message that names no line");
  message.remove_prefix(kBegin.size());
  std::size_t line = 0;
  const auto [end, error] = std::from_chars(message.data(), message.data() + message.size(), line);
  FUZZ_CHECK(error == std::errc{} && line >= 1 && line <= lines_of(text),
             "a line that is not in the text");
  message.remove_prefix(static_cast<std::size_t>(end - message.data()));
  FUZZ_CHECK(message.starts_with(": ") && message.size() > 2, "a line with which nothing is wrong");
}

bool same(const std::vector<tools::Setting>& a, const std::vector<tools::Setting>& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.name == other.name && one.values == other.values && one.line == other.line;
  });
}

void read_settings(std::string_view text) {
  const auto settings = tools::parse_settings(text);
  const auto again = tools::parse_settings(text);
  FUZZ_CHECK(settings.has_value() == again.has_value(), "the same text is accepted and refused");
  if (!settings) {
    FUZZ_CHECK(settings.error() == again.error(), "the same mistake has two names");
    check_line(settings.error(), text);
    return;
  }
  FUZZ_CHECK(same(*settings, *again), "the same text has other settings");
  std::vector<std::string_view> names;
  std::size_t values = 0;
  std::uint32_t line = 1;
  for (const tools::Setting& each : *settings) {
    FUZZ_CHECK(each.line >= line && each.line <= lines_of(text),
               "settings out of the order of the file");
    line = each.line;
    names.push_back(each.name);
    values += each.values.size();
    FUZZ_CHECK(
        std::ranges::none_of(
            each.values, [](const std::string& value) { return value.find('\0') != value.npos; }),
        "a value that the system takes for a shorter one");
  }
  FUZZ_CHECK(names.size() + values <= text.size(), "more settings than bytes");
  std::ranges::sort(names);
  FUZZ_CHECK(std::ranges::adjacent_find(names) == names.end(), "a setting that has two values");
}

// Knows some machines, and does not ask the network.
std::vector<std::string> look_up(const std::string& name) {
  if (name.starts_with('d')) return {"192.0.2.7", "2001:db8::7"};
  if (name.starts_with('t')) return {"*", "0.0.0.0/0", "fe80::1%eth0"};
  return {};
}

bool same(const nfs::ExportRules& a, const nfs::ExportRules& b) {
  return a.is_read_only == b.is_read_only && a.squash == b.squash &&
         a.anonymous_uid == b.anonymous_uid && a.anonymous_gid == b.anonymous_gid &&
         a.wants_privileged_port == b.wants_privileged_port && a.security == b.security;
}

constexpr std::string_view kPeers[] = {"192.0.2.7:1023", "198.51.100.1:2000", "[2001:db8::7]:5",
                                       "[::1]:80", "/run/socket"};

bool same(const nfs::Export& a, const nfs::Export& b) {
  const auto same_client = [](const nfs::ExportClient& one, const nfs::ExportClient& other) {
    return one.text == other.text && same(one.rules, other.rules) &&
           one.addresses.size() == other.addresses.size();
  };
  const auto same_for = [&](std::string_view peer) {
    const nfs::ExportRules *const one = a.rules_for(peer), *const other = b.rules_for(peer);
    return (one == nullptr) == (other == nullptr) && (one == nullptr || same(*one, *other));
  };
  return a.directory == b.directory && a.name == b.name && a.settings == b.settings &&
         a.is_sync == b.is_sync && std::ranges::equal(a.clients, b.clients, same_client) &&
         std::ranges::all_of(kPeers, same_for);
}

// Returns the word with each byte as three octal digits.
std::string escaped(std::string_view word) {
  std::string made;
  for (const char each : word) {
    const auto byte = static_cast<unsigned char>(each);
    made += '\\';
    for (const unsigned shift : {6U, 3U, 0U}) made += static_cast<char>('0' + (byte >> shift & 7U));
  }
  return made;
}

// Returns the options of a client in which nothing is left out.
std::string options_of(const nfs::ExportRules& rules) {
  using Squash = nfs::ExportRules::Squash;
  std::string made = rules.is_read_only ? "ro" : "rw";
  made += rules.squash == Squash::kAll    ? ",all_squash"
          : rules.squash == Squash::kNone ? ",no_root_squash"
                                          : "";
  made += ",anonuid=" + std::to_string(rules.anonymous_uid) +
          ",anongid=" + std::to_string(rules.anonymous_gid);
  if (rules.wants_privileged_port) made += ",secure";
  std::string flavors;
  for (const Protection each : rules.security) {
    flavors += (flavors.empty() ? "" : ":") + std::string(nfs::name_of(each));
  }
  return flavors.empty() ? made : made + ",sec=" + flavors;
}

// Returns the line of a file that means this export, in words that hide everything special.
std::string line_of(const nfs::Export& served) {
  std::string of_all = served.is_sync ? ",sync" : "";
  // A name that comes from the directory may have commas.
  if (served.name.find(',') == std::string::npos) of_all += ",name=" + served.name;
  for (const auto& [name, value] : served.settings) of_all += "," + name + "=" + value;
  std::string made = escaped(served.directory);
  for (const nfs::ExportClient& each : served.clients) {
    made += " " + escaped(each.text + "(" + options_of(each.rules) + of_all + ")");
    of_all.clear();
  }
  return made + "\n";
}

void check_export(const nfs::Export& served) {
  FUZZ_CHECK(served.name.starts_with('/') && served.name.size() <= 1024,
             "a name by which nobody can mount it");
  FUZZ_CHECK(served.name.find('\0') == std::string::npos, "a name that ends within");
  FUZZ_CHECK(!served.directory.empty() && served.directory.find('\0') == std::string::npos,
             "a directory that the system takes for another");
  FUZZ_CHECK(!served.clients.empty(), "an export of which nothing says who may use it");
}

void read_exports(std::string_view text) {
  const auto file = nfs::parse_exports(text, look_up);
  if (!file) return check_line(file.error(), text);
  for (const std::string& each : file->warnings) check_line(each, text);
  std::string written;
  for (const nfs::Export& each : file->exports) {
    check_export(each);
    written += line_of(each);
  }
  const auto again = nfs::parse_exports(written, look_up);
  FUZZ_CHECK(again, "exports that were accepted are refused in other words");
  FUZZ_CHECK(
      std::ranges::equal(file->exports, again->exports,
                         [](const auto& one, const auto& other) { return same(one, other); }),
      "the same exports mean something else in other words");
}

void read_export(std::string_view text) {
  std::vector<std::string> warnings;
  const auto served = nfs::parse_export(text, warnings, look_up);
  if (!served) {
    FUZZ_CHECK(!served.error().empty(), "nothing is said to be wrong");
    return;
  }
  check_export(*served);
  // A directory on the command line may be relative; in a file it may not.
  if (!served->directory.starts_with('/') && !served->directory.starts_with("ceph:")) return;
  const auto again = nfs::parse_exports(line_of(*served), look_up);
  FUZZ_CHECK(again && again->exports.size() == 1 && same(*served, again->exports.front()),
             "an export means something else in a file");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(configuration) {
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  switch (data[0] % 3) {
    case 0:
      rpcrdma::fuzz::read_settings(text);
      break;
    case 1:
      rpcrdma::fuzz::read_exports(text);
      break;
    default:
      rpcrdma::fuzz::read_export(text);
      break;
  }
  return 0;
}
