#include "hooks/ragged_rows.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/to_device.h"

namespace hooked {

RaggedRows::RaggedRows(const std::vector<std::int64_t>& first_columns, std::int64_t end,
                       const std::vector<c10::Device>& devices)
    : rows_(static_cast<std::int64_t>(first_columns.size())) {
  const std::int64_t first = *std::min_element(first_columns.begin(), first_columns.end());
  columns_ = end - first;
  std::map<std::int64_t, std::vector<std::int64_t>> rows_from;  // rows by first column
  for (std::int64_t row = 0; row < rows_; ++row) rows_from[first_columns[row]].push_back(row);
  std::vector<std::int64_t> places, order(first_columns.size());
  std::int64_t grouped = 0;
  for (const auto& [column, rows] : rows_from) {
    groups_.push_back({.first_column = column,
                       .rows = static_cast<std::int64_t>(rows.size()),
                       .columns = end - column,
                       .first_token = static_cast<std::int64_t>(places.size())});
    for (const std::int64_t row : rows) {
      order[row] = grouped++;
      for (std::int64_t c = column; c < end; ++c) places.push_back(row * columns_ + c - first);
    }
  }
  for (const c10::Device& device : devices) {
    numbers_.push_back({.places = to_device(places, device), .order = to_device(order, device)});
  }
}

const RaggedRows::Numbers& RaggedRows::beside(const at::Tensor& x) const {
  const auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const Numbers& numbers) {
    return numbers.places.device() == x.device();
  });
  return found == numbers_.end() ? numbers_.front() : *found;
}

bool RaggedRows::can_show(Site site) {
  const AxisList& axes = row(site).axes;
  return axes.find(Axis::batch) && axes.find(Axis::pos);
}

at::Tensor RaggedRows::own() const {
  const at::Tensor& places = numbers_.front().places;
  const at::Tensor own = at::zeros({rows_ * columns_}, places.options().dtype(at::kBool));
  return own.index_fill_(0, places, 1).view({rows_, columns_});
}

at::Tensor RaggedRows::tokens_of(const at::Tensor& x) const {
  return x.flatten(0, 1).index_select(0, beside(x).places).unsqueeze(0);
}

at::Tensor RaggedRows::rows_of(const at::Tensor& tokens) const {
  std::vector<std::int64_t> sizes = tokens.sizes().slice(1).vec();
  sizes.front() = rows_ * columns_;
  const at::Tensor rows = tokens.is_floating_point()
                              ? at::full(sizes, std::numeric_limits<double>::quiet_NaN(), tokens.options())
                              : at::zeros(sizes, tokens.options());
  return rows.index_copy_(0, beside(tokens).places, tokens[0]).unflatten(0, {rows_, columns_});
}

at::Tensor RaggedRows::part(const at::Tensor& tokens, const Group& group) {
  return tokens[0]
      .narrow(0, group.first_token, group.rows * group.columns)
      .unflatten(0, {group.rows, group.columns});
}

at::Tensor RaggedRows::rows_of_equal(const at::Tensor& tokens) const {
  return tokens[0].unflatten(0, {rows_, -1}).index_select(0, beside(tokens).order);
}

}  // namespace hooked
