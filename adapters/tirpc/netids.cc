#include "netids.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace rpcrdma::tirpc {

namespace {

constexpr std::string_view kRdma = "rdma", kRdma6 = "rdma6";

// libtirpc's entries point to texts of their own, ours to these.
struct Texts {
  char netid[8];
  char family[8];
  char protocol[8];
  char device[8];
};
std::array<Texts, 2> all_texts = {
    {{"rdma", NC_INET, "rdma", "-"}, {"rdma6", NC_INET6, "rdma", "-"}}};

bool is_one_of(const char* netid, std::initializer_list<std::string_view> names) noexcept {
  return netid != nullptr && std::ranges::find(names, std::string_view(netid)) != names.end();
}

}  // namespace

bool is_rdma(const char* netid) noexcept {
  return is_one_of(netid, {kRdma, kRdma6});
}

bool is_movable(const char* netid) noexcept {
  return is_one_of(netid, {"tcp", "udp", "tcp6", "udp6"});
}

netconfig* make_netconfig(const char* netid) noexcept {
  if (!is_rdma(netid)) return nullptr;
  auto* const entry = static_cast<netconfig*>(std::calloc(1, sizeof(netconfig)));
  if (entry == nullptr) return nullptr;
  Texts& texts = all_texts[netid == kRdma6 ? 1 : 0];
  entry->nc_netid = texts.netid;
  entry->nc_semantics = NC_TPI_COTS_ORD;
  entry->nc_flag = NC_VISIBLE;
  entry->nc_protofmly = texts.family;
  entry->nc_proto = texts.protocol;
  entry->nc_device = texts.device;
  return entry;
}

bool free_netconfig(netconfig* entry) noexcept {
  const auto is_its = [&](const Texts& texts) { return entry->nc_netid == texts.netid; };
  if (entry == nullptr || std::ranges::none_of(all_texts, is_its)) return false;
  std::free(entry);
  return true;
}

bool describe(const netconfig& entry, __rpc_sockinfo& info) noexcept {
  if (!is_rdma(entry.nc_netid)) return false;
  const bool is_six = entry.nc_netid == kRdma6;
  info.si_af = is_six ? AF_INET6 : AF_INET;
  info.si_proto = IPPROTO_TCP;  // the addresses are those of TCP
  info.si_socktype = SOCK_STREAM;
  info.si_alen = static_cast<int>(is_six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return true;
}

}  // namespace rpcrdma::tirpc
