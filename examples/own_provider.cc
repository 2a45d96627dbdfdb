// A client and a server over a provider that the library does not know: see own_provider.h.
#include "own_provider.h"

#include <thread>

#include "greeting.h"

namespace {

constexpr std::uint32_t kDouble = 2;  // opaque<1 MiB> -> the same with each byte doubled
constexpr std::uint32_t kSizeMax = 1U << 20U;

rpcrdma::AcceptStatus double_all(rpcrdma::CallContext& call) {
  const rpcrdma::Bytes data = call.arguments().bulk(kSizeMax, "data");
  if (!call.arguments().finish()) return rpcrdma::AcceptStatus::kGarbageArgs;
  const auto result = call.result_memory(static_cast<std::uint32_t>(data.size()));
  if (result.size() < data.size()) return rpcrdma::AcceptStatus::kSystemErr;
  std::ranges::transform(data, result.begin(), [](std::byte byte) { return byte << 1; });
  call.results().bulk(result.first(data.size()));
  return rpcrdma::AcceptStatus::kSuccess;
}

}  // namespace

int main() {
  own::Wire wire;
  rpcrdma::FunctionService service;
  service.on(kDouble, double_all, {.bulk_argument_size_max = kSizeMax});
  auto server =
      greeting::must(rpcrdma::Server::listen(std::make_unique<own::Provider>(wire), "here:0"));
  greeting::must(server.add(greeting::kProgram, greeting::kVersion, service));
  const std::string address(server.address());
  std::thread serving([&] { server.run(); });

  // In a scope of its own, since the server answers as long as it is asked to.
  {
    auto client =
        greeting::must(rpcrdma::Client::connect({std::make_unique<own::Provider>(wire), address}));
    const std::vector<std::byte> data(kSizeMax, std::byte{21});
    std::vector<std::byte> place(kSizeMax);
    auto call = greeting::must(client.prepare({greeting::kProgram, greeting::kVersion, kDouble}));
    call.arguments().bulk(data);
    call.place_result(place);
    auto reply = greeting::must(client.call(std::move(call)));
    const auto result = greeting::must(reply.decode(
        [](rpcrdma::MessageReader& results) { return results.bulk(kSizeMax, "result"); }));
    std::printf("over '%s': %zu bytes of %d, in place: %d\n",
                std::string(client.connection().provider_name).c_str(), result.size(),
                std::to_integer<int>(result.back()), result.data() == place.data() ? 1 : 0);
  }
  server.stop();
  serving.join();
  return 0;
}
