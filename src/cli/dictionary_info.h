#pragma once

#include <string>

namespace hooked::cli {

/// What `hooked info` says of a dictionary, or of a set of them.
void print_dictionary_info(const std::string& path, bool json);

}  // namespace hooked::cli
