// Bytes as people write them, for tests.
#ifndef RPCRDMA_TESTS_SUPPORT_HEX_H_
#define RPCRDMA_TESTS_SUPPORT_HEX_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::test {

// The bytes of pairs of hexadecimal digits. White space separates but means nothing, except inside
// a pair, where it is refused; '#' starts a comment that ends with its line. Throws
// std::invalid_argument for anything else: a vector with a typing error must not pass for a test.
std::vector<std::byte> hex(std::string_view text);

// The same for the content of a file. Throws std::runtime_error when it cannot be read.
std::vector<std::byte> load_hex(const std::string& path);

// Words of eight digits, separated by blanks; for messages of failed expectations.
std::string to_hex(Bytes bytes);

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_HEX_H_
