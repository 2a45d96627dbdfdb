// SHA-256 by OpenSSL's libcrypto.
#ifndef RPCRDMA_BLOB_SHA256_H_
#define RPCRDMA_BLOB_SHA256_H_

#include <memory>
#include <string>

#include "blob.h"
#include "rpcrdma/types.h"

struct evp_md_ctx_st;

namespace blob {

class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  void add(rpcrdma::Bytes data);
  blob_sum finish();  // and starts anew

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string to_hex(rpcrdma::Bytes bytes);

}  // namespace blob

#endif  // RPCRDMA_BLOB_SHA256_H_
