// The latest few answers of a server to ACCESS about one file, each for one user with its groups.
#ifndef RPCRDMA_MOUNT_ACCESS_ANSWERS_H_
#define RPCRDMA_MOUNT_ACCESS_ANSWERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mount/attribute_cache.h"
#include "rpcrdma/oncrpc.h"

namespace mounts {

class AccessAnswers {
 public:
  // Returns those of the bits that the server allows; nullopt: it was not asked for all of them, or
  // too long ago. Without a credential, the user is that of the connections.
  std::optional<std::uint32_t> find(std::uint32_t uid, const rpcrdma::AuthSys* credential,
                                    std::uint32_t bits, Time now) const {
    const auto known = std::ranges::find_if(
        answers_, [&](const Answer& each) { return each.is_for(uid, credential); });
    const bool is_known =
        known != answers_.end() && known->until > now && (known->asked & bits) == bits;
    return is_known ? std::optional(known->allowed & bits) : std::nullopt;
  }
  void note(std::uint32_t uid, const rpcrdma::AuthSys* credential, std::uint32_t asked,
            std::uint32_t allowed, Time until) {
    std::erase_if(answers_, [&](const Answer& each) { return each.is_for(uid, credential); });
    if (answers_.size() >= kAnswersMax) answers_.erase(answers_.begin());
    Answer& made = answers_.emplace_back(Answer{uid, {}, asked, allowed, until});
    if (credential != nullptr) made.credential = *credential;
  }
  void clear() { answers_.clear(); }

 private:
  static constexpr std::size_t kAnswersMax = 8;

  struct Answer {
    std::uint32_t uid = 0;
    std::optional<rpcrdma::AuthSys> credential;  // one user may have programs of several groups
    std::uint32_t asked = 0, allowed = 0;        // ACCESS3_...
    Time until{};

    bool is_for(std::uint32_t of_uid, const rpcrdma::AuthSys* of_credential) const {
      const bool has_one = credential.has_value();
      if (of_uid != uid || has_one != (of_credential != nullptr)) return false;
      return !has_one || *credential == *of_credential;
    }
  };
  std::vector<Answer> answers_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_ACCESS_ANSWERS_H_
