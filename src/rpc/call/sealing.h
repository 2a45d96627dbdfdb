// The RPC header of a call, which is written when the call is sent.
#ifndef RPCRDMA_RPC_CALL_SEALING_H_
#define RPCRDMA_RPC_CALL_SEALING_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "base/assert.h"
#include "oncrpc/message.h"
#include "oncrpc/runs.h"
#include "rpcrdma/auth.h"
#include "rpcrdma/message.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// In front of the arguments: room for the largest RPC header, bytes.
inline constexpr std::size_t kHeaderRoom = oncrpc::kCallHeaderSizeMax;

// As seal_call(). Not inline: the common case is to stay small.
[[gnu::noinline]] inline std::size_t seal_with(MutableBytes stream,
                                               const oncrpc::CallHeader& header,
                                               const CallSeal& seal) noexcept {
  RPCRDMA_ASSERT(header.credential.body.size() <= kAuthBodySizeMax &&
                     header.verifier.body.size() <= kAuthBodySizeMax,
                 "a ClientAuth has set more than a header has room for (RFC 5531 section 8.2)");
  RPCRDMA_ASSERT(!seal.wrapped || !seal.enclosure,
                 "a ClientAuth has both replaced the arguments and enclosed them (auth.h)");
  const Bytes before = seal.enclosure ? seal.enclosure->before : Bytes{};
  const std::size_t size = oncrpc::call_header_size(header);
  RPCRDMA_ASSERT(
      before.size() <= Enclosure::kBeforeSizeMax && size + before.size() <= kHeaderRoom,
      "a ClientAuth has set more in front of the arguments than there is room for (auth.h)");
  const std::size_t start = kHeaderRoom - before.size() - size;
  xdr::Writer writer(stream.subspan(start));
  oncrpc::encode_call(header, writer);
  writer.opaque_fixed(before);
  return start;
}

// Writes the header right in front of the arguments, which begin at kHeaderRoom of `stream`, with
// what is enclosed in front of these; returns where it begins. A call that is made again has a new
// one: a credential may be good for one transmission only.
inline std::size_t seal_call(MutableBytes stream, Xid xid, const Procedure& procedure,
                             const CallSeal& seal) noexcept {
  if (oncrpc::is_plain(seal.credential) && oncrpc::is_plain(seal.verifier) && !seal.enclosure)
      [[likely]] {
    constexpr std::size_t kStart = kHeaderRoom - oncrpc::kCallHeaderSizeMin;
    oncrpc::encode_plain_call(xid, procedure, stream.subspan<kStart, oncrpc::kCallHeaderSizeMin>());
    return kStart;
  }
  return seal_with(stream, {xid, procedure, seal.credential, seal.verifier}, seal);
}

// A control message is a call of procedure 0 of the program, which seal_call() has named another
// one of. Nothing covers the header of a control message.
inline void name_control(MutableBytes stream, std::size_t start) noexcept {
  xdr::store_word(stream.data() + start + 5 * xdr::kWordSize, 0);
}

// The XID of a message that the application has written; nullopt: it does not begin as a Call does.
inline std::optional<Xid> xid_of(const MessageWriter& writer, Bytes stream) noexcept {
  std::array<std::byte, 2 * xdr::kWordSize> start{};  // XID, msg_type
  std::size_t have = 0;
  oncrpc::for_each_run(writer, stream, [&](Bytes run) {
    const std::size_t count = std::min(run.size(), start.size() - have);
    std::ranges::copy(run.first(count), start.begin() + static_cast<std::ptrdiff_t>(have));
    have += count;
  });
  if (have < start.size() || !oncrpc::is_call(start)) return std::nullopt;
  return Xid{xdr::load_word(start.data())};
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_SEALING_H_
