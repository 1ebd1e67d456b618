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
  const auto bring = [&](at::Tensor& x) {
    if (x.defined()) x = to_device(x, device);
  };
  for (LayerInputs* layers : {&full, &windowed}) {
    for (LayerKind& kind : layers->kinds) kind.mask = kind.mask.on(device);
    bring(layers->angles.cosine);
    bring(layers->angles.sine);
  }
  bring(query_key_positions);
  bring(query_growth);
  bring(tokens);
  bring(embedding);
  const auto bring_tokens = [&](EarlierTokens& tokens) {
    bring(tokens.columns);
    bring(tokens.missing);
  };
  for (EarlierTokens& tokens : earlier) bring_tokens(tokens);
  bring_tokens(run_tokens.earlier);
  bring(run_tokens.real);
  bring(run_tokens.last);
  if (!cross) return;
  bring(cross->encoder_output);
  cross->kind.mask = cross->kind.mask.on(device);
}

at::Tensor StackInputs::asked_of_part(const at::Tensor& x, std::size_t part) const {
  return asked.empty() ? x : x.index_select(1, asked[part]);
}

at::Tensor StackInputs::asked_of(const at::Tensor& x) const {
  if (asked.empty()) return x;
  return sequence.of_parts([&](std::size_t part) { return asked_of_part(sequence.part_of(x, part), part); });
}

}  // namespace hooked
