// Which patches run together, as rows of one run.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "analysis/runs/patched_runs.h"
#include "core/id_list.h"
#include "core/to_device.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/ragged_rows.h"

namespace hooked {
namespace {

// The most memory for patched values, or logits, of one run.
constexpr std::int64_t kBytesAtOnce = std::int64_t{1} << 27;

std::vector<std::int64_t> places_of(const AxisIndex& index) {
  if (const auto* one = std::get_if<std::int64_t>(&index.value)) return {*one};
  return std::get<std::vector<std::int64_t>>(index.value);
}

// The index on the axis of positions or queries; null if all are meant.
const AxisIndex* columns_in(const AxisIndices& indices) {
  const AxisIndex* index = indices.find(Axis::pos);
  return index == nullptr ? indices.find(Axis::query) : index;
}

}  // namespace

std::vector<char> without_effect(const std::vector<Patch>& patches, const ActivationCache& unpatched) {
  std::vector<char> here;
  std::vector<at::Tensor> there;      // answers on other devices
  std::vector<std::size_t> of_patch;  // the patch of each; none for a patch that puts in nothing
  // Patches may share blocks, which are compared once.
  std::map<const c10::TensorImpl*, std::pair<const Address*, bool>> compared;
  for (const Patch& patch : patches) {
    bool all_same = true;
    at::Tensor same;
    for (const PatchedBlock& block : patch) {
      const auto before = compared.find(block.value.unsafeGetTensorImpl());
      if (before != compared.end() && *before->second.first == block.place) {
        all_same = all_same && before->second.second;
        continue;
      }
      const ActivationName& name = block.place.name();
      const std::string where = name.to_string();
      const at::Tensor now =
          take_block(unpatched[Address(name)], block.place.indices(), {name.site, where, {}});
      if (now.device().is_cpu()) {
        const bool equal = at::equal(now, block.value.expand_as(now));
        compared[block.value.unsafeGetTensorImpl()] = {&block.place, equal};
        all_same = all_same && equal;
        continue;
      }
      const at::Tensor equal = (now == block.value).all();
      if (same.defined()) {
        same = same.logical_and(to_device(equal, same.device()));
      } else {
        same = there.empty() ? equal : to_device(equal, there.front().device());
      }
    }
    here.push_back(all_same ? 1 : 0);
    if (!same.defined()) continue;
    there.push_back(same);
    of_patch.push_back(here.size() - 1);
  }
  if (there.empty()) return here;
  const std::vector<std::int64_t> answers = id_list(at::stack(there));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] == 0) here[of_patch[i]] = 0;
  }
  return here;
}

bool PatchedRuns::is_mixed(const ActivationName& name) const {
  if (name.scope() != SiteScope::block || name.site == Site::relative_bias) return false;
  const auto point = [&](const act::BlockSite& site) {
    return points_.require(site.in(name.stack, name.layer).name());
  };
  const ModelConfig& config = model_.config();
  // A convolution reads what the run's prefix remembers of earlier columns.
  if (!config.attends(name.layer)) return false;
  if (config.shares_keys(name.layer) || config.lends_keys(name.layer)) return false;
  // A dictionary of this layer or of a later one reads an earlier layer.
  if (first_block_for(name.layer) < config.last_start(name.layer, config.n_layers)) return false;
  const std::size_t number = points_.require(name);
  return number >= point(act::q) && number < point(act::z);
}

bool PatchedRuns::has_suffixes(const Group& group) const {
  if (!suffixes_ || !group.layer || !group.point) return false;
  const ActivationName& name = points_.name(*group.point);
  return is_mixed(name) || RaggedRows::can_show(name.site);
}

std::int64_t PatchedRuns::first_column(const PatchedBlock& block) const {
  const AxisIndex* index = columns_in(block.place.indices());
  if (index == nullptr) return first_real_;
  std::int64_t first = columns_;  // nothing attends to padding
  for (const std::int64_t place : places_of(*index)) {
    if (place >= first_real_) first = std::min(first, place);
  }
  return first;
}

bool PatchedRuns::reaches_into_padding(const PatchedBlock& block) const {
  const AxisIndex* index = columns_in(block.place.indices());
  if (index == nullptr) return false;
  const std::vector<std::int64_t> places = places_of(*index);
  return std::any_of(places.begin(), places.end(), [&](std::int64_t place) { return place < first_real_; });
}

PatchedRuns::Group PatchedRuns::group_of(const Patch& patch) const {
  const ActivationName& first = patch.front().place.name();
  Group group{.layer = std::numeric_limits<std::int64_t>::max(), .point = points_.require(first)};
  // What is read may come before the patch; what all layers share is computed before the first.
  if (!options_.run.capture.empty() || changes_shared_ || needs_tokens_) group.layer.reset();
  for (const PatchedBlock& block : patch) {
    const ActivationName& name = block.place.name();
    group.alone = group.alone || per_expert(row(name.site));
    const bool inside = name.scope() == SiteScope::block && name.stack == points_.stacks().main();
    if (!inside) {
      group.layer.reset();
    } else if (group.layer) {
      group.layer = std::min<std::int64_t>(*group.layer, name.layer);
    }
    if (name != first || reaches_into_padding(block)) group.point.reset();
  }
  if (group.layer) group.layer = first_block_for(*group.layer);
  return group;
}

std::vector<PatchedRuns::Batch> PatchedRuns::batches(const std::vector<Patch>& patches) const {
  Batch unchanged{.group = {}, .rows = {}, .changes = false};
  std::map<Group, std::vector<Row>> groups;
  const auto& asked = options_.run.logit_positions;
  const std::vector<char> no_effect = without_effect(patches, unpatched_.cache);
  for (std::size_t p = 0; p < patches.size(); ++p) {
    Row row{.patch = p, .first_column = columns_};
    bool same = no_effect[p] != 0;
    for (const PatchedBlock& block : patches[p]) {
      row.first_column = std::min(row.first_column, first_column(block));
    }
    if (suffixes_) {
      const auto [least, most] = std::minmax_element(asked->begin(), asked->end());
      same = same || row.first_column > *most;  // nothing reads what it changes
      row.first_column = std::min(row.first_column, *least);
    }
    (same ? unchanged.rows : groups[group_of(patches[p])]).push_back(row);
  }
  std::vector<Batch> made;
  if (!unchanged.rows.empty()) made.push_back(std::move(unchanged));
  for (auto& [group, rows] : groups) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.first_column < b.first_column; });
    const std::int64_t most_rows = rows_at_once(group);
    const bool suffixes = has_suffixes(group);
    const auto tokens_of = [&](const Row& row) { return suffixes ? columns_ - row.first_column : columns_; };
    std::size_t begin = 0;
    while (begin < rows.size()) {
      std::int64_t tokens = 0;
      std::size_t end = begin;
      do {
        tokens += tokens_of(rows[end++]);
      } while (end < rows.size() && static_cast<std::int64_t>(end - begin) < most_rows &&
               tokens + tokens_of(rows[end]) <= options_.tokens_per_run);
      made.push_back({group,
                      {rows.begin() + static_cast<std::ptrdiff_t>(begin),
                       rows.begin() + static_cast<std::ptrdiff_t>(end)}});
      begin = end;
    }
  }
  return made;
}

std::int64_t PatchedRuns::rows_at_once(const Group& group) const {
  if (group.alone) return 1;
  std::int64_t bytes = 1;
  if (group.point) bytes = static_cast<std::int64_t>(value(points_.name(*group.point)).nbytes());
  if (unpatched_.output() == Output::logits) {
    bytes = std::max(bytes, static_cast<std::int64_t>(unpatched_.logits().nbytes()));
  }
  return std::max<std::int64_t>(1, kBytesAtOnce / bytes);
}

std::int64_t PatchedRuns::bytes(const Batch& batch) const {
  if (!batch.changes) return 0;
  const ModelConfig& config = model_.config();
  const std::int64_t element = c10::elementSize(config.dtype);
  const bool suffixes = has_suffixes(batch.group);
  std::int64_t tokens = 0;
  for (const Row& row : batch.rows) tokens += suffixes ? columns_ - row.first_column : columns_;
  // The stream, the outputs of a norm and of queries, keys and values, and both branches of an MLP.
  const std::int64_t of_a_token =
      (6 * config.d_model + 3 * std::max(config.d_mlp, config.mlp_width(config.n_layers - 1))) * element;
  std::int64_t of_a_row = 0;
  if (batch.group.point)
    of_a_row += static_cast<std::int64_t>(value(points_.name(*batch.group.point)).nbytes());
  if (unpatched_.output() == Output::logits) {
    of_a_row += static_cast<std::int64_t>(unpatched_.logits().nbytes());
  }
  return tokens * of_a_token + static_cast<std::int64_t>(batch.rows.size()) * of_a_row;
}

}  // namespace hooked
