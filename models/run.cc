#include "models/run.h"

#include <ATen/ops/zeros.h>

namespace hooked {

Run::Run(const ModelConfig& config, Watch watch, const Input& input)
    : Watch(std::move(watch)),
      config_(config),
      length_(input.own.length),
      device_(input.own.device),
      token_types_(input.token_types),
      own_(config, config.main_stack(), input.own) {
  if (const at::Tensor last = own_.last_columns(); last.defined()) set_last_positions(last);
  if (!input.source) return;
  source_.emplace(config, Stack::encoder,
                  Sequence::Input{.batch = input.own.batch,
                                  .length = input.source->length,
                                  .attention_mask = input.source->attention_mask,
                                  .device = input.own.device});
  memory_ = input.source->memory;
  remembers_source_ = memory_ != nullptr && !memory_->empty();
  set_source_length(input.source->length);
  if (const at::Tensor last = source_->last_columns(); last.defined()) set_last_of_source(last);
}

at::Tensor Run::token_types() const {
  if (token_types_.defined()) return token_types_;
  return at::zeros({1, length_}, at::TensorOptions(at::kLong).device(device_));
}

const LayerKind& Run::source_kind() {
  if (!source_kind_) source_kind_ = source_->seen_from(length_);
  return *source_kind_;
}

const KeysAndValues* Run::recall(std::int64_t l) const {
  return remembers_source_ ? &(*memory_)[static_cast<std::size_t>(l)] : nullptr;
}

void Run::keep(const KeysAndValues& made) const {
  if (memory_ != nullptr) memory_->push_back(made);
}

}  // namespace hooked
