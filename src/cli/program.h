#pragma once

namespace hooked::cli {

/// The program `hooked`. Returns its exit code: 0, 1 (failed), 2 (the command line is wrong) or 130
/// (interrupted; what was done until then is kept). Never throws.
int run_program(int argc, const char* const* argv);

}  // namespace hooked::cli
