// Comments that somebody meant as annotations.
#ifndef RPCRDMA_GEN_NEARNESS_H_
#define RPCRDMA_GEN_NEARNESS_H_

#include <string_view>

namespace rpcrdma::gen {

// The annotation that the text of a comment, which is none, nearly is: another case, other dashes,
// a slip of a letter. Empty if it reads like a comment.
std::string_view nearest_annotation(std::string_view text);

// Counts the letters that are missing, added, replaced or swapped with the next one.
int slips(std::string_view from, std::string_view to);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_NEARNESS_H_
