#include "engine/generation_edits.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/run_input.h"
#include "hooked/core/error.h"
#include "hooks/watch.h"

namespace hooked {
namespace {

/// Columns that steps of one kind compute: those of the prompt together, new ones one at a time.
struct StepColumns {
  std::int64_t first, end;
};

/// Where the columns of a generation are, and which part of the model computes them.
class Steps {
 public:
  Steps(const LoadedModel& model, const Input& prompt, std::int64_t end)
      : model_(model),
        prompt_(prompt),
        reach_(reach_of(model, prompt)),
        prompt_columns_{prompt.first_column(), prompt.first_column() + prompt.length()},
        new_columns_{prompt_columns_.end, end} {}

  /// Throws unless the steps of these kinds compute the columns that an edit means.
  void require_named(const Edit& edit, std::string_view field, bool in_prompt, bool in_new) const;
  /// Throws what the step of a new column would throw for an edit's value.
  void require_fitting(const Edit& edit) const;

 private:
  /// Whether the prompt's step computes the column of a single place of an index.
  bool in_prompt(const AxisIndex& place) const;
  /// Which of `columns` an index means in the step that computes it as the newest column.
  std::vector<std::int64_t> new_columns(const AxisIndex& index) const;
  /// The first two new columns that an edit applies to: a value that fits both fits all.
  std::vector<std::int64_t> edited_columns(const Edit& edit, const ActivationName& name) const;
  void require_fitting(const Edit& edit, std::size_t point, std::int64_t column) const;

  const LoadedModel& model_;
  const Input& prompt_;
  const Reach reach_;
  const StepColumns prompt_columns_, new_columns_;
};

// A list is split into its places; each may be out of range.
std::vector<AxisIndex> places_of(const AxisIndex& index) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&index.value);
  if (list == nullptr) return {index};
  return {list->begin(), list->end()};
}

// Whether an axis of an activation counts the columns that steps compute.
bool counts_steps(const ActivationName& name, Axis axis) {
  const auto on = axis_on(name.site, axis);
  return on && (*on == Axis::pos || *on == Axis::query) && !counts_source(name, *on);
}

bool Steps::in_prompt(const AxisIndex& place) const {
  const auto [first, end] = prompt_columns_;
  const auto counted = [end = end](std::int64_t column) { return column < 0 ? column + end : column; };
  if (const auto* one = std::get_if<std::int64_t>(&place.value))
    return counted(*one) >= first && counted(*one) < end;
  const auto* range = std::get_if<AxisIndex::Range>(&place.value);
  if (range == nullptr) return true;  // each row's last
  return std::max(first, counted(range->begin.value_or(0))) <
         std::min(end, counted(range->end.value_or(end)));
}

std::vector<std::int64_t> Steps::new_columns(const AxisIndex& index) const {
  const auto [first, end] = new_columns_;
  std::set<std::int64_t> tried{first, first + 1};  // where an index begins to match columns
  std::vector<AxisIndex> places = places_of(index);
  for (const AxisIndex& place : places) {
    if (const auto* one = std::get_if<std::int64_t>(&place.value)) tried.insert(*one);
    const auto* range = std::get_if<AxisIndex::Range>(&place.value);
    if (range != nullptr && range->begin) tried.insert({*range->begin, *range->begin + 1});
  }
  const auto names = [](const AxisIndex& place, std::int64_t column) {
    const auto counted = [&](std::int64_t given) { return given < 0 ? given + column + 1 : given; };
    if (const auto* one = std::get_if<std::int64_t>(&place.value)) return counted(*one) == column;
    const auto* range = std::get_if<AxisIndex::Range>(&place.value);
    return range == nullptr ||
           (counted(range->begin.value_or(0)) <= column && column < counted(range->end.value_or(column + 1)));
  };
  std::vector<std::int64_t> named;
  for (const std::int64_t column : tried) {
    if (column < first || column >= end || named.size() == 2) continue;
    if (std::any_of(places.begin(), places.end(), [&](const auto& place) { return names(place, column); }))
      named.push_back(column);
  }
  return named;
}

void Steps::require_named(const Edit& edit, std::string_view field, bool prompt, bool later) const {
  for (const std::size_t point : edited_points(edit.target, model_.points, reach_)) {
    const ActivationName& name = model_.points.name(point);
    for (const auto& [axis, index] : edit.target.indices.entries()) {
      if (!counts_steps(name, axis)) continue;
      for (const AxisIndex& place : places_of(index)) {
        if ((prompt && in_prompt(place)) || (later && !new_columns(place).empty())) continue;
        const std::int64_t first = prompt ? prompt_columns_.first : new_columns_.first;
        const std::int64_t last = (later ? new_columns_.end : prompt_columns_.end) - 1;
        throw HookError(
            name.to_string() + edit.target.indices.to_string(),
            fmt::format("column {} is out of range for `{}`; expected {} to {}, {}", place.to_string(), field,
                        first, last,
                        !later    ? "those of the prompt; use new_token_edits for columns after it"
                        : !prompt ? "those of the new tokens (-1 is the newest); use prompt_edits for the "
                                    "prompt's; the last token's column is only computed where something is "
                                    "captured"
                                  : "those of prompt and new tokens; the last token's column is only "
                                    "computed where something is captured"));
      }
    }
  }
}

std::vector<std::int64_t> Steps::edited_columns(const Edit& edit, const ActivationName& name) const {
  for (const auto& [axis, index] : edit.target.indices.entries()) {
    if (counts_steps(name, axis)) return new_columns(index);
  }
  return new_columns(AxisIndex::Range{});
}

void Steps::require_fitting(const Edit& edit) const {
  if (!std::holds_alternative<at::Tensor>(edit.value)) return;  // a number fits everything
  for (const std::size_t point : edited_points(edit.target, model_.points, reach_)) {
    const ActivationName& name = model_.points.name(point);
    // What the encoder computes belongs to the prompt's step, and the number of tokens that an expert gets is
    // known only then.
    if (name.stack == Stack::encoder || per_expert(row(name.site)) || row(name.site).axes.find(Axis::source))
      continue;
    for (const std::int64_t column : edited_columns(edit, name)) require_fitting(edit, point, column);
  }
}

void Steps::require_fitting(const Edit& edit, std::size_t point, std::int64_t column) const {
  const ActivationName& name = model_.points.name(point);
  const auto& value = std::get<at::Tensor>(edit.value);
  const auto plan = std::make_shared<WatchPlan>(model_.points, reach_, Kept{}, model_.placement);
  Edit here = edit;
  here.target = {Selection(name), edit.target.indices};
  // On the host, where nothing is launched. A value on another kind of device stays there, for the error.
  const bool elsewhere = value.device().type() != model_.device.type();
  if (!elsewhere) here.value = at::ones(value.sizes(), value.scalar_type());
  plan->add_edit(here);
  RunExtent extent = extent_of(prompt_, {.first = column, .end = column + 1, .limit = new_columns_.end});
  extent.columns.set_mask({});
  std::vector<std::int64_t> sizes;
  for (const Axis axis : row(name.site).axes) {
    const std::int64_t fixed = model_.size_of_axis(name, axis);
    sizes.push_back(fixed >= 0                 ? fixed
                    : axis == Axis::batch      ? prompt_.batch()
                    : axis == Axis::key        ? column + 1
                    : axis == Axis::source_key ? extent.encoder ? extent.encoder->end : 0
                                               : 1);
  }
  // Scales, logits and weights of experts are float32 in narrower models.
  const at::ScalarType dtype = model_.config.dtype;
  const bool widened = value.scalar_type() == at::kFloat && dtype != at::kDouble;
  const auto options = at::TensorOptions(row(name.site).integers ? at::kLong
                                         : name.host             ? value.scalar_type()
                                         : widened               ? at::kFloat
                                                                 : dtype)
                           .device(elsewhere ? model_.main_device() : c10::Device(at::kCPU));
  Watch(plan, std::move(extent)).fire(point, at::zeros(sizes, options));
}

// The encoder runs only with the prompt, and so do the maps from its output to keys and values.
void require_reached_by_new_tokens(const LoadedModel& model, const Edits& edits) {
  if (!model.config.has_encoder()) return;
  const Reach everything = Reach::everything(model.points);
  Reach decoder = everything;
  decoder.entry = false;
  decoder.encoder_blocks = 0;
  decoder.encoder_exit = false;
  for (const Edit& edit : edits) {
    const std::vector<std::size_t> points = edited_points(edit.target, model.points, everything);
    const auto recurs = [&](std::size_t point) { return decoder.contains(model.points.name(point)); };
    if (std::any_of(points.begin(), points.end(), recurs)) continue;
    throw HookError(model.points.name(points.front()).to_string(),
                    "this is computed once, with the prompt; expected no edit of it in new_token_edits; use "
                    "edits or prompt_edits");
  }
}

}  // namespace

void check_generation_edits(const LoadedModel& model, const Input& prompt, const GenerateOptions& options,
                            std::int64_t end) {
  require_reached_by_new_tokens(model, options.new_token_edits);
  const Steps steps(model, prompt, end);
  for (const Edit& edit : options.prompt_edits) steps.require_named(edit, "prompt_edits", true, false);
  for (const Edit& edit : options.new_token_edits) steps.require_named(edit, "new_token_edits", false, true);
  for (const Edit& edit : options.edits) steps.require_named(edit, "edits", true, true);
  for (const auto* edits : {&options.edits, &options.new_token_edits}) {
    for (const Edit& edit : *edits) steps.require_fitting(edit);
  }
}

}  // namespace hooked
