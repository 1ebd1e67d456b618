#include "hooked/hooks/site.h"

#include <array>
#include <cassert>

namespace hooked {
namespace {

using enum Axis;
using enum SiteScope;
using Config = ModelConfig;

bool reads_through_norm(const Config& c) { return c.norm != NormKind::none; }
bool norms_inputs(const Config& c) {
  return reads_through_norm(c) && (c.norm_place == NormPlace::pre || c.norm_place == NormPlace::both);
}
bool norms_outputs(const Config& c) {
  return reads_through_norm(c) && (c.norm_place == NormPlace::output || c.norm_place == NormPlace::both);
}
bool norms_sums(const Config& c) { return reads_through_norm(c) && c.norm_place == NormPlace::post; }
bool gated(const Config& c) { return c.mlp == MlpKind::gated; }
bool has_mlp(const Config& c) { return c.has_mlp(); }
bool rotary(const Config& c) { return c.positions == PositionKind::rotary; }
bool normed_heads(const Config& c) { return c.qk_norm != QkNorm::none; }
bool mlp_normed(const Config& c) { return c.has_mlp() && c.mlp_norm; }
bool has_ln1(const Config& c) { return norms_inputs(c) || norms_sums(c); }
bool has_ln2(const Config& c) { return has_ln1(c) && c.has_mlp(); }
bool output_normed_mlp(const Config& c) { return norms_outputs(c) && c.has_mlp(); }
bool post_normed_mlp(const Config& c) { return norms_sums(c) && c.has_mlp(); }
bool has_final_norm(const Config& c) { return c.final_norm != NormKind::none; }
bool always(const Config&) { return true; }

constexpr std::string_view kAlways = "always";
constexpr std::string_view kNormedInput = "the model has norms before its sublayers or after the additions";
constexpr std::string_view kMlp = "the model has MLPs";

// One row per site. Everything else that the project knows about points is derived from here.
// Columns: site, scope, path, word, axes, wide, changes_plan, exists, when, what.
constexpr SiteRow kSites[] = {
    {Site::tokens, entry, "hook_tokens", "tokens", {batch, pos}, true, false, always, kAlways,
     "token ids (int64)"},
    {Site::embed_ln_scale, entry, "embed.ln.hook_scale", "embed_ln_scale", {batch, pos, one}, false, true,
     [](const Config& c) { return c.post_embedding_norm; }, "the embedding is normed (post_embedding_norm)",
     "what the embedding's norm divides by"},
    {Site::embed_ln_normalized, entry, "embed.ln.hook_normalized", "embed_ln_normalized", {batch, pos, d_model},
     false, true, [](const Config& c) { return c.post_embedding_norm; },
     "the embedding is normed (post_embedding_norm)", "normed embedding before weight and bias"},
    {Site::embed, entry, "hook_embed", "embed", {batch, pos, d_model}, false, false, always, kAlways,
     "token embedding, after its norm if it has one"},
    {Site::pos_embed, entry, "hook_pos_embed", "pos_embed", {batch, pos, d_model}, false, false,
     [](const Config& c) { return c.has_pos_embed(); }, "positions are learned or shortformer",
     "position embedding, a copy; zero on padding"},

    {Site::resid_pre, block, "{stack}.{layer}.hook_resid_pre", "resid_pre", {batch, pos, d_model}, false, false,
     always, kAlways, "residual stream before the block"},
    {Site::attn_in, block, "{stack}.{layer}.hook_attn_in", "attn_in", {batch, pos, head, d_model}, true, true,
     [](const Config& c) { return !c.grouped_query(); }, "attention is not grouped-query",
     "what each head reads, before ln1; edits reach queries, keys and values"},
    {Site::q_input, block, "{stack}.{layer}.hook_q_input", "q_input", {batch, pos, head, d_model}, true, true,
     always, kAlways, "what each head's queries read, before ln1"},
    {Site::k_input, block, "{stack}.{layer}.hook_k_input", "k_input", {batch, pos, kv_head, d_model}, true, true,
     always, kAlways, "what each head's keys read, before ln1"},
    {Site::v_input, block, "{stack}.{layer}.hook_v_input", "v_input", {batch, pos, kv_head, d_model}, true, true,
     always, kAlways, "what each head's values read, before ln1"},
    {Site::ln1_scale, block, "{stack}.{layer}.ln1.hook_scale", "ln1_scale", {batch, pos, one}, false, true, has_ln1,
     kNormedInput, "what ln1 divides by: sqrt(mean square + eps)"},
    {Site::ln1_normalized, block, "{stack}.{layer}.ln1.hook_normalized", "ln1_normalized", {batch, pos, d_model},
     false, true, has_ln1, kNormedInput, "ln1's output before weight and bias"},
    {Site::q, block, "{stack}.{layer}.attn.hook_q", "q", {batch, pos, head, d_head}, false, false, always, kAlways,
     "queries with bias, before q norm and rotary"},
    {Site::k, block, "{stack}.{layer}.attn.hook_k", "k", {batch, pos, kv_head, d_head}, false, false, always, kAlways,
     "keys with bias, before k norm and rotary"},
    {Site::v, block, "{stack}.{layer}.attn.hook_v", "v", {batch, pos, kv_head, d_head}, false, false, always, kAlways,
     "values with bias"},
    {Site::q_norm_scale, block, "{stack}.{layer}.attn.q_norm.hook_scale", "q_norm_scale", {batch, pos, head, one},
     false, true, normed_heads, "queries and keys are normed",
     "what the q norm divides by; its head axis has size 1 when one norm spans all heads"},
    {Site::q_norm_normalized, block, "{stack}.{layer}.attn.q_norm.hook_normalized", "q_norm_normalized",
     {batch, pos, head, d_head}, false, true, normed_heads, "queries and keys are normed",
     "normed queries before the weight"},
    {Site::k_norm_scale, block, "{stack}.{layer}.attn.k_norm.hook_scale", "k_norm_scale", {batch, pos, kv_head, one},
     false, true, normed_heads, "queries and keys are normed",
     "what the k norm divides by; its head axis has size 1 when one norm spans all heads"},
    {Site::k_norm_normalized, block, "{stack}.{layer}.attn.k_norm.hook_normalized", "k_norm_normalized",
     {batch, pos, kv_head, d_head}, false, true, normed_heads, "queries and keys are normed",
     "normed keys before the weight"},
    {Site::rot_q, block, "{stack}.{layer}.attn.hook_rot_q", "rot_q", {batch, pos, head, d_head}, false, false, rotary,
     "positions are rotary", "queries after rotary"},
    {Site::rot_k, block, "{stack}.{layer}.attn.hook_rot_k", "rot_k", {batch, pos, kv_head, d_head}, false, false,
     rotary, "positions are rotary", "keys after rotary"},
    {Site::attn_scores, block, "{stack}.{layer}.attn.hook_attn_scores", "attn_scores", {batch, head, query, key},
     false, true, always, kAlways, "scaled, capped, biased and masked (-inf) scores"},
    {Site::pattern, block, "{stack}.{layer}.attn.hook_pattern", "pattern", {batch, head, query, key}, false, true,
     always, kAlways, "attention probabilities; fully masked rows are zero"},
    {Site::z, block, "{stack}.{layer}.attn.hook_z", "z", {batch, pos, head, d_head}, false, false, always, kAlways,
     "values mixed by the pattern"},
    {Site::result, block, "{stack}.{layer}.attn.hook_result", "result", {batch, pos, head, d_model}, true, true,
     always, kAlways, "each head's output z W_O, without b_O"},
    {Site::ln1_post_scale, block, "{stack}.{layer}.ln1_post.hook_scale", "ln1_post_scale", {batch, pos, one}, false,
     true, norms_outputs, "sublayer outputs are normed", "what ln1_post divides by"},
    {Site::ln1_post_normalized, block, "{stack}.{layer}.ln1_post.hook_normalized", "ln1_post_normalized",
     {batch, pos, d_model}, false, true, norms_outputs, "sublayer outputs are normed",
     "normed attention output before the weight"},
    {Site::attn_out, block, "{stack}.{layer}.hook_attn_out", "attn_out", {batch, pos, d_model}, false, false, always,
     kAlways, "what attention adds to the stream"},
    {Site::resid_mid, block, "{stack}.{layer}.hook_resid_mid", "resid_mid", {batch, pos, d_model}, false, false,
     [](const Config& c) { return c.has_mlp() && !c.parallel(); }, "the block is serial and has an MLP",
     "resid_pre + attn_out"},
    {Site::mlp_in, block, "{stack}.{layer}.hook_mlp_in", "mlp_in", {batch, pos, d_model}, true, false, has_mlp, kMlp,
     "what the MLP reads, before its norm; edits do not reach the stream"},
    {Site::ln2_scale, block, "{stack}.{layer}.ln2.hook_scale", "ln2_scale", {batch, pos, one}, false, true, has_ln2,
     "the model has MLPs with norms before them or after the additions", "what ln2 divides by"},
    {Site::ln2_normalized, block, "{stack}.{layer}.ln2.hook_normalized", "ln2_normalized", {batch, pos, d_model},
     false, true, has_ln2, "the model has MLPs with norms before them or after the additions",
     "ln2's output before weight and bias"},
    {Site::mlp_pre, block, "{stack}.{layer}.mlp.hook_pre", "pre", {batch, pos, d_mlp}, false, false, has_mlp, kMlp,
     "input of the activation function; in a gated MLP the gate branch"},
    {Site::mlp_pre_linear, block, "{stack}.{layer}.mlp.hook_pre_linear", "pre_linear", {batch, pos, d_mlp}, false,
     false, gated, "MLPs are gated", "the up branch x W_in + b_in of a gated MLP"},
    {Site::mlp_mid, block, "{stack}.{layer}.mlp.hook_mid", "mid", {batch, pos, d_mlp}, false, false, mlp_normed,
     "MLPs have a norm after the activation (SoLU+LN)", "activation before its norm"},
    {Site::mlp_ln_scale, block, "{stack}.{layer}.mlp.ln.hook_scale", "mlp_ln_scale", {batch, pos, one}, false, true,
     mlp_normed, "MLPs have a norm after the activation (SoLU+LN)", "what the MLP's norm divides by"},
    {Site::mlp_ln_normalized, block, "{stack}.{layer}.mlp.ln.hook_normalized", "mlp_ln_normalized",
     {batch, pos, d_mlp}, false, true, mlp_normed, "MLPs have a norm after the activation (SoLU+LN)",
     "normed activation before weight and bias"},
    {Site::mlp_post, block, "{stack}.{layer}.mlp.hook_post", "post", {batch, pos, d_mlp}, false, false, has_mlp, kMlp,
     "input of W_out: the activated neurons, gated and normed where the MLP is"},
    {Site::ln2_post_scale, block, "{stack}.{layer}.ln2_post.hook_scale", "ln2_post_scale", {batch, pos, one}, false,
     true, output_normed_mlp, "the model has MLPs and sublayer outputs are normed", "what ln2_post divides by"},
    {Site::ln2_post_normalized, block, "{stack}.{layer}.ln2_post.hook_normalized", "ln2_post_normalized",
     {batch, pos, d_model}, false, true, output_normed_mlp, "the model has MLPs and sublayer outputs are normed",
     "normed MLP output before the weight"},
    {Site::mlp_out, block, "{stack}.{layer}.hook_mlp_out", "mlp_out", {batch, pos, d_model}, false, false, has_mlp,
     kMlp, "what the MLP adds to the stream"},
    {Site::resid_post, block, "{stack}.{layer}.hook_resid_post", "resid_post", {batch, pos, d_model}, false, false,
     always, kAlways, "residual stream after the block; with norms after the additions, before the last of them"},
    {Site::normalized_resid_post, block, "{stack}.{layer}.hook_normalized_resid_post", "normalized_resid_post",
     {batch, pos, d_model}, false, false, post_normed_mlp, "norms stand after the additions and the model has MLPs",
     "resid_post after ln2: the next block's resid_pre"},

    {Site::ln_final_scale, exit, "ln_final.hook_scale", "ln_final_scale", {batch, pos, one}, false, true,
     has_final_norm, "the model has a final norm", "what the final norm divides by"},
    {Site::ln_final_normalized, exit, "ln_final.hook_normalized", "ln_final_normalized", {batch, pos, d_model}, false,
     true, has_final_norm, "the model has a final norm", "final norm's output before weight and bias"},
    {Site::unembed_in, exit, "unembed.hook_in", "unembed_in", {batch, pos, d_model}, false, false, always, kAlways,
     "what the unembedding reads, at the positions whose logits are asked for"},
    {Site::unembed_out, exit, "unembed.hook_out", "unembed_out", {batch, pos, vocab}, false, false, always, kAlways,
     "logits with bias, before any soft cap"},
};

constexpr bool rows_stand_at_their_site() {
  for (std::size_t i = 0; i < std::size(kSites); ++i) {
    if (static_cast<std::size_t>(kSites[i].site) != i) return false;
  }
  return true;
}
static_assert(rows_stand_at_their_site(), "the table lists the sites in the order of the enum");

}  // namespace

std::span<const SiteRow> site_table() noexcept { return kSites; }

const SiteRow& row(Site site) noexcept { return kSites[static_cast<std::size_t>(site)]; }

std::int64_t axis_size(const SiteRow& row, std::size_t dim, const ModelConfig& config) {
  const bool one_norm_for_all_heads = config.qk_norm == QkNorm::whole_projection &&
                                      (row.site == Site::q_norm_scale || row.site == Site::k_norm_scale);
  switch (row.axes[dim]) {
    case head:
      return one_norm_for_all_heads ? 1 : config.n_heads;
    case kv_head:
      return one_norm_for_all_heads ? 1 : config.n_kv_heads;
    case d_head:
      return config.d_head;
    case d_model:
      return config.d_model;
    case d_mlp:
      return config.d_mlp;
    case vocab:
      return config.d_vocab_out;
    case one:
      return 1;
    default:
      return -1;
  }
}

}  // namespace hooked
