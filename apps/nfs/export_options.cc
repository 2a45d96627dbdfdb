#include "nfs/export_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

namespace nfs {
namespace {

constexpr std::string_view kCeph = "ceph:";

constexpr std::array<std::string_view, 26> kNames{"ro",
                                                  "rw",
                                                  "root_squash",
                                                  "no_root_squash",
                                                  "all_squash",
                                                  "anonuid",
                                                  "anongid",
                                                  "secure",
                                                  "insecure",
                                                  "client",
                                                  "name",
                                                  "conf",
                                                  "id",
                                                  "fs",
                                                  "gateway",
                                                  "sec",
                                                  "sync",
                                                  "async",
                                                  "fsid",
                                                  "hide",
                                                  "nohide",
                                                  "crossmnt",
                                                  "wdelay",
                                                  "no_wdelay",
                                                  "subtree_check",
                                                  "no_subtree_check"};

// An option that exports(5) has and this server has not, and what happens instead.
struct Unused {
  std::string_view name;
  std::string_view instead;
};
constexpr Unused kUnused[] = {
    {"async",
     "committed data is on the disk; --nfs-async answers changes of names and "
     "attributes before they are"},
    {"subtree_check",
     "handles have a seal, so that none can be guessed, but a file that is moved out of the "
     "directory stays reachable by the handles that clients have of it"},
    {"crossmnt",
     "file systems that are mounted below the directory are not exported with it: give each of "
     "them a line of its own, and mount it by its name"},
    {"nohide", "clients see it where they mount it by its name, and not in the directory above it"},
    {"wdelay", "each write is made when it comes"},
};
// These say what is always so here.
constexpr std::string_view kAlways[] = {"no_subtree_check", "no_wdelay", "hide", "fsid=0"};

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string without_last_slashes(std::string text) {
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// Returns how many letters are to be changed, put in, taken away or exchanged with the next one to
// get from one word to the other.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> before, last(other.size() + 1), now(other.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 0; i < one.size(); ++i) {
    now[0] = i + 1;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t change = one[i] == other[j] ? 0 : 1;
      now[j + 1] = std::min({last[j + 1] + 1, now[j] + 1, last[j] + change});
      if (i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j]) {
        now[j + 1] = std::min(now[j + 1], before[j - 1] + 1);
      }
    }
    before = std::exchange(last, now);
  }
  return last.back();
}

// Says that it is none, and which was meant or which there are.
std::string no_option(std::string_view option) {
  const std::string_view name = option.substr(0, option.find('='));
  if (name == "client") return in_quotes(option) + " is no option here: clients stand before them";
  const std::string_view like = option_like(name);
  if (!like.empty() && like != name) {
    return in_quotes(option) + " is no option; did you mean " + std::string(like) + "?";
  }
  return in_quotes(option) +
         " is no option; there are ro, rw, root_squash, no_root_squash, all_squash, anonuid=N, "
         "anongid=N, secure, insecure, sync, sec=FLAVOR:FLAVOR, client=ADDRESS, name=/NAME";
}

// Takes "name=/NAME". Returns what is wrong with it, or nothing.
std::string take_name(std::string_view name, Export& into) {
  if (!name.starts_with('/')) return "the name " + in_quotes(name) + " does not begin with '/'";
  into.name = without_last_slashes(std::string(name));
  return {};
}

// Takes "conf=FILE" and the like. False: it is none.
bool take_setting(std::string_view option, Export& into) {
  const std::size_t equals = option.find('=');
  if (!is_elsewhere(into.directory) || equals == std::string_view::npos) return false;
  constexpr std::array<std::string_view, 4> kSettings{"conf", "id", "fs", "gateway"};
  const std::string_view name = option.substr(0, equals);
  if (std::ranges::find(kSettings, name) == kSettings.end()) return false;
  into.settings.emplace_back(name, option.substr(equals + 1));
  return true;
}

// Takes an option that is a word alone. False: it is none.
bool take_word(std::string_view option, Export& into, ExportRules& rules) {
  using Squash = ExportRules::Squash;
  if (option == "ro" || option == "rw") {
    rules.is_read_only = option == "ro";
  } else if (option == "root_squash") {
    rules.squash = Squash::kRoot;
  } else if (option == "no_root_squash") {
    rules.squash = Squash::kNone;
  } else if (option == "all_squash") {
    rules.squash = Squash::kAll;
  } else if (option == "secure" || option == "insecure") {
    rules.wants_privileged_port = option == "secure";
  } else if (option == "sync") {
    into.is_sync = true;
  } else {
    return std::ranges::find(kAlways, option) != std::end(kAlways);
  }
  return true;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text) + "'";
}

bool is_option(std::string_view name) {
  return std::ranges::find(kNames, name) != kNames.end();
}

std::string_view option_like(std::string_view name) {
  if (is_option(name)) return name;
  constexpr std::size_t kLettersMax = 2;
  constexpr std::size_t kNameMax = 32;
  if (name.size() > kNameMax) return {};
  const auto best = std::ranges::min_element(
      kNames, {}, [name](std::string_view each) { return distance(name, each); });
  // Every name is similar to a very short word, so that a short one gets no suggestion.
  return distance(name, *best) <= std::min(kLettersMax, name.size() / 3) ? *best
                                                                         : std::string_view();
}

std::string take_option(std::string_view option, Export& into, ExportRules& rules,
                        std::vector<std::string>& warnings) {
  const auto value_of = [option](std::string_view name) -> std::optional<std::string_view> {
    if (!option.starts_with(name) || option.size() == name.size()) return std::nullopt;
    if (option[name.size()] != '=') return std::nullopt;
    return option.substr(name.size() + 1);
  };
  if (const auto name = value_of("name")) return take_name(*name, into);
  if (take_setting(option, into) || take_word(option, into, rules)) return {};
  const auto unused = std::ranges::find(kUnused, option, &Unused::name);
  if (unused != std::end(kUnused)) {
    std::string warning = in_quotes(option) + " is not used: " + std::string(unused->instead);
    if (std::ranges::find(warnings, warning) == warnings.end()) {
      warnings.push_back(std::move(warning));
    }
    return {};
  }
  if (const auto uid = value_of("anonuid")) {
    const auto number = number_of<std::uint32_t>(*uid);
    if (!number) return in_quotes(*uid) + " is no user number";
    rules.anonymous_uid = *number;
  } else if (const auto gid = value_of("anongid")) {
    const auto number = number_of<std::uint32_t>(*gid);
    if (!number) return in_quotes(*gid) + " is no group number";
    rules.anonymous_gid = *number;
  } else if (const auto security = value_of("sec")) {
    auto parsed = parse_security(*security);
    if (!parsed) return parsed.error();
    rules.security = std::move(*parsed);
  } else {
    return no_option(option);
  }
  return {};
}

std::string take_options(std::string_view options, Export& into, ExportRules& rules,
                         std::vector<std::string>& warnings) {
  std::string trouble;
  for_each_part(options, ',', [&](std::string_view option) {
    trouble = take_option(option, into, rules, warnings);
    return trouble.empty();
  });
  return trouble;
}

std::string take_directory(std::string directory, Export& into) {
  into.directory = std::move(directory);
  if (is_elsewhere(into.directory)) {
    into.name = without_last_slashes(into.directory.substr(kCeph.size()));
    into.directory = std::string(kCeph) + into.name;
    if (into.name.starts_with('/')) return {};
    return "the directory of a CephFS begins with '/', as in ceph:/" + into.name +
           "; one of this machine of that name is ./" + into.directory;
  }
  into.directory = into.name = without_last_slashes(into.directory);
  if (!into.name.starts_with('/')) into.name.insert(0, 1, '/');
  return {};
}

bool is_elsewhere(std::string_view directory) {
  return directory.starts_with(kCeph);
}

std::string trouble_of(const Export& made) {
  constexpr std::size_t kNameMax = 1024;  // bytes: MNTPATHLEN, RFC 1813 §5.1.1
  // The system would take what stands before the NUL, which is another directory.
  std::string names = made.directory + made.name;
  for (const auto& [name, value] : made.settings) names += value;
  if (names.find('\0') != std::string::npos) {
    return "a byte of zero stands in a name: of the directory, behind name=, or of an option";
  }
  if (made.name.size() > kNameMax) {
    return "the name by which clients mount " + made.directory +
           " is longer than MOUNT allows (1024 bytes); give it a shorter one with name=/NAME";
  }
  return {};
}

}  // namespace nfs
