// Keeps the verifier of an exclusive CREATE in the file's times, RFC 1813 §3.3.8.
#ifndef RPCRDMA_NFS_BACK_END_VERIFIER_TIMES_H_
#define RPCRDMA_NFS_BACK_END_VERIFIER_TIMES_H_

#include <sys/stat.h>

#include <cstdint>
#include <cstring>

#include "nfs3.h"

namespace nfs {

// Keeps its 64 bits in what every file system keeps: times of 31 bits for seconds, and the two bits
// that are left in the owner's rights, which are nothing to a file without data.
struct VerifierTimes {
  explicit VerifierTimes(const nfs3::createverf3& verifier) {
    std::uint32_t words[2];  // NOLINT(modernize-avoid-c-arrays): memcpy
    static_assert(sizeof(words) == sizeof(verifier));
    std::memcpy(words, verifier.data(), sizeof(words));
    access.tv_sec = words[0] & 0x7fffffffU;
    change.tv_sec = words[1] & 0x7fffffffU;
    mode = (words[0] >> 31U != 0 ? S_IRUSR : 0U) | (words[1] >> 31U != 0 ? S_IWUSR : 0U);
  }
  // Nobody has written a file yet whose CREATE the client makes again.
  bool are_those_of(const struct stat& status) const {
    return status.st_size == 0 && (status.st_mode & (S_IRUSR | S_IWUSR)) == mode &&
           status.st_atim.tv_sec == access.tv_sec && status.st_mtim.tv_sec == change.tv_sec &&
           status.st_atim.tv_nsec == 0 && status.st_mtim.tv_nsec == 0;
  }
  mode_t mode = 0;  // of the new file
  timespec access{}, change{};
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_VERIFIER_TIMES_H_
