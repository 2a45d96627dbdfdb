// The server's side of a connection, whose client the tests play.
#ifndef RPCRDMA_ENGINE_SERVER_FOR_TEST_H_
#define RPCRDMA_ENGINE_SERVER_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "engine/endpoint_for_test.h"

namespace rpcrdma::engine {

inline constexpr Xid kXid{0x11223344};

inline wire::v1::Header call_header(wire::v1::Body body = wire::v1::Msg{}) {
  return {kXid, 1, 8, body};
}

inline void add_read(wire::ChunkLists& lists, std::uint32_t position, std::uint32_t length,
                     std::uint32_t handle = 7) {
  ASSERT_TRUE(lists.reads.push_back({position, {SteeringTag{handle}, length, 100}}));
}

class Server : public testing::Test {
 protected:
  void reply(CallId call, std::uint32_t size = 24) { reply(server, call, size); }
  static void reply(Endpoint& by, CallId call, std::uint32_t size = 24) {
    const Fragment run{Lease{50}, size, 0, 0};
    Outgoing outgoing;
    outgoing.stream = {&run, 1};
    by.engine.responder().start_reply(call, outgoing);
    by.drain();
  }
  Endpoint server{Role::kServer, small()};
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_SERVER_FOR_TEST_H_
