// Turns the command's help into manual pages and completions of shells. They are made from the
// parser itself, so that they describe what it accepts.
#ifndef RPCRDMA_TOOLS_MANUAL_H_
#define RPCRDMA_TOOLS_MANUAL_H_

#include <string>

#include "tools/options.h"

namespace rpcrdma::tools {

// The manual page of the command, or of one of its subcommands, in man(7).
std::string manual_page(const Command& program, const Command* subcommand);
// A script that completes subcommands, options, their choices, and files.
std::string bash_completion(const Command& program);
std::string zsh_completion(const Command& program);

// Adds `completion` and the hidden `manual` and `options`, which a test compares with
// docs/options.md.
void add_manual(Command& program);
// Adds `help`.
void add_help(Command& program);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_MANUAL_H_
