#include "blob/sha256.h"

#include <openssl/evp.h>

#include <new>

namespace blob {

void Sha256Stream::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new()) {
  if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
}

Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::add(rpcrdma::Bytes data) {
  EVP_DigestUpdate(context_.get(), data.data(), data.size());
}

blob_sum Sha256Stream::finish() {
  blob_sum result{};
  EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(result.data()), nullptr);
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  return result;
}

std::string to_hex(rpcrdma::Bytes bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

}  // namespace blob
