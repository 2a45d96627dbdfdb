#include "nfs/client/temporary_name.h"

#include <random>
#include <string_view>

namespace nfs {

std::string temporary_name(const std::string& name) {
  static std::random_device device;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  // So many that no two runs meet: a server may execute a CREATE twice, so none asks for O_EXCL.
  constexpr int kRandom = 12;
  constexpr std::size_t kKept = 200;
  std::size_t kept = name.size();
  if (kept > kKept) {
    kept = kKept;
    const auto continues = [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
    };
    while (kept > 0 && continues(name[kept])) --kept;
  }
  std::string text = "." + name.substr(0, kept) + ".rpcrdma-";
  for (int i = 0; i < kRandom; ++i) text += kLetters[device() % kLetters.size()];
  return text;
}

}  // namespace nfs
