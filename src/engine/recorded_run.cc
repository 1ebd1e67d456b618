#include "engine/recorded_run.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <variant>

#include "hooked/core/tensor_text.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

// Calls `use` with each tensor of an input whose numbers are copied into a recording.
template <typename SomeInput, typename Use>
void for_each_tensor_of(SomeInput& input, const Use& use) {
  if (input.start) use(input.start->residual);
  for (auto* tensor : {&input.tokens, &input.token_types, &input.decoder.tokens}) {
    if (tensor->defined()) use(*tensor);
  }
}

// The same with those of the edits behind them.
template <typename SomeInput, typename SomeOptions, typename Use>
void for_each_tensor(SomeInput& input, SomeOptions& options, const Use& use) {
  for_each_tensor_of(input, use);
  for (auto& edit : options.edits) {
    if (auto* value = std::get_if<at::Tensor>(&edit.value)) use(*value);
  }
}

// The numbers of a mask, which decide on kernels.
std::string mask_text(const at::Tensor& mask) {
  if (!mask.defined()) return "none";
  const at::Tensor real = mask.to(at::kCPU, at::kBool).contiguous();
  std::string text = shape_text(real.sizes());
  for (std::int64_t i = 0; i < real.numel(); ++i) text += real.const_data_ptr<bool>()[i] ? '1' : '0';
  return text;
}

// What LibTorch is told elsewhere and chooses kernels by.
std::string settings_text() {
  const at::Context& torch = at::globalContext();
  return fmt::format(
      "{}{}{}{}{}{}",
      static_cast<int>(torch.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL)),
      torch.deterministicAlgorithms(), torch.userEnabledFlashSDP(), torch.userEnabledMemEfficientSDP(),
      torch.userEnabledCuDNNSDP(), torch.userEnabledMathSDP());
}

// Why a run is not recorded, whatever is watched in it; empty where it may be.
std::string refusal_of(const LoadedModel& model, const Input& input, const RunOptions& options,
                       const RunExtent& extent, const Kept& kept) {
  if (options.gradients) return "gradients are not recorded";
  if (options.output == Output::loss) return "a loss is not recorded";
  if (options.keep_prefix || input.prefix) return "prefixes are not recorded";
  if (extent.ragged) return "rows that begin at columns of their own are not recorded";
  if (kept.device && *kept.device != model.device) return "what is kept on another device is not recorded";
  return {};
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

RunKey run_key(const LoadedModel& model, const Input& given, const Input& input, const RunOptions& options,
               const Reach& reach, const RunExtent& extent, const WatchPlan& plan) {
  if (std::string refusal = refusal_of(model, input, options, extent, plan.kept()); !refusal.empty()) {
    return {{}, std::move(refusal)};
  }
  if (std::string refusal = refusal_of_points(plan); !refusal.empty()) return {{}, std::move(refusal)};
  const std::optional<std::string> watched = plan.recording_key();
  if (!watched) return {{}, "hooks that are functions cannot be recorded"};
  const auto joined = [](const std::optional<std::vector<std::int64_t>>& numbers) {
    return numbers ? fmt::format("{}", fmt::join(*numbers, ",")) : "all";
  };
  std::string key = fmt::format("{}|{}|{}|{}-{}{}{}|{}", settings_text(), mask_text(given.attention_mask),
                                mask_text(given.decoder.attention_mask), reach.first_block, reach.end_block,
                                reach.exit ? "x" : "", extent.ends_with_last_point ? "l" : "",
                                joined(extent.logit_positions));
  for_each_tensor_of(input, [&](const at::Tensor& tensor) {
    key += fmt::format("|{}{}", dtype_text(tensor.scalar_type()), shape_text(tensor.sizes()));
  });
  return {key + "|" + *watched};
}

std::vector<at::Tensor> read_tensors(const Input& input, const RunOptions& options) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(input, options, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

void put_tensors(const std::vector<at::Tensor>& tensors, Input& input, RunOptions& options) {
  std::size_t next = 0;
  for_each_tensor(input, options, [&](at::Tensor& tensor) { tensor = tensors[next++]; });
}

}  // namespace hooked
