// The program that the examples speak: procedure 1 takes a name and gives a greeting.
#ifndef RPCRDMA_EXAMPLES_GREETING_H_
#define RPCRDMA_EXAMPLES_GREETING_H_

#include <poll.h>
#include <rpcrdma/client.h>
#include <rpcrdma/function_service.h>
#include <rpcrdma/server.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

namespace greeting {

inline constexpr std::uint32_t kProgram = 0x20000001;
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kGreet = 1;

// The value, or the end of the program with the error's words.
template <class T>
T must(rpcrdma::Expected<T, rpcrdma::Error> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline std::string url(const rpcrdma::Server& server) {
  return "rdma://" + std::string(server.address());
}

inline rpcrdma::AcceptStatus answer(rpcrdma::CallContext& call, const std::string& greeting) {
  const std::string name(call.arguments().xdr().string(255, "name"));
  if (!call.arguments().finish()) return rpcrdma::AcceptStatus::kGarbageArgs;
  call.results().xdr().string(greeting + name);
  return rpcrdma::AcceptStatus::kSuccess;
}

// A client of a server on this very thread, which has to do its part of the set-up meanwhile.
inline rpcrdma::Client connect_to(rpcrdma::Server& server) {
  auto client = must(rpcrdma::Client::begin_connect(url(server)));
  while (!client.connected() && !client.ended()) {
    pollfd fds[] = {{server.wait_fd(), POLLIN, 0}, {client.wait_fd(), POLLIN, 0}};
    if (::poll(fds, 2, 10'000) < 0) break;
    server.progress();
    client.progress();
  }
  return client;
}

// A call that is ready to be made.
inline rpcrdma::Call greet(rpcrdma::Client& client, const std::string& name) {
  rpcrdma::Call call = must(client.prepare({kProgram, kVersion, kGreet}));
  call.arguments().xdr().string(name);
  return call;
}

inline std::string text(rpcrdma::Reply& reply) {
  return must(reply.decode([](rpcrdma::MessageReader& results) {
    return std::string(results.xdr().string(300, "greeting"));
  }));
}

}  // namespace greeting

#endif  // RPCRDMA_EXAMPLES_GREETING_H_
