// Steps of `rpcrdma doctor` that call the server: connection, set-up, program.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "blob.h"
#include "mount3.h"
#include "nfs3.h"
#include "tools/doctor.h"

namespace rpcrdma::tools::doctor {
namespace {

// The inline threshold of a peer that says nothing of its own (RFC 8166 §3.3.2).
constexpr std::uint32_t kSilentInline = 1024;

bool has_closed(const Error& error) {
  return error.code == Errc::kRefused && error.cause.find("closed") != std::string::npos;
}

// Something answers, in no words of MPA (siwarp's set-up).
bool speaks_otherwise(const Error& error) {
  return error.cause.find("does not speak MPA") != std::string::npos;
}

// A rejection in the set-up of MPA. RDMA devices do not tell it from a port without a server.
bool was_rejected(const Error& error) {
  return error.code == Errc::kRefused && error.cause.find("rejected") != std::string::npos;
}

std::string remedy_of_connect(const Walk& walk, const Error& error) {
  const std::uint16_t port = walk.url->servers.front().port;
  if (error.code == Errc::kUnsupported || error.code == Errc::kNoResources) {
    return "`rpcrdma info` says what this machine has; --provider siwarp needs no device";
  }
  if (walk.is_tcp()) return "look at the log of the server";
  if (error.code == Errc::kTimedOut || has_closed(error) || speaks_otherwise(error)) {
    return fmt::format(
        "port {} takes TCP, and does not speak RDMA (MPA): it is another service's, or the server "
        "uses RoCE or InfiniBand, to which siwarp does not lead{}; NFS over plain TCP is "
        "nfs+tcp://HOST:2049/EXPORT",
        port,
        error.code == Errc::kTimedOut ? ", or the server hangs, or was stopped: look at it" : "");
  }
  if (error.code == Errc::kRefused) {
    return fmt::format(
        "no server listens at port {} by RDMA, or it refuses this one, and its log says why: "
        "nfsd listens there after `echo rdma {} > /proc/fs/nfsd/portlist`; a server that uses "
        "siwarp, as `rpcrdma serve` does where there is no device, takes --provider siwarp here",
        port, port);
  }
  return "let UDP port 4791 (RoCE) or the port by TCP (iWARP) through every firewall on the way; "
         "look at the log of the server";
}

std::string remedy_of_setup(const Error& error) {
  if (error.code == Errc::kVersion) {
    return "the server has another version of RPC-over-RDMA alone: say --rpcrdma-version auto";
  }
  return "its log says why: it has as many connections as it may (serve --connections), it stops, "
         "or it does not take what this side asks for in its private data (--inline, --ird, --ord)";
}

// Returns what is odd about terms that hold; empty: nothing.
std::string oddity_of(const ConnectionTerms& terms) {
  if (terms.inline_sent <= kSilentInline) {
    return "the server sent no private data (RFC 8797), so that messages of more than 1024 bytes "
           "take chunks and remote invalidation is off";
  }
  if (terms.reads_served_max == 0) {
    return "this side serves no RDMA Reads (IRD 0), so that no call with much data can be made";
  }
  return {};
}

std::string program_text(std::uint32_t program, std::uint32_t version) {
  const char* const name = program == nfs3::NFS_PROGRAM    ? " (NFS)"
                           : program == blob::BLOB_PROGRAM ? " (blobs)"
                                                           : "";
  return fmt::format("program {}{} version {}", program, name, version);
}

std::string remedy_of_program(Walk& walk, const Error& error) {
  const auto has = [&](std::uint32_t program, std::uint32_t version) {
    return call_null(*walk.client, program, version).has_value();
  };
  const bool is_version = error.cause.find("has versions") != std::string::npos;
  if (error.code == Errc::kTimedOut) {
    return "the server took the connection and answers no call: it hangs, as with a disk that does "
           "not answer, or another service has the port; its log says more";
  }
  if (error.code != Errc::kNotAvailable) {
    return error.code == Errc::kSecurity ? "kinit gets the ticket that --sec takes; --sec-service "
                                           "names the server in Kerberos"
                                         : "look at the log of the server";
  }
  if (is_version && walk.is_nfs) {
    const nfs::NfsUrl::Server& server = walk.url->servers.front();
    return fmt::format(
        "this command speaks version 3: let the server have it (of nfsd: /etc/nfs.conf, vers3=y), "
        "or let the kernel mount version 4: mount -t nfs -o vers=4.2,{},port={} {}:{} /mnt",
        walk.is_tcp() ? "proto=tcp" : "rdma", server.port, server.host, walk.url->path);
  }
  if (is_version) return "name one of the versions that the server has by --version";
  if (walk.is_nfs && has(blob::BLOB_PROGRAM, blob::BLOB_V1)) {
    return fmt::format(
        "it serves blobs: their URL is {}; for files by NFS start it with `rpcrdma serve --nfs "
        "DIR`",
        walk.url->transport_urls().front());
  }
  if (!walk.is_nfs && has(nfs3::NFS_PROGRAM, nfs3::NFS_V3)) {
    return fmt::format("it serves NFS: the URL is nfs+{}/EXPORT",
                       walk.url->transport_urls().front());
  }
  return "start the server with that program (rpcrdma serve --nfs DIR, or --blob DIR; nfsd: "
         "`rpc.nfsd 8`), or name the port where it is";
}

}  // namespace

Expected<void, Error> call_null(Client& client, std::uint32_t program, std::uint32_t version) {
  auto call = client.prepare({program, version, 0});
  if (!call) return Unexpected<Error>(call.error());
  call->expect_results(0);
  if (auto reply = client.call(std::move(*call)); !reply) return Unexpected<Error>(reply.error());
  return {};
}

Finding check_connect(Walk& walk) {
  auto client = Client::connect(walk.url->transport_urls().front(), walk.options);
  if (client) {
    walk.client = std::move(*client);
    const ConnectionInfo connection = walk.client->connection();
    const std::string text =
        fmt::format("{} by {}", connection.peer_address, connection.provider_name);
    if (walk.device_on_route.empty() || connection.provider_name != "siwarp") {
      return Finding::ok(text);
    }
    return Finding::warning(
        fmt::format("{}, software, though the RDMA device {} leads there", text,
                    walk.device_on_route),
        "`rpcrdma info` says why the device is not used; --provider verbs insists on it");
  }
  const Error& error = client.error();
  if ((error.code == Errc::kVersion || was_rejected(error)) && !walk.is_tcp()) {
    walk.refusal = error;
    return Finding::ok(fmt::format("{} answers", error.peer));
  }
  return Finding::failed(error.message(), remedy_of_connect(walk, error));
}

Finding check_setup(Walk& walk) {
  if (walk.refusal) {
    return Finding::failed(walk.refusal->message(), remedy_of_setup(*walk.refusal));
  }
  if (walk.is_tcp()) return Finding::skipped("plain TCP negotiates nothing");
  // The reply to any call grants credits, and shows the version.
  const auto called = call_null(*walk.client, 0, 0);
  if (!called && called.error().code == Errc::kVersion) {
    return Finding::failed(called.error().message(), remedy_of_setup(called.error()));
  }
  const auto terms = walk.client->connection().terms;
  if (!terms) {
    return Finding::failed(called ? "the connection has no terms" : called.error().message(),
                           "look at the log of the server");
  }
  const std::string oddity = oddity_of(*terms);
  if (oddity.empty()) return Finding::ok(to_string(*terms));
  return Finding::warning(fmt::format("{}; {}", to_string(*terms), oddity),
                          "all goes, but slowly: let the server send private data, and leave "
                          "--inline and --ird at their defaults");
}

Finding check_program(Walk& walk) {
  const std::uint32_t program = walk.settings.client.program;
  const std::uint32_t version = walk.settings.client.version;
  const std::string text = program_text(program, version);
  const auto called = call_null(*walk.client, program, version);
  if (called) {
    walk.has_mount_beside =
        walk.is_nfs && call_null(*walk.client, mount3::MOUNT_PROGRAM, mount3::MOUNT_V3).has_value();
    return Finding::ok(text + " answers");
  }
  const Error error = called.error();
  return Finding::failed(fmt::format("{}: {}", text, error.message()),
                         remedy_of_program(walk, error));
}

}  // namespace rpcrdma::tools::doctor
