#include "models/sequence/stack_inputs.h"

#include "core/to_device.h"

namespace hooked {

StackInputs StackInputs::at_columns(const std::vector<at::Tensor>& columns) const {
  StackInputs some = *this;
  some.asked = columns;
  for (LayerInputs* layers : {&some.full, &some.windowed}) {
    for (std::size_t part = 0; part < layers->kinds.size(); ++part) {
      layers->kinds[part] = layers->kinds[part].of_queries(columns[part]);
    }
  }
  if (some.cross) some.cross->kind = some.cross->kind.of_queries(columns.front());
  return some;
}

void StackInputs::bring_to(const c10::Device& device) {
  std::vector<at::Tensor*> read{&query_key_positions, &query_growth,    &tokens,
                                &embedding,           &run_tokens.real, &run_tokens.last};
  std::vector<AttentionMask*> masks;
  for (LayerInputs* layers : {&full, &windowed}) {
    for (LayerKind& kind : layers->kinds) masks.push_back(&kind.mask);
    read.insert(read.end(), {&layers->angles.cosine, &layers->angles.sine});
  }
  if (cross) masks.push_back(&cross->kind.mask);
  if (cross) read.push_back(&cross->encoder_output);
  const auto read_tokens = [&](EarlierTokens& of) { read.insert(read.end(), {&of.columns, &of.missing}); };
  read_tokens(run_tokens.earlier);
  for (EarlierTokens& of_part : earlier) read_tokens(of_part);
  for (AttentionMask* mask : masks) *mask = mask->on(device);
  for (at::Tensor* x : read) {
    if (x->defined()) *x = to_device(*x, device);
  }
}

at::Tensor StackInputs::asked_of_part(const at::Tensor& x, std::size_t part) const {
  return asked.empty() ? x : x.index_select(1, asked[part]);
}

at::Tensor StackInputs::asked_of(const at::Tensor& x) const {
  if (asked.empty()) return x;
  return sequence.of_parts([&](std::size_t part) { return asked_of_part(sequence.part_of(x, part), part); });
}

}  // namespace hooked
