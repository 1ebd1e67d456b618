#include "models/mixers/short_convolution.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "models/ops/ops.h"

namespace hooked {
namespace {

// The last `count` of all columns as [row, count, d], with zeros before the first.
at::Tensor last_columns(const std::vector<KeysAndValues>& columns, std::int64_t count) {
  const std::int64_t rows = columns.back().keys.size(0);
  std::vector<at::Tensor> found;  // from right to left
  std::int64_t missing = count;
  for (auto segment = columns.rbegin(); segment != columns.rend() && missing > 0; ++segment) {
    const at::Tensor held = segment->keys.select(1, 0);
    const std::int64_t taken = std::min(missing, held.size(1));
    found.push_back(held.narrow(1, held.size(1) - taken, taken).expand({rows, -1, -1}));
    missing -= taken;
  }
  if (missing > 0)
    found.push_back(at::zeros({rows, missing, found.front().size(2)}, found.front().options()));
  std::reverse(found.begin(), found.end());
  return found.size() == 1 ? found.front() : at::cat(found, 1);
}

// What each tap of each token reads, [row, pos, tap, d].
at::Tensor tapped(const std::vector<KeysAndValues>& columns, const EarlierTokens& earlier) {
  const std::int64_t rows = columns.back().keys.size(0);
  std::vector<at::Tensor> segments;
  for (const KeysAndValues& segment : columns) {
    segments.push_back(segment.keys.select(1, 0).expand({rows, -1, -1}));
  }
  const at::Tensor all = segments.size() == 1 ? segments.front() : at::cat(segments, 1);
  const at::Tensor places = earlier.columns.expand({rows, -1, -1});  // [row, pos, tap]
  const at::Tensor read = all.gather(1, places.flatten(1).unsqueeze(-1).expand({-1, -1, all.size(2)}))
                              .unflatten(1, {places.size(1), places.size(2)});
  return read.masked_fill(earlier.missing.unsqueeze(-1), 0);
}

}  // namespace

at::Tensor causal_convolution(const std::vector<KeysAndValues>& columns, std::int64_t length,
                              const EarlierTokens& earlier, const at::Tensor& filter,
                              const at::Tensor& bias) {
  const at::ScalarType dtype = filter.scalar_type(), wide = at::toOpMathType(dtype);
  const std::int64_t taps = filter.size(0);
  const at::Tensor weights = filter.to(wide);
  at::Tensor sum;
  if (earlier.columns.defined()) {
    sum = (tapped(columns, earlier).to(wide) * weights).sum(2);
  } else {
    const at::Tensor read = last_columns(columns, length + taps - 1).to(wide);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const at::Tensor part = read.narrow(1, tap, length) * weights[tap];
      sum = sum.defined() ? sum + part : part;
    }
  }
  if (bias.defined()) sum = sum + bias.to(wide);
  return sum.to(dtype);
}

// Note [What a short convolution remembers]
// The state of such a layer is what the convolution read of the last tokens: B * x of kernel - 1 of them. It
// is remembered for every column all the same, as attention's keys are. Then the code for keys also cuts a
// prefix at any column, continues rows from different columns, and skips padding between two tokens. It takes
// d_model numbers per token and layer, about as much as keys and values of a few heads.

ShortConvolutionMixer::ShortConvolutionMixer(const GraphContext& context)
    : config_(context.config), layer_(context.layer) {
  const ModelConfig& c = config_;
  const std::int64_t d = c.d_model;
  W_in_ = add_matrix(*this, "W_BCX", 3 * d, d, {.out = d, .in = d}, context);
  W_out_ = add_matrix(*this, "W_out", d, d, {.out = d, .in = d}, context);
  filter_ = add_parameter(*this, "filter", {c.short_conv->kernel, d}, context);
  if (c.short_conv->bias) {
    b_in_ = add_parameter(*this, "b_BCX", {3 * d}, context);
    filter_bias_ = add_parameter(*this, "filter_bias", {d}, context);
    b_out_ = add_parameter(*this, "b_out", {d}, context);
  }
  hook_b_ = add_point(*this, Site::conv_b, context);
  hook_c_ = add_point(*this, Site::conv_c, context);
  hook_x_ = add_point(*this, Site::conv_x, context);
  hook_bx_ = add_point(*this, Site::conv_bx, context);
  hook_conv_ = add_point(*this, Site::convolved, context);
  hook_gated_ = add_point(*this, Site::conv_gated, context);
}

at::Tensor ShortConvolutionMixer::forward(const AttentionInput& input, const StackInputs& stack,
                                          Run& run) const {
  const std::int64_t d = config_.d_model;
  const std::vector<at::Tensor> parts =
      ops::split(ops::linear(input.shared, W_in_, b_in_, run), {d, d, d}, -1, run);
  const at::Tensor b = hook_b_->forward(parts[0], run.watch);
  const at::Tensor c = hook_c_->forward(parts[1], run.watch);
  const at::Tensor x = hook_x_->forward(parts[2], run.watch);
  const at::Tensor bx = hook_bx_->forward(ops::multiply(b, x, run), run.watch);
  const at::Tensor conv = hook_conv_->forward(convolved(bx, stack), run.watch);
  const at::Tensor gated = hook_gated_->forward(ops::multiply(c, conv, run), run.watch);
  return ops::linear(stack.asked_of(gated), W_out_, b_out_, run);
}

at::Tensor ShortConvolutionMixer::convolved(const at::Tensor& bx, const StackInputs& stack) const {
  return stack.sequence.of_parts([&](std::size_t part) {
    const at::Tensor read = stack.sequence.part_of(bx, part);
    const at::Tensor own = read.unsqueeze(1);  // in the layout of keys of one head
    const std::vector<KeysAndValues> columns =
        stack.sequence.parts()[part].append(layer_, {own, own, KeyForm::convolved});
    return causal_convolution(columns, read.size(1), stack.earlier[part], filter_, filter_bias_);
  });
}

WeightSlots ShortConvolutionMixer::slots(const std::string& path) const {
  const std::int64_t d = config_.d_model;
  WeightSlots slots;
  std::int64_t first = 0;
  for (const char* letter : {"B", "C", "X"}) {
    slots.push_back({path + ".W_" + letter, W_in_.narrow(first, d).as_in_out()});
    if (b_in_.defined()) slots.push_back({path + ".b_" + letter, b_in_.narrow(0, first, d)});
    first += d;
  }
  slots.push_back({path + ".filter.weight", filter_.t()});
  add_slot(slots, path + ".filter.bias", filter_bias_);
  slots.push_back({path + ".W_out", W_out_.as_in_out()});
  add_slot(slots, path + ".b_out", b_out_);
  return slots;
}

}  // namespace hooked
