#include "rpcbind/listing.h"

#include <netdb.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "rpcbind.h"
#include "rpcbind/universal_address.h"

namespace rpcrdma::rpcbinding {
namespace {

std::string text_of(xdr::Reader& reader, std::string_view field) {
  return std::string(reader.string(ListedProgram::kTextMax, field));
}

ListedProgram read_entry(xdr::Reader& reader) {
  ListedProgram listed;
  listed.program = reader.u32("program");
  listed.version = reader.u32("version");
  listed.netid = text_of(reader, "netid");
  listed.address = text_of(reader, "address");
  listed.owner = text_of(reader, "owner");
  return listed;
}

// A port mapper knows ports of its host, over TCP and UDP of IPv4.
ListedProgram read_mapping(xdr::Reader& reader) {
  ListedProgram listed;
  listed.program = reader.u32("program");
  listed.version = reader.u32("version");
  const std::uint32_t protocol = reader.u32("protocol");
  listed.netid = protocol == rpcbind::IPPROTO_TCP_NUMBER   ? "tcp"
                 : protocol == rpcbind::IPPROTO_UDP_NUMBER ? "udp"
                                                           : "protocol " + std::to_string(protocol);
  const std::uint32_t port = reader.u32("port");
  if (port > 0xffff) {
    reader.fail(xdr::Errc::kOverLimit, "port");
    return listed;
  }
  listed.address = to_universal({.port = static_cast<std::uint16_t>(port)});
  return listed;
}

Expected<Listing, Error> read_list(Reply& reply, std::uint32_t version, std::size_t entries_max) {
  Listing listing{.programs = {}, .rpcbind_version = version};
  xdr::Reader& reader = reply.results().xdr();
  while (reader.boolean("another entry")) {
    if (listing.programs.size() == entries_max) {
      listing.is_cut = true;
      reply.ignore_rest();
      return listing;
    }
    listing.programs.push_back(version == rpcbind::PMAPVERS ? read_mapping(reader)
                                                            : read_entry(reader));
    if (!reader.ok()) break;
  }
  if (auto error = reply.finish()) return Unexpected<Error>(std::move(*error));
  return listing;
}

}  // namespace

Expected<Listing, Error> list_programs(Client& client, const ListingOptions& options) {
  for (std::uint32_t version = rpcbind::RPCBVERS4;; --version) {
    // DUMP has the same number in each version.
    auto call = client.prepare({rpcbind::RPCBPROG, version, rpcbind::RPCBPROC_DUMP}, 0);
    if (!call) return Unexpected<Error>(std::move(call.error()));
    call->expect_results(options.reply_size_max);
    auto reply = client.call(std::move(*call));
    if (reply) return read_list(*reply, version, options.entries_max);
    const bool has_another =
        reply.error().code == Errc::kNotAvailable && version > rpcbind::PMAPVERS;
    if (!has_another) return Unexpected<Error>(std::move(reply.error()));
  }
}

std::string endpoint_text(const ListedProgram& listed) {
  std::string_view netid = listed.netid;
  // Addresses of UDP have the same form.
  if (netid == "udp") netid = kNetidTcp;
  if (netid == "udp6") netid = kNetidTcp6;
  const auto endpoint = from_universal(netid, listed.address);
  if (!endpoint) return {};
  const std::string port = ":" + std::to_string(endpoint->port);
  return endpoint->six ? "[" + endpoint->host() + "]" + port : endpoint->host() + port;
}

std::string program_name(std::uint32_t program) {
  struct Known {
    std::uint32_t program;
    const char* name;
  };
  // Those that are met beside NFS; not every system has /etc/rpc.
  static constexpr std::array<Known, 9> kKnown{{
      {rpcbind::RPCBPROG, "portmapper"},
      {100003, "nfs"},
      {100005, "mountd"},
      {100011, "rquotad"},
      {100021, "nlockmgr"},
      {100024, "status"},
      {100227, "nfs_acl"},
      {0x20020049, "blob"},
      {0x20010020, "bench"},
  }};
  const auto found = std::ranges::find(kKnown, program, &Known::program);
  if (found != kKnown.end()) return found->name;
  rpcent entry{};
  rpcent* result = nullptr;
  std::array<char, 4096> buffer{};
  if (getrpcbynumber_r(static_cast<int>(program), &entry, buffer.data(), buffer.size(), &result) !=
          0 ||
      result == nullptr) {
    return {};
  }
  return result->r_name;
}

}  // namespace rpcrdma::rpcbinding
