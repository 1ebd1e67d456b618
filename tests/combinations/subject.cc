#include "tests/combinations/subject.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "tests/combinations/points.h"
#include "tests/reference/random_weights.h"

namespace hooked::combinations {
namespace {

HookedTransformer load(const Combination& c) {
  const ModelConfig config = config_of(c);
  return HookedTransformer::from_state_dict(
      reference::random_weights(config, c.seed + 1), config,
      {.dtype = at::kDouble,
       .processing = c.processed ? WeightProcessing::all_that_apply() : WeightProcessing::none()});
}

}  // namespace

AxisIndex index_of(const Places& places) {
  switch (places.form) {
    case Places::Form::one:
      return places.numbers.front();
    case Places::Form::list:
      return places.numbers;
    case Places::Form::last:
      return AxisIndex::Last{};
    case Places::Form::all:
    case Places::Form::range:
    case Places::Form::named:  // no address has one
      break;
  }
  return AxisIndex::Range{places.begin, places.end};
}

AxisIndices indices_of(const Where& where) {
  AxisIndices indices;
  const Site site = name_in(where, 0).site;
  const auto add = [&](Axis axis, const Places& places) {
    if (places.given()) indices.add(*axis_on(site, axis), index_of(places));
  };
  add(Axis::batch, where.row);
  add(Axis::pos, where.pos);
  add(Axis::head, where.head);
  add(Axis::key, where.key);
  return indices;
}

Address address_of(const Where& where, std::int64_t layer) {
  Address address(name_in(where, layer));
  for (const auto& [axis, index] : indices_of(where).entries()) address = address.at(axis, index);
  return address;
}

EditTarget target_of(const Where& where) {
  ActivationName name = name_in(where, 0);
  if (!where.in_block) return {Selection(name), indices_of(where)};
  if (!where.layer) return {Selection("blocks.*." + where.path), indices_of(where)};
  name.stack = Stack::none;
  name.layer = static_cast<std::int32_t>(*where.layer);
  return {Selection(name), indices_of(where)};
}

Subject::Subject(const Combination& combination)
    : combination_(combination),
      model_(load(combination)),
      oracle_(model_.config(), model_.state_dict()),
      rows_(make_rows(model_.config(), combination, combination.seed + 2)),
      other_rows_(
          make_rows(model_.config(), combination, combination.seed + (combination.same_clean ? 2 : 3))) {
  for (const Row& row : other_rows_) other_runs_.push_back(oracle_.run(row));
}

const std::vector<reference::PlainRun>& Subject::runs() const {
  for (std::size_t r = runs_.size(); r < rows_.size(); ++r) {
    runs_.push_back(oracle_.run(rows_[r], changes_of(rows_[r])));
  }
  return runs_;
}

std::vector<reference::Change> Subject::changes_of(const Row& row) const {
  const auto& other = other_runs_[static_cast<std::size_t>(row.index)];
  if (combination_.less.split != Split::joined) return oracle_.changes_of(combination_.changes, row, other);
  // The first part of a run does not see the columns of the rest.
  Row first = row, rest = row;
  first.width = combination_.less.at;
  first.end_changed = rest.first_changed = combination_.less.at;
  std::vector<reference::Change> all = oracle_.changes_of(combination_.changes, first, other);
  for (reference::Change& change : oracle_.changes_of(combination_.changes, rest, other)) {
    all.push_back(std::move(change));
  }
  return all;
}

Batch Subject::batch(const std::vector<Row>& rows, std::int64_t first, std::int64_t end) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto padding = reference::random_tokens(config(), count, end, combination_.seed + 4);
  Batch batch{.tokens = at::empty({count, end - first}, at::kLong),
              .mask = at::zeros({count, end - first}, at::kLong)};
  for (std::int64_t r = 0; r < count; ++r) {
    const Row& row = rows[static_cast<std::size_t>(r)];
    for (std::int64_t column = first; column < end; ++column) {
      const std::int64_t place = row.place_of(column);
      batch.tokens[r][column - first] =
          place < 0 ? padding[static_cast<std::size_t>(r)][static_cast<std::size_t>(column)]
                    : row.tokens[static_cast<std::size_t>(place)];
      batch.mask[r][column - first] = place < 0 ? 0 : 1;
    }
  }
  if (batch.mask.all().item<bool>()) batch.mask = at::Tensor();
  return batch;
}

Input Subject::whole(const std::vector<Row>& rows) const {
  const Batch all = batch(rows, 0, rows.front().width);
  return {all.tokens, {.attention_mask = all.mask}};
}

Edit Subject::edit_of(const Change& change) const {
  const EditTarget target = target_of(change.where);
  switch (change.made) {
    case Made::zero:
      return zero(target);
    case Made::set:
      return set(target, change.number);
    case Made::add:
      return add(target, change.number);
    case Made::scale:
      return scale(target, change.number);
    case Made::project_out: {
      const ActivationName name = name_in(change.where, 0);
      const AxisList& axes = row(name.site).axes;
      const std::int64_t layer = layers_of(change.where, config()).front();
      const std::int64_t width = size_of(axes[axes.size() - 1], config(), layer);
      return project_out(target, at::tensor(direction_of(width), at::kDouble));
    }
    case Made::replace:
      break;
  }
  const std::int64_t layer = layers_of(change.where, config()).front();
  RunOptions keep{.output = Output::none};
  if (change.kept.given()) keep.keep.positions = index_of(change.kept);
  const auto cache =
      model_.run_with_cache(whole(other_rows_), Selection(name_in(change.where, layer)), keep).cache;
  return replace(address_of(change.where, layer), cache);
}

std::vector<Edit> Subject::edits(const std::vector<Change>& changes) const {
  std::vector<Edit> edits;
  for (const Change& change : changes) {
    if (change.said == Said::edit) edits.push_back(edit_of(change));
  }
  return edits;
}

std::vector<Hook> Subject::hooks(const std::vector<Change>& changes, Said said) const {
  std::vector<Hook> hooks;
  for (const Change& change : changes) {
    if (change.said != said) continue;
    const auto made = [change](const at::Tensor& value) -> at::Tensor {
      if (change.made == Made::zero) return at::zeros_like(value);
      if (change.made == Made::set) return at::full_like(value, change.number);
      return change.made == Made::add ? value + change.number : value * change.number;
    };
    hooks.emplace_back(target_of(change.where).where, made);
  }
  return hooks;
}

Subject::Attached Subject::attached(const std::vector<Change>& changes) const {
  Attached attached{model_, {}};
  for (const Hook& hook : hooks(changes, Said::attached_hook)) {
    attached.handles.push_back(attached.model.hook(hook.where, hook.function));
  }
  return attached;
}

}  // namespace hooked::combinations
