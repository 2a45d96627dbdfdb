// URLs of files at an NFS server: nfs+rdma://HOST[:PORT]/PATH or nfs+tcp://HOST[:PORT]/PATH. The
// path begins with the name of an export; MOUNT reports where that ends. Several servers of one
// tree, or addresses of one server, stand with commas between them:
// nfs+rdma://HOST1,HOST2:PORT/PATH.
#ifndef RPCRDMA_NFS_CLIENT_URL_H_
#define RPCRDMA_NFS_CLIENT_URL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/types.h"

namespace nfs {

struct NfsUrl {
  static constexpr std::uint16_t kRdmaPort = 20049, kTcpPort = 2049;

  struct Server {
    std::string host;  // an IPv6 address has brackets
    std::uint16_t port = kRdmaPort;
    bool operator==(const Server&) const = default;
  };

  bool is_rdma = true;
  std::vector<Server> servers;  // one at the least
  std::string path;             // "/", or with a '/' in front and none behind

  // Returns URLs for Client::connect(), one for each server.
  std::vector<std::string> transport_urls() const;
  // Returns the URL as it is written.
  std::string text() const;
};

// Returns whether the text is meant to be a URL; if not, it is a path of this machine.
bool is_nfs_url(std::string_view text);
// Parses a URL, in which %XX stands for a byte. The error text says what is wrong.
rpcrdma::Expected<NfsUrl, std::string> parse_nfs_url(std::string_view text);

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_URL_H_
