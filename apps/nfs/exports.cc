#include "nfs/exports.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace nfs {
namespace {

using rpcrdma::Protection;
using rpcrdma::Unexpected;

struct Flavor {
  std::string_view name;
  Protection protection;
};
constexpr Flavor kFlavors[] = {{"sys", Protection::kSys},
                               {"krb5", Protection::kKrb5},
                               {"krb5i", Protection::kKrb5i},
                               {"krb5p", Protection::kKrb5p}};

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Address {
  std::array<std::uint8_t, 16> bytes{};
  bool is_v4 = false;
};

std::optional<Address> address_of(std::string_view text) {
  const std::string name(text);
  Address found;
  in_addr v4{};
  if (::inet_pton(AF_INET, name.c_str(), &v4) == 1) {
    found.is_v4 = true;
    found.bytes[10] = found.bytes[11] = 0xff;
    const auto* from = reinterpret_cast<const std::uint8_t*>(&v4);
    std::copy(from, from + sizeof(v4), found.bytes.begin() + 12);
    return found;
  }
  in6_addr v6{};
  if (::inet_pton(AF_INET6, name.c_str(), &v6) != 1) return std::nullopt;
  std::copy(std::begin(v6.s6_addr), std::end(v6.s6_addr), found.bytes.begin());
  return found;
}

// "1.2.3.4:5", "[::1]:5" or "[fe80::1%eth0]:5".
std::optional<Address> address_of_peer(std::string_view peer) {
  const std::size_t colon = peer.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = peer.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return address_of(host.substr(0, host.find('%')));
}

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text) + "'";
}

// Says why a text is no range of addresses.
std::string no_range(std::string_view text) {
  if (text.find('%') != std::string_view::npos) {
    return in_quotes(text) + " has a zone, which is not compared: leave out what stands behind '%'";
  }
  return in_quotes(text) + " is no address, ADDRESS/BITS or *; names of machines are not looked up";
}

// One option; empty: it is one, and was taken. Else what is wrong.
std::string take_option(std::string_view option, ExportRules& rules) {
  using Squash = ExportRules::Squash;
  const auto value_of = [option](std::string_view name) -> std::optional<std::string_view> {
    if (!option.starts_with(name) || option.size() == name.size()) return std::nullopt;
    if (option[name.size()] != '=') return std::nullopt;
    return option.substr(name.size() + 1);
  };
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
  } else if (const auto uid = value_of("anonuid")) {
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
  } else if (option == "sync" || option == "no_subtree_check" || option == "fsid=0") {
    // What exports(5) has, and is always so here, or means nothing.
  } else {
    return in_quotes(option) +
           " is no option; there are ro, rw, root_squash, no_root_squash, all_squash, anonuid=N, "
           "anongid=N, secure, insecure, sec=FLAVOR:FLAVOR, client=ADDRESS, name=/NAME";
  }
  return {};
}

template <class Function>
bool for_each_part(std::string_view text, char separator, Function function) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (!function(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

std::string without_last_slashes(std::string text) {
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// "name=/NAME"; what is wrong with it, or empty.
std::string take_name(std::string_view name, Export& into) {
  if (!name.starts_with('/')) return "the name " + in_quotes(name) + " does not begin with '/'";
  if (name.size() > 1024) return "the name is longer than MOUNT allows (1024 bytes)";
  into.name = without_last_slashes(std::string(name));
  return {};
}

constexpr std::string_view kCeph = "ceph:";

bool is_elsewhere(const Export& made) {
  return made.directory.starts_with(kCeph);
}

// "conf=FILE" and the like. False: it is none.
bool take_setting(std::string_view option, Export& into) {
  const std::size_t equals = option.find('=');
  if (!is_elsewhere(into) || equals == std::string_view::npos) return false;
  constexpr std::array<std::string_view, 4> kNames{"conf", "id", "fs", "gateway"};
  const std::string_view name = option.substr(0, equals);
  if (std::ranges::find(kNames, name) == kNames.end()) return false;
  into.settings.emplace_back(name, option.substr(equals + 1));
  return true;
}

// An option that stands for all clients. What is wrong with it, or empty.
std::string take_option_of_export(std::string_view option, Export& into, ExportRules& rules) {
  if (option.starts_with("name=")) return take_name(option.substr(5), into);
  if (take_setting(option, into)) return {};
  return take_option(option, rules);
}

// Its directory, and by that its name. What is wrong with it, or empty.
std::string take_directory(std::string directory, Export& into) {
  into.directory = std::move(directory);
  if (is_elsewhere(into)) {
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

constexpr std::string_view kBlanks = " \t\r";

// The next word of a line, in which "\040" and the like stand for what would end it.
Parsed<std::string> take_word(std::string_view& line) {
  std::string word;
  while (!line.empty() && kBlanks.find(line.front()) == std::string_view::npos) {
    char next = line.front();
    line.remove_prefix(1);
    if (next == '\\') {
      unsigned code = 0;
      const auto [end, error] = std::from_chars(
          line.data(), line.data() + std::min<std::size_t>(line.size(), 3), code, 8);
      if (error != std::errc{} || end != line.data() + 3 || code == 0 || code > 255) {
        return Unexpected<std::string>("'\\' is followed by three octal digits, as in \\040");
      }
      line.remove_prefix(3);
      next = static_cast<char>(code);
    }
    word += next;
  }
  return word;
}

void skip_blanks(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
}

// "192.0.2.0/24(rw,all_squash)"
Parsed<ExportClient> parse_client(std::string_view word, Export& into) {
  ExportClient client;
  client.rules.is_read_only = true;  // as in exports(5)
  std::string_view options;
  const std::size_t open = word.find('(');
  if (open != std::string_view::npos) {
    if (!word.ends_with(')'))
      return Unexpected<std::string>("a ')' is missing behind " + in_quotes(word));
    options = word.substr(open + 1, word.size() - open - 2);
  }
  const std::string_view addresses = word.substr(0, open);
  const auto range = AddressRange::parse(addresses.empty() ? "*" : addresses);
  if (!range) {
    return Unexpected<std::string>(no_range(addresses));
  }
  client.addresses = *range;
  client.text = addresses.empty() ? "*" : addresses;
  std::string trouble;
  if (options.empty()) return client;
  for_each_part(options, ',', [&](std::string_view option) {
    trouble = take_option_of_export(option, into, client.rules);
    return trouble.empty();
  });
  if (!trouble.empty()) return Unexpected<std::string>(trouble);
  return client;
}

// Says that options behind a blank are for everybody, as in exports(5), where a client was meant,
// perhaps.
std::string warning_of_options_alone(const Export& made, const std::string& options) {
  if (made.clients.empty()) {
    return in_quotes(options) + " names no client, so that everybody may mount " + made.directory +
           "; *" + options + " says the same without this warning";
  }
  const std::string& before = made.clients.back().text;
  return "the blank before " + in_quotes(options) + " opens " + made.directory +
         " to everybody with these options, and leaves " + before +
         " with the default ones; did you mean " + before + options + "?";
}

Parsed<Export> parse_line(std::string_view line, std::vector<std::string>& warnings) {
  Export made;
  auto directory = take_word(line);
  if (!directory) return Unexpected<std::string>(directory.error());
  if (!directory->starts_with('/') && !directory->starts_with(kCeph)) {
    return Unexpected<std::string>("the directory " + in_quotes(*directory) +
                                   " does not begin with '/'");
  }
  const std::string wrong = take_directory(*directory, made);
  if (!wrong.empty()) return Unexpected<std::string>(wrong);
  for (skip_blanks(line); !line.empty(); skip_blanks(line)) {
    const auto word = take_word(line);
    if (!word) return Unexpected<std::string>(word.error());
    auto client = parse_client(*word, made);
    if (!client) return Unexpected<std::string>(client.error());
    if (word->starts_with('(')) warnings.push_back(warning_of_options_alone(made, *word));
    made.clients.push_back(std::move(*client));
  }
  if (made.clients.empty()) {
    return Unexpected<std::string>("nobody may use " + made.directory +
                                   "; for all: " + made.directory + " *(rw)");
  }
  return made;
}

// Where the options begin: behind the first colon that one stands behind, or else behind the last
// one that only a mistyped option can follow. npos: there are none.
std::size_t colon_before_options(std::string_view text) {
  static constexpr std::array<std::string_view, 16> kNames{
      "ro",      "rw",       "root_squash", "no_root_squash", "all_squash", "anonuid", "anongid",
      "secure",  "insecure", "client",      "name",           "conf",       "id",      "fs",
      "gateway", "sec"};
  const std::size_t begin = text.starts_with(kCeph) ? kCeph.size() : 0;
  for (std::size_t at = text.find(':', begin); at != std::string_view::npos;
       at = text.find(':', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    const std::string_view word = rest.substr(0, rest.find_first_of(",="));
    if (std::ranges::find(kNames, word) != kNames.end()) return at;
  }
  const std::size_t last = text.rfind(':');
  const bool is_of_a_name = last == std::string_view::npos || last < begin ||
                            text.find('/', last) != std::string_view::npos;
  return is_of_a_name ? std::string_view::npos : last;
}

}  // namespace

std::optional<AddressRange> AddressRange::parse(std::string_view text) {
  AddressRange range;
  if (text == "*") {
    range.is_any_ = true;
    return range;
  }
  const std::size_t slash = text.find('/');
  const auto address = address_of(text.substr(0, slash));
  if (!address) return std::nullopt;
  const unsigned bits_max = address->is_v4 ? 32 : 128;
  unsigned bits = bits_max;
  if (slash != std::string_view::npos) {
    const auto given = number_of<unsigned>(text.substr(slash + 1));
    if (!given || *given > bits_max) return std::nullopt;
    bits = *given;
  }
  range.address_ = address->bytes;
  range.bits_ = bits + (address->is_v4 ? 96 : 0);
  return range;
}

bool AddressRange::contains(std::string_view peer) const {
  if (is_any_) return true;
  const auto address = address_of_peer(peer);
  if (!address) return false;
  for (unsigned bit = 0; bit < bits_; bit += 8) {
    const unsigned count = std::min(8U, bits_ - bit);
    const auto mask = static_cast<std::uint8_t>(0xffU << (8 - count));
    if (((address->bytes[bit / 8] ^ address_[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

std::optional<Caller> ExportRules::caller(const rpcrdma::Caller& who,
                                          const rpcrdma::Credential& credential) const {
  const Caller nobody{anonymous_uid, anonymous_gid, {}};
  const bool is_none = who.protection == Protection::kNone;
  const Protection counted = is_none ? Protection::kSys : who.protection;
  const bool is_allowed =
      security.empty() ? counted == Protection::kSys : std::ranges::count(security, counted) > 0;
  if (!is_allowed) return std::nullopt;
  if (is_none) return nobody;
  Caller caller;
  if (who.protection == Protection::kSys) {
    const auto claimed = rpcrdma::parse_auth_sys(credential.body);
    if (!claimed) return std::nullopt;
    const auto further = claimed->further_gids();
    caller = {claimed->uid, claimed->gid, {further.begin(), further.end()}};
  } else if (who.user != nullptr) {
    caller = {who.user->uid, who.user->gid, who.user->gids};
  } else {
    return nobody;
  }
  if (squash == Squash::kAll) return nobody;
  if (squash == Squash::kNone) return caller;
  // As exports(5): the numbers 0 are exchanged wherever they stand.
  if (caller.uid == 0) caller.uid = anonymous_uid;
  if (caller.gid == 0) caller.gid = anonymous_gid;
  std::ranges::replace(caller.groups, 0U, anonymous_gid);
  return caller;
}

const ExportRules* Export::rules_for(std::string_view peer) const {
  for (const ExportClient& client : clients) {
    if (!client.addresses.contains(peer)) continue;
    if (client.rules.wants_privileged_port) {
      const std::size_t colon = peer.rfind(':');
      const auto port = colon == std::string_view::npos
                            ? std::nullopt
                            : number_of<unsigned>(peer.substr(colon + 1));
      if (!port || *port >= 1024) return nullptr;
    }
    return &client.rules;
  }
  return nullptr;
}

std::string_view name_of(Protection protection) noexcept {
  const auto found = std::ranges::find(kFlavors, protection, &Flavor::protection);
  return found != std::end(kFlavors) ? found->name : std::string_view();
}

Parsed<std::vector<Protection>> parse_security(std::string_view text) {
  std::vector<Protection> made;
  std::string trouble;
  for_each_part(text, ':', [&](std::string_view name) {
    const auto found = std::ranges::find(kFlavors, name, &Flavor::name);
    if (found == std::end(kFlavors)) {
      trouble = in_quotes(name) +
                " is no flavor of security; there are sys, krb5, krb5i, krb5p, with "
                "colons between";
      return false;
    }
    if (std::ranges::count(made, found->protection) == 0) made.push_back(found->protection);
    return true;
  });
  if (!trouble.empty()) return Unexpected<std::string>(std::move(trouble));
  return made;
}

Parsed<Export> parse_export(std::string_view text) {
  Export made;
  ExportRules rules;
  std::string trouble;
  const std::size_t colon = colon_before_options(text);
  const std::string_view options =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (colon == 0 || text.empty()) {
    return Unexpected<std::string>("the directory's name is empty");
  }
  trouble = take_directory(std::string(text.substr(0, colon)), made);
  if (!trouble.empty()) return Unexpected<std::string>(trouble);
  if (!options.empty()) {
    for_each_part(options, ',', [&](std::string_view option) {
      if (option.starts_with("client=")) {
        const auto range = AddressRange::parse(option.substr(7));
        if (!range) {
          trouble = no_range(option.substr(7));
        } else {
          made.clients.push_back({*range, std::string(option.substr(7)), {}});
        }
      } else {
        trouble = take_option_of_export(option, made, rules);
      }
      return trouble.empty();
    });
  }
  if (!trouble.empty()) return Unexpected<std::string>(trouble);
  if (made.clients.empty()) made.clients.push_back({*AddressRange::parse("*"), "*", {}});
  for (ExportClient& client : made.clients) client.rules = rules;
  return made;
}

Parsed<ExportsFile> parse_exports(std::string_view text) {
  ExportsFile file;
  std::string trouble;
  std::size_t number = 0;
  for_each_part(text, '\n', [&](std::string_view line) {
    ++number;
    line = line.substr(0, line.find('#'));
    skip_blanks(line);
    if (line.empty()) return true;
    const std::string where = "line " + std::to_string(number) + ": ";
    std::vector<std::string> warnings;
    auto parsed = parse_line(line, warnings);
    if (!parsed) {
      trouble = where + parsed.error();
      return false;
    }
    for (const std::string& each : warnings) file.warnings.push_back(where + each);
    const auto same = [&](const Export& other) { return other.name == parsed->name; };
    if (std::ranges::any_of(file.exports, same)) {
      trouble =
          where + in_quotes(parsed->name) + " is exported already; give it another name=/NAME";
      return false;
    }
    file.exports.push_back(std::move(*parsed));
    return true;
  });
  if (!trouble.empty()) return Unexpected<std::string>(trouble);
  return file;
}

}  // namespace nfs
