#include "analysis/runs/patched_runs.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cassert>
#include <utility>
#include <variant>

#include "analysis/places/input_rows.h"
#include "engine/standing_dictionaries.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/edit.h"

namespace hooked {
namespace {

// What `where` selects of what a run computes that begins there, except its streams; empty if that is
// nothing.
Selection reached(const Selection& where, const PointIndex& points, const PatchedRuns::Begin& begin) {
  Reach reach = Reach::everything(points);
  reach.entry = points.n_encoder_layers() > 0;
  reach.first_block = begin.run;
  Selection names;
  for (const std::size_t point : where.resolve(points, Reach::everything(points))) {
    const ActivationName& name = points.name(point);
    // The run starts from the streams as hooks and edits have left them.
    const bool is_stream = name.site == Site::resid_pre && name.stack == points.stacks().main() &&
                           (name.layer == begin.stream || name.layer == begin.run);
    if (reach.contains(name) && !is_stream) names = names | Selection(name);
  }
  return names;
}

// Whether an edit there changes a value that later layers read in addition to the stream.
bool changes_shared(const Selection& where, const PointIndex& points, const ModelConfig& config) {
  const auto selected = where.resolve(points, Reach::everything(points));
  return std::any_of(selected.begin(), selected.end(), [&](std::size_t point) {
    const Site site = points.name(point).site;
    return (site == Site::relative_bias && !config.relative()->in_every_block) ||
           (site == Site::pos_embed && config.shortformer()) ||
           (config.layer_input && row(site).scope == SiteScope::entry);
  });
}

// `index` on the axis of positions, moved so that `from` is 0.
AxisIndex moved(const AxisIndex& index, std::int64_t from) {
  if (const auto* one = std::get_if<std::int64_t>(&index.value)) return *one - from;
  std::vector<std::int64_t> places = std::get<std::vector<std::int64_t>>(index.value);
  for (std::int64_t& place : places) place -= from;
  return places;
}

// Whether keys and values that were computed once are valid in longer and shorter inputs.
bool keys_last(const ModelConfig& config) {
  const RotaryPositions* rotary = config.rotary();
  return rotary == nullptr || !depends_on_length(rotary->scaling);
}

}  // namespace

PatchedRuns::PatchedRuns(const HookedTransformer& model, Input input, Options options, RunResult unpatched)
    : model_(model.loaded()),
      input_(std::move(input)),
      options_(std::move(options)),
      points_(model.points()),
      columns_(input_.length()),
      unpatched_(std::move(unpatched)) {
  const Hooks attached = model.hooks();
  options_.run.hooks.insert(options_.run.hooks.begin(), attached.begin(), attached.end());
  needs_tokens_ = std::ranges::any_of(mounted_in(model_), [](const MountedDictionary& each) {
    const bool reads_embedding =
        each.reads.scope() != SiteScope::block && each.writes.scope() == SiteScope::block;
    return !each.excluded.empty() || reads_embedding;
  });
}

PatchedRuns::PatchedRuns(const HookedTransformer& model, Input input,
                         const std::vector<ActivationName>& patched, Options options)
    : PatchedRuns(model, std::move(input), std::move(options), RunResult()) {
  RunOptions& run = options_.run;
  const ModelConfig& config = model.config();
  // Rows with their own columns attend one after another: less work but more launches, which dominate small
  // runs on other devices than the CPU.
  suffixes_ = model.device().is_cpu() && config.direction == AttentionDirection::causal &&
              !config.has_encoder() && !config.delta_net && keys_last(config) && run.hooks.empty() &&
              run.edits.empty() && run.capture.empty() && run.logit_positions.has_value() && !needs_tokens_;
  if (const at::Tensor& mask = input_.main_mask(); mask.defined()) {
    const at::Tensor real = mask[0].to(at::kByte);
    first_real_ = real.argmax().item<std::int64_t>();
    // Columns determine the order of tokens only if all padding is on the left.
    suffixes_ = suffixes_ && real.sum().item<std::int64_t>() == columns_ - first_real_;
  }
  for (const Hook& hook : run.hooks) changes_shared_ |= changes_shared(hook.where, points_, config);
  for (const Edit& edit : run.edits) changes_shared_ |= changes_shared(edit.target.where, points_, config);
  keeps_encoder_ = config.has_encoder() && run.hooks.empty() && run.edits.empty() && keys_last(config) &&
                   config.direction == AttentionDirection::causal;
  RunOptions first = run;
  first.capture = first.capture | Selection(act::resid_pre);
  first.keep_prefix = suffixes_ || keeps_encoder_;
  for (const ActivationName& name : patched) {
    first.capture = first.capture | Selection(name);
    if (!suffixes_ || !is_mixed(name)) continue;
    for (const act::BlockSite& site : {act::q, act::k, act::v, act::z}) {
      first.capture = first.capture | Selection(site.in(name.stack, name.layer));
    }
  }
  unpatched_ = model_.run(input_, first);
}

RunResult PatchedRuns::run(const std::vector<Patch>& patches, const Batch& batch) const {
  const auto& [group, rows, changes] = batch;
  assert(changes);
  if (!has_suffixes(group)) return run_columns(group, patches, rows);
  const ActivationName& name = points_.name(*group.point);
  const std::int64_t first = rows.front().first_column;
  if (!is_mixed(name)) return run_suffixes(name, patched(name, patches, rows, first), rows);
  const at::Tensor z = mixed(name, patched(name, patches, rows, 0));
  return run_suffixes(act::z.in(name.stack, name.layer).name(), z.slice(1, first), rows);
}

at::Tensor PatchedRuns::patched(const ActivationName& name, const std::vector<Patch>& patches,
                                const std::vector<Row>& rows, std::int64_t from_column) const {
  const std::string where = name.to_string();
  const at::Tensor all = value(name);
  const at::Tensor unpatched = from_column == 0 ? all : all.slice(1, from_column);
  std::vector<std::int64_t> sizes = unpatched.sizes().vec();
  sizes.front() = static_cast<std::int64_t>(rows.size());
  const at::Tensor values = unpatched.expand(sizes).clone(at::MemoryFormat::Contiguous);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const at::Tensor own = values.narrow(0, static_cast<std::int64_t>(i), 1);
    for (const PatchedBlock& block : patches[rows[i].patch]) {
      if (block.place.name() != name) continue;
      const AxisIndices& of_all = block.place.indices();
      at::Tensor put = block.value;
      if (from_column > 0 && of_all.find(Axis::pos) == nullptr) {
        put = put.expand_as(take_block(all, of_all, {name.site, where, {}})).slice(1, from_column);
      }
      AxisIndices indices;
      for (const auto& [axis, index] : of_all.entries()) {
        indices.add(axis, axis == Axis::pos ? moved(index, from_column) : index);
      }
      write_block(own, indices, {name.site, where, {}}, put);
    }
  }
  return values;
}

at::Tensor PatchedRuns::mixed(const ActivationName& name, const at::Tensor& values) const {
  RunOptions options{.output = Output::none};
  for (const act::BlockSite& site : {act::q, act::k, act::v}) {
    const ActivationName own = site.in(name.stack, name.layer).name();
    std::vector<std::int64_t> sizes = value(own).sizes().vec();
    sizes.front() = values.size(0);
    options.edits.push_back(set(Address(own), own == name ? values : value(own).expand(sizes)));
  }
  if (name.site != Site::q && name.site != Site::k && name.site != Site::v) {
    options.edits.push_back(set(Address(name), values));
  }
  const Address z = act::z.in(name.stack, name.layer);
  options.capture = z;
  // If later layers would need keys that are not computed.
  if (first_block_for(name.layer) < name.layer) options.stop_at_layer = name.layer + 1;
  options.threads = options_.run.threads;
  return model_.run(rows_from(name.layer, values.size(0)), options).cache[z];
}

RunResult PatchedRuns::run_suffixes(const ActivationName& name, const at::Tensor& values,
                                    const std::vector<Row>& rows) const {
  const std::int64_t layer = first_block_for(name.layer);
  RunOptions options = options_from({layer, layer});
  const std::int64_t first = rows.front().first_column;
  InputDetails details;
  if (rows.back().first_column != first) {
    details.prefix = unpatched_.prefix;
    for (const Row& row : rows) details.first_columns.push_back(row.first_column);
  } else if (first > 0) {
    details.prefix = unpatched_.prefix->first(first);
  }
  const bool is_start = name.site == Site::resid_pre && name.layer == layer;
  if (!is_start) options.edits.push_back(set(Address(name), values));
  const at::Tensor stream = is_start ? values : stream_before(layer).slice(1, first);
  details.start = start_at(layer, stream.expand({values.size(0), -1, -1}), first);
  return model_.run({at::Tensor(), details}, options);
}

std::int64_t PatchedRuns::first_block_for(std::int64_t layer) const {
  const ModelConfig& config = model_.config();
  const MountedDictionaries& all = mounted_in(model_);
  std::int64_t first = config.last_start(layer, config.n_layers);
  // A dictionary that stands at or after the first block reads an activation that the run computes.
  for (bool lower = true; std::exchange(lower, false);) {
    for (const MountedDictionary& each : all) {
      if (each.writes.scope() != SiteScope::block || each.writes.stack != points_.stacks().main()) continue;
      for (const std::size_t source : each.sources) {
        const std::int64_t reads = all[source].reads.layer;
        if (each.writes.layer < first || reads >= first) continue;
        first = config.last_start(reads, config.n_layers);
        lower = true;
      }
    }
  }
  return first;
}

at::Tensor PatchedRuns::stream_before(std::int64_t layer) const {
  return value(act::resid_pre(static_cast<std::int32_t>(layer)).name());
}

StartAtLayer PatchedRuns::start_at(std::int64_t layer, const at::Tensor& streams, std::int64_t first) const {
  StartAtLayer start{layer, streams};
  if (model_.config().layer_input) {
    start.tokens = input_.main_tokens().view({1, -1}).slice(1, first).expand({streams.size(0), -1});
  }
  return start;
}

RunResult PatchedRuns::run_columns(const Group& group, const std::vector<Patch>& patches,
                                   const std::vector<Row>& rows) const {
  RunOptions options = group.layer ? options_from({*group.layer, *group.layer}) : options_.run;
  std::vector<ActivationName> names;
  for (const Row& row : rows) {
    for (const PatchedBlock& block : patches[row.patch]) {
      const ActivationName& name = block.place.name();
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (group.alone) {
    for (const PatchedBlock& block : patches[rows.front().patch])
      options.edits.push_back(set(block.place, block.value));
  } else if (names.size() == 1) {
    options.edits.push_back(set(Address(names.front()), patched(names.front(), patches, rows, 0)));
  } else {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const PatchedBlock& block : patches[rows[i].patch]) {
        Address place = block.place.name();
        place = place.row(
            AxisIndex(AxisIndex::Range{static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1}));
        for (const auto& [axis, index] : block.place.indices().entries()) place = place.at(axis, index);
        options.edits.push_back(set(place, block.value));
      }
    }
  }
  const bool edits_source = std::any_of(names.begin(), names.end(), [](const ActivationName& name) {
    return row(name.site).axes.find(Axis::source).has_value();
  });
  return model_.run(rows_from(group.layer, static_cast<std::int64_t>(rows.size()), edits_source), options);
}

std::vector<ActivationName> PatchedRuns::read_to_resume(const ModelConfig& config, std::int64_t layer) {
  const std::int64_t start = config.last_start(layer, config.n_layers);
  return {act::resid_pre.in(config.main_stack(), static_cast<std::int32_t>(start)).name()};
}

ActivationCache PatchedRuns::resume(std::int64_t layer, const at::Tensor& streams, Edits edits,
                                    Selection capture) const {
  const Begin begin{layer, first_block_for(layer)};
  Input rows = rows_from(begin.run, streams.size(0));
  if (begin.run == layer) {
    rows.start->residual = streams;
  } else {
    edits.insert(edits.begin(), set(act::resid_pre(static_cast<std::int32_t>(layer)), streams));
  }
  return seen(rows, options_from(begin), std::move(edits), std::move(capture));
}

ActivationCache PatchedRuns::whole(std::int64_t rows, Edits edits, Selection capture) const {
  return seen(rows_from(std::nullopt, rows), options_.run, std::move(edits), std::move(capture));
}

ActivationCache PatchedRuns::seen(const Input& rows, RunOptions options, Edits edits,
                                  Selection capture) const {
  options.edits.insert(options.edits.end(), edits.begin(), edits.end());
  options.capture = std::move(capture);
  options.output = Output::none;
  options.logit_positions.reset();
  options.logit_tokens.reset();
  return model_.run(rows, options).cache;
}

Input PatchedRuns::rows_from(std::optional<std::int64_t> layer, std::int64_t rows, bool edits_source) const {
  Input input = input_;
  for (at::Tensor* tensor : tensors_of_rows(input)) {
    if (tensor->defined()) *tensor = tensor->expand({rows, -1});
  }
  if (!layer) return input;
  if (keeps_encoder_ && !edits_source) {
    // The encoder's output is reused, not recomputed.
    input.attention_mask = input.decoder.attention_mask;
    input.tokens = at::Tensor();
    input.decoder = {};
    input.prefix = unpatched_.prefix->first(0);
  } else {
    (input.decoder.tokens.defined() ? input.decoder.tokens : input.tokens) = at::Tensor();
  }
  input.start = start_at(*layer, stream_before(*layer).expand({rows, -1, -1}), 0);
  input.token_types = at::Tensor();  // they are part of the stream
  return input;
}

RunOptions PatchedRuns::options_from(const Begin& begin) const {
  RunOptions options = options_.run;
  for (Hook& hook : options.hooks) hook.where = reached(hook.where, points_, begin);
  for (Edit& edit : options.edits) edit.target.where = reached(edit.target.where, points_, begin);
  std::erase_if(options.hooks, [](const Hook& hook) { return hook.where.empty(); });
  std::erase_if(options.edits, [](const Edit& edit) { return edit.target.where.empty(); });
  return options;
}

}  // namespace hooked
