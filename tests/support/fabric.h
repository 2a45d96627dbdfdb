// The parameter of tests that run the same over each provider.
#ifndef RPCRDMA_TESTS_SUPPORT_FABRIC_H_
#define RPCRDMA_TESTS_SUPPORT_FABRIC_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "tests/support/rpc_fixture.h"

namespace rpcrdma::test {

struct Fabric {
  const char* name;
  std::function<std::unique_ptr<Network>()> make;
};

inline void PrintTo(const Fabric& fabric, std::ostream* out) {
  *out << fabric.name;
}

inline std::string name_of_fabric(const ::testing::TestParamInfo<Fabric>& tested) {
  return tested.param.name;
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_FABRIC_H_
