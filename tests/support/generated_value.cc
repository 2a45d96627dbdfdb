#include "support/generated_value.h"

namespace rpcrdma::test {

std::optional<std::vector<std::byte>> encoded(const GeneratedValue& value) {
  std::vector<std::byte> room(value.encoded_size() + 4);
  MessageWriter writer(room);
  value.encode(writer);
  if (!writer.ok()) return std::nullopt;
  std::vector<std::byte> whole;
  std::size_t at = 0;
  for (const BulkItem& item : writer.items()) {
    whole.insert(whole.end(), room.data() + at, room.data() + item.at);
    whole.insert(whole.end(), item.data.begin(), item.data.end());
    at = item.at;
  }
  whole.insert(whole.end(), room.data() + at, room.data() + writer.size());
  return whole;
}

bool decodes(Bytes bytes, GeneratedValue& value) {
  MessageReader reader(bytes, 0, {});
  value.decode(reader);
  return reader.finish();
}

}  // namespace rpcrdma::test
