// Where an exclusive CREATE leaves its verifier, RFC 1813 §3.3.8.
#ifndef RPCRDMA_NFS_BACK_END_VERIFIER_TIMES_H_
#define RPCRDMA_NFS_BACK_END_VERIFIER_TIMES_H_

#include <sys/stat.h>

#include <cstdint>
#include <cstring>

#include "nfs3.h"

namespace nfs {

// Its 64 bits as times that every file system keeps: those of 31 bits for seconds.
struct VerifierTimes {
  explicit VerifierTimes(const nfs3::createverf3& verifier) {
    std::uint32_t words[2];  // NOLINT(modernize-avoid-c-arrays): memcpy
    static_assert(sizeof(words) == sizeof(verifier));
    std::memcpy(words, verifier.data(), sizeof(words));
    access.tv_sec = words[0] & 0x7fffffffU;
    change.tv_sec = words[1] & 0x7fffffffU;
  }
  bool are_those_of(const struct stat& status) const {
    return status.st_atim.tv_sec == access.tv_sec && status.st_mtim.tv_sec == change.tv_sec &&
           status.st_atim.tv_nsec == 0 && status.st_mtim.tv_nsec == 0;
  }
  timespec access{}, change{};
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_VERIFIER_TIMES_H_
