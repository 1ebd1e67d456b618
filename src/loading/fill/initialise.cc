#include "loading/fill/initialise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "core/weight_table.h"

namespace hooked {
namespace {

struct Fans {
  double in;
  double out;
};

// Fan sizes of a weight in its product: [.., in, out] for one matrix or one per head, or [out, in].
Fans fans_of(at::IntArrayRef weight, bool out_in) {
  const Fans fans{static_cast<double>(weight[weight.size() - 2]), static_cast<double>(weight.back())};
  return out_in ? Fans{fans.out, fans.in} : fans;
}

// A matrix drawn in float64, so that its numbers do not depend on the model's dtype or device.
at::Tensor draw(const WeightSlot& slot, WeightKind kind, const CreateOptions& options,
                const ModelConfig& config, at::Generator& generator) {
  const at::Tensor drawn = at::empty(slot.view.sizes(), at::kDouble);
  const Fans fans = fans_of(slot.view.sizes(), kind == WeightKind::linear);
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

}  // namespace

void initialise(LoadedModel& model, const CreateOptions& options) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  for (WeightSlot& slot : model.slots()) {
    const WeightRow& row = *find_weight_row(slot.name);
    if (row.is_matrix()) {
      slot.view.write(draw(slot, row.kind, options, model.config, generator));
    } else {
      const bool is_offset = row.kind == WeightKind::gain && model.config.norm_offset;
      slot.view.pieces().fill_(is_offset ? 0.0 : row.start);
    }
  }
}

}  // namespace hooked
