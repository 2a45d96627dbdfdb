#include "rpcbind/fake_daemon_for_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "rpcbind/universal_address.h"
#include "rpcrdma/generated/codec.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::rpcbinding {
namespace {

std::vector<std::byte> word(std::uint32_t value) {
  std::vector<std::byte> bytes(xdr::kWordSize);
  xdr::store_word(bytes.data(), value);
  return bytes;
}

}  // namespace

FakeDaemon::FakeDaemon(std::uint32_t version_max, const std::string& url) {
  ServerOptions options;
  options.drain_timeout = std::chrono::milliseconds(10);  // of calls that it holds
  auto server = Server::listen(url, options);
  EXPECT_TRUE(server) << server.error().message();
  server_.emplace(std::move(*server));
  for (std::uint32_t version = 2; version <= version_max; ++version) {
    EXPECT_TRUE(server_->add(rpcbind::RPCBPROG, version, *this));
  }
  thread_ = std::thread([this] { server_->run(); });
}

FakeDaemon::~FakeDaemon() {
  server_->stop();
  thread_.join();
  for (CallContext* context : held_) context->fail(AcceptStatus::kSystemErr);
}

std::uint16_t FakeDaemon::port() const {
  const auto endpoint = from_socket_text(server_->address());
  EXPECT_TRUE(endpoint);
  return endpoint ? endpoint->port : 0;
}

const ProcedureTraits* FakeDaemon::traits(std::uint32_t procedure) const noexcept {
  static constexpr ProcedureTraits kAny{};
  return procedure <= rpcbind::RPCBPROC_DUMP ? &kAny : nullptr;
}

void FakeDaemon::call(CallContext& context) {
  if (silent) return held_.push_back(&context);
  const std::uint32_t procedure = context.procedure().number;
  rpcbind::rpcb argument;
  if (procedure != rpcbind::RPCBPROC_DUMP) {
    const auto read = from_bytes<rpcbind::rpcb>(context.arguments().xdr().rest());
    if (!read) return context.fail(AcceptStatus::kGarbageArgs);
    argument = *read;
  }
  const bool is_mapper = context.procedure().version == rpcbind::PMAPVERS;
  const auto results = is_mapper && procedure == rpcbind::PMAPPROC_DUMP && !nonsense
                           ? mappings()
                           : execute(procedure, argument);
  if (!context.reserve_results(static_cast<std::uint32_t>(results.size()))) {
    return context.fail(AcceptStatus::kSystemErr);
  }
  context.results().xdr().opaque_fixed(results);
  context.succeed();
}

std::vector<std::byte> FakeDaemon::mappings() const {
  rpcbind::pmap_list list;
  for (const auto& [key, entry] : entries) {
    const auto endpoint = from_universal("tcp", entry.r_addr);
    list.push_back(
        {{entry.r_prog, entry.r_vers,
          static_cast<std::uint32_t>(entry.r_netid == "tcp" ? rpcbind::IPPROTO_TCP_NUMBER
                                                            : rpcbind::IPPROTO_UDP_NUMBER),
          endpoint ? endpoint->port : 70000U}});
  }
  std::vector<std::byte> results(rpcbind::encoded_size_pmap_list(list));
  MessageWriter writer(results);
  rpcbind::encode_pmap_list(list, writer);
  return results;
}

std::vector<std::byte> FakeDaemon::execute(std::uint32_t procedure, const rpcbind::rpcb& argument) {
  const Key key{argument.r_prog, argument.r_vers, argument.r_netid};
  const bool known = entries.contains(key);
  if (nonsense) return word(0xffffffff);
  if (procedure == rpcbind::RPCBPROC_SET) {
    const bool taken = known && entries[key].r_addr != argument.r_addr;
    if (!taken) entries[key] = argument;
    return word(taken ? 0 : 1);
  }
  if (procedure == rpcbind::RPCBPROC_UNSET) {
    const bool ours = known && std::ranges::find(of_others, key) == of_others.end();
    if (ours) entries.erase(key);
    return word(ours ? 1 : 0);
  }
  rpcbind::rpcblist_ptr list;
  for (const auto& entry : entries) list.push_back({entry.second});
  std::vector<std::byte> results(rpcbind::encoded_size_rpcblist_ptr(list));
  MessageWriter writer(results);
  rpcbind::encode_rpcblist_ptr(list, writer);
  return results;
}

}  // namespace rpcrdma::rpcbinding
