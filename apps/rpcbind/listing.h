// Lists all programs that an rpcbind knows: the daemon of a host, or a server's own (service.h).
#ifndef RPCRDMA_RPCBIND_LISTING_H_
#define RPCRDMA_RPCBIND_LISTING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpcbinding {

struct ListingOptions {
  std::size_t entries_max = 4096;
  std::uint32_t reply_size_max = 512U << 10U;  // bytes; a longer reply is an error
};

// A registration as the peer gives it. Nothing in it was checked; texts have up to kTextMax bytes.
struct ListedProgram {
  static constexpr std::uint32_t kTextMax = 1024;

  std::uint32_t program = 0;
  std::uint32_t version = 0;
  std::string netid;
  std::string address;  // universal, in the form of the netid
  std::string owner;    // empty from a port mapper, which knows of none
};

struct Listing {
  std::vector<ListedProgram> programs;
  std::uint32_t rpcbind_version = 0;  // the newest that answered: 4, 3, or 2 of a port mapper
  bool is_cut = false;                // it had more than entries_max
};

// Asks for the list (RPCBPROC_DUMP, else PMAPPROC_DUMP). kNotAvailable: there is no rpcbind at this
// port. kBadReply: the answer is no list.
Expected<Listing, Error> list_programs(Client& client, const ListingOptions& options = {});

// Returns "ADDR:PORT" of a universal address of netids rdma, tcp, udp and theirs of IPv6; empty: it
// is none.
std::string endpoint_text(const ListedProgram& listed);

// Returns the name by which people know the program, such as "nfs"; empty: it has none here.
std::string program_name(std::uint32_t program);

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_LISTING_H_
