#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hooked {

/// The JSON inside the HTML of a page.
inline nlohmann::json page_data(const std::string& html) {
  constexpr std::string_view kOpen = "<script type=\"application/json\" id=\"data\">";
  const auto begin = html.find(kOpen) + kOpen.size();
  return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

}  // namespace hooked
