#include "nfs/exports.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "nfs/export_options.h"

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

std::optional<unsigned> number_of_port(std::string_view text) {
  unsigned value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns where the options begin: behind the first colon that one stands behind, or else behind
// the first one that a mistyped option stands behind, or else behind the last one that no name of a
// directory goes on behind. npos: there are none.
std::size_t colon_before_options(std::string_view text) {
  const std::size_t begin = text.find(':', is_elsewhere(text) ? text.find(':') + 1 : 0);
  const auto first = [&](auto fits) {
    std::size_t at = begin;
    for (; at != std::string_view::npos; at = text.find(':', at + 1)) {
      const std::string_view rest = text.substr(at + 1);
      if (fits(rest.substr(0, rest.find_first_of(",=")))) break;
    }
    return at;
  };
  std::size_t at = first([](std::string_view word) { return is_option(word); });
  if (at != std::string_view::npos) return at;
  at = first([](std::string_view word) { return !option_like(word).empty(); });
  if (at != std::string_view::npos || begin == std::string_view::npos) return at;
  const std::size_t last = text.rfind(':');
  return text.find('/', last) == std::string_view::npos ? last : std::string_view::npos;
}

// Takes "client=ADDRESSES" of a command line. Returns what is wrong with it, or nothing.
std::string take_client(std::string_view text, const HostLookup& look_up, Export& into) {
  auto ranges = parse_addresses(text, look_up);
  if (!ranges) return ranges.error();
  if (ranges->empty()) return "the name " + in_quotes(text) + " of a client does not resolve";
  into.clients.push_back({std::move(*ranges), std::string(text), {}});
  return {};
}

}  // namespace

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

bool ExportClient::is_everybody() const noexcept {
  return std::ranges::any_of(addresses, &AddressRange::contains_all);
}

const ExportRules* Export::rules_for(std::string_view peer) const {
  const auto contains = [peer](const AddressRange& range) { return range.contains(peer); };
  for (const ExportClient& client : clients) {
    if (std::ranges::none_of(client.addresses, contains)) continue;
    if (client.rules.wants_privileged_port) {
      const std::size_t colon = peer.rfind(':');
      const auto port =
          colon == std::string_view::npos ? std::nullopt : number_of_port(peer.substr(colon + 1));
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

Parsed<Export> parse_export(std::string_view text, std::vector<std::string>& warnings,
                            const HostLookup& look_up) {
  Export made;
  ExportRules rules;
  const std::size_t colon = colon_before_options(text);
  if (colon == 0 || text.empty()) {
    return Unexpected<std::string>("the directory's name is empty");
  }
  const std::string_view directory = text.substr(0, colon);
  std::string trouble = take_directory(std::string(directory), made);
  if (!trouble.empty()) return Unexpected<std::string>(trouble);
  if (colon + 1 == text.size()) {
    return Unexpected<std::string>("no option stands behind the colon; " + in_quotes(directory) +
                                   " exports the directory to everybody, and " +
                                   in_quotes(std::string(text) + ":rw") +
                                   " one whose name ends with the colon");
  }
  if (colon != std::string_view::npos) {
    for_each_part(text.substr(colon + 1), ',', [&](std::string_view option) {
      constexpr std::string_view kClient = "client=";
      trouble = option.starts_with(kClient)
                    ? take_client(option.substr(kClient.size()), look_up, made)
                    : take_option(option, made, rules, warnings);
      return trouble.empty();
    });
  }
  if (trouble.empty()) trouble = trouble_of(made);
  if (!trouble.empty()) return Unexpected<std::string>(trouble);
  if (made.clients.empty()) made.clients.push_back({{*AddressRange::parse("*")}, "*", {}});
  for (ExportClient& client : made.clients) client.rules = rules;
  return made;
}

Parsed<Export> parse_export(std::string_view text) {
  std::vector<std::string> warnings;
  return parse_export(text, warnings);
}

}  // namespace nfs
