// The files of tests/golden/gss: RPC messages that two Linux kernels exchanged with RPCSEC_GSS, and
// the keys of their contexts.
#ifndef RPCRDMA_TESTS_GOLDEN_GSS_CAPTURE_H_
#define RPCRDMA_TESTS_GOLDEN_GSS_CAPTURE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "gss/message.h"
#include "oncrpc/message.h"
#include "support/rfc4121_context.h"

namespace rpcrdma::test {

struct GssCapture {
  struct Message {
    bool is_call = false;
    std::string where;  // for the text of failed expectations
    std::vector<std::byte> bytes;
  };
  struct Key {
    std::vector<std::byte> handle;  // of the context
    Rfc4121Key key;
  };
  std::vector<Key> keys;
  std::vector<Message> messages;  // in the order in which they were complete
};

// `name`: of the file, without its extension. Throws std::runtime_error for one that cannot be
// read, or is not what README.txt says.
GssCapture load_gss_capture(const std::string& name);
// The name with letters, digits and '_' only.
std::string name_of_test(std::string name);

// A Call with RPCSEC_GSS as a server sees it; views are into the message.
struct GssCall {
  oncrpc::CallHeader header;
  gss::CredentialBody credential;
  Bytes covered;    // by the verifier
  Bytes arguments;  // protected, or the token of INIT
};
// nullopt: it is none, or it cannot be read.
std::optional<GssCall> open_gss_call(Bytes message);

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_GOLDEN_GSS_CAPTURE_H_
