#pragma once

#include <string>
#include <vector>

namespace hooked::strict {

/// Return addresses in this program, innermost first.
using Frames = std::vector<void*>;

/// Where the calling thread is.
Frames frames_here();

/// ` < function < function`, of the functions of the engine and the tests, innermost first. Asks addr2line,
/// which takes a moment; gives the addresses if it is missing.
std::string described(const Frames& frames);

}  // namespace hooked::strict
