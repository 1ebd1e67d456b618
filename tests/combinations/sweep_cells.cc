// The cells of a sweep.
#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/combinations/points.h"
#include "tests/combinations/sweep_parts.h"

namespace hooked::combinations {

namespace {

/// The number of places on a sweep's axis of heads: that of the layer with the most.
std::int64_t most_heads(const ModelConfig& config, const std::string& path) {
  const Where everywhere{.path = path};
  std::int64_t most = 0;
  for (const std::int64_t layer : layers_of(everywhere, config)) {
    const SiteRow& site = row(name_in(everywhere, layer).site);
    if (const auto head = dimension_of(name_in(everywhere, layer).site, Index::head))
      most = std::max(most, size_of(site.axes[*head], config, layer));
  }
  return most;
}

}  // namespace

Cell cell_at(const Subject& subject, const Row& row, const std::vector<std::int64_t>& index) {
  const Sweep& sweep = subject.combination().sweep;
  Cell cell{.where = {.path = sweep.path}};
  const std::int64_t layers = subject.config().n_layers;
  for (std::size_t axis = 0; axis < sweep.over.size(); ++axis) {
    const SweptPlaces& places = sweep.over[axis];
    const auto at = static_cast<std::size_t>(index[axis]);
    std::int64_t place = places.into.empty() ? index[axis] : places.into.at(at);
    if (places.axis == "layer") {
      cell.where.layer = place < 0 ? place + layers : place;
      continue;
    }
    if (places.last) place = row.last();
    if (places.named) place = row.named(*places.named);
    if (places.named_from) cell.from = row.named(*places.named_from);
    if (places.named && sweep.source.kind == Source::Kind::resampled) {
      const auto back = places.named_from.value_or(*places.named);
      // With the same number of rows the drawn one has its own column; otherwise it is the patched row's.
      const bool as_many = sweep.source.data_lengths.size() == subject.rows().size();
      for (std::size_t drawn = 0; drawn < sweep.source.data_lengths.size(); ++drawn)
        cell.from_of_draw.push_back((as_many ? subject.rows()[drawn] : row).named(back));
    }
    // Rows that are drawn have all columns, and a last token of their own.
    if (places.last && sweep.source.kind == Source::Kind::resampled) cell.from = row.width - 1;
    if (places.axis == "head" && place < 0) place += most_heads(subject.config(), sweep.path);
    if (places.axis == "pos" || places.axis == "key") {
      if (place < 0) place += row.width;
      cell.exists = cell.exists && row.place_of(place) >= 0;
      if (!places.from.empty()) cell.from = places.from.at(at);
    }
    Places& named = places.axis == "pos"   ? cell.where.pos
                    : places.axis == "key" ? cell.where.key
                                           : cell.where.head;
    named = {.form = Places::Form::one, .numbers = {place}};
  }
  const ActivationName name = name_in(cell.where, *cell.where.layer);
  cell.exists = cell.exists && hooked::row(name.site).exists(subject.config(), name.layer);
  if (const auto head = dimension_of(name.site, Index::head);
      head && cell.exists && cell.where.head.given()) {
    const std::int64_t size = size_of(hooked::row(name.site).axes[*head], subject.config(), name.layer);
    cell.exists = cell.where.head.numbers.front() < size;
  }
  return cell;
}

reference::Change patch_of(const OracleSource& source, const Cell& cell, const Row& row,
                           const PatchShare& put) {
  const ActivationName name = name_in(cell.where, *cell.where.layer);
  ActivationName of_scores = name;
  of_scores.site = Site::attn_scores;
  const auto of_keys = dimension_of(name.site, Index::key), of_pos = dimension_of(name.site, Index::pos);
  // Masked keys have no score, whatever is patched in.
  const auto scores = std::make_shared<Array>();
  return [=, &source](const std::string& at, Array& value) {
    if (at == of_scores.to_string() && of_keys) *scores = value;
    if (at != name.to_string()) return;
    const Block block(cell.where, name.site, row, value.shape);
    const Array masks = of_keys ? *scores : Array();
    std::optional<std::int64_t> from = cell.from;
    if (!cell.from_of_draw.empty()) from = cell.from_of_draw.at(static_cast<std::size_t>(put.draw));
    std::size_t flat = 0;
    for_each(value, [&](const std::vector<std::int64_t>& index, double& element) {
      const std::size_t i = flat++;
      if (!block.holds(index) || (of_keys && std::isinf(masks.values.at(i)))) return;
      std::vector<std::int64_t> columns = index;
      for (std::size_t dim = 0; dim < index.size(); ++dim) {
        if (dim == of_keys || dim == of_pos)
          columns[dim] = row.columns.at(static_cast<std::size_t>(index[dim]));
      }
      const auto there = source.value(name, row, columns, from, put.draw);
      element += put.share * (there.value_or(std::nan("")) - element);
      if (put.share == 1.0) element = there.value_or(std::nan(""));
    });
  };
}

SweepOptions sweep_options(const Subject& subject) {
  const Combination& c = subject.combination();
  SweepOptions options{.site = act::BlockSite{name_in({.path = c.sweep.path}, 0).site},
                       .from = source_of(subject),
                       .into = subject.whole(subject.rows()),
                       .metric = metric_of(subject),
                       .hooks = subject.hooks(c.changes, Said::hook),
                       .edits = subject.edits(c.changes),
                       .tokens_per_run = c.sweep.tokens_per_run};
  for (const SweptPlaces& places : c.sweep.over) {
    const Axis axis = places.axis == "layer"  ? Axis::layer
                      : places.axis == "pos"  ? Axis::pos
                      : places.axis == "head" ? Axis::head
                                              : Axis::key;
    SweptAxis swept(axis);
    if (places.last) swept.places.emplace_back(Position::last());
    if (places.named) {
      const Position into = named_place(*places.named, subject.rows());
      swept.places.emplace_back(
          into, places.named_from ? named_place(*places.named_from, subject.other_rows()) : into);
    }
    for (std::size_t i = 0; i < places.into.size(); ++i) {
      const std::int64_t into = places.into[i];
      swept.places.push_back(places.from.empty() ? SweptPlace(Position(into))
                                                 : SweptPlace(Position(into), Position(places.from[i])));
    }
    options.over.push_back(swept);
  }
  return options;
}

std::vector<std::vector<std::int64_t>> some_cells(const std::vector<std::int64_t>& sizes, std::int64_t most) {
  std::int64_t cells = 1;
  for (const std::int64_t size : sizes) cells *= size;
  std::vector<std::vector<std::int64_t>> some;
  const std::int64_t step = std::max<std::int64_t>(1, cells / most);
  for (std::int64_t cell = 0; cell < cells; cell += step) {
    std::vector<std::int64_t> index(sizes.size());
    std::int64_t rest = cell;
    for (std::size_t dim = sizes.size(); dim-- > 0;) {
      index[dim] = rest % sizes[dim];
      rest /= sizes[dim];
    }
    some.push_back(std::move(index));
  }
  return some;
}

}  // namespace hooked::combinations
