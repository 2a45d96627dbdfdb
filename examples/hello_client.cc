// Makes one call and prints the answer. usage: hello_client URL NAME
#include <rpcrdma/client.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: hello_client URL NAME\n"), 2;
  auto client = rpcrdma::Client::connect(argv[1]);
  if (!client) return std::fprintf(stderr, "%s\n", client.error().message().c_str()), 1;
  auto call = client->prepare({0x20000001, 1, 1});  // program, version, procedure
  if (!call) return std::fprintf(stderr, "%s\n", call.error().message().c_str()), 1;
  call->arguments().xdr().string(argv[2]);
  auto reply = client->call(std::move(*call));
  if (!reply) return std::fprintf(stderr, "%s\n", reply.error().message().c_str()), 1;
  const auto greeting = reply->decode([](rpcrdma::MessageReader& results) {
    return std::string(results.xdr().string(300, "greeting"));
  });
  if (!greeting) return std::fprintf(stderr, "%s\n", greeting.error().message().c_str()), 1;
  std::printf("%s\n", greeting->c_str());
}
