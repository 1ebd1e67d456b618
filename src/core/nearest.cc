#include "core/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

namespace hooked {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

namespace {

// A name in a hostile file can be long; comparing its beginning is enough for a suggestion.
constexpr std::size_t kCompared = 256;

// Of several words with the same beginning, all are suggested if they are at most so many.
constexpr std::size_t kShown = 3;

// One letter of a short word, a quarter of a long one.
std::size_t most_slips(std::string_view wanted) {
  return wanted.size() < 4 ? 1 : std::max<std::size_t>(2, wanted.size() / 4);
}

// The beginning of a word stands for it if it says enough.
bool begins(std::string_view beginning, std::string_view word) {
  return beginning.size() >= 3 && word.starts_with(beginning);
}

}  // namespace

std::string nearest(std::string_view wanted, std::span<const std::string> candidates) {
  wanted = wanted.substr(0, kCompared);
  const auto best = std::min_element(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wanted, a.substr(0, kCompared)) < edit_distance(wanted, b.substr(0, kCompared));
  });
  return best == candidates.end() ? std::string() : *best;
}

std::string nearest_text(std::string_view form, std::string_view wanted,
                         std::span<const std::string> candidates) {
  if (candidates.empty()) return {};
  wanted = wanted.substr(0, kCompared);
  std::string found = nearest(wanted, candidates);
  const std::size_t slips = edit_distance(wanted, std::string_view(found).substr(0, kCompared));
  if (slips > 1) {
    // A beginning says more than several slips.
    std::vector<std::string> whole;
    std::ranges::copy_if(candidates, std::back_inserter(whole),
                         [&](const std::string& one) { return begins(wanted, one); });
    if (whole.empty() && slips > most_slips(wanted)) return {};
    if (whole.size() > kShown) whole.resize(1);
    const bool quoted = form.find("'{}'") != std::string_view::npos;
    if (!whole.empty()) found = fmt::format("{}", fmt::join(whole, quoted ? "' or '" : " or "));
  }
  return fmt::format(fmt::runtime(form), found);
}

}  // namespace hooked
