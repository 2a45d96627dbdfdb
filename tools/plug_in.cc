#include "tools/plug_in.h"

namespace rpcrdma::tools {

bool is_absent(std::string_view problem) {
  return problem.find(" is neither beside this program nor in ") != std::string_view::npos;
}

}  // namespace rpcrdma::tools
