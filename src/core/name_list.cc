#include "core/name_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/json.h"

namespace hooked {
namespace {

constexpr std::size_t kListed = 20;

}  // namespace

std::string name_list(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i) shown.push_back(printable(names[i]));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kListed ? fmt::format(" and {} more", names.size() - kListed) : "");
}

}  // namespace hooked
