// Items that hosts have in a table of bounded size, in the order in which they were used last. It
// says which one goes when another one comes and there is no room: a host that makes many takes the
// place of its own, not that of others.
#ifndef RPCRDMA_GSS_USE_ORDER_H_
#define RPCRDMA_GSS_USE_ORDER_H_

#include <cstddef>
#include <list>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace rpcrdma::gss {

class UseOrder {
 public:
  // A host with so many items or fewer has no more than its share, whatever others have: a peer may
  // have many addresses.
  explicit UseOrder(std::size_t few = 0) noexcept : few_(few) {}

  class Item {
   public:
    explicit Item(std::string host) : host_(std::move(host)) {}
    Item(const Item&) = delete;
    Item& operator=(const Item&) = delete;
    const std::string& host() const noexcept { return host_; }

   protected:
    ~Item() = default;

   private:
    friend class UseOrder;
    const std::string host_;
    // They are valid while it is in an order.
    std::list<Item*>::iterator place_{}, place_of_host_{};
  };

  // Items outlive their time in the order. These take the same time however many items there are,
  // and with the number of hosts that of a look into a tree.
  void add(Item& item);
  void remove(Item& item);
  void use(Item& item) noexcept;

  std::size_t size() const noexcept { return all_.size(); }
  std::size_t size_of(const std::string& host) const;

  // Returns the item that was used longest ago: that of the host with most items, if it has more
  // than an equal share, else that of all. Precondition: there is an item.
  Item& next_to_go() noexcept;
  Item& oldest_of(const std::string& host);  // precondition: it has one

 private:
  using Items = std::list<Item*>;  // the most recently used first
  void set_rank(Items& of_host, std::size_t before);

  const std::size_t few_;
  Items all_;
  std::unordered_map<std::string, Items> hosts_;  // that have items
  std::set<std::pair<std::size_t, Items*>>
      ranks_;  // each host's number of items, the most at the end
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_USE_ORDER_H_
