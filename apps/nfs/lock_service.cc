#include "nfs/lock_service.h"

#include <utility>

namespace nfs {
namespace {

constexpr nlm4::nlm4_stats kNoLocks = nlm4::nlm4_stats::NLM4_DENIED_NOLOCKS;

// Refuses a lock; the cookie tells the client which of its requests is answered.
template <class Args>
void refuse_lock(rpcrdma::Answer<nlm4::nlm4_res> answer, Args args) {
  answer.succeed({std::move(args.cookie), kNoLocks});
}

void refuse_share(rpcrdma::Answer<nlm4::nlm4_shareres> answer, nlm4::nlm4_shareargs args) {
  answer.succeed({std::move(args.cookie), kNoLocks, 0});
}

}  // namespace

void LockService::NLMPROC4_TEST(Answer<nlm4::nlm4_testres> answer, nlm4::nlm4_testargs arg1) {
  nlm4::nlm4_testres results;
  results.cookie = std::move(arg1.cookie);
  results.test_stat.set_void(kNoLocks);
  answer.succeed(results);
}

void LockService::NLMPROC4_LOCK(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_lockargs arg1) {
  refuse_lock(std::move(answer), std::move(arg1));
}

void LockService::NLMPROC4_CANCEL(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_cancargs arg1) {
  refuse_lock(std::move(answer), std::move(arg1));
}

void LockService::NLMPROC4_UNLOCK(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_unlockargs arg1) {
  refuse_lock(std::move(answer), std::move(arg1));
}

void LockService::NLMPROC4_GRANTED(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_testargs arg1) {
  refuse_lock(std::move(answer), std::move(arg1));
}

void LockService::NLMPROC4_SHARE(Answer<nlm4::nlm4_shareres> answer, nlm4::nlm4_shareargs arg1) {
  refuse_share(std::move(answer), std::move(arg1));
}

void LockService::NLMPROC4_UNSHARE(Answer<nlm4::nlm4_shareres> answer, nlm4::nlm4_shareargs arg1) {
  refuse_share(std::move(answer), std::move(arg1));
}

void LockService::NLMPROC4_NM_LOCK(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_lockargs arg1) {
  refuse_lock(std::move(answer), std::move(arg1));
}

void LockService::NLMPROC4_FREE_ALL(Answer<void> answer, nlm4::nlm4_notify /*arg1*/) {
  answer.succeed();
}

}  // namespace nfs
