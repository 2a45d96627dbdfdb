#include "support/generated_files.h"

#include "every_random.h"
#include "nfs3_random.h"

namespace rpcrdma::test {

GeneratedValues values_of_nfs3() {
  return values_of_all_types([](auto visit) { ::nfs3::visit_types(visit); });
}
GeneratedValues values_of_every() {
  return values_of_all_types([](auto visit) { ::every::visit_types(visit); });
}

}  // namespace rpcrdma::test
