#include "hooked/hooks/selection.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <type_traits>

#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"

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
Selection::Selection(act::Defaults defaults) : Selection(Part(defaults)) {}
Selection::Selection(act::Everything everything) : Selection(Part(everything)) {}
Selection::Selection(const ActivationName& name) : Selection(Part(name)) {}

Selection::Selection(const Address& address) : Selection(Part(address.name())) {
  if (!address.indices().empty()) {
    throw HookError(
        address.to_string(),
        "a selection takes whole activations; expected a name without indices; choose positions with "
        "RunOptions::positions, or index the kept tensor");
  }
}

Selection Selection::matching(Predicate predicate) { return Selection(Part(std::move(predicate))); }

Selection Selection::glob(std::string_view patterns) {
  Selection selection;
  while (true) {
    const auto comma = patterns.find(',');
    const std::string_view pattern = patterns.substr(0, comma);
    if (pattern.empty()) {
      throw HookError(patterns,
                      "an empty name stands in this list; expected names or globs separated by commas");
    }
    selection.parts_.emplace_back(Glob{std::string(pattern)});
    if (comma == std::string_view::npos) return selection;
    patterns.remove_prefix(comma + 1);
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

}  // namespace

std::vector<std::size_t> Selection::resolve(const PointIndex& points, const Reach& reach) const {
  std::set<std::size_t> chosen;
  // Adds the reached points that are wanted; the first wanted one, reached or not, tells a miss from a short
  // run.
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
  const auto add = [&](const auto& part) {
    using P = std::decay_t<decltype(part)>;
    if constexpr (std::is_same_v<P, Site>) {
      // No layer has it: asking for one gives the error with the reason.
      if (!choose([&](const ActivationName& name) { return name.site == part; })) {
        points.require(
            {part, own_stack(row(part)).value_or(points.main_stack()), 0, per_expert(row(part)) ? 0 : -1});
      }
    } else if constexpr (std::is_same_v<P, ActivationName>) {
      chosen.insert(require_reached(part, points, reach));
    } else if constexpr (std::is_same_v<P, Glob>) {
      if (!choose([&](const ActivationName& name) { return glob_matches(part.pattern, name.to_string()); })) {
        if (const auto name = ActivationName::try_parse(part.pattern)) points.require(*name);
        throw HookError(part.pattern,
                        fmt::format("no activation of this model matches; the nearest name is '{}'; "
                                    "`hooked names` lists them all",
                                    points.nearest_to(part.pattern)));
      }
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
