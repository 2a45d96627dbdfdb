#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "rpcbind/daemon.h"
#include "rpcbind/listing.h"
#include "tools/command.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

using rpcbinding::ListedProgram;
using rpcbinding::Listing;

struct ProgramsSettings {
  ClientSettings client;
};

// Adds what a HOST alone, or tcp:// without a port, leaves open: TCP, and rpcbind's port.
std::string full_url(const std::string& given) {
  const std::size_t scheme = given.find("://");
  if (scheme != std::string::npos && !given.starts_with("tcp://")) return given;
  std::string host = scheme == std::string::npos ? given : given.substr(scheme + 3);
  const bool is_bare_six = std::ranges::count(host, ':') > 1 && !host.starts_with('[');
  if (is_bare_six) host = fmt::format("[{}]", host);
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  return has_port ? "tcp://" + host : fmt::format("tcp://{}:{}", host, rpcbinding::kRpcbindPort);
}

Client connect(ProgramsSettings& settings) {
  std::string& url = settings.client.url;
  url = full_url(url);
  if (!url.starts_with("rdma://")) {
    const CommonOptions& common = settings.client.common;
    common.refuse_rdma("RDMA, and a HOST and tcp:// are plain TCP");
    common.refuse({"--capture"}, "RDMA, and a HOST and tcp:// are plain TCP");
  }
  ClientOptions options = settings.client.client_options();
  options.tcp.record_size_max = rpcbinding::ListingOptions().reply_size_max;
  auto client = Client::connect(url, options);
  if (client) return std::move(*client);
  if (client.error().code == Errc::kBadUrl) fail(kUsage, client.error().message());
  if (client.error().code == Errc::kVersion) fail(client.error());
  const bool is_server = url.starts_with("rdma://");
  fail(kNoConnection, client.error().message() + (is_server ? "" : "; is rpcbind running there?"));
}

// An address that can be typed where the universal one, with its port in two numbers, cannot.
std::string shown_address(const ListedProgram& listed) {
  const std::string endpoint = rpcbinding::endpoint_text(listed);
  return endpoint.empty() ? printable(listed.address) : endpoint;
}

void print_table(const Listing& listing) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows{{"PROGRAM", "VERSION", "NETID", "ADDRESS", "OWNER", "NAME"}};
  for (const ListedProgram& each : listing.programs) {
    rows.push_back({std::to_string(each.program), std::to_string(each.version),
                    printable(each.netid), shown_address(each), printable(each.owner),
                    rpcbinding::program_name(each.program)});
  }
  Row::size_type column = 0;
  std::array<std::size_t, 6> widths{};
  constexpr std::size_t kWidthMax = 48;  // one text of a peer must not widen all lines
  for (const Row& row : rows) {
    for (column = 0; column < row.size(); ++column) {
      widths[column] = std::min(kWidthMax, std::max(widths[column], row[column].size()));
    }
  }
  for (const Row& row : rows) {
    std::string line;
    for (column = 0; column < row.size(); ++column) {
      const bool is_number = column < 2;
      line += is_number ? fmt::format("{:>{}}", row[column], widths[column])
                        : fmt::format("{:<{}}", row[column], widths[column]);
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

Json to_json(const ListedProgram& listed) {
  Json entry = Json::ordered_object();
  entry.set("program", listed.program);
  entry.set("version", listed.version);
  entry.set("netid", listed.netid);
  entry.set("address", listed.address);
  entry.set("endpoint", rpcbinding::endpoint_text(listed));
  entry.set("owner", listed.owner);
  entry.set("name", rpcbinding::program_name(listed.program));
  return entry;
}

void print_listing(const ProgramsSettings& settings, const Client& client, const Listing& listing) {
  if (!settings.client.common.json) return print_table(listing);
  Json programs = Json::array();
  for (const ListedProgram& each : listing.programs) programs.push_back(to_json(each));
  Json made = Json::ordered_object();
  made.set("peer", client.connection().peer_address);
  made.set("rpcbind_version", listing.rpcbind_version);
  made.set("is_cut", listing.is_cut);
  made.set("programs", programs);
  print_json(made);
}

void list(ProgramsSettings& settings) {
  Client client = connect(settings);
  const auto listing = rpcbinding::list_programs(client);
  if (!listing) fail(listing.error());
  if (settings.client.is_verbose) say(terms_text(client));
  print_listing(settings, client, *listing);
  if (listing->is_cut) {
    say(fmt::format("rpcrdma: the list of {} has more than {} entries, and the rest is left out",
                    client.connection().peer_address, listing->programs.size()));
  }
}

}  // namespace

void add_programs(Command& program) {
  Command& command = program.add_subcommand("programs", "list the programs that an rpcbind knows");
  ProgramsSettings& settings = command.on_call(list);
  command.add({{"URL",
                &settings.client.url,
                "HOST, whose rpcbind is asked by TCP at port 111; tcp://HOST[:PORT] for another "
                "port; or rdma://HOST[:PORT], port 20049 if none is given: a server that answers "
                "rpcbind's questions itself, as rpcrdma serve does",
                {.is_required = true}}});
  settings.client.add_calls_to(command, "seconds that connecting and the call may take");
  command.set_footer(
      "It asks in version 4 of rpcbind, else 3, else 2, which is a port mapper's and has no "
      "owners.\n"
      "A list is cut at 4096 entries, and that is said on stderr.");
}

}  // namespace rpcrdma::tools
