// Headers of the standard library that most of our files include, which a build with
// RPCRDMA_PRECOMPILE reads once. No file includes this one: each has the includes that it needs,
// and make check-release finds the one that lacks some.
#ifndef RPCRDMA_CMAKE_LIBRARY_HEADERS_H_
#define RPCRDMA_CMAKE_LIBRARY_HEADERS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#endif  // RPCRDMA_CMAKE_LIBRARY_HEADERS_H_
