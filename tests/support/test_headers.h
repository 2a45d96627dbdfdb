// Headers that most test programs include, which a build with RPCRDMA_PRECOMPILE reads once. No
// file includes this one: each has the includes that it needs, and the presets debug and bench find
// the one that lacks some.
#ifndef RPCRDMA_TESTS_SUPPORT_TEST_HEADERS_H_
#define RPCRDMA_TESTS_SUPPORT_TEST_HEADERS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/server.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

#endif  // RPCRDMA_TESTS_SUPPORT_TEST_HEADERS_H_
