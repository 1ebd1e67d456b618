// The cells of a sweep over a site's axes.
#include "analysis/site_cells.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

#include "analysis/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

void require(bool holds, std::string_view sentence) {
  if (!holds) throw HookError("sweep", sentence);
}

/// One axis of the cells.
struct CellAxis {
  Axis asked;                      ///< as the caller wrote it
  Axis own;                        ///< on the site; layer and expert are themselves
  std::vector<SweptPlace> places;  ///< all of them where the caller named none
  bool all;                        ///< the caller named none
  bool of_tokens;                  ///< places are columns
  bool of_encoder;                 ///< of what the encoder reads
};

/// Where a place stands in one row; nothing where that is padding.
struct ResolvedPlace {
  std::int64_t into, from;
  bool real = true;
};

std::vector<SweptPlace> numbered(std::int64_t size) {
  std::vector<SweptPlace> places;
  for (std::int64_t i = 0; i < size; ++i) places.emplace_back(i);
  return places;
}

/// A sweep over the axes of one site.
class SiteCells : public std::enable_shared_from_this<SiteCells> {
 public:
  SiteCells(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into);

  CellPlan plan() const;

 private:
  CellAxis axis_of(const SweptAxis& asked) const;
  GridAxis labelled(const CellAxis& axis) const;
  std::vector<std::vector<ResolvedPlace>> places_of(SweptRow row) const;
  void require_aligned(SweptRow row) const;
  CellPatches patches(const ActivationName& name, const std::vector<std::int64_t>& cells,
                      const PatchedRuns& runs, SweptRow row) const;
  PatchedPlace routed_to_both(const ActivationName& name, const PatchedRuns& runs, SweptRow row) const;
  /// The number of a cell's place on an axis.
  std::size_t place_on(std::int64_t cell, std::size_t axis) const;

  HookedTransformer model_;
  SweepInput into_;
  PatchSource from_;
  Site site_;
  Stack stack_;
  std::vector<ActivationName> names_;  // in the order of the table
  std::vector<CellAxis> axes_;
};

SiteCells::SiteCells(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into)
    : model_(model.loaded()), into_(into), from_(options.from), site_(options.site->site) {
  const SiteRow& site = row(site_);
  require(site.scope == SiteScope::block,
          fmt::format("{} is outside the blocks; expected a site that every layer has", site.word));
  const PointIndex points(model.config());
  stack_ = options.stack == Stack::none ? site.stack.value_or(points.stacks().main()) : options.stack;
  for (const ActivationName& name : points.names()) {
    if (name.site == site_ && name.stack == stack_) names_.push_back(name);
  }
  if (names_.empty()) points.require(ActivationName{.site = site_, .stack = options.stack, .layer = 0});
  const auto names_axis = [&](Axis axis) {
    return std::any_of(options.over.begin(), options.over.end(),
                       [&](const SweptAxis& a) { return a.axis == axis; });
  };
  require(names_axis(Axis::layer),
          "`over` has no Axis::layer; expected it and any of the site's axes (one layer is {Axis::layer, "
          "{3}})");
  require(!per_expert(site) || names_axis(Axis::expert),
          fmt::format("`over` has no Axis::expert; expected it, as each expert has {}", site.word));
  for (const SweptAxis& asked : options.over) {
    if (asked.axis != Axis::batch) axes_.push_back(axis_of(asked));
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      require(axes_[i].own != axes_[j].own,
              fmt::format("{} stands twice in `over`", axis_name(axes_[i].asked)));
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
    size = axis.of_tokens ? into_.columns(axis.of_encoder).end : size_of(*own, config);
  }
  if (axis.all) axis.places = numbered(size);
  if (axis.of_tokens) return axis;
  for (SweptPlace& place : axis.places) {
    const auto number = place.into.column();
    if (number && place.from == place.into && *number >= -size && *number < size) {
      place = SweptPlace(*number < 0 ? *number + size : *number);
      continue;
    }
    throw HookError("sweep", fmt::format("{} is no place on axis {}; expected a number from {} to {}",
                                         place.into.label(), axis_name(asked.axis), -size, size - 1));
  }
  return axis;
}

GridAxis SiteCells::labelled(const CellAxis& axis) const {
  GridAxis labels{.name = std::string(axis_name(axis.asked)), .labels = {}};
  for (const SweptPlace& place : axis.places) labels.labels.push_back(place.into.label());
  if (!axis.of_tokens || !model_.has_tokenizer() || into_.rows() > 1) return labels;
  const at::Tensor& tokens = axis.of_encoder ? into_.all().tokens : into_.all().main_tokens();
  const auto pieces = model_.to_str_tokens(tokens[0]);
  const TokenColumns columns = into_.columns(axis.of_encoder);
  for (std::size_t i = 0; i < axis.places.size(); ++i) {
    const std::int64_t column =
        axis.all ? static_cast<std::int64_t>(i) : axis.places[i].into.columns(1, columns).front();
    labels.labels[i] += ' ' + pieces[static_cast<std::size_t>(column)];
  }
  return labels;
}

std::size_t SiteCells::place_on(std::int64_t cell, std::size_t axis) const {
  for (std::size_t later = axes_.size() - 1; later > axis; --later)
    cell /= static_cast<std::int64_t>(axes_[later].places.size());
  return static_cast<std::size_t>(cell % static_cast<std::int64_t>(axes_[axis].places.size()));
}

/// Each axis's places in one row.
std::vector<std::vector<ResolvedPlace>> SiteCells::places_of(SweptRow row) const {
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
    const auto from = SourceReader::columns(from_, {names_.front(), axis.own}, row);
    for (const SweptPlace& place : axis.places) {
      const std::int64_t into = place.into.columns(row.of, columns)[static_cast<std::size_t>(row.number)];
      own.push_back({into, from ? place.from.of_rows({row.number}).columns(1, *from)[0] : into});
    }
  }
  return places;
}

/// Where columns are not named one by one they stand for one another.
void SiteCells::require_aligned(SweptRow row) const {
  for (const Axis axis : hooked::row(site_).axes) {
    const bool named =
        std::any_of(axes_.begin(), axes_.end(), [&](const CellAxis& a) { return a.own == axis && !a.all; });
    if (counts_tokens(axis) && !named) require_same_columns(from_, into_, {names_.front(), axis}, row);
  }
}

/// The tokens of a row that an expert gets both in the patched run and in the one that values come from.
PatchedPlace SiteCells::routed_to_both(const ActivationName& name, const PatchedRuns& runs,
                                       SweptRow row) const {
  const ActivationName chosen = act::expert_indices.in(name.stack, name.layer).name();
  const auto tokens_of = [&](const at::Tensor& indices) {
    // An expert's tokens stand by rank, then position.
    std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
    const at::Tensor ids = indices[0].to(at::kCPU);  // [pos, rank]
    for (std::int64_t rank = 0; rank < ids.size(1); ++rank) {
      for (std::int64_t pos = 0; pos < ids.size(0); ++pos) {
        if (ids[pos][rank].item<std::int64_t>() == name.expert) tokens.emplace_back(pos, rank);
      }
    }
    return tokens;
  };
  const auto into = tokens_of(runs.value(chosen));
  std::vector<std::int64_t> all(into.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  PatchedPlace places;
  const at::Tensor there = SourceReader::of_run(from_, chosen, row);
  if (!there.defined()) {
    places.into.add(Axis::routed, all);
    places.from.add(Axis::routed, all);
    return places;
  }
  const auto from = tokens_of(there);
  std::vector<std::int64_t> put, taken;
  for (std::size_t i = 0; i < into.size(); ++i) {
    const auto same = std::find_if(from.begin(), from.end(),
                                   [&](const auto& token) { return token.first == into[i].first; });
    if (same == from.end()) continue;
    put.push_back(static_cast<std::int64_t>(i));
    taken.push_back(same - from.begin());
  }
  places.into.add(Axis::routed, put);
  places.from.add(Axis::routed, taken);
  return places;
}

CellPatches SiteCells::patches(const ActivationName& name, const std::vector<std::int64_t>& cells,
                               const PatchedRuns& runs, SweptRow row) const {
  require_aligned(row);
  const auto places = places_of(row);
  const at::Tensor unpatched = runs.value(name);
  const SourceReader source(from_, name, unpatched, row);
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

CellPlan SiteCells::plan() const {
  const SiteRow& site = row(site_);
  CellPlan plan{.axes = {},
                .patched = names_,
                .groups = {},
                .title = fmt::format("Patching {}", site.word),
                .record = {}};
  for (const CellAxis& axis : axes_) plan.axes.push_back(labelled(axis));
  if (per_expert(site)) {
    std::set<std::int32_t> layers;
    for (const ActivationName& name : names_) {
      if (layers.insert(name.layer).second)
        plan.patched.push_back(act::expert_indices.in(name.stack, name.layer).name());
    }
  }
  const auto self = shared_from_this();
  const std::int64_t all = plan.cells();
  for (const ActivationName& name : names_) {
    std::vector<std::int64_t> cells;
    for (std::int64_t cell = 0; cell < all; ++cell) {
      bool here = true;
      for (std::size_t i = 0; i < axes_.size() && here; ++i) {
        const auto number = [&] { return *axes_[i].places[place_on(cell, i)].into.column(); };
        if (axes_[i].own == Axis::layer) here = number() == name.layer;
        if (axes_[i].own == Axis::expert && per_expert(site)) here = number() == name.expert;
      }
      if (here) cells.push_back(cell);
    }
    if (cells.empty()) continue;
    plan.groups.push_back({cells, [self, name, cells](const PatchedRuns& runs, SweptRow row) {
                             return self->patches(name, cells, runs, row);
                           }});
  }
  std::vector<std::string> axes;
  for (const GridAxis& axis : plan.axes)
    axes.push_back(fmt::format("{} [{}]", axis.name, fmt::join(axis.labels, ", ")));
  plan.record = fmt::format("{} {} over {}", stack_name(stack_), site.word, fmt::join(axes, ", "));
  return plan;
}

}  // namespace

CellPlan cells_of_site(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into) {
  return std::make_shared<const SiteCells>(model, options, into)->plan();
}

}  // namespace hooked
