// Owns objects of GSS-API, which have to be released.
#ifndef RPCRDMA_GSS_KRB5_HANDLES_H_
#define RPCRDMA_GSS_KRB5_HANDLES_H_

#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "rpcrdma/types.h"

namespace rpcrdma::gss::krb5 {

// A handle that is released with its owner.
template <class Handle, auto Release>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    OM_uint32 minor = 0;
    if (handle_ != Handle{}) (void)Release(&minor, &handle_);
  }
  Handle get() const noexcept { return handle_; }
  Handle* to_set() noexcept { return &handle_; }

 private:
  Handle handle_{};
};

inline OM_uint32 forget(OM_uint32* minor, gss_ctx_id_t* context) {
  return gss_delete_sec_context(minor, context, GSS_C_NO_BUFFER);
}
using Name = Owned<gss_name_t, &gss_release_name>;
using Credentials = Owned<gss_cred_id_t, &gss_release_cred>;
using SecurityContext = Owned<gss_ctx_id_t, &forget>;

// Bytes that the library has allocated.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    OM_uint32 minor = 0;
    (void)gss_release_buffer(&minor, &buffer_);
  }
  gss_buffer_t to_set() noexcept { return &buffer_; }
  Bytes bytes() const noexcept {
    return {static_cast<const std::byte*>(buffer_.value), buffer_.length};
  }
  std::string_view text() const noexcept {
    return {static_cast<const char*>(buffer_.value), buffer_.length};
  }

 private:
  gss_buffer_desc buffer_{};
};

}  // namespace rpcrdma::gss::krb5

#endif  // RPCRDMA_GSS_KRB5_HANDLES_H_
