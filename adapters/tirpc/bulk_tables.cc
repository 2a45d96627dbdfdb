#include "bulk_tables.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <span>

#include "libtirpc.h"
#include "settings.h"

namespace rpcrdma::tirpc {

namespace {

struct Node {
  const rpcrdma_tirpc_table* table;
  const Node* next;
};
// Grows in front, by constructors of shared objects and by threads; nothing is ever removed.
std::atomic<const Node*> first_node = nullptr;

}  // namespace

const rpcrdma_tirpc_procedure* find_binding(rpcprog_t program, rpcvers_t version,
                                            rpcproc_t procedure) noexcept {
  for (const Node* each = first_node.load(std::memory_order_acquire); each != nullptr;
       each = each->next) {
    const rpcrdma_tirpc_table& table = *each->table;
    if (table.program != program || table.version != version) continue;
    const std::span procedures(table.procedures, table.count);
    const auto found = std::ranges::find(procedures, procedure, &rpcrdma_tirpc_procedure::number);
    return found != procedures.end() ? &*found : nullptr;
  }
  return nullptr;
}

extern "C" RPCRDMA_TIRPC_EXPORT void rpcrdma_tirpc_add(const rpcrdma_tirpc_table* table) {
  auto* const node = new (std::nothrow) Node{table, first_node.load(std::memory_order_relaxed)};
  if (node == nullptr) return report_failure("a table was not added: there is no memory");
  while (!first_node.compare_exchange_weak(node->next, node, std::memory_order_release,
                                           std::memory_order_relaxed)) {
  }
}

}  // namespace rpcrdma::tirpc
