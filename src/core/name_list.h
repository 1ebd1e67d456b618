#pragma once

#include <string>
#include <vector>

namespace hooked {

/// Names of files or tensors for a message, escaped and comma-separated: the first 20, and how many more.
std::string name_list(const std::vector<std::string>& names);

}  // namespace hooked
