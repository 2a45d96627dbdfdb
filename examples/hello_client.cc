// Makes one call and prints the answer. usage: hello_client URL NAME
#include <rpcrdma/short_call.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: hello_client URL NAME\n"), 2;
  auto client = rpcrdma::Client::connect(argv[1]);
  if (!client) return std::fprintf(stderr, "%s\n", client.error().message().c_str()), 1;
  const auto greeting = client->call({0x20000001, 1, 1},  // program, version, procedure
                                     rpcrdma::args(argv[2]), rpcrdma::result<std::string>());
  if (!greeting) return std::fprintf(stderr, "%s\n", greeting.error().message().c_str()), 1;
  std::printf("%s\n", greeting->c_str());
}
