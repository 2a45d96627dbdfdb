// The blob program: files put, fetched and listed by name. The example that the documents teach
// from.
//
// Every operation may be repeated with the same outcome, so a call that got no answer can be made
// again. All results start with a Status; the rest follows only when it is kOk.
//
//   NULL       0  ()                                   -> ()
//   PUT_BEGIN  1  (upload id, name, size)              -> status
//   PUT_DATA   2  (upload id, offset, data <= 1 MiB)   -> status         data: DDP-eligible
//   PUT_COMMIT 3  (upload id, SHA-256)                 -> status
//   GET        4  (name, offset, count <= 1 MiB)       -> status, end, data   data: DDP-eligible
//   STAT       5  (name)                               -> status, size, time
//   LIST       6  (cookie)                             -> status, next cookie, end, entries
//   SUM        7  (name)                               -> status, SHA-256
//   REMOVE     8  (name)                               -> status
#ifndef RPCRDMA_BLOB_PROTOCOL_H_
#define RPCRDMA_BLOB_PROTOCOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rpcrdma/call.h"

namespace blob {

inline constexpr std::uint32_t kProgram = 0x20020049;
inline constexpr std::uint32_t kVersion = 1;

enum class Number : std::uint32_t {
  kNull = 0,
  kPutBegin = 1,
  kPutData = 2,
  kPutCommit = 3,
  kGet = 4,
  kStat = 5,
  kList = 6,
  kSum = 7,
  kRemove = 8,
};

constexpr rpcrdma::Procedure procedure(Number number) {
  return {kProgram, kVersion, static_cast<std::uint32_t>(number)};
}

inline constexpr std::uint32_t kNameSizeMax = 255;         // bytes
inline constexpr std::uint32_t kDataSizeMax = 1U << 20U;   // bytes in one PUT_DATA or GET
inline constexpr std::uint32_t kListSizeMax = 64U << 10U;  // bytes of the results of LIST
inline constexpr std::uint32_t kListEntriesMax = 4096;     // entries in one LIST

using UploadId = std::array<std::byte, 16>;  // chosen by the client at random
using Sha256 = std::array<std::byte, 32>;

enum class Status : std::uint32_t {
  kOk = 0,
  kNoSuchBlob = 1,
  kNoSuchUpload = 2,  // PUT_BEGIN it first
  kBadName = 3,       // empty, over 255 bytes, with '/' or NUL, "." or "..", or reserved
  kConflict = 4,      // the upload id is in use for another name or size
  kBadRange = 5,      // data beyond the size that PUT_BEGIN announced
  kIncomplete = 6,    // PUT_COMMIT before all data was there
  kSumMismatch = 7,   // what arrived is not what was sent; the upload is gone
  kNoSpace = 8,       // the server's disk (or quota) is full
  kIoError = 9,       // the server's disk failed
};

constexpr std::string_view to_string(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kNoSuchBlob:
      return "no such file on the server";
    case Status::kNoSuchUpload:
      return "the server knows no such upload";
    case Status::kBadName:
      return "the name is empty, too long, reserved, or has a '/' in it";
    case Status::kConflict:
      return "the upload id is in use for another file";
    case Status::kBadRange:
      return "data beyond the announced size";
    case Status::kIncomplete:
      return "not all data has arrived";
    case Status::kSumMismatch:
      return "the SHA-256 of what arrived is not that of what was sent";
    case Status::kNoSpace:
      return "no space left on the server's disk";
    case Status::kIoError:
      return "the server's disk failed";
  }
  return "unknown status";
}

}  // namespace blob

#endif  // RPCRDMA_BLOB_PROTOCOL_H_
