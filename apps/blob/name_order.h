// The names in a directory, in an order in which they can be listed page by page.
#ifndef RPCRDMA_BLOB_NAME_ORDER_H_
#define RPCRDMA_BLOB_NAME_ORDER_H_

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace blob {

// A name has its place by itself, so that it is listed once, whatever others come and go between
// two pages. Not safe to use from several threads.
class NameOrder {
 public:
  struct Placed {
    std::uint64_t place;
    std::string name;
  };

  // Returns the place of a name, never 0.
  static std::uint64_t place_of(std::string_view name);

  // Reads the names of the directory, unless it is as it was the last time.
  void read(int directory);
  // Returns the names in their order.
  const std::vector<Placed>& names() const noexcept { return names_; }
  // Gives the memory back; the next read() reads all.
  void forget() noexcept;

 private:
  std::vector<Placed> names_;
  bool is_current_ = false;  // names_ are those of the directory when it was last changed then:
  timespec changed_{};
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_NAME_ORDER_H_
