// Prints docs/activations.md from the table of sites.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>

#include "hooked/core/axis.h"
#include "hooked/hooks/site.h"

namespace {

constexpr std::string_view kPreface = R"(# Activations

Generated from the table of sites (`include/hooked/hooks/sites.inc`); do not edit. Run `cmake --build --preset release --target docs` after
a change of the table. A test fails when this page is out of date.

`hooked names MODEL` lists the points of one model with their shapes.

## How points are named

A name is the path of a hook point in the module graph, and the key in a cache: `blocks.5.attn.hook_pattern`.
`{stack}` is `blocks`, and in an encoder-decoder `encoder` or `decoder`; `{layer}` and `{expert}` count from 0. Names and shapes are those of TransformerLens's `HookedTransformer`, and for
models that norm the sum of their embeddings (BERT) those of its `HookedEncoder`.

| you write | you mean |
|---|---|
| `act::pattern(5)`, `act::pattern(-1)` | the pattern of layer 5, of the last layer; in an encoder-decoder the decoder's |
| `act::pattern.encoder(5)` | the encoder's |
| `act::expert_post(5, 2)`, `act::expert_post` | of expert 2 of layer 5, of all experts |
| `act::pattern` | the patterns of all layers, as a selection |
| `act::pattern \| act::resid_post(1)` | several selections joined |
| `act::defaults`, `act::everything` | every point but the wide ones, every point |
| `act::z(9).head(6).pos(-1)` | head 6 at the last position: an address, for reading and for edits |
| `"blocks.9.attn.hook_z[head=6,pos=-1]"` | the same as text |
| `"z5"`, `"k6a"`, `"scale4ln1"` | the field's shorthand, read by caches, selections and `from_shorthand` |
| `"pattern"`, `"blocks.*.hook_resid_*"` | as a selection: every layer's, names by pattern (`*` any run of characters, `?` one) |

Texts mean the same everywhere: `run_with_cache(tokens, "z5")`, `cache["z5[head=6,pos=last]"]`, `zero("blocks.*.attn.hook_z[head=3]")`.
An index is a number, a range `2:5` (the end is left out), a list `0+3+7`, or on positions `last`, each row's last real
token. Negative numbers count from the end. `pos` means `query` on scores and patterns. `head` means `kv_head` on keys and
values.

## Axes

)";

constexpr std::string_view kColumns = R"(
## Points

The order is the order in which the points of a block with norms before its sublayers fire.

- **word**: what stands after `act::`, and the shorthand.
- **wide**: large and seldom wanted. Kept only on request, not by `run_with_cache(tokens)`.
- **plan**: a hook or edit at this point makes the run take another path: attention is computed step by step instead of by one
  fused kernel, a norm is spelled out, heads are written one by one. Results agree up to rounding (1e-5 of the largest logit
  in float32, 1e-12 in float64). Watching any other point leaves the logits bit-identical, and so does keeping any point in a cache: what
  the run does without is made when it is first read. (In a generation keeping a point takes the path of a hook that only looks.)
)";

constexpr std::string_view kNotes = R"(
## What the values mean

**What you read is what downstream saw.** A cache holds the value after all hooks and edits at the point. The order at a
point is: hooks attached to the handle, the run's own hooks, edits, then the cache.

**Dtypes.** Activations have the model's dtype. Norms and softmax accumulate in float32 or better. `hook_scale` and logits are float32
(float64 in a float64 model): what half precision's products add up to is not rounded ([decision 50](decisions/0050-sums-of-half-precision.md)). `hook_tokens` and
`hook_expert_indices` are int64 and have no gradient. In T5's family in float16 the residual stream and what MLPs write to it are float32, as that dtype cannot hold
them ([decision 89](decisions/0089-what-stays-in-float32.md)).

**Embeddings.** `hook_tokens` and `hook_pos_embed` are copies; an edit of one never reaches your tensor or the weights.
Position rows of padding are zero. Shortformer positions are added to what queries and keys read and never enter the stream.
In models that norm the sum of token, position and token type embeddings, the parts are `embed.hook_embed`,
`embed.hook_pos_embed` and `embed.hook_token_type_embed`, and what enters the first block is `hook_full_embed`.

**Norms.** `hook_scale` is the divisor of the input: sqrt(mean(x²) + eps), of the centred input for LayerNorm, of the
input itself for RMSNorm. `hook_normalized` is the quotient, before weight and bias. An edit of `hook_scale` changes
`hook_normalized`. Each fires once per norm.

**Where the norms stand.** Before the sublayer: x + f(N(x)). After the addition: N(x + f(x)). On the output: x + N(f(x)).
Both: x + N'(f(N(x))). `ln1_post` and `ln2_post` are the norms on the outputs. With norms after the additions,
`hook_resid_post` is the sum before `ln2`, and `hook_normalized_resid_post` is what the next block reads.

**`ln2` in parallel blocks.** Every block with an MLP and norms has `ln2.*`. In a parallel block with one norm it shows the
shared norm. Edits of `ln1` do not reach the MLP, edits of `ln2` do not reach attention.

**Split inputs.** `hook_q_input`, `hook_k_input`, `hook_v_input` and `hook_attn_in` are the stream before `ln1`, one copy per
head. A branch whose copy is edited computes its own norm from it. If `ln1` itself is edited, its value holds for all
branches. `hook_attn_in` does not exist under grouped-query attention; the split inputs do. `hook_mlp_in` is the MLP's copy of
the stream: edits reach the MLP and not the stream.

**Attention.** `hook_q`, `hook_k` and `hook_v` include their biases. Order: query and key norm, rotary, scores. Where values
are normed (Gemma 4), heads mix `v_norm.hook_normalized`, which has no weight. Layers that attend with the keys and values of an earlier layer (`shared_keys`) have no points of
keys and values; an edit of the earlier layer's reaches all of them.
Scores are scaled, then capped, then biased (ALiBi), then masked with -inf. Rows of a pattern sum to 1; rows that may attend
to nothing (padding) are zero. With one query norm over all heads (OLMo 2) the head axis of `q_norm.hook_scale` has size 1.

**Latent attention** (DeepSeek-V2). `hook_q_latent` and `hook_kv_latent` are the latents after their norms: what every head's
queries, and keys and values, are made from. `hook_k_shared` is the end of each key, which all heads share. `hook_q` and `hook_k`
are whole heads before rotary, the shared and turned part last; `hook_v` and `hook_z` have the width of values. Such models have
no split inputs: heads do not read the stream one by one.

**What is added to the stream.** `hook_attn_out` and `hook_mlp_out` are exactly what is added, after any norm on the output,
in every family. So resid_post = resid_pre + attn_out + mlp_out wherever norms do not stand after the additions.
In models whose blocks read something of each token besides the stream (Gemma 4 E2B and E4B) a third output is added after the MLP, `hook_layer_input_out`, to
`hook_resid_mid_mlp` = resid_mid + mlp_out.
In models whose blocks end with a number of their own (Gemma 4) that sum is `hook_resid_sum`, and `hook_resid_post` the sum times the number.
`hook_result` is each head's share of the attention output without `b_O`: summed over heads plus `b_O` it is the output
before any norm on it.

**MLPs.** In a gated MLP `hook_pre` is the gate branch, `hook_pre_linear` the up branch with its bias, and
`hook_post` = act(`hook_pre`) · `hook_pre_linear`. Files of TransformerLens add `b_in` after that product; a model that is
loaded from one does the same.

**Mixtures of experts.** `hook_expert_weights` are the router's weights, float32 (float64 in a float64 model): the softmax over
all experts, or, where the router weighs only those it chose, zero for the others. An edit chooses anew by the edited weights.
Where a token's experts come from a few groups (DeepSeek), the weights are still those of all experts.
`hook_expert_indices` (int64) are the chosen experts by rank; an edit sends a token elsewhere, with the weight of that rank.
`mlp.experts.E.*` hold the tokens sent to expert E, by rank, then row and position, without padding: what
`(indices.movedim(-1, 0) == E)` picks. As in TransformerLens `hook_gate` is an expert's gate branch and `hook_pre` its up branch.
The shared expert has the names of an ordinary MLP, and `hook_weight` for the sigmoid that its output is multiplied by.
Where a mixture has norms of its own (Gemma 4), router and routed experts read the stream, which `hook_mlp_in` shows, through `mlp.router_ln` and `mlp.experts_ln`,
and the shared expert alone what `ln2` makes. What experts and shared expert write goes through `mlp.experts_ln_post` and `mlp.shared_expert.ln_post`, and their sum
through `ln2_post`. `expert_scale` multiplies the weights of the chosen after `hook_expert_weights`, before an edit of `hook_expert_indices`.
With attention sinks rows of a pattern sum to less than 1; the sink is not a column of scores or pattern.

**Logits.** `unembed.hook_out` is before a soft cap on the logits; the run's result is after it. With
`RunOptions::logit_positions`, `mlm_head.*` and `unembed.*` cover those positions only, and `ln_final.*` cover all positions if watched.

**The masked-LM head** (BERT) is a layer with an activation, a norm (`mlm_head.ln.*`) and the unembedding, whose input is
`unembed.hook_in`. A model without unembedding has no points after its last block.

**Gradients** of a metric exist for every point but ids, with the name and shape of the activation, and are with
respect to what downstream saw. They are zero where the metric does not depend on the point.

**Stopping early.** A run that stops at a layer, or that asks for no output, computes only what it needs. A single name that
it would not reach is an error; a selection of many names keeps those that it reaches.
)";

// What the axes of that name count, among axes of activations.
std::string counted(std::string_view name) {
  std::string text;
  for (const hooked::AxisRow& axis : hooked::axis_table()) {
    const auto has = [&](const hooked::SiteRow& row) { return row.axes.find(axis.axis).has_value(); };
    if (axis.name != name || !std::ranges::any_of(hooked::site_table(), has)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : "; ", axis.counts);
  }
  return text;
}

std::string axes_text(const hooked::AxisList& axes) {
  std::string text;
  for (const hooked::Axis axis : axes)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", hooked::axis_name(axis));
  return "[" + text + "]";
}

std::string marks(const hooked::SiteRow& row) {
  if (row.wide && row.changes_plan) return "wide, plan";
  return row.wide ? "wide" : row.changes_plan ? "plan" : "";
}

void print_points(std::string_view title, hooked::SiteScope scope) {
  std::cout << fmt::format(
      "\n### {}\n\n| name | word | axes | | exists when | holds |\n|---|---|---|---|---|---|\n", title);
  for (const hooked::SiteRow& row : hooked::site_table()) {
    if (row.scope != scope) continue;
    std::cout << fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", row.path, row.word, axes_text(row.axes),
                             marks(row), hooked::when_there(row.part), row.holds);
  }
}

}  // namespace

int main() {
  std::cout << kPreface << "| axis | what it counts |\n|---|---|\n";
  for (const hooked::AxisRow& axis : hooked::axis_table()) {
    const bool first = hooked::parse_axis(axis.name) == axis.axis;
    if (const auto text = counted(axis.name); first && !text.empty())
      std::cout << fmt::format("| {} | {} |\n", axis.name, text);
  }
  std::cout << kColumns;
  print_points("Before the first block", hooked::SiteScope::entry);
  print_points("In each block", hooked::SiteScope::block);
  print_points("After an encoder's last block", hooked::SiteScope::encoder_exit);
  print_points("After the last block", hooked::SiteScope::exit);
  std::cout << kNotes;
}
