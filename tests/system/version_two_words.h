// Encodes and decodes messages of RPC-over-RDMA version two as 32-bit words. It is written from the
// drafts alone (draft-cel-nfsv4-rpcrdma-version-two-01, draft-dnoveck-nfsv4-rpcrdma-xcharext-02)
// and shares nothing with the library's own codec, so that a mistake there does not hide itself.
#ifndef RPCRDMA_TESTS_SYSTEM_VERSION_TWO_WORDS_H_
#define RPCRDMA_TESTS_SYSTEM_VERSION_TWO_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::test::draft {

using Words = std::vector<std::uint32_t>;

// rdma_proc, rdma_direction, rdma_err, rdma_opttype, and the ids of characteristics.
enum Proc : std::uint32_t { kMsg = 0, kNomsg = 1, kError = 4, kOptional = 5 };
enum Direction : std::uint32_t { kCall = 0, kReply = 1 };
enum ErrorCode : std::uint32_t { kErrVers = 1, kErrBadHeader = 2, kErrInvalOption = 3 };
enum OptionType : std::uint32_t { kInitxch = 1, kReqxch = 2, kRespxch = 3, kUpdxch = 4 };
enum Characteristic : std::uint32_t { kRbsiz = 1, kReqreminv = 2, kBrs = 3 };
enum Brs : std::uint32_t { kBrsNone = 0, kBrsInline = 1, kBrsGeneral = 2 };

std::vector<std::byte> bytes_of(const Words& words);
// Leaves out bytes at the end that are no whole word.
Words words_of(Bytes bytes);
Words join(std::initializer_list<Words> parts);

// --- Messages

inline const Words kNoLists{0, 0, 0};

Words prefix(std::uint32_t xid, std::uint32_t credit, std::uint32_t proc, std::uint32_t vers = 2);
Words msg(std::uint32_t xid, std::uint32_t credit, std::uint32_t direction, const Words& payload,
          const Words& lists = kNoLists);
Words nomsg(std::uint32_t xid, std::uint32_t credit, std::uint32_t direction, const Words& lists);
Words error(std::uint32_t xid, std::uint32_t credit, std::uint32_t code);
Words error_vers(std::uint32_t xid, std::uint32_t credit, std::uint32_t low, std::uint32_t high,
                 std::uint32_t vers = 2);
Words option(std::uint32_t xid, std::uint32_t credit, std::uint32_t direction, std::uint32_t type,
             const Words& info);

// Encode the information of an option. A value is its id, its length in bytes and its data.
Words value(std::uint32_t id, std::uint32_t data);
Words spec(std::initializer_list<Words> values);
Words initxch(std::initializer_list<Words> values, const Words& nochg_bits = {});
Words respxch(std::uint32_t done, std::uint32_t rejected, std::uint32_t pending);
Words updxch(const Words& value, bool clears_pending);

// Encode a Call (RFC 5531) with AUTH_NONE, and an accepted, successful reply.
Words rpc_call(std::uint32_t xid, std::uint32_t program, std::uint32_t version,
               std::uint32_t procedure, const Words& arguments = {});
Words rpc_reply(std::uint32_t xid, const Words& results = {});

// Names a run of memory that a peer has exposed.
struct Segment {
  std::uint32_t handle = 0, size = 0;
  std::uint64_t offset = 0;
  bool operator==(const Segment&) const = default;
};
Words read_entry(std::uint32_t position, const Segment& segment);  // of a Read list, with its 1
Words chunk_of(const Segment& segment);                            // a Write chunk, with its count

// --- Decoded messages

struct Value {
  std::uint32_t id = 0;
  Words data;  // as whole words
};

struct Seen {
  std::uint32_t xid = 0, vers = 0, credit = 0, proc = 0;
  std::uint32_t direction = 0;  // MSG, NOMSG, OPTIONAL
  std::vector<std::pair<std::uint32_t, Segment>> reads;
  std::vector<std::vector<Segment>> writes;
  bool has_reply_chunk = false;
  std::vector<Segment> reply_chunk;
  Words payload;  // MSG, OPTIONAL: what follows the header
  std::uint32_t error = 0, low = 0, high = 0;
  std::uint32_t option = 0;  // type of an OPTIONAL
  Words info;

  bool is(Proc wanted) const { return proc == wanted; }
  bool is_option(OptionType type) const { return proc == kOptional && option == type; }
  bool is_error(ErrorCode code) const { return proc == kError && error == code; }
  bool is_msg(Direction wanted) const { return proc == kMsg && direction == wanted; }
};
std::string to_string(const Seen& seen);

// Decodes a message of version 2, or an ERR_VERS or MSG of version 1; nullopt if anything in it is
// other than the XDR of the draft, including bytes behind a header that ends its message.
std::optional<Seen> decode(const Words& message);

// Decodes the values of an INITXCH or REQXCH; the subset of an INITXCH goes to `nochg`. nullopt: it
// is neither, or does not decode.
std::optional<std::vector<Value>> decode_values(const Seen& option, Words* nochg = nullptr);
struct Answer {
  Words done, rejected, pending;
};
std::optional<Answer> decode_respxch(const Seen& option);
struct Update {
  Value now;
  bool clears_pending = false;
};
std::optional<Update> decode_updxch(const Seen& option);

}  // namespace rpcrdma::test::draft

#endif  // RPCRDMA_TESTS_SYSTEM_VERSION_TWO_WORDS_H_
