// The cells of a sweep over a site's axes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "analysis/patching/active_features.h"
#include "analysis/patching/cell_plan.h"
#include "analysis/patching/swept_names.h"
#include "analysis/places/named_tokens.h"
#include "analysis/places/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

void require(bool holds, std::string_view sentence) {
  if (!holds) throw HookError("sweep", sentence);
}

/// One axis of the cells.
struct CellAxis {
  Axis asked;                      ///< as the caller wrote it
  Axis own;                        ///< on the site; for layer and expert, themselves
  std::vector<SweptPlace> places;  ///< all of them if the caller named none
  bool all;                        ///< the caller named none
  bool of_tokens;                  ///< places are columns
  bool of_encoder;                 ///< of what the encoder reads
};

/// The place in one row; nothing if that is padding.
struct ResolvedPlace {
  std::int64_t into, from;
  bool real = true;
};

/// A place in one row, with its column if it has a name.
std::string column_text(const Position& position, std::int64_t row) {
  const auto& columns = position.named_columns();
  if (columns.empty()) return position.label();
  const auto own =
      static_cast<std::size_t>(row) < columns.size() ? columns[static_cast<std::size_t>(row)] : -1;
  return fmt::format("{}={}", position.label(), own);
}

/// The number of cells of an activation whose patches are made at a time: enough for many runs, so that
/// partly filled runs hardly matter, and about 15 MB.
constexpr std::size_t kCellsAtOnce = 1024;

/// A sweep over the axes of one site.
class SiteCells : public std::enable_shared_from_this<SiteCells> {
 public:
  SiteCells(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
            std::int64_t heads);

  CellPlan plan() const;

 private:
  CellAxis axis_of(const SweptAxis& asked) const;
  GridAxis labelled(const CellAxis& axis) const;
  std::vector<std::vector<ResolvedPlace>> places_of(const ActivationName& name, SweptRow row) const;
  void require_aligned(const ActivationName& name, SweptRow row) const;
  using NamePlace = std::pair<std::int64_t, std::int64_t>;  // a layer, and an expert or -1
  std::map<NamePlace, std::vector<std::int64_t>> cells_by_name(std::int64_t cells) const;
  std::string columns_text() const;
  CellPatches patches(const ActivationName& name, const std::vector<std::int64_t>& cells,
                      const PatchedRuns& runs, SweptRow row) const;
  PatchedPlace routed_to_both(const ActivationName& name, const PatchedRuns& runs, SweptRow row) const;
  /// The index of a cell's place on an axis.
  std::size_t place_on(std::int64_t cell, std::size_t axis) const;

  HookedTransformer model_;
  SweepInput into_;
  PatchSource from_;
  Site site_;
  std::int64_t heads_;  // which may be named; those that the site lacks have no number
  Stack stack_;
  std::vector<ActivationName> names_;  // in the order of the table
  std::vector<CellAxis> axes_;
};

SiteCells::SiteCells(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                     std::int64_t heads)
    : model_(model.loaded()), into_(into), from_(options.from), site_(options.site->site), heads_(heads) {
  const SiteRow& site = row(site_);
  stack_ = options.stack == Stack::none ? site.stack.value_or(model.points().stacks().main()) : options.stack;
  names_ = swept_names(model_, *options.site, stack_);
  const auto names_axis = [&](Axis axis) {
    return std::any_of(options.over.begin(), options.over.end(),
                       [&](const SweptAxis& a) { return a.axis == axis; });
  };
  require(names_axis(Axis::layer),
          "`over` has no axis layer; expected it and any of the site's axes (one layer is the axis with that "
          "one place)");
  require(!per_expert(site) || names_axis(Axis::expert),
          fmt::format("`over` has no axis expert; expected it, as each expert has {}", site.word));
  for (SweptAxis asked : options.over) {
    if (asked.axis == Axis::batch) continue;
    if (asked.axis == Axis::feature && asked.places.empty() && axis_on(site_, Axis::feature)) {
      const auto active = active_features(model, names_, options, into);
      require(!active.empty(),
              "no feature is other than 0, in `into` or in what is put in; name the features");
      asked.places.assign(active.begin(), active.end());
    }
    axes_.push_back(axis_of(asked));
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      require(axes_[i].own != axes_[j].own,
              fmt::format("{} occurs twice in `over`", axis_name(axes_[i].asked)));
    }
  }
}

CellAxis SiteCells::axis_of(const SweptAxis& asked) const {
  const SiteRow& site = row(site_);
  const ModelConfig& config = model_.config();
  CellAxis axis{asked.axis, asked.axis, asked.places, asked.places.empty(), false, false};
  std::int64_t size = 0;
  if (asked.axis == Axis::layer) {
    size = stack_ == Stack::encoder ? config.n_encoder_layers() : config.n_layers;
  } else if (asked.axis == Axis::expert && per_expert(site)) {
    size = config.n_experts();
  } else {
    const auto own = axis_on(site_, asked.axis);
    if (!own || *own == Axis::one || *own == Axis::routed) {
      std::vector<std::string_view> names;
      if (per_expert(site)) names.push_back(axis_name(Axis::expert));
      for (const Axis a : site.axes) {
        if (a != Axis::batch && a != Axis::one && a != Axis::routed) names.push_back(axis_name(a));
      }
      throw HookError("sweep", fmt::format("{} cannot be swept over {}; expected layer and any of {}",
                                           site.word, axis_name(asked.axis), fmt::join(names, ", ")));
    }
    axis.own = *own;
    axis.of_tokens = counts_tokens(*own);
    axis.of_encoder = axis.of_tokens && config.has_encoder() && counts_source(names_.front(), *own);
    // Places that some layers lack have no number in those layers.
    for (const ActivationName& name : names_) size = std::max(size, size_on(model_, name, *own));
    if (axis.of_tokens) size = into_.columns(axis.of_encoder).end;
  }
  if (axis.all) {
    for (std::int64_t i = 0; i < size; ++i) axis.places.emplace_back(i);
  }
  if (axis.of_tokens) return axis;
  if (axis.own == Axis::kv_head) size = std::max(size, heads_);
  for (SweptPlace& place : axis.places) {
    const auto number = place.into.column();
    if (number && place.from == place.into && *number >= -size && *number < size) {
      place = SweptPlace(*number < 0 ? *number + size : *number);
      continue;
    }
    throw HookError("sweep", fmt::format("{} is not a place on axis {}; expected a number from {} to {}",
                                         place.into.label(), axis_name(asked.axis), -size, size - 1));
  }
  return axis;
}

GridAxis SiteCells::labelled(const CellAxis& axis) const {
  GridAxis labels{.name = std::string(axis_name(axis.asked)), .labels = {}};
  for (const SweptPlace& place : axis.places) labels.labels.push_back(place.into.label());
  if (axis.asked == Axis::layer && !per_expert(row(site_))) {
    for (const SweptPlace& place : axis.places) {
      const auto name = std::ranges::find(names_, *place.into.column(), &ActivationName::layer);
      labels.places.push_back(name == names_.end() ? std::nullopt : std::optional<Address>(*name));
    }
  }
  if (!axis.of_tokens || !model_.has_tokenizer() || into_.rows() > 1) return labels;
  const at::Tensor& tokens = axis.of_encoder ? into_.all().tokens : into_.all().main_tokens();
  const TokenColumns columns = into_.columns(axis.of_encoder);
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < axis.places.size(); ++i)  // among all columns there may be padding
    places.push_back(axis.all ? static_cast<std::int64_t>(i)
                              : axis.places[i].into.columns(1, columns).front());
  name_tokens(labels, model_, tokens[0].to(at::kCPU).index_select(0, at::tensor(places, at::kLong)));
  return labels;
}

std::size_t SiteCells::place_on(std::int64_t cell, std::size_t axis) const {
  for (std::size_t later = axes_.size() - 1; later > axis; --later)
    cell /= static_cast<std::int64_t>(axes_[later].places.size());
  return static_cast<std::size_t>(cell % static_cast<std::int64_t>(axes_[axis].places.size()));
}

/// Each axis's places in one row.
std::vector<std::vector<ResolvedPlace>> SiteCells::places_of(const ActivationName& name, SweptRow row) const {
  std::vector<std::vector<ResolvedPlace>> places;
  for (const CellAxis& axis : axes_) {
    std::vector<ResolvedPlace>& own = places.emplace_back();
    if (!axis.of_tokens) {
      for (const SweptPlace& place : axis.places) own.push_back({*place.into.column(), *place.into.column()});
      continue;
    }
    const TokenColumns columns = into_.columns(axis.of_encoder);
    if (axis.all) {
      for (std::int64_t column = 0; column < columns.end; ++column)
        own.push_back({column, column, !columns.is_padding(row.number, column)});
      continue;
    }
    const auto from = SourceReader::columns(from_, {name, axis.own}, row);
    for (const SweptPlace& place : axis.places) {
      const auto [into, there] = columns_of_place(place, row, columns, from);
      own.push_back({into, there});
    }
  }
  return places;
}

/// If columns are not named one by one, they must match one to one.
void SiteCells::require_aligned(const ActivationName& name, SweptRow row) const {
  for (const Axis axis : hooked::row(site_).axes) {
    const bool named =
        std::any_of(axes_.begin(), axes_.end(), [&](const CellAxis& a) { return a.own == axis && !a.all; });
    if (counts_tokens(axis) && !named) require_same_columns(from_, into_, {name, axis}, row);
  }
}

/// The tokens of a row that an expert gets both in the patched run and in the one that values come from.
PatchedPlace SiteCells::routed_to_both(const ActivationName& name, const PatchedRuns& runs,
                                       SweptRow row) const {
  TokenColumns columns = into_.columns(/*of_encoder=*/false);
  if (columns.mask.defined()) columns.mask = columns.mask.narrow(0, row.number, 1);
  const at::Tensor chosen = runs.value(act::expert_indices.in(name.stack, name.layer).name());
  const auto into = tokens_of_expert(chosen, columns, 0, name.expert);
  const auto from = SourceReader::routed(from_, name, row);
  std::vector<std::int64_t> put, taken;
  for (const RoutedToken& token : into) {
    std::int64_t there = token.number;
    if (from) {
      const auto same = std::ranges::find(*from, token.column, &RoutedToken::column);
      if (same == from->end()) continue;
      there = same->number;
    }
    put.push_back(token.number);
    taken.push_back(there);
  }
  PatchedPlace places;
  places.into.add(Axis::routed, put);
  places.from.add(Axis::routed, taken);
  return places;
}

CellPatches SiteCells::patches(const ActivationName& name, const std::vector<std::int64_t>& cells,
                               const PatchedRuns& runs, SweptRow row) const {
  const auto places = places_of(name, row);
  const at::Tensor unpatched = runs.value(name);
  const SourceReader source(from_, name, unpatched, row, masked_keys(name, runs));
  if (!source.has_values()) return {};
  PatchedPlace routed;
  if (per_expert(hooked::row(site_))) routed = routed_to_both(name, runs, row);
  CellPatches made;
  for (const std::int64_t cell : cells) {
    PatchedPlace at = routed;
    bool exists = true;
    for (std::size_t i = 0; i < axes_.size() && exists; ++i) {
      const CellAxis& axis = axes_[i];
      if (axis.own == Axis::layer || (axis.own == Axis::expert && per_expert(hooked::row(site_)))) continue;
      const ResolvedPlace& place = places[i][place_on(cell, i)];
      const std::int64_t size = unpatched.size(*hooked::row(site_).axes.find(axis.own));
      exists = place.real && place.into < size;
      at.into.add(axis.own, place.into);
      at.from.add(axis.own, place.from);
    }
    if (!exists) continue;
    made.cells.push_back(cell);
    const AxisIndex* tokens = at.into.find(Axis::routed);
    if (tokens != nullptr && std::get<std::vector<std::int64_t>>(tokens->value).empty()) {
      made.patches.emplace_back();  // no token of this expert changes
      continue;
    }
    Address address = name;
    for (const auto& [axis, index] : at.into.entries()) address = address.at(axis, index);
    made.patches.push_back({{std::move(address), source.block(at)}});
  }
  return made;
}

/// The cells of each activation, by its layer and its expert.
std::map<SiteCells::NamePlace, std::vector<std::int64_t>> SiteCells::cells_by_name(std::int64_t cells) const {
  std::map<NamePlace, std::vector<std::int64_t>> by_name;
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    NamePlace at{-1, -1};
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const auto number = [&] { return *axes_[i].places[place_on(cell, i)].into.column(); };
      if (axes_[i].own == Axis::layer) at.first = number();
      if (axes_[i].own == Axis::expert && per_expert(row(site_))) at.second = number();
    }
    by_name[at].push_back(cell);
  }
  return by_name;
}

CellPlan SiteCells::plan() const {
  const SiteRow& site = row(site_);
  CellPlan plan{.title = fmt::format("Patching {}", site.word)};
  for (const CellAxis& axis : axes_) plan.axes.push_back(labelled(axis));
  const auto self = shared_from_this();
  const auto by_name = cells_by_name(plan.cells());
  std::set<std::int32_t> layers;
  for (const ActivationName& name : names_) {
    const auto own = by_name.find({name.layer, per_expert(site) ? name.expert : -1});
    if (own == by_name.end()) continue;
    plan.patched.push_back(name);
    if (const auto scores = scores_behind(name)) plan.read.push_back(*scores);
    std::vector<ActivationName> reads{name};
    if (per_expert(site)) {
      reads.push_back(act::expert_indices.in(name.stack, name.layer).name());
      if (layers.insert(name.layer).second) plan.patched.push_back(reads.back());
    }
    const auto all = own->second.begin();
    for (std::size_t first = 0; first < own->second.size(); first += kCellsAtOnce) {
      const std::size_t end = std::min(first + kCellsAtOnce, own->second.size());
      const std::vector<std::int64_t> cells(all + static_cast<std::ptrdiff_t>(first),
                                            all + static_cast<std::ptrdiff_t>(end));
      plan.groups.push_back({cells,
                             [self, name, cells](const PatchedRuns& runs, SweptRow row) {
                               return self->patches(name, cells, runs, row);
                             },
                             reads});
    }
  }
  if (plan.groups.empty()) {
    for (const ActivationName& name : names_) layers.insert(name.layer);
    throw HookError("sweep", fmt::format("none of the layers in `over` has {}; expected some of {}",
                                         site.word, fmt::join(layers, ", ")));
  }
  plan.check = [self, name = plan.patched.front()](SweptRow row) {
    if (!per_expert(hooked::row(self->site_))) self->require_aligned(name, row);
    self->places_of(name, row);
  };
  std::vector<std::string> axes;
  for (const GridAxis& axis : plan.axes)
    axes.push_back(fmt::format("{} [{}]", axis.name, fmt::join(axis.labels, ", ")));
  const auto host = names_.front().host;
  plan.record =
      fmt::format("{} {}{} over {}{}", stack_name(stack_), site.word,
                  host ? fmt::format(" at {}", row(*host).word) : "", fmt::join(axes, ", "), columns_text());
  return plan;
}

/// The columns of named places in each row: a name alone does not say.
std::string SiteCells::columns_text() const {
  std::string text;
  for (const CellAxis& axis : axes_) {
    if (!axis.of_tokens || axis.all) continue;
    for (std::int64_t r = 0; r < into_.rows(); ++r) {
      for (const SweptPlace& place : axis.places) {
        for (const Position& position : {place.into, place.from}) text += ' ' + column_text(position, r);
      }
    }
  }
  return text;
}

}  // namespace

CellPlan cells_of_site(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                       std::int64_t heads) {
  return std::make_shared<const SiteCells>(model, options, into, heads)->plan();
}

}  // namespace hooked
