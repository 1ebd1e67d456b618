#include "tests/combinations/oracle.h"

#include <algorithm>
#include <cmath>

#include "tests/combinations/points.h"
#include "tests/reference/random_weights.h"

namespace hooked::combinations {

std::vector<std::int64_t> resolved(const Places& places, std::int64_t size, std::int64_t last) {
  const auto absolute = [size](std::int64_t place) { return place < 0 ? place + size : place; };
  std::vector<std::int64_t> all;
  switch (places.form) {
    case Places::Form::last:
    case Places::Form::named:  // which row's column `last` is
      return {last};
    case Places::Form::one:
    case Places::Form::list:
      for (const std::int64_t place : places.numbers) all.push_back(absolute(place));
      return all;
    case Places::Form::all:
    case Places::Form::range:
      break;
  }
  const std::int64_t begin = absolute(places.begin.value_or(0));
  const std::int64_t end = places.end ? absolute(*places.end) : size;
  for (std::int64_t place = begin; place < end; ++place) all.push_back(place);
  return all;
}

std::int64_t Row::place_of(std::int64_t column) const {
  const auto found = std::ranges::find(columns, column);
  return found == columns.end() ? -1 : found - columns.begin();
}

std::vector<Row> make_rows(const ModelConfig& config, const Combination& c, std::uint64_t seed) {
  const auto ids = reference::random_tokens(config, c.rows(), c.columns(), seed);
  std::vector<Row> rows;
  for (std::int64_t r = 0; r < c.rows(); ++r) {
    Row row{.index = r, .batch = c.rows(), .width = c.columns()};
    const std::int64_t length = c.lengths[static_cast<std::size_t>(r)];
    const std::int64_t first = c.side == reference::Padding::left ? c.columns() - length : 0;
    for (std::int64_t i = 0; i < length; ++i) row.columns.push_back(first + i);
    const std::int64_t shared =
        c.less.split == Split::first_columns ? c.less.first_columns[static_cast<std::size_t>(r)] : 0;
    for (const std::int64_t column : row.columns) {
      // Before its first column a row has the tokens of the prefix, which are those of row 0.
      row.tokens.push_back(
          ids[column < shared ? 0 : static_cast<std::size_t>(r)][static_cast<std::size_t>(column)]);
    }
    row.first_layer = c.less.start.value_or(0);
    row.end_layer = c.less.stop;
    row.enters = !c.less.start;
    row.first_changed = c.less.split == Split::prefix ? c.less.at : shared;
    rows.push_back(std::move(row));
  }
  return rows;
}

Block::Block(const Where& where, Site site, const Row& row, const std::vector<std::int64_t>& shape) {
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const bool of_rows = dimension_of(site, Index::row) == dim,
               of_pos = dimension_of(site, Index::pos) == dim,
               of_keys = dimension_of(site, Index::key) == dim;
    const std::int64_t size = of_rows ? row.batch : of_pos || of_keys ? row.width : shape[dim];
    const Places* places = places_on(where, site, dim);
    std::vector<bool> named(static_cast<std::size_t>(size), false);
    for (const std::int64_t place : resolved(places == nullptr ? Places{} : *places, size, row.last())) {
      if (place >= 0 && place < size) named[static_cast<std::size_t>(place)] = true;
    }
    std::vector<bool> held;
    for (std::int64_t place = 0; place < shape[dim]; ++place) {
      const std::int64_t column = of_pos || of_keys ? row.columns.at(static_cast<std::size_t>(place)) : place;
      const bool runs =
          !of_pos || (column >= row.first_changed && column < row.end_changed.value_or(column + 1));
      const std::int64_t at = of_rows ? row.index : column;
      held.push_back(runs && at < size && named[static_cast<std::size_t>(at)]);
    }
    held_.push_back(std::move(held));
  }
}

bool Block::holds(const std::vector<std::int64_t>& index) const {
  for (std::size_t dim = 0; dim < index.size(); ++dim) {
    if (!held_[dim][static_cast<std::size_t>(index[dim])]) return false;
  }
  return true;
}

void for_each(Array& array, const std::function<void(const std::vector<std::int64_t>&, double&)>& function) {
  std::vector<std::int64_t> index(array.shape.size(), 0);
  for (double& value : array.values) {
    function(index, value);
    for (std::size_t dim = index.size(); dim-- > 0;) {
      if (++index[dim] < array.shape[dim]) break;
      index[dim] = 0;
    }
  }
}

std::vector<double> direction_of(std::int64_t width) {
  std::vector<double> direction;
  for (std::int64_t i = 0; i < width; ++i) direction.push_back(std::sin(1.0 + 2.0 * static_cast<double>(i)));
  return direction;
}

bool reached(const Row& row, const ActivationName& name) {
  switch (name.scope()) {
    case SiteScope::entry:
      return row.enters;
    case SiteScope::block:
      return name.layer >= row.first_layer && name.layer < row.end_layer.value_or(name.layer + 1);
    case SiteScope::encoder_exit:
    case SiteScope::exit:
    case SiteScope::dictionary:
      break;
  }
  return !row.end_layer;
}

reference::PlainRun Oracle::run(const Row& row, const std::vector<reference::Change>& changes) const {
  const auto all = [&changes](const std::string& name, Array& value) {
    for (const reference::Change& change : changes) change(name, value);
  };
  reference::PlainRun run = reference::forward(config_, weights_, {row.tokens}, {.change = all});
  if (run.undecided) throw Undecided();
  return run;
}

reference::Change Oracle::change_of(const Change& change, const Row& row,
                                    const reference::PlainRun& other) const {
  std::map<std::string, Site> points;
  for (const std::int64_t layer : layers_of(change.where, config_)) {
    const ActivationName name = name_in(change.where, layer);
    if (!reached(row, name)) continue;
    points.emplace(name.to_string(), name.site);
  }
  return [=, &other](const std::string& name, Array& value) {
    const auto found = points.find(name);
    if (found == points.end()) return;
    const Block block(change.where, found->second, row, value.shape);
    const Array before = value;
    std::size_t flat = 0;
    for_each(value, [&](const std::vector<std::int64_t>& index, double& element) {
      const std::size_t at = flat++;
      if (!block.holds(index)) return;
      switch (change.made) {
        case Made::zero:
          element = 0.0;
          return;
        case Made::set:
          element = change.number;
          return;
        case Made::add:
          element += change.number;
          return;
        case Made::scale:
          element *= change.number;
          return;
        case Made::replace:
          element = other.activations.at(name).values.at(at);
          return;
        case Made::project_out:
          break;
      }
      const std::int64_t width = before.last(), i = index.back();
      const std::vector<double> along = direction_of(width);
      double dot = 0.0, square = 0.0;
      for (std::int64_t j = 0; j < width; ++j) {
        const auto k = static_cast<std::size_t>(j);
        dot += before.values[at - static_cast<std::size_t>(i) + k] * along[k];
        square += along[k] * along[k];
      }
      element -= dot / square * along[static_cast<std::size_t>(i)];
    });
  };
}

std::vector<reference::Change> Oracle::changes_of(const std::vector<Change>& changes, const Row& row,
                                                  const reference::PlainRun& other) const {
  std::vector<reference::Change> made;
  for (const Said said : {Said::attached_hook, Said::hook, Said::edit}) {
    for (const Change& change : changes) {
      if (change.said == said) made.push_back(change_of(change, row, other));
    }
  }
  return made;
}

}  // namespace hooked::combinations
