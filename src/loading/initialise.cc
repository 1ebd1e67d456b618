#include "loading/initialise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace hooked {
namespace {

struct Fans {
  double in;
  double out;
};

// Fan sizes of a weight as it multiplies: [.., in, out] for one matrix or one per head, or [out, in].
Fans fans_of(const at::Tensor& weight, bool out_in) {
  const Fans fans{static_cast<double>(weight.size(-2)), static_cast<double>(weight.size(-1))};
  return out_in ? Fans{fans.out, fans.in} : fans;
}

// Mixtures' matrices are stored [out, in] under such names.
bool is_linear(std::string_view name) { return name.ends_with(".weight"); }

// A matrix of float64 numbers, so that what is drawn does not depend on the model's dtype or device.
at::Tensor draw(const WeightSlot& slot, const CreateOptions& options, const ModelConfig& config,
                at::Generator& generator) {
  const at::Tensor drawn = at::empty(slot.view.sizes(), at::kDouble);
  const Fans fans = fans_of(slot.view, is_linear(slot.name));
  const double gain = options.initializer_range.value_or(1.0);
  switch (options.init) {
    case InitMode::gpt2:
      drawn.normal_(0.0,
                    options.initializer_range.value_or(0.8 / std::sqrt(static_cast<double>(config.d_model))),
                    generator);
      break;
    case InitMode::xavier_uniform: {
      const double bound = gain * std::sqrt(6.0 / (fans.in + fans.out));
      drawn.uniform_(-bound, bound, generator);
      break;
    }
    case InitMode::xavier_normal:
      drawn.normal_(0.0, gain * std::sqrt(2.0 / (fans.in + fans.out)), generator);
      break;
    case InitMode::kaiming_uniform: {
      const double bound = gain * std::sqrt(6.0 / fans.in);
      drawn.uniform_(-bound, bound, generator);
      break;
    }
    case InitMode::kaiming_normal:
      drawn.normal_(0.0, gain * std::sqrt(2.0 / fans.in), generator);
      break;
  }
  return drawn;
}

bool is_matrix(std::string_view name) {
  if (is_linear(name)) return true;
  const std::string_view leaf = name.substr(name.rfind('.') + 1);
  return leaf.starts_with('W') || leaf.starts_with("_W");
}

// Where xIELU's numbers start (Huang and Schlag 2024), absent for other weights.
std::optional<double> xielu_start(std::string_view name) {
  constexpr std::pair<std::string_view, double> kStarts[] = {
      {".xielu.alpha_p", 0.8}, {".xielu.alpha_n", 0.8}, {".xielu.beta", 0.5}, {".xielu.eps", -1e-6}};
  for (const auto& [ending, start] : kStarts) {
    if (name.ends_with(ending)) return start;
  }
  return std::nullopt;
}

// The norms of the embedding, of the neurons and of the masked-LM head are stored plainly.
bool stores_offset(std::string_view name, const ModelConfig& config) {
  return config.norm_offset && !name.starts_with("embed.ln.") && !name.ends_with(".mlp.ln.w") &&
         !name.starts_with("mlm_head.");
}

}  // namespace

void initialise(LoadedModel& model, const CreateOptions& options) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  for (WeightSlot& slot : model.slots()) {
    if (is_matrix(slot.name)) {
      slot.view.copy_(draw(slot, options, model.config, generator));
    } else if (const auto start = xielu_start(slot.name)) {
      slot.view.fill_(*start);
    } else if (slot.name.ends_with(".w") && !stores_offset(slot.name, model.config)) {
      slot.view.fill_(1.0);
    } else {
      slot.view.zero_();
    }
  }
}

}  // namespace hooked
