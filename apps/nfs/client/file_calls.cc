#include "nfs/client/file_calls.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace nfs {
namespace {

// Moves a reply out as it is.
constexpr auto kWhole = [](auto& reply) {
  return Result<std::decay_t<decltype(reply)>>(std::move(reply));
};

std::optional<nfs3::fattr3> known(const nfs3::post_op_attr& attributes) {
  const nfs3::fattr3* const found = attributes.attributes();
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

rpcrdma::Unexpected<Failure> contradiction() {
  return rpcrdma::Unexpected<Failure>(Failure::here("the server's answer contradicts itself"));
}

// For a slot of a connection that has as many calls as it may have.
constexpr Turns::Clock::duration kPauseForASlot = std::chrono::milliseconds(1);
constexpr Turns::Clock::duration kPauseMin = std::chrono::milliseconds(50);
constexpr Turns::Clock::duration kPauseMax = std::chrono::seconds(2);

template <class T>
bool is_too_busy(const T& reply) {
  if constexpr (requires { reply.status(); }) {
    return reply.status() == nfs3::nfsstat3::NFS3ERR_JUKEBOX;
  } else {
    return reply.status == nfs3::nfsstat3::NFS3ERR_JUKEBOX;
  }
}

}  // namespace

template <class T, class Begin, class Take>
FileCalls::Reply<T> FileCalls::call(CallAs as, Begin begin, Take take) {
  const auto deadline = std::min(Turns::Clock::now() + call_maker_.patience(), as.deadline);
  for (auto pause = kPauseMin;;) {
    auto reply = co_await call_maker_.call<T>(as, begin, take);
    const bool has_no_slot =
        !reply && reply.error().error && reply.error().error->code == rpcrdma::Errc::kTooManyCalls;
    const bool goes_again = has_no_slot || (reply && is_too_busy(*reply));
    const auto now_pause = has_no_slot ? kPauseForASlot : pause;
    const bool is_last = turns_ == nullptr || Turns::Clock::now() + now_pause >= deadline;
    if (is_last || !goes_again) co_return reply;
    if (!has_no_slot) pause = std::min(pause * 2, kPauseMax);
    co_await turns_->pause(now_pause);
  }
}

FileCalls::Reply<nfs3::LOOKUP3res> FileCalls::look_up(Args<nfs3::LOOKUP3args> args, CallAs as) {
  const nfs3::LOOKUP3args& named = args;
  co_return co_await call<nfs3::LOOKUP3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_LOOKUP_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::GETATTR3res> FileCalls::get_attributes(Args<nfs3::GETATTR3args> args,
                                                              CallAs as) {
  const nfs3::GETATTR3args& named = args;
  co_return co_await call<nfs3::GETATTR3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_GETATTR_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::SETATTR3res> FileCalls::set_attributes(Args<nfs3::SETATTR3args> args,
                                                              CallAs as) {
  const nfs3::SETATTR3args& named = args;
  co_return co_await call<nfs3::SETATTR3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_SETATTR_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::ACCESS3res> FileCalls::access(Args<nfs3::ACCESS3args> args, CallAs as) {
  const nfs3::ACCESS3args& named = args;
  co_return co_await call<nfs3::ACCESS3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_ACCESS_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::WRITE3res> FileCalls::write(Args<nfs3::WRITE3args> args, CallAs as) {
  const nfs3::WRITE3args& named = args;
  co_return co_await call<nfs3::WRITE3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_WRITE_async(named, how); },
      [&](nfs3::WRITE3res& reply) -> Result<nfs3::WRITE3res> {
        const auto* const done = reply.resok();
        if (done != nullptr &&
            (done->count > named.count || (done->count == 0 && named.count > 0))) {
          return contradiction();
        }
        return std::move(reply);
      });
}

FileCalls::Reply<nfs3::COMMIT3res> FileCalls::commit(Args<nfs3::COMMIT3args> args, CallAs as) {
  const nfs3::COMMIT3args& named = args;
  co_return co_await call<nfs3::COMMIT3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_COMMIT_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::CREATE3res> FileCalls::create(Args<nfs3::CREATE3args> args, CallAs as) {
  const nfs3::CREATE3args& named = args;
  co_return co_await call<nfs3::CREATE3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_CREATE_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::MKDIR3res> FileCalls::make_directory(Args<nfs3::MKDIR3args> args,
                                                            CallAs as) {
  const nfs3::MKDIR3args& named = args;
  co_return co_await call<nfs3::MKDIR3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_MKDIR_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::SYMLINK3res> FileCalls::make_symbolic_link(Args<nfs3::SYMLINK3args> args,
                                                                  CallAs as) {
  const nfs3::SYMLINK3args& named = args;
  co_return co_await call<nfs3::SYMLINK3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_SYMLINK_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::MKNOD3res> FileCalls::make_node(Args<nfs3::MKNOD3args> args, CallAs as) {
  const nfs3::MKNOD3args& named = args;
  co_return co_await call<nfs3::MKNOD3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_MKNOD_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::REMOVE3res> FileCalls::remove(Args<nfs3::REMOVE3args> args, CallAs as) {
  const nfs3::REMOVE3args& named = args;
  co_return co_await call<nfs3::REMOVE3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_REMOVE_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::RMDIR3res> FileCalls::remove_directory(Args<nfs3::RMDIR3args> args,
                                                              CallAs as) {
  const nfs3::RMDIR3args& named = args;
  co_return co_await call<nfs3::RMDIR3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_RMDIR_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::RENAME3res> FileCalls::rename(Args<nfs3::RENAME3args> args, CallAs as) {
  const nfs3::RENAME3args& named = args;
  co_return co_await call<nfs3::RENAME3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_RENAME_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::LINK3res> FileCalls::link(Args<nfs3::LINK3args> args, CallAs as) {
  const nfs3::LINK3args& named = args;
  co_return co_await call<nfs3::LINK3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_LINK_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::READDIR3res> FileCalls::read_directory(Args<nfs3::READDIR3args> args,
                                                              CallAs as) {
  const nfs3::READDIR3args& named = args;
  co_return co_await call<nfs3::READDIR3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_READDIR_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::READDIRPLUS3res> FileCalls::read_directory_plus(
    Args<nfs3::READDIRPLUS3args> args, CallAs as) {
  const nfs3::READDIRPLUS3args& named = args;
  co_return co_await call<nfs3::READDIRPLUS3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_READDIRPLUS_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::FSSTAT3res> FileCalls::space(Args<nfs3::FSSTAT3args> args, CallAs as) {
  const nfs3::FSSTAT3args& named = args;
  co_return co_await call<nfs3::FSSTAT3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_FSSTAT_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::FSINFO3res> FileCalls::server_limits(Args<nfs3::FSINFO3args> args,
                                                            CallAs as) {
  const nfs3::FSINFO3args& named = args;
  co_return co_await call<nfs3::FSINFO3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_FSINFO_async(named, how); }, kWhole);
}

FileCalls::Reply<nfs3::PATHCONF3res> FileCalls::name_limits(Args<nfs3::PATHCONF3args> args,
                                                            CallAs as) {
  const nfs3::PATHCONF3args& named = args;
  co_return co_await call<nfs3::PATHCONF3res>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_PATHCONF_async(named, how); }, kWhole);
}

FileCalls::Reply<LinkReply> FileCalls::read_link(Args<nfs3::READLINK3args> args, CallAs as) {
  const nfs3::READLINK3args& named = args;
  std::vector<std::byte> place(nfs3::NFS3_PATH_MAX);
  co_return co_await call<LinkReply>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_READLINK_async(named, place, how); },
      [](auto& reply) -> Result<LinkReply> {
        LinkReply taken{.status = reply.status()};
        if (const auto* const found = reply.resok()) {
          taken.attributes = known(found->symlink_attributes);
          taken.target = std::string(found->data);
        } else if (const auto* const refused = reply.resfail()) {
          taken.attributes = known(refused->symlink_attributes);
        }
        return taken;
      });
}

FileCalls::Reply<ReadReply> FileCalls::read(Args<nfs3::READ3args> args, rpcrdma::MutableBytes into,
                                            CallAs as) {
  const nfs3::READ3args& named = args;
  co_return co_await call<ReadReply>(
      as, [&](auto& nfs, auto& how) { return nfs.NFSPROC3_READ_async(named, into, how); },
      [&](auto& reply) -> Result<ReadReply> {
        ReadReply taken{.status = reply.status()};
        if (const auto* const refused = reply.resfail()) {
          taken.attributes = known(refused->file_attributes);
        }
        const auto* const got = reply.resok();
        if (got == nullptr) return taken;
        if (got->data.size() > into.size() || got->count != got->data.size()) {
          return contradiction();
        }
        // A server that reads nothing and has not ended would be asked for ever.
        if (got->count == 0 && !got->eof && named.count > 0) return contradiction();
        // Over TCP the data is in the reply.
        if (got->data.data() != into.data() && !got->data.empty()) {
          std::memcpy(into.data(), got->data.data(), got->data.size());
        }
        taken.attributes = known(got->file_attributes);
        taken.count = got->count;
        taken.is_at_end = got->eof;
        return taken;
      });
}

}  // namespace nfs
