#include "engine/recorded_run.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/to_device.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/site.h"
#include "models/sequence/kv_cache.h"

namespace hooked {
namespace {

// Calls `use` with each tensor of an input whose numbers are copied into a recording.
template <typename SomeInput, typename Use>
void for_each_tensor_of(SomeInput& input, const Use& use) {
  if (input.start) {
    use(input.start->residual);
    if (input.start->tokens.defined()) use(input.start->tokens);
  }
  for (auto* tensor : {&input.tokens, &input.token_types, &input.attention_mask, &input.decoder.tokens,
                       &input.decoder.attention_mask}) {
    if (tensor->defined()) use(*tensor);
  }
}

// The same including the values of edits.
template <typename SomeOptions, typename Use>
void for_each_edit_tensor(SomeOptions& options, const Use& use) {
  for (auto& edit : options.edits) {
    if (auto* value = std::get_if<at::Tensor>(&edit.value)) use(*value);
  }
}

// And including what a loss compares with.
template <typename SomeOptions, typename Use>
void for_each_tensor_of_options(SomeOptions& options, const Use& use) {
  for_each_edit_tensor(options, use);
  if (options.loss.targets.defined()) use(options.loss.targets);
}

// The numbers of a mask, which affect the choice of kernels.
std::string mask_text(const at::Tensor& mask) {
  if (!mask.defined()) return "none";
  const at::Tensor real = mask.to(at::kCPU, at::kBool).contiguous();
  std::string text = shape_text(real.sizes());
  for (std::int64_t i = 0; i < real.numel(); ++i) text += real.const_data_ptr<bool>()[i] ? '1' : '0';
  return text;
}

// LibTorch's global settings by which it chooses kernels.
std::string settings_text() {
  const at::Context& torch = at::globalContext();
  return fmt::format(
      "{}{}{}{}{}{}",
      static_cast<int>(torch.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL)),
      torch.deterministicAlgorithms(), torch.userEnabledFlashSDP(), torch.userEnabledMemEfficientSDP(),
      torch.userEnabledCuDNNSDP(), torch.userEnabledMathSDP());
}

// Why a run is not recorded, whatever is watched in it; empty if it may be.
std::string refusal_of(const Input& input, const RunOptions& options) {
  if (options.gradients) return "gradients are not recorded: their metric is a function";
  if (options.differentiable) return "a differentiable run is not recorded: its graph is the caller's";
  if (input.prefix && input.prefix->columns()->encoder().real.defined()) {
    return "a prefix whose encoder read padding is not recorded";
  }
  return {};
}

// The outputs that are asked for.
std::string ends_text(const RunOptions& options) {
  std::string text;
  if (options.output == Output::loss)
    text += fmt::format("loss {}", static_cast<int>(options.loss.reduction));
  if (options.keep_prefix) text += " prefix";
  return text;
}

constexpr const char* kFunctions = "hooks that are functions cannot be recorded";

// The layout of a prefix, which affects the choice of kernels; its numbers do not.
std::string prefix_text(const std::optional<Prefix>& prefix) {
  if (!prefix) return "none";
  const KvCache& columns = *prefix->columns();
  std::string text = columns.real().defined() ? "padded" : "";
  for (const at::Tensor& tensor : columns.tensors()) {
    text += fmt::format("{}/{}", shape_text(tensor.sizes()), fmt::join(tensor.strides(), ","));
  }
  return text;
}

}  // namespace

std::string refusal_of_points(const WatchPlan& plan) {
  for (const std::size_t point : plan.watched_points()) {
    const SiteRow& site = row(plan.points().name(point).site);
    if (per_expert(site)) {
      return "points of single experts are watched: the run waits for how many tokens each of them got";
    }
    if (site.integers && plan.find(point)->may_change())
      return "edits of ids are checked, for which the run waits";
  }
  return {};
}

RunKey run_key(const PlannedRun& planned, const Input& given) {
  const auto& [model, options, input, targets, reach, extent, metric_columns, plan] = planned;
  if (std::string refusal = refusal_of(input, options); !refusal.empty()) {
    return {{}, std::move(refusal)};
  }
  std::optional<RecordingKey> watched = Watch(plan, extent).recording_key(model.config, input.batch());
  if (!watched) return {{}, kFunctions};
  if (std::string refusal = refusal_of_points(*plan); !refusal.empty()) return {{}, std::move(refusal)};
  const auto joined = [](const std::optional<std::vector<std::int64_t>>& numbers) {
    return numbers ? fmt::format("{}", fmt::join(*numbers, ",")) : "all";
  };
  std::string key = fmt::format(
      "{}|{}|{}|{}|{}-{}{}{}|{}|{}|{}|{}", settings_text(), mask_text(given.attention_mask),
      mask_text(given.decoder.attention_mask), prefix_text(input.prefix), reach.first_block, reach.end_block,
      reach.exit ? "x" : "", extent.ends_with_last_point ? "l" : "", joined(extent.logit_positions),
      options.logit_tokens ? std::to_string(options.logit_tokens->size()) : "all", ends_text(options),
      fmt::join(input.first_columns, ","));
  for_each_tensor_of(input, [&](const at::Tensor& tensor) {
    key += fmt::format("|{}{}", dtype_text(tensor.scalar_type()), shape_text(tensor.sizes()));
  });
  return {key + "|" + watched->text, {}, std::move(watched->places)};
}

std::string refusal_of_steps(const WatchPlan& plan) {
  for (const WatchPlan::PointPlan& point : plan.plans()) {
    if (!point.forward.empty() || !point.backward.empty()) return kFunctions;
    const ActivationName& name = plan.points().name(point.point);
    const bool by_key = name.stack == plan.points().stacks().main() && row(name.site).axes.find(Axis::key);
    const auto fits = [&](const WatchPlan::PointEdit& edit) { return Watch::fits_all_keys(edit, name.site); };
    if (by_key && !std::ranges::all_of(point.edits, fits)) {
      return fmt::format(
          "an edit of {} with a number for each key is not recorded in a generation, where every step has "
          "more keys",
          name.to_string());
    }
  }
  return refusal_of_points(plan);
}

std::string step_key(const LoadedModel& model, const RunExtent& extent,
                     const std::shared_ptr<const WatchPlan>& plan, const KeyRoom& room) {
  const KvCache& columns = room.columns;
  const RecordingKey watched = Watch(plan, extent).recording_key(model.config, columns.batch()).value();
  return fmt::format("step|{}|room {}|{}{}|{}|{}", settings_text(), room.number,
                     columns.real_room().defined() ? "padded" : "",
                     columns.encoder().real.defined() ? " source padded" : "", watched.text,
                     fmt::join(watched.places, ","));
}

RunTensors::RunTensors(const LoadedModel& model, const Input& input, const RunOptions& options,
                       const std::vector<std::int64_t>& edit_places)
    : places(!edit_places.empty()), logit_tokens(options.logit_tokens.has_value()) {
  const auto add = [&](const at::Tensor& tensor) { all.push_back(tensor); };
  for_each_tensor_of(input, add);
  for_each_tensor_of_options(options, add);
  if (logit_tokens) add(to_device(*options.logit_tokens, model.device));
  if (places) add(to_device(edit_places, model.device));
  if (!input.prefix) return;
  const std::vector<at::Tensor> columns = input.prefix->columns()->tensors();
  all.insert(all.end(), columns.begin(), columns.end());
  frozen = columns.size();
}

RunTensors::Numbers RunTensors::put(const std::vector<at::Tensor>& tensors, Input& input,
                                    RunOptions& options) const {
  std::size_t next = 0;
  const auto put = [&](at::Tensor& tensor) { tensor = tensors[next++]; };
  for_each_tensor_of(input, put);
  for_each_tensor_of_options(options, put);
  Numbers numbers;
  if (logit_tokens) numbers.logit_tokens = tensors[next++];
  if (places) numbers.edit_places = tensors[next++];
  if (input.prefix) {
    const std::vector<at::Tensor> columns(tensors.begin() + static_cast<std::ptrdiff_t>(next), tensors.end());
    input.prefix = Prefix(input.prefix->model(),
                          std::make_shared<const KvCache>(input.prefix->columns()->with_tensors(columns)));
  }
  return numbers;
}

bool are_the_same(const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& asked) {
  return std::ranges::equal(given, asked,
                            [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
}

std::vector<at::Tensor> edit_tensors(const RunOptions& options) {
  std::vector<at::Tensor> tensors;
  for_each_edit_tensor(options, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

void put_edit_tensors(const std::vector<at::Tensor>& tensors, std::size_t first, RunOptions& options) {
  for_each_edit_tensor(options, [&](at::Tensor& tensor) { tensor = tensors[first++]; });
}

}  // namespace hooked
