// rpcrdma-gen over any text: it is refused with messages, or accepted without errors; it never
// takes long nor much memory, and the same text always makes the same files.
//
// Input: the text of a .x file.
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "gen/compiler.h"

namespace rpcrdma::fuzz {
namespace {

constexpr std::size_t kMessagesMax = std::size_t{256} << 10U;  // bytes
// One byte of input can become this: a constant, a declaration in each function of its type.
constexpr std::size_t kFilesMax = std::size_t{64} << 10U;  // bytes, and besides
constexpr std::size_t kBytesPerByteMax = 2000;

bool same(const gen::Compiled& a, const gen::Compiled& b) {
  return a.ok == b.ok && a.messages == b.messages && a.stem == b.stem && a.header == b.header &&
         a.source == b.source && a.fields == b.fields && a.random == b.random;
}

constexpr std::string_view kName = "fuzz-gen.x:";

// Returns whether one of the messages is an error: NAME:LINE:COLUMN: error: … at the start of a
// line. The rest shows the source, where anything may stand.
bool has_error(std::string_view messages) {
  for (std::size_t at = 0; at < messages.size(); at = messages.find('\n', at) + 1) {
    const std::string_view line = messages.substr(at, messages.find('\n', at) - at);
    if (!line.starts_with(kName)) continue;
    const std::size_t column = line.find(':', kName.size());
    const std::size_t end = line.find(": ", column + 1);
    if (line.substr(end).starts_with(": error: ")) return true;
  }
  return false;
}

void compile(std::string_view text) {
  if (text.find(kName) != std::string_view::npos) return;  // a line that looks like a message
  const gen::CompileOptions options{
      .name = "fuzz-gen.x", .namespace_name = {}, .fields = true, .random = true};
  const gen::Compiled made = gen::compile(text, options);
  FUZZ_CHECK(made.messages.empty() || made.messages.ends_with('\n'), "half a message");
  FUZZ_CHECK(has_error(made.messages) == !made.ok, "accepted with an error, or refused without");
  if (made.ok) {
    FUZZ_CHECK(!made.header.empty() && !made.source.empty() && !made.fields.empty() &&
                   !made.random.empty(),
               "accepted, and nothing was made");
  } else {
    FUZZ_CHECK(
        made.header.empty() && made.source.empty() && made.fields.empty() && made.random.empty(),
        "refused, and something was made");
  }
  FUZZ_CHECK(made.stem == "fuzz-gen", "the stem depends on the text");
  FUZZ_CHECK(made.messages.size() <= kMessagesMax, "more messages than anybody reads");
  FUZZ_CHECK(made.header.size() + made.source.size() + made.fields.size() + made.random.size() <=
                 kFilesMax + kBytesPerByteMax * text.size(),
             "far more is made than was read");
  FUZZ_CHECK(same(made, gen::compile(text, options)), "the same text makes other files");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(gen) {
  const std::string text(data, data + size);
  rpcrdma::fuzz::compile(text);
  return 0;
}
