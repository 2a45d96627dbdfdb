// The adapter where there is no memory: each of its functions is called by C, which no exception
// may cross.
#include <gtest/gtest.h>
#include <rpc/rpc.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "rpcrdma-tirpc.h"
#include "rpcrdma/client.h"
#include "support/tirpc_data.h"

namespace {

// Allocations of this thread until one fails; negative: none does.
thread_local int allocations_left = -1;
bool is_to_fail() {
  return allocations_left >= 0 && allocations_left-- == 0;
}

}  // namespace

// These stay out of their callers: where GCC sees only one half of a pair there, it takes the other
// one for another allocator's (-Wmismatched-new-delete at -O2).
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = is_to_fail() ? nullptr : std::malloc(size != 0 ? size : 1);
  if (memory != nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace rpcrdma::test {
namespace {

constexpr rpcprog_t kMemoryProgram = 0x2001017a;
enum : rpcproc_t { kEcho = 1, kThrows = 2 };

bool_t throw_in_routine(XDR* /*stream*/, void* /*data*/) {
  throw std::bad_alloc();
}

void dispatch_memory(svc_req* request, SVCXPRT* transport) {
  if (request->rq_proc == kThrows) {
    EXPECT_FALSE(svc_getargs(transport, coder(throw_in_routine), nullptr));
    EXPECT_FALSE(svc_freeargs(transport, coder(throw_in_routine), nullptr));
    EXPECT_FALSE(svc_sendreply(transport, coder(throw_in_routine), nullptr));
    return;
  }
  if (request->rq_proc != kEcho) {
    svc_sendreply(transport, coder(xdr_void), nullptr);
    return;
  }
  Data data{0, nullptr};
  if (svc_getargs(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data))) {
    svc_sendreply(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data));
  } else {
    svcerr_decode(transport);
  }
  svc_freeargs(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data));
}

class TirpcAdapterMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::pipe(stop_.data()), 0);
    std::atomic<bool> is_ready = false;
    serving_ = std::thread([&] {
      SVCXPRT* const rendezvous = svc_rdma_create("rdma://127.0.0.1:0");
      url = "rdma://127.0.0.1:" + std::to_string(rendezvous->xp_port);
      EXPECT_TRUE(svc_reg(rendezvous, kMemoryProgram, 1, dispatch_memory, nullptr));
      is_ready = true;
      is_ready.notify_one();
      serve();
      svc_unreg(kMemoryProgram, 1);
      svc_destroy(rendezvous);
    });
    is_ready.wait(false);
  }
  void TearDown() override {
    ::close(stop_[1]);
    serving_.join();
    ::close(stop_[0]);
  }
  void serve() const { test::serve_until(stop_[0]); }
  static clnt_stat echo(CLIENT* client, u_int size) {
    std::vector<char> bytes(size, 'x');
    Data arguments{size, bytes.data()}, results{0, nullptr};
    constexpr timeval kLong{60, 0};
    const clnt_stat status =
        clnt_call(client, kEcho, coder(xdr_data), reinterpret_cast<caddr_t>(&arguments),
                  coder(xdr_data), reinterpret_cast<caddr_t>(&results), kLong);
    std::free(results.bytes);
    return status;
  }
  CLIENT* connect() const { return clnt_rdma_create(url.c_str(), kMemoryProgram, 1, nullptr); }
  static void end(CLIENT* client) {
    if (client == nullptr) return;
    auth_destroy(client->cl_auth);
    clnt_destroy(client);
  }

  std::string url;
  std::array<int, 2> stop_{-1, -1};
  std::thread serving_;
};

// The library itself ends the process where it finds no memory while it connects.
TEST_F(TirpcAdapterMemory, ClientThatCannotBeMadeIsAnError) {
  for (int after = 0; after < 4; ++after) {
    allocations_left = after;
    CLIENT* const client = connect();
    allocations_left = -1;
    EXPECT_EQ(client, nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_SYSTEMERROR) << after;
    end(client);
  }
}

TEST_F(TirpcAdapterMemory, RoutineOfAClientThatThrowsIsAnError) {
  CLIENT* const client = connect();
  ASSERT_NE(client, nullptr);
  constexpr timeval kLong{60, 0};
  EXPECT_EQ(clnt_call(client, 0, coder(throw_in_routine), nullptr, coder(xdr_void), nullptr, kLong),
            RPC_CANTRECV);
  EXPECT_STREQ(clnt_sperror(client, "call"),
               "call: RPC: Unable to receive; errno = Cannot allocate memory");
  EXPECT_EQ(clnt_call(client, 0, coder(xdr_void), nullptr, coder(throw_in_routine), nullptr, kLong),
            RPC_CANTRECV);
  EXPECT_FALSE(clnt_freeres(client, coder(throw_in_routine), nullptr));
  EXPECT_EQ(echo(client, 300'000), RPC_SUCCESS);
  end(client);
}

TEST_F(TirpcAdapterMemory, RoutineOfAServerThatThrowsFailsItsCall) {
  CLIENT* const client = connect();
  ASSERT_NE(client, nullptr);
  constexpr timeval kLong{60, 0};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(clnt_call(client, kThrows, coder(xdr_void), nullptr, coder(xdr_void), nullptr, kLong),
              RPC_SYSTEMERROR);
    EXPECT_EQ(echo(client, 300'000), RPC_SUCCESS);
  }
  end(client);
}

}  // namespace
}  // namespace rpcrdma::test
