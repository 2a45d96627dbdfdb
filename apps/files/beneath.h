// Opens files of a directory, and nothing that lies outside of it.
#ifndef RPCRDMA_FILES_BENEATH_H_
#define RPCRDMA_FILES_BENEATH_H_

#include <cstdint>
#include <string>

#include "files/file.h"

namespace files {

// kAuto: by openat2(RESOLVE_BENEATH), or by hand where the kernel or a seccomp filter refuses that.
// kInMemory: only if the kernel has the whole way in memory, and it stays in the directory's file
// system, so that opening waits for no disk and asks no other machine. EAGAIN or EXDEV where it is
// otherwise, EINVAL or ENOSYS where the kernel cannot say that (Linux before 5.12).
enum class Resolving : std::uint8_t { kAuto, kByHand, kInMemory };

// Opens `path` below the directory, as openat(2) does with `flags` (no O_CREAT). Symbolic links are
// followed as long as they stay below; one that is absolute, or leaves the directory on its way,
// fails with EXDEV. Not open (and errno set) on failure.
File open_beneath(int directory, const std::string& path, int flags,
                  Resolving resolving = Resolving::kAuto);

}  // namespace files

#endif  // RPCRDMA_FILES_BENEATH_H_
