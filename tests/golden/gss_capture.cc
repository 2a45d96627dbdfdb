#include "golden/gss_capture.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "rpc/serve/call_auth.h"
#include "rpcrdma/xdr.h"
#include "support/hex.h"

namespace rpcrdma::test {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& line) {
  throw std::runtime_error(path + ": cannot read \"" + line.substr(0, 60) + "\"");
}

// FNV-1a.
constexpr std::uint64_t kDigestBegin = 0xcbf29ce484222325;
std::uint64_t extended(std::uint64_t digest, std::string_view text) noexcept {
  for (const char each : text) {
    digest = (digest ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  }
  return digest;
}

}  // namespace

GssCapture load_gss_capture(const std::string& name) {
  const std::string path = std::string(RPCRDMA_GOLDEN_DIR) + "/gss/" + name + ".messages";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  GssCapture capture;
  std::size_t missing = 0;  // bytes of the last message
  std::uint64_t digest = kDigestBegin;
  for (std::string line; std::getline(file, line); digest = extended(digest, line + '\n')) {
    if (missing > 0) {
      const auto bytes = hex(line);
      if (bytes.empty() || bytes.size() > missing) refuse(path, line);
      missing -= bytes.size();
      auto& message = capture.messages.back().bytes;
      message.insert(message.end(), bytes.begin(), bytes.end());
      continue;
    }
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "key") {
      std::string handle, key;
      krb5_enctype type = 0;
      words >> handle >> type >> key;
      capture.keys.push_back({hex(handle), {type, hex(key)}});
    } else if (what == ">" || what == "<") {
      std::string transport, seconds;
      words >> transport >> seconds >> missing;
      capture.messages.push_back({what == ">", line, {}});
      if (missing == 0) refuse(path, line);
    } else if (what == "end") {
      std::uint64_t expected = 0;
      words >> std::hex >> expected;
      if (expected != digest) throw std::runtime_error(path + " was changed");
      return capture;
    } else {
      refuse(path, line);
    }
    if (words.fail()) refuse(path, line);
  }
  throw std::runtime_error(path + " has no end");
}

std::string name_of_test(std::string name) {
  std::ranges::replace_if(
      name, [](char each) { return std::isalnum(static_cast<unsigned char>(each)) == 0; }, '_');
  return name;
}

std::optional<GssCall> open_gss_call(Bytes message) {
  xdr::Reader reader(message);
  const auto header = oncrpc::decode_call(reader);
  if (!header || header->credential.flavor != AuthFlavor::kRpcsecGss) return std::nullopt;
  const auto credential = gss::decode_credential(header->credential.body);
  if (!credential || credential->version != gss::kVersion) return std::nullopt;
  rpc::CallAuth server;  // what it shows to ServerGss
  server.name(*header, message);
  return GssCall{*header, *credential, server.call.header, reader.rest()};
}

}  // namespace rpcrdma::test
