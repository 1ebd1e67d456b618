#include "hooked/hooks/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>

#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"
#include "hooks/meant_name.h"

namespace hooked {

bool glob_matches(std::string_view pattern, std::string_view text) noexcept {
  // Backtracks to the last star only, so time is at most |pattern| * |text|.
  std::size_t p = 0, t = 0, star = std::string_view::npos, resumed = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resumed = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resumed;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Selection::Selection(act::BlockSite site) : Selection(Part(site.site)) {}
Selection::Selection(act::ExpertSite site) : Selection(Part(site.site)) {}
Selection::Selection(act::ModelSite site) : Selection(Part(ActivationName{.site = site.site})) {}
Selection::Selection(act::DictionarySite site) : Selection(Part(site.site)) {}
Selection::Selection(act::Defaults defaults) : Selection(Part(defaults)) {}
Selection::Selection(act::Everything everything) : Selection(Part(everything)) {}
Selection::Selection(const ActivationName& name) : Selection(Part(name)) {}

Selection::Selection(const Address& address) : Selection(Part(address.name())) {
  if (!address.indices().empty()) {
    throw HookError(
        address.to_string(),
        fmt::format(
            "a selection takes whole activations; expected a name without indices, '{}'; index the kept "
            "tensor, or choose positions with `keep.positions` of a run's options",
            address.name().to_string()));
  }
}

Selection Selection::matching(Predicate predicate) { return Selection(Part(std::move(predicate))); }

Selection Selection::of_text(std::string_view texts) {
  Selection selection;
  if (const auto bracket = texts.find('['); bracket != std::string_view::npos) {
    const auto first = texts.substr(0, bracket).find_last_of(", ") + 1;  // 0 if there is none
    const auto end = std::min(texts.find(']', bracket), texts.size() - 1);
    require_no_indices(texts.substr(first, end - first + 1));
  }
  while (true) {
    const auto comma = texts.find(',');
    std::string_view text = texts.substr(0, comma);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    text.remove_suffix(text.size() - (text.find_last_not_of(' ') + 1));
    if (text.empty()) {
      throw HookError(texts, "this list contains an empty name; expected names or globs separated by commas");
    }
    selection.parts_.emplace_back(Text{std::string(text)});
    if (comma == std::string_view::npos) return selection;
    texts.remove_prefix(comma + 1);
  }
}

Selection Selection::with(const Selection& other) const {
  Selection both = *this;
  both.parts_.insert(both.parts_.end(), other.parts_.begin(), other.parts_.end());
  return both;
}

namespace {

std::size_t require_reached(const ActivationName& name, const PointIndex& points, const Reach& reach) {
  const std::size_t point = points.require(name);
  if (!reach.contains(points.name(point))) {
    throw HookError(
        points.name(point).to_string(),
        fmt::format("this run does not reach this activation: it computes blocks {} to {}{}{}; change "
                    "start_at_layer, stop_at_layer or output",
                    reach.first_block, reach.end_block - 1, reach.entry ? " and the embedding" : "",
                    reach.exit ? " and the unembedding" : ""));
  }
  return point;
}

// The site in blocks or dictionaries that a word such as `pattern` means.
std::optional<Site> repeated_site_of(std::string_view word) {
  for (const SiteRow& row : site_table()) {
    const bool repeated = row.scope == SiteScope::block || row.scope == SiteScope::dictionary;
    if (repeated && row.word == word) return row.site;
  }
  return std::nullopt;
}

// Whether a glob of words, such as `resid_*` or `z*`, matches an activation's shorthand, with or without its
// layer.
bool word_matches(std::string_view glob, const ActivationName& name) {
  if (glob.find_first_of("*?") == std::string_view::npos) return false;
  const std::string word(row(name.site).word);
  return glob_matches(glob, word) ||
         (name.layer >= 0 && glob_matches(glob, word + std::to_string(name.layer)));
}

// The one activation that a text names, if it matches none of the model's names.
ActivationName name_of(const std::string& text, const PointIndex& points) {
  if (const auto name = ActivationName::try_parse(text)) return *name;
  if (text.find_first_of("*?.") == std::string::npos) return from_shorthand(text, std::nullopt, {});
  throw HookError(text,
                  fmt::format("no activation of this model matches{}",
                              with_advice(name_meant_by(text, points), "`hooked names` lists them all")));
}

}  // namespace

std::vector<std::size_t> Selection::resolve(const PointIndex& points, const Reach& reach) const {
  std::set<std::size_t> chosen;
  // Adds the reached points that are wanted. The first wanted one, reached or not, distinguishes a name that
  // does not exist from a run that stops too early.
  const auto choose = [&](auto&& wanted) {
    std::optional<ActivationName> first;
    bool any = false;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!wanted(points.name(i))) continue;
      if (!first) first = points.name(i);
      if (!reach.contains(points.name(i))) continue;
      chosen.insert(i);
      any = true;
    }
    if (first && !any) require_reached(*first, points, reach);
    return first.has_value();
  };
  const auto choose_site = [&](Site site) {
    if (choose([&](const ActivationName& name) { return name.site == site; })) return;
    // No layer has it: requiring one throws the error with the reason.
    points.require({site, Stack::none, 0, per_expert(row(site)) ? 0 : -1});
  };
  const auto add = [&](const auto& part) {
    using P = std::decay_t<decltype(part)>;
    if constexpr (std::is_same_v<P, Site>) {
      choose_site(part);
    } else if constexpr (std::is_same_v<P, ActivationName>) {
      chosen.insert(require_reached(part, points, reach));
    } else if constexpr (std::is_same_v<P, Text>) {
      const std::string& text = part.words;
      if (choose([&](const ActivationName& name) { return glob_matches(text, name.to_string()); })) return;
      if (const auto site = repeated_site_of(text)) return choose_site(*site);
      if (choose([&](const ActivationName& name) { return word_matches(text, name); })) return;
      chosen.insert(require_reached(name_of(text, points), points, reach));
    } else {
      for (std::size_t i = 0; i < points.size(); ++i) {
        if (!reach.contains(points.name(i))) continue;
        bool wanted = true;  // act::everything
        if constexpr (std::is_same_v<P, Predicate>) wanted = part(points.name(i));
        if constexpr (std::is_same_v<P, act::Defaults>) wanted = !row(points.name(i).site).wide;
        if (wanted) chosen.insert(i);
      }
    }
  };
  for (const Part& part : parts_) std::visit(add, part);
  return {chosen.begin(), chosen.end()};
}

}  // namespace hooked
