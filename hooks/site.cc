#include "hooked/hooks/site.h"

#include <limits>

namespace hooked {
namespace {
namespace sites {  // short names for the columns of the table

using enum Axis;

// The column `exists`.
namespace when {

using Config = ModelConfig;

bool norms(const Config& c, NormPlace place) { return c.norm != NormKind::none && c.norm_place == place; }
bool has_norms_before(const Config& c, std::int64_t l) { return c.norms_inputs(l) || c.norms_stream(); }
bool has_ln1(const Config& c, std::int64_t l) { return c.reads_through_ln1(l) || c.norms_stream(); }
bool has_shared_expert(const Config& c, std::int64_t l) { return c.mixture(l) && c.experts->d_shared > 0; }

constexpr Condition always{[](const Config&, std::int64_t) { return true; }, "always"};
constexpr Condition encoder{[](const Config& c, std::int64_t) { return c.has_encoder(); },
                            "the model is an encoder-decoder"};
constexpr Condition normed_encoder{
    [](const Config& c, std::int64_t) { return c.has_encoder() && !c.norms_stream(); },
    "the model is an encoder-decoder whose norms are not behind the additions"};

constexpr Condition token_types{[](const Config& c, std::int64_t) { return c.token_types > 0; },
                                "tokens have types (token_types)"};
constexpr Condition plain_embedding{
    [](const Config& c, std::int64_t) { return !c.summed_embedding(); },
    "no norm stands over the sum of embeddings and tokens have no types (else `embed.hook_embed`)"};
constexpr Condition plain_positions{
    [](const Config& c, std::int64_t) { return c.has_pos_embed() && !c.summed_embedding(); },
    "positions are learned or shortformer, no norm stands over the sum of embeddings and tokens have no "
    "types"};
constexpr Condition summed_embedding{
    [](const Config& c, std::int64_t) { return c.summed_embedding(); },
    "the sum of embeddings is normed (embedding_sum_norm), or tokens have types (token_types)"};
constexpr Condition summed_positions{
    [](const Config& c, std::int64_t) { return c.has_pos_embed() && c.summed_embedding(); },
    "positions are learned or shortformer, and the sum of embeddings is normed or tokens have types"};
constexpr Condition normed_embedding{
    [](const Config& c, std::int64_t) { return c.post_embedding_norm || c.embedding_sum_norm; },
    "the embedding is normed (post_embedding_norm, embedding_sum_norm)"};

constexpr Condition attention{[](const Config& c, std::int64_t l) { return c.attends(l); },
                              "the layer has attention"};
constexpr Condition own_heads{[](const Config& c, std::int64_t l) {
                                return c.attends(l) && !c.grouped_query() && !c.latent_attention();
                              },
                              "the layer has attention that is neither grouped-query nor latent"};
constexpr Condition latents{
    [](const Config& c, std::int64_t l) { return c.attends(l) && c.latent_attention(); },
    "attention has latents"};
constexpr Condition no_latents{
    [](const Config& c, std::int64_t l) { return c.attends(l) && !c.latent_attention(); },
    "the layer has attention with no latents, which all heads read together"};
constexpr Condition query_latent{
    [](const Config& c, std::int64_t l) { return c.attends(l) && c.query_latent(); },
    "queries are made from a latent"};
constexpr Condition shared_key{
    [](const Config& c, std::int64_t l) { return c.attends(l) && c.own_key_dim() < c.d_head; },
    "keys have a part that all heads share"};
constexpr Condition normed_heads{[](const Config& c, std::int64_t l) { return c.norms_heads(l); },
                                 "the layer has attention whose queries and keys are normed"};
constexpr Condition own_keys{[](const Config& c, std::int64_t l) { return c.makes_keys(l); },
                             "the layer has attention with keys and values of its own"};
constexpr Condition own_keys_of_stream{
    [](const Config& c, std::int64_t l) { return c.makes_keys(l) && !c.latent_attention(); },
    "the layer has attention with keys and values of its own and no latents"};
constexpr Condition normed_keys{
    [](const Config& c, std::int64_t l) { return c.norms_heads(l) && c.makes_keys(l); },
    "the layer has attention with keys of its own, and queries and keys are normed"};
constexpr Condition normed_values{
    [](const Config& c, std::int64_t l) { return c.makes_keys(l) && c.value_norm; },
    "the layer has attention with values of its own, which are normed"};
constexpr Condition scaled_stream{[](const Config& c, std::int64_t) { return c.layer_scale; },
                                  "blocks end with a number that multiplies the stream (layer_scale)"};
constexpr Condition rotary_keys{
    [](const Config& c, std::int64_t l) { return c.rotates(l) && c.makes_keys(l); },
    "the layer's positions are rotary, and it has keys of its own"};
constexpr Condition placed_queries{
    [](const Config& c, std::int64_t l) { return c.rotates(l) || (c.attends(l) && c.grows_queries(l)); },
    "the layer's positions are rotary, or scale its queries"};
constexpr Condition relative{
    [](const Config& c, std::int64_t l) { return c.holds_relative(l); },
    "positions are relative and the block is the first of its stack, or each has numbers of its own"};
constexpr Condition short_conv{[](const Config& c, std::int64_t l) { return c.convolves(l); },
                               "the layer has a short convolution in attention's place"};

constexpr Condition delta_net{[](const Config& c, std::int64_t l) { return c.recurs(l); },
                              "the layer has a gated delta net in attention's place"};
constexpr Condition gated_heads{[](const Config& c, std::int64_t l) { return c.attends(l) && c.gated_heads; },
                                "the layer has attention whose heads are gated"};

constexpr Condition input_norms{has_ln1,
                                "the layer has norms before its sublayers or after the additions, and "
                                "is not the first of a model without first_attention_norm"};
constexpr Condition mlp_input_norms{
    [](const Config& c, std::int64_t l) { return has_norms_before(c, l) && c.has_mlp(); },
    "the layer has an MLP with a norm before it or after the addition"};
constexpr Condition output_norms{[](const Config& c, std::int64_t l) { return c.norms_outputs(l); },
                                 "the layer's sublayer outputs are normed"};
constexpr Condition mlp_output_norms{
    [](const Config& c, std::int64_t l) { return c.norms_outputs(l) && c.has_mlp(); },
    "the layer has an MLP and its sublayer outputs are normed"};
constexpr Condition mlp_sum_norms{
    [](const Config& c, std::int64_t) { return norms(c, NormPlace::post) && c.has_mlp(); },
    "norms stand after the additions and the model has MLPs"};

constexpr Condition mlps{[](const Config& c, std::int64_t) { return c.has_mlp(); }, "the model has MLPs"};
constexpr Condition serial_mlp{[](const Config& c, std::int64_t) { return c.has_mlp() && !c.parallel(); },
                               "the block is serial and has an MLP"};
constexpr Condition dense_mlp{[](const Config& c, std::int64_t l) { return c.dense_mlp(l); },
                              "the layer has an MLP that is not a mixture of experts"};
constexpr Condition gated_mlp{
    [](const Config& c, std::int64_t l) { return c.dense_mlp(l) && c.mlp == MlpKind::gated; },
    "the layer has a gated MLP that is not a mixture of experts"};
constexpr Condition normed_mlp{[](const Config& c, std::int64_t) { return c.has_mlp() && c.mlp_norm; },
                               "MLPs have a norm after the activation (SoLU+LN)"};
constexpr Condition mixture{[](const Config& c, std::int64_t l) { return c.mixture(l); },
                            "the layer has a mixture of experts"};
constexpr Condition weighted_inputs{
    [](const Config& c, std::int64_t l) { return c.mixture(l) && c.experts->weighted_inputs; },
    "the layer has a mixture whose experts read tokens times their weights (experts.weighted_inputs)"};
constexpr Condition shared_expert{has_shared_expert, "the layer has a mixture with a shared expert"};
constexpr Condition normed_experts{
    [](const Config& c, std::int64_t l) { return c.mixture(l) && c.experts->own_norms; },
    "the layer has a mixture whose parts have norms of their own (experts.own_norms)"};
constexpr Condition gated_shared{
    [](const Config& c, std::int64_t l) { return has_shared_expert(c, l) && c.experts->shared_gate; },
    "the layer has a mixture whose shared expert is gated"};

constexpr Condition layer_input{[](const Config& c, std::int64_t) { return c.layer_input.has_value(); },
                                "blocks read something of each token besides the stream (layer_input)"};

constexpr Condition final_norm{
    [](const Config& c, std::int64_t) { return c.final_norm != NormKind::none && !c.has_encoder(); },
    "the model has a final norm and no encoder"};
constexpr Condition decoder_final_norm{
    [](const Config& c, std::int64_t) { return c.final_norm != NormKind::none && c.has_encoder(); },
    "the model is an encoder-decoder with a final norm"};
constexpr Condition mlm_head{[](const Config& c, std::int64_t) { return c.has_mlm_head(); },
                             "the model has a masked-LM head (mlm_head)"};
constexpr Condition unembedding{[](const Config& c, std::int64_t) { return c.has_unembedding(); },
                                "the model has an unembedding"};

}  // namespace when

// What the column `kind` says of a row: where it stands, and what its path begins with.
struct Kind {
  SiteScope scope;
  std::optional<Stack> stack;
};

namespace kinds {

constexpr Kind entry{SiteScope::entry, Stack::encoder};  // where an encoder's tokens pass
constexpr Kind block{SiteScope::block, std::nullopt};
constexpr Kind expert = block;
constexpr Kind cross{SiteScope::block, Stack::decoder};
constexpr Kind encoder_exit{SiteScope::encoder_exit, Stack::encoder};
constexpr Kind exit{SiteScope::exit, Stack::decoder};

}  // namespace kinds

#define PATH_entry ""
#define PATH_block "{stack}.{layer}."
#define PATH_expert "{stack}.{layer}.mlp.experts.{expert}."
#define PATH_cross "decoder.{layer}."
#define PATH_encoder_exit ""
#define PATH_exit ""

// The column `flags`.
constexpr unsigned none = 0, wide = 1, replans = 2, ids = 4, asked_rows = 8, masked = 16;

// The column `axes`.
constexpr AxisList layout(auto... axes) { return {axes...}; }

constexpr SiteRow kSites[] = {
#define HOOKED_ROW(site, kind, path, axes, flags, exists, holds)           \
  {Site::site,                                                             \
   kinds::kind.scope,                                                      \
   kinds::kind.stack,                                                      \
   PATH_##kind path,                                                       \
   #site,                                                                  \
   layout axes,                                                            \
   ((flags)&wide) != 0,                                                    \
   ((flags)&replans) != 0,                                                 \
   ((flags)&ids) != 0,                                                     \
   ((flags)&asked_rows) != 0,                                              \
   ((flags)&masked) != 0 ? -std::numeric_limits<double>::infinity() : 0.0, \
   when::exists,                                                           \
   holds},
#define HOOKED_SITE(kind, word, path, axes, flags, exists, holds) \
  HOOKED_ROW(word, kind, path, axes, flags, exists, holds)
#define HOOKED_NORM(kind, word, path, scale_axes, axes, flags, exists, divides_by, holds)               \
  HOOKED_ROW(word##_scale, kind, path ".hook_scale", scale_axes, (flags) | replans, exists, divides_by) \
  HOOKED_ROW(word##_normalized, kind, path ".hook_normalized", axes, (flags) | replans, exists, holds)
#include "hooked/hooks/sites.inc"
#undef HOOKED_ROW
};

#undef PATH_entry
#undef PATH_block
#undef PATH_expert
#undef PATH_cross
#undef PATH_encoder_exit
#undef PATH_exit

}  // namespace sites
}  // namespace

std::span<const SiteRow> site_table() noexcept { return sites::kSites; }

const SiteRow& row(Site site) noexcept { return sites::kSites[static_cast<std::size_t>(site)]; }

std::optional<Axis> axis_on(Site site, Axis axis) noexcept {
  const AxisList& axes = row(site).axes;
  if (axes.find(axis)) return axis;
  const auto written = [&](Axis wanted) -> std::optional<Axis> {
    for (const Axis own : axes) {
      if (axis_name(own) == axis_name(wanted)) return own;
    }
    return std::nullopt;
  };
  if (const auto own = written(axis)) return own;
  if (axis == Axis::pos) return written(Axis::query);
  if (axis == Axis::head) return written(Axis::kv_head);
  return std::nullopt;
}

std::int64_t sequence_dimension(Site site) noexcept {
  return *row(site).axes.find(axis_on(site, Axis::pos).value_or(Axis::routed));
}

}  // namespace hooked
