#include "models/attention/attention_recipes.h"

#include <ATen/ops/arange.h>

#include "core/to_device.h"
#include "models/attention/tiled_attention.h"
#include "models/ops/ops.h"

namespace hooked {
namespace {

// The order of a square's inputs; the keys of each segment follow.
enum : std::size_t { kQueries, kFirst, kEnd, kReal, kBias, kStarts, kWholeBias, kSinks, kKeys };

at::Tensor contiguous(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

}  // namespace

Recipe recipe_of(Square square, const ActivationName& name, const at::Tensor& q,
                 const std::vector<KeysAndValues>& attended, const ScoreRules& rules,
                 const Workspace& workspace) {
  const VisibleKeys& visible = rules.mask.visible();
  const ScoreBias& bias = rules.mask.score_bias();
  const bool whole = bias.whole.defined();
  std::vector<Recipe::Input> inputs{
      {"the queries", q, {Axis::batch, Axis::query, Axis::head, Axis::one}},
      {"the mask's columns", visible.first, {Axis::batch, Axis::query}},
      {"the mask's columns", visible.end, {Axis::batch, Axis::query}},
      {"the mask's columns", visible.real, {Axis::batch, Axis::one}},
      {"the biases", whole ? at::Tensor() : bias.values, {Axis::batch, Axis::head, Axis::one}},
      {"the biases", whole ? at::Tensor() : bias.starts, {Axis::batch, Axis::query}},
      {"the biases", bias.whole, {Axis::batch, Axis::head, Axis::query, Axis::one}},
      {"the sinks", rules.sinks, {Axis::head}}};
  std::int64_t columns = 0;
  for (const KeysAndValues& segment : attended) {
    columns += segment.keys.size(2);
    inputs.push_back({"the keys", segment.keys, {Axis::batch, Axis::kv_head, Axis::one, Axis::one}});
  }
  const auto make = [square, columns, scale = rules.scale, soft_cap = rules.soft_cap,
                     has_empty_rows = rules.has_empty_rows, workspace](const std::vector<at::Tensor>& of) {
    // Cut ones may be views with gaps.
    const auto given = [&](std::size_t input) { return contiguous(of[input]); };
    const at::Tensor sinks = given(kSinks);
    const AttentionMask mask({.queries = of[kQueries].size(1), .keys = columns},
                             {.first = given(kFirst), .end = given(kEnd), .real = given(kReal)},
                             of[kWholeBias].defined()
                                 ? ScoreBias::of(of[kWholeBias])
                                 : ScoreBias{.values = given(kBias), .starts = given(kStarts), .whole = {}});
    std::vector<KeysAndValues> attended_keys;
    for (std::size_t i = kKeys; i < of.size(); ++i) attended_keys.push_back({of[i], {}});
    const AttentionOutput made = attend_in_tiles(
        of[kQueries], attended_keys,
        {.scale = scale,
         .soft_cap = soft_cap,
         .sinks = sinks,
         .mask = mask,
         .has_empty_rows = has_empty_rows},
        {.scores = square == Square::scores, .pattern = square == Square::pattern}, {&workspace});
    return square == Square::scores ? made.scores : made.pattern;
  };
  return {name, {q.size(0), q.size(2), q.size(1), columns}, q.options(), std::move(inputs), make};
}

Recipe recipe_of_result(const ActivationName& name, const at::Tensor& z, const Matrix& W_O,
                        const Workspace& workspace) {
  const std::int64_t heads = z.size(2);
  const at::Tensor& weights = W_O.stored();  // undefined if they are stored in codes, which nothing changes
  return {name,
          {z.size(0), z.size(1), heads, W_O.out()},
          z.options(),
          {{"the heads' values z", z, {Axis::batch, Axis::pos, Axis::head, Axis::one}},
           {"the weights W_O", weights, std::vector<Axis>(weights.defined() ? weights.dim() : 0, Axis::one)},
           {"the heads", at::arange(heads, at::kLong), {Axis::head}}},
          [heads, workspace, W_O](const std::vector<at::Tensor>& of) {
            const at::Tensor per_head = W_O.by_input_heads(heads).read();  // [head, d_value, d_model]
            const at::Tensor of_heads = per_head.index_select(0, to_device(of[2], per_head.device()));
            return ops::by_head_product(of[0], of_heads, {&workspace});
          }};
}

}  // namespace hooked
