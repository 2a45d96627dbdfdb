#include "nfs/address_range.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <memory>
#include <utility>

namespace nfs {
namespace {

using Octets = std::array<std::uint8_t, 16>;

// An IPv4 address begins so where it is written as one of IPv6, as a socket of both reports it.
constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_mapped(const Octets& address) {
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

struct Address {
  Octets bytes{};
  bool is_v4 = false;  // written in four parts
};

std::optional<Address> address_of(std::string_view text) {
  const std::string name(text);
  Address found;
  in_addr v4{};
  if (::inet_pton(AF_INET, name.c_str(), &v4) == 1) {
    found.is_v4 = true;
    std::copy(kMapped.begin(), kMapped.end(), found.bytes.begin());
    const auto* from = reinterpret_cast<const std::uint8_t*>(&v4);
    std::copy(from, from + sizeof(v4), found.bytes.begin() + kMapped.size());
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

// Reads "24", or of IPv4 "255.255.255.0", whose ones stand together.
std::optional<unsigned> bits_of(std::string_view text, bool is_v4) {
  in_addr mask{};
  if (is_v4 && ::inet_pton(AF_INET, std::string(text).c_str(), &mask) == 1) {
    const std::uint32_t number = ntohl(mask.s_addr);
    const auto ones = static_cast<unsigned>(std::countl_one(number));
    if (ones != static_cast<unsigned>(std::popcount(number))) return std::nullopt;
    return ones;
  }
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (bits > (is_v4 ? 32U : 128U)) return std::nullopt;
  return bits;
}

// Returns whether a text is a name that can be looked up. The short form of an address ("10.1" is
// 10.0.0.1), which the resolver accepts, is no name, since nobody means it.
bool is_name_of_a_host(const std::string& text) {
  constexpr std::size_t kNameMax = 253;
  in_addr ignored{};
  const auto may_be_in_it = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  };
  return !text.empty() && text.size() <= kNameMax && text.front() != '-' && text.front() != '.' &&
         std::ranges::all_of(text, may_be_in_it) &&
         std::ranges::any_of(text, [](unsigned char c) { return std::isalpha(c) != 0; }) &&
         ::inet_aton(text.c_str(), &ignored) == 0;
}

// Says why a text is no client.
std::string no_client(std::string_view text) {
  const std::string quoted = "'" + std::string(text) + "'";
  if (text.find('%') != std::string_view::npos) {
    return quoted + " has a zone, which is not compared: leave out what stands behind '%'";
  }
  if (text.starts_with('@')) {
    return quoted +
           " is a netgroup, and netgroups are not looked up: name its machines or networks";
  }
  if (text.starts_with("gss/")) {
    return quoted + " is the old form of an option: write *(sec=" + std::string(text.substr(4)) +
           ")";
  }
  if (text.starts_with('[')) {
    return quoted + " has brackets: an address of IPv6 stands here without them";
  }
  if (text.find_first_of("*?[]") != std::string_view::npos) {
    return quoted +
           " is a pattern, and patterns are not compared: name each machine, or a network as "
           "ADDRESS/BITS";
  }
  return quoted + " is no address, ADDRESS/BITS, ADDRESS/NETMASK, name of a machine or *";
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
  unsigned bits = address->is_v4 ? 32 : 128;
  if (slash != std::string_view::npos) {
    const auto given = bits_of(text.substr(slash + 1), address->is_v4);
    if (!given) return std::nullopt;
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
  // Compared as IPv6, an IPv4 address begins with zeros: "::/0" would hold everybody.
  if (is_mapped(address->bytes) && bits_ < kMapped.size() * 8) return false;
  for (unsigned bit = 0; bit < bits_; bit += 8) {
    const unsigned count = std::min(8U, bits_ - bit);
    const auto mask = static_cast<std::uint8_t>(0xffU << (8 - count));
    if (((address->bytes[bit / 8] ^ address_[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

std::vector<std::string> addresses_of_host(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;  // each address once
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* const from =
        each->ai_family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(each->ai_addr)->sin_addr)
            : &reinterpret_cast<sockaddr_in6*>(each->ai_addr)->sin6_addr;
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    if (::inet_ntop(each->ai_family, from, text.data(), text.size()) == nullptr) continue;
    addresses.emplace_back(text.data());
  }
  return addresses;
}

Parsed<std::vector<AddressRange>> parse_addresses(std::string_view text,
                                                  const HostLookup& look_up) {
  if (const auto range = AddressRange::parse(text)) return std::vector{*range};
  const std::string name(text);
  if (!is_name_of_a_host(name)) return rpcrdma::Unexpected<std::string>(no_client(text));
  std::vector<AddressRange> ranges;
  for (const std::string& address : look_up(name)) {
    // Takes single addresses alone: a name server must not open the export to a network.
    if (address.find_first_of("*/") != std::string::npos) continue;
    if (const auto range = AddressRange::parse(address)) ranges.push_back(*range);
  }
  return ranges;
}

}  // namespace nfs
