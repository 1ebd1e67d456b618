#pragma once

namespace hooked::cli {

/// The program `hooked`. Returns its exit code: 0, 1 (failed) or 2 (the command line is wrong). Never throws.
int run_program(int argc, const char* const* argv);

}  // namespace hooked::cli
