// Only what docs/reading-functions.md names is refused: every function of the analyses is called for
// every kind of model among the golden checkpoints, and each refusal is a row of the table that the page
// is printed from. Each row is met.
#include "docs/generators/refusals.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "hooked/hooked.h"
#include "tests/support/golden_model.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/tiny_model.h"

namespace hooked::refusals_test {
namespace {

constexpr std::int64_t kColumns = 6;  // of the prompts, at most

bool one_causal_stack(const ModelConfig& c) {
  return !c.has_encoder() && c.direction == AttentionDirection::causal;
}

/// The first layer with attention, or the first without.
std::int64_t first_layer(const ModelConfig& c, bool attends) {
  std::int64_t layer = 0;
  while (c.attends(layer) != attends) ++layer;
  return layer;
}

/// A model, and runs of one short row that keep everything.
class Subject {
 public:
  Subject(HookedTransformer of, const GoldenRun& recorded)
      : model(std::move(of)), config(model.config()), input(row_of(recorded)), cache(cache_of(input)) {
    Input flipped = input;
    flipped.tokens = input.tokens.flip(1);
    if (config.has_encoder()) flipped.decoder.tokens = input.decoder.tokens.flip(1);
    other_ = cache_of(flipped);
    if (!one_causal_stack(config)) return;
    const auto prefix = model.run(input.tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix;
    behind_prefix_ = cache_of({input.tokens.slice(1, 2), {.prefix = prefix}});
  }

  const ActivationCache& cache_for(const Asking& a) const { return a.prefix ? behind_prefix_ : cache; }
  std::int32_t attending() const { return static_cast<std::int32_t>(first_layer(config, true)); }
  /// A smooth number of what comes out of the model.
  Metric metric() const { return config.has_unembedding() ? logit_difference(1, 2) : of_stream(); }
  Metric of_stream() const {
    const auto last = static_cast<std::int32_t>(config.n_layers - 1);
    const Address end =
        config.norm_place == NormPlace::post ? act::normalized_resid_post(last) : act::resid_post(last);
    return Metric::of_activations(
        Selection(end),
        [end](const ActivationCache& run) {
          return run[end].sin().sum({1, 2});
        },
        "sines");
  }
  SweepOptions sweep(std::optional<SweptSite> site = {}, std::vector<SweptAxis> over = {}) const {
    return {.site = site, .over = std::move(over), .from = other_, .into = input, .metric = metric()};
  }
  SweepOptions heads(act::BlockSite site = act::z) const { return sweep(site, {Axis::layer, Axis::head}); }
  Circuit first_node() const { return Circuit::of_nodes(model, {model_parts(model).front().name}); }

  HookedTransformer model;
  ModelConfig config;
  Input input;
  ActivationCache cache;

 private:
  static at::Tensor first(const at::Tensor& tokens) {
    return tokens.defined() ? tokens.narrow(0, 0, 1).slice(1, 0, kColumns) : tokens;
  }
  static Input row_of(const GoldenRun& recorded) {
    return {
        first(recorded.tokens),
        {.token_types = first(recorded.token_types), .decoder = {.tokens = first(recorded.decoder_tokens)}}};
  }
  ActivationCache cache_of(const Input& read) const {
    return model.run_with_cache(read, act::everything, {.output = Output::none}).cache;
  }

  ActivationCache other_, behind_prefix_;
};

/// The subject with a dictionary in its stream.
HookedTransformer spliced(const Subject& s) {
  const std::string place = s.model.points().resolve(act::resid_post(0).name()).to_string();
  return s.model.with_dictionary(
      fitted_to(random_autoencoder(place, s.config.d_model, s.model.dtype()), s.config));
}

/// The ways in which a call may be made in addition to the plain one.
struct Ways {
  bool norms = false;   ///< with Asking::norms off, too
  bool stacks = false;  ///< of an encoder, too
  bool crosses = false;
  bool layers = false;  ///< of the last layer with attention and of one without, too
  bool prefix = false;
};

/// A function of the analyses as the page names it.
struct Call {
  std::string name;
  std::function<void(const Subject& s, const Asking& a)> make;
  Ways ways = {};
  /// Whether a model has what it is asked for: a missing part is not a refusal.
  bool (*there)(const ModelConfig& c, const Asking& a) = [](const ModelConfig&, const Asking&) {
    return true;
  };
};

CircuitOptions circuits(const Asking& a) { return {.norms = a.norms, .stack = a.stack}; }

std::int64_t layers_of(const ModelConfig& c, const Asking& a) {
  return a.stack == Stack::encoder ? c.n_encoder_layers() : c.n_layers;
}
bool has_mlps(const ModelConfig& c, const Asking&) { return c.has_mlp(); }
bool has_later_mlp(const ModelConfig& c, const Asking& a) { return c.has_mlp() && layers_of(c, a) > 1; }
bool has_final_norm(const ModelConfig& c, const Asking&) {
  return c.final_norm != NormKind::none && !c.has_encoder();
}
bool predicts(const ModelConfig& c, const Asking&) { return c.has_unembedding(); }
bool predicts_with_one_stack(const ModelConfig& c, const Asking&) {
  return c.has_unembedding() && !c.has_encoder();
}
bool has_experts(const ModelConfig& c, const Asking&) { return c.n_experts() > 0; }
bool crosses(const ModelConfig&, const Asking& a) { return a.crosses; }
bool has_edges(const ModelConfig& c, const Asking&) {
  return c.attends_everywhere() && !c.gated_heads && !c.shared_keys && !c.layer_input;
}

HeadPlace head_of(const Asking& a) { return {a.layer, 0}; }
std::int32_t layer_of(const Asking& a) { return static_cast<std::int32_t>(a.layer); }
/// Tokens of a row at whose end queries are larger than before.
std::int64_t long_row(const ModelConfig& c) { return static_cast<std::int64_t>(c.query_growth->tokens) + 1; }
bool has_long_rows(const ModelConfig& c, const Asking&) {
  return c.grows_queries(0) && c.attends(0) && !c.qk_norm && long_row(c) <= c.n_ctx;
}

const AttributionOptions kDifference{.answer = 1, .against = Answers(2)};

LensMaps maps_of(const Subject& s) {
  LensMaps maps;
  maps.by_depth[0] = {.matrix = at::eye(s.config.d_model, at::kDouble)};
  return maps;
}

// --- Functions that read a run.

void read_heads(const Subject& s, const Asking& a) {
  const bool decodes = s.config.has_encoder() && a.stack != Stack::encoder;
  for (const HeadScoreRow& row : head_score_rows()) {
    if (a.crosses && !row.crosses) continue;
    const bool spreads = row.kind == HeadScoreKind::spread;
    head_scores(s.cache_for(a), row.score,
                {.tokens = decodes ? s.input.decoder.tokens : s.input.tokens.slice(1, a.prefix ? 2 : 0),
                 .measure = spreads ? HeadMeasure::share : HeadMeasure::mul,
                 .site = a.crosses ? act::cross_pattern : act::pattern,
                 .stack = a.stack});
  }
}

void read_attention(const Subject& s, const Asking& a) {
  for (std::int32_t layer = 0; layer < s.config.n_layers; ++layer) {
    if (a.crosses) return void(attention_grid(s.model, s.cache_for(a), act::cross_pattern(layer)));
    if (a.stack == Stack::encoder || s.config.attends(layer))
      return void(attention_grid(s.model, s.cache_for(a), act::pattern.in(a.stack, layer)));
  }
}

/// Throws what the last of these scores throws, if all of them do.
void read_scores_of_one_text(const Subject& s, const Asking&) {
  std::optional<HookError> refused;
  for (const HeadScoreRow& row : head_score_rows()) {
    if (row.crosses) continue;
    try {
      head_scores(s.cache, row.score, {.measure = HeadMeasure::mul, .site = act::cross_pattern});
      return;
    } catch (const HookError& error) {
      refused = error;
    }
  }
  throw *refused;
}

Address scores_of_head(const Asking& a) {
  if (a.crosses) return act::cross_attn_scores(0).head(0);
  return act::attn_scores.in(a.stack, layer_of(a)).head(0);
}

/// Two pairs of the same row.
InterchangePairs pairs_of(const Subject& s) {
  const auto twice = [](const at::Tensor& rows) { return rows.defined() ? at::cat({rows, rows}) : rows; };
  Input both = s.input;
  both.tokens = twice(both.tokens);
  both.attention_mask = twice(both.attention_mask);
  both.token_types = twice(both.token_types);
  both.decoder.tokens = twice(both.decoder.tokens);
  both.decoder.attention_mask = twice(both.decoder.attention_mask);
  InterchangePairs pairs{.base = both, .source = both, .expected = 1};
  pairs.answer_at = -1;
  pairs.positions = {-1};
  return pairs;
}

std::vector<Call> reading_calls() {
  return {
      {"`residual_parts`",
       [](const Subject& s, const Asking& a) {
         ResidualOptions options{.grain = Grain::neuron};
         if (a.stack == Stack::encoder) options.of = act::resid_post.encoder(0);
         residual_parts(s.model, s.cache_for(a), options);
       },
       {.stacks = true, .prefix = true}},
      {"`ValueBiases::in_bias`",
       [](const Subject& s, const Asking& a) {
         ResidualOptions options{.grain = Grain::head, .value_biases = ValueBiases::in_bias};
         if (a.stack == Stack::encoder) options.of = act::resid_post.encoder(0);
         residual_parts(s.model, s.cache, options);
       },
       {.stacks = true}},
      {"`accumulated_residual`",
       [](const Subject& s, const Asking& a) {
         accumulated_residual(s.model, s.cache_for(a), {.mid = true});
       },
       {.prefix = true}},
      {"`normed_stack`",
       [](const Subject& s, const Asking& a) {
         const auto points = accumulated_residual(s.model, s.cache_for(a));
         normed_stack(s.model, s.cache_for(a), points, {.norm = {act::ln_final_scale}});
       },
       {.prefix = true},
       has_final_norm},
      {"`direct_logit_attribution`",
       [](const Subject& s, const Asking& a) {
         direct_logit_attribution(s.model, s.cache_for(a), kDifference);
         const auto points = accumulated_residual(s.model, s.cache_for(a));
         direct_logit_attribution(s.model, s.cache_for(a), points, kDifference);
       },
       {.prefix = true}},
      {"`source_attribution`",
       [](const Subject& s, const Asking& a) {
         source_attribution(s.model, s.cache_for(a),
                            {.answer = 1, .pattern = a.crosses ? act::cross_pattern : act::pattern});
       },
       {.crosses = true, .prefix = true}},
      {"`normed_logit`",
       [](const Subject& s, const Asking& a) { normed_logit(s.model, s.cache_for(a), kDifference); },
       {.prefix = true}},
      {"`norm_shares`",
       [](const Subject& s, const Asking& a) { norm_shares(s.model, s.cache_for(a), kDifference); },
       {.prefix = true}},
      {"`leave_one_out`",
       [](const Subject& s, const Asking& a) { leave_one_out(s.model, s.cache_for(a), kDifference); },
       {.prefix = true}},
      {"`unnormed_reading`",
       [](const Subject& s, const Asking& a) {
         unnormed_reading(s.model, s.cache_for(a), {.stack = a.stack});
       },
       {.stacks = true, .prefix = true}},
      {"`logit_lens`",
       [](const Subject& s, const Asking& a) {
         logit_lens(s.model, s.cache_for(a), {.tokens = {1}, .mid = true});
         logit_lens(s.model, s.cache_for(a), {.tokens = {1}, .parts = Grain::neuron});
       },
       {.prefix = true}},
      {"`logit_lens` with `maps`",
       [](const Subject& s, const Asking&) {
         logit_lens(s.model, s.cache, {.tokens = {1}, .maps = maps_of(s)});
       }},
      {"`logit_lens` with `maps` and `parts`",
       [](const Subject& s, const Asking&) {
         logit_lens(s.model, s.cache, {.tokens = {1}, .parts = Grain::layer, .maps = maps_of(s)});
       },
       {},
       predicts_with_one_stack},
      {"`score_attribution`",
       [](const Subject& s, const Asking& a) {
         score_attribution(s.model, s.cache_for(a), {.scores = scores_of_head(a)});
       },
       {.stacks = true, .crosses = true, .layers = true, .prefix = true}},
      {"`head_scores`", read_heads, {.stacks = true, .crosses = true, .prefix = true}},
      {"`attention_grid`", read_attention, {.stacks = true, .crosses = true, .prefix = true}},
      {"`head_scores` by `previous_token`, `current_token`, `duplicate_token`, `induction` or `distance`",
       read_scores_of_one_text,
       {.crosses = true},
       crosses},
      {"`path_expansion`",
       [](const Subject& s, const Asking& a) {
         path_expansion(s.model, s.cache_for(a), {.answer = 1, .order = 1});
       },
       {.prefix = true}},
      {"`path_logits`",
       [](const Subject& s, const Asking& a) { path_logits(s.model, s.cache_for(a), {head_of(a)}); },
       {.prefix = true}},
      {"`repetition_scores`",
       [](const Subject& s, const Asking&) {
         repetition_scores(s.model, {.rows = 2, .half = 2, .vocab_end = s.config.d_vocab});
       }},
      {"`judge_interchange`",
       [](const Subject& s, const Asking&) {
         const at::Tensor basis = at::eye(s.config.d_model, at::kDouble).slice(1, 0, 1);
         judge_interchange(s.model, pairs_of(s), {act::resid_pre(0), basis});
       }},
      {"`interchange`",
       [](const Subject& s, const Asking&) {
         const at::Tensor basis = at::eye(s.config.d_model, at::kDouble).slice(1, 0, 1);
         const Input both = pairs_of(s).base;
         const at::Tensor source = at::ones({2, 1, s.config.d_model}, at::kDouble);
         s.model.run(both, {.edits = interchange(s.model, {act::resid_pre(0), basis}, source, both, {-1}),
                            .capture = {act::resid_pre(0)},
                            .output = Output::none});
       }},
      {"`align_subspace`",
       [](const Subject& s, const Asking&) {
         align_subspace(s.model, pairs_of(s), {.place = act::resid_pre(0), .held_out = 0.5, .epochs = 1});
       }},
      {"`fit_probes`",
       [](const Subject& s, const Asking&) {
         fit_probes(s.model, pairs_of(s).base, at::arange(2, at::kLong),
                    {.at = {.of = act::resid_pre(0), .positions = {-1}}, .held_out = 0});
       }},
      {"`fit_components`",
       [](const Subject& s, const Asking&) {
         fit_components(s.model, pairs_of(s).base, 1, {.of = act::resid_pre(0), .positions = {-1}});
       }},
      {"`contrast_directions`",
       [](const Subject& s, const Asking&) {
         contrast_directions(s.model, pairs_of(s).base, pairs_of(s).source, 1,
                             {.of = act::resid_pre(0), .positions = {-1}});
       }},
      {"`firing_features`",
       [](const Subject& s, const Asking&) {
         const Address features = act::sae_acts_post(act::resid_post(0));
         const auto run = spliced(s).run_with_cache(s.input, act::sae_acts_post, {.output = Output::none});
         firing_features(run.cache, features);
       }},
      {"`feature_logits`",
       [](const Subject& s, const Asking&) {
         feature_logits(spliced(s), act::sae_acts_post(act::resid_post(0)), {0});
       }},
      {"`dictionary_quality`",
       [](const Subject& s, const Asking&) {
         dictionary_quality(spliced(s), act::sae_acts_post(act::resid_post(0)), s.input);
       }},
      {"`attribute_graph`, `edge_heads`, `intervene`",
       [](const Subject& s, const Asking&) {
         const GraphFeatures features(std::vector<Dictionary>{});
         const auto graph = attribute_graph(s.model, features, s.input, {.logit_tokens = {1}});
         const std::int64_t last = std::ssize(graph.nodes) - 1;
         edge_heads(s.model, features, s.input, graph, {{last - 1, last}});
         intervene(s.model, features, s.input, graph, {});
       }},
      {"`attribute_graph` of neurons",
       [](const Subject& s, const Asking&) {
         attribute_graph(s.model, GraphFeatures::neurons(), s.input, {.logit_tokens = {1}});
       }},
      {"`repeated_tokens_of`", [](const Subject& s, const Asking&) { repeated_tokens_of(s.model); }},
      {"`token_axis`",
       [](const Subject& s, const Asking&) { token_axis(s.model, s.input.tokens.narrow(0, 0, 1)); }},
      {"`PromptPairs`",
       [](const Subject& s, const Asking&) {
         using Ids = std::vector<std::int64_t>;
         PromptPairs(s.model, {{.clean = Ids{1, 2}, .corrupted = Ids{1, 3}}});
       }},
  };
}

// --- Functions of weights.

const std::vector<StreamMatrix> kOfHeads{StreamMatrix::query, StreamMatrix::key, StreamMatrix::value};
const StreamPart kWritingMlp{.matrix = StreamMatrix::mlp_out, .layer = 0},
    kReadingMlp{.matrix = StreamMatrix::mlp_in, .layer = 1};

std::vector<Call> circuit_calls() {
  constexpr Ways kAll{.norms = true, .stacks = true};
  constexpr Ways kOfLayer{.norms = true, .stacks = true, .layers = true};
  const auto composed = [](HeadInput input) {
    return [input](const Subject& s, const Asking& a) {
      composition_scores(s.model, input, {.circuits = circuits(a), .random_draws = 2});
    };
  };
  const auto stream_matrices = [](const std::vector<StreamMatrix>& kinds) {
    return [kinds](const Subject& s, const Asking& a) {
      for (const StreamMatrix kind : kinds)
        stream_matrix(s.model, {.matrix = kind, .layer = a.layer}, circuits(a));
    };
  };
  const auto singular = [](SingularOf of) {
    return [of](const Subject& s, const Asking& a) {
      const bool of_mlp = of == SingularOf::mlp_out;
      singular_directions(s.model, {.of = of, .layer = of_mlp ? 0 : a.layer, .circuits = circuits(a)});
    };
  };
  return {
      {"`ov_circuits`",
       [](const Subject& s, const Asking& a) {
         const auto made = ov_circuits(s.model, circuits(a));
         made.svd();
         made.eigenvalues();
       },
       kAll},
      {"`qk_circuits`", [](const Subject& s, const Asking& a) { qk_circuits(s.model, circuits(a)).svd(); },
       kAll},
      {"`composition_scores` by queries and keys",
       [composed](const Subject& s, const Asking& a) {
         composed(HeadInput::query)(s, a);
         composed(HeadInput::key)(s, a);
       },
       kAll},
      {"`composition_scores` by values", composed(HeadInput::value), kAll},
      {"`copying_scores`",
       [](const Subject& s, const Asking& a) {
         copying_scores(s.model, {.circuits = circuits(a), .tokens = 3});
       },
       kAll},
      {"`full_qk_circuit`",
       [](const Subject& s, const Asking& a) {
         full_qk_circuit(s.model, head_of(a), {.distance = 1, .circuits = circuits(a)});
       },
       kOfLayer},
      {"`full_qk_circuit` of positions",
       [](const Subject& s, const Asking& a) {
         full_qk_circuit(
             s.model, head_of(a),
             {.query = CircuitEnd::position, .key = CircuitEnd::position, .circuits = circuits(a)});
       },
       kOfLayer},
      {"`full_qk_circuit` of long rows",
       [](const Subject& s, const Asking& a) {
         full_qk_circuit(s.model, head_of(a), {.row_length = long_row(s.config), .circuits = circuits(a)});
       },
       {},
       has_long_rows},
      {"`full_ov_circuit`",
       [](const Subject& s, const Asking& a) {
         full_ov_circuit(s.model, head_of(a), CircuitEnd::token, circuits(a));
       },
       kOfLayer},
      {"`full_ov_circuit` of positions",
       [](const Subject& s, const Asking& a) {
         full_ov_circuit(s.model, head_of(a), CircuitEnd::position, circuits(a));
       },
       kAll},
      {"`qk_circuits_at`",
       [](const Subject& s, const Asking& a) {
         qk_circuits_at(s.model, head_of(a), {0, 2}, {.circuits = circuits(a)});
       },
       kOfLayer},
      {"`qk_circuits_at` of long rows",
       [](const Subject& s, const Asking& a) {
         qk_circuits_at(s.model, head_of(a), {long_row(s.config) - 1}, {.circuits = circuits(a)});
       },
       {},
       has_long_rows},
      {"`position_biases`",
       [](const Subject& s, const Asking& a) {
         position_biases(s.model, {.reach = 2, .stack = a.stack, .layer = a.layer});
       },
       {.stacks = true}},
      {"`stream_matrix` of heads", stream_matrices(kOfHeads), kOfLayer},
      {"`stream_matrix` of heads' outputs", stream_matrices({StreamMatrix::head_out}), kAll},
      {"`stream_matrix` of MLPs", stream_matrices({StreamMatrix::mlp_in, StreamMatrix::mlp_out}), kAll,
       has_mlps},
      {"`stream_matrix` of tokens", stream_matrices({StreamMatrix::embedding}), kAll},
      {"`stream_matrix` of positions", stream_matrices({StreamMatrix::positions}), kAll},
      {"`stream_matrix` of the unembedding", stream_matrices({StreamMatrix::unembedding}), kAll},
      {"`virtual_weights`",
       [](const Subject& s, const Asking& a) {
         virtual_weights(s.model, kWritingMlp, kReadingMlp, circuits(a));
       },
       kAll, has_later_mlp},
      {"`subspace_overlap`",
       [](const Subject& s, const Asking& a) {
         subspace_overlap(s.model, kWritingMlp, kReadingMlp, circuits(a));
       },
       kAll, has_later_mlp},
      {"`singular_directions` of OV circuits", singular(SingularOf::ov_read), kOfLayer},
      {"`singular_directions` of QK circuits", singular(SingularOf::qk_key), kOfLayer},
      {"`singular_directions` of MLPs", singular(SingularOf::mlp_out), kAll, has_mlps},
  };
}

// --- Functions that patch runs.

std::vector<Call> patching_calls() {
  const auto estimated = [](const auto& change) {
    return [change](const Subject& s, const Asking& a) {
      AttributionPatchingOptions options{.sweep = s.heads()};
      change(options, s, a);
      attribution_patching(s.model, options);
    };
  };
  const auto edges = [](const auto& change) {
    return [change](const Subject& s, const Asking& a) {
      EdgeAttributionOptions options{.sweep = s.sweep()};
      change(options, s, a);
      edge_attribution(s.model, options);
    };
  };
  return {
      {"`scores`, `sweep` and its like by metrics of logits",
       [](const Subject& s, const Asking&) {
         scores(s.model, s.input, {logit(1), rank(1), loss(), kl_divergence(at::ones({1, 1, 1}))});
       },
       {},
       [](const ModelConfig& c, const Asking&) { return !c.has_unembedding(); }},
      {"`scores`",
       [](const Subject& s, const Asking&) {
         scores(s.model, s.input, {s.metric(), s.of_stream()});
       }},
      {"`other_spelling`, `spelling_notes`",
       [](const Subject& s, const Asking&) {
         if (s.model.has_tokenizer()) other_spelling(s.model, "a");
         spelling_notes(s.model, s.input, s.metric());
       }},
      {"`logits_at`", [](const Subject& s, const Asking&) { logits_at(s.model, s.input); }},
      {"`sweep`",
       [](const Subject& s, const Asking& a) {
         auto options = s.heads();
         options.stack = a.stack;
         sweep(s.model, options);
         for (const char* name : {"attn_head_all_pos_every", "attn_head_pattern_by_pos", "block_every"}) {
           const auto& preset = patching_preset(name);
           const bool there = std::ranges::all_of(preset.parts, [&](const PresetPart& part) {
             return std::ranges::count(s.model.names(), part.site, &ActivationName::site) > 0;
           });
           if (there) sweep(s.model, preset, s.sweep({}, {{Axis::layer, {s.attending()}}}));
         }
       },
       {.stacks = true}},
      {"`ablate`, `parts_besides`",
       [](const Subject& s, const Asking& a) {
         ablate(s.model,
                {.sets = {{act::z.in(a.stack, layer_of(a))}}, .complement = true, .sweep = s.sweep()});
       },
       {.stacks = true}},
      {"`path_patching`",
       [](const Subject& s, const Asking& a) {
         path_patching(s.model,
                       {.through = PathThrough::mlps, .cells = PathCells::each_sender, .sweep = s.sweep()});
         // Only cross-attention's keys and values read an encoder's stream; else the end of the stream.
         std::vector<Address> receivers;
         if (a.stack == Stack::encoder) receivers = {act::cross_k(0)};
         path_patching(s.model, {.senders = {act::z.in(a.stack, layer_of(a)).head(0)},
                                 .receivers = receivers,
                                 .sweep = s.sweep()});
       },
       {.stacks = true}},
      {"`direct_path`",
       [](const Subject& s, const Asking&) {
         direct_path(s.model, {.input = HeadInput::key, .sweep = s.sweep()});
       }},
      {"`attribution_patching`",
       estimated([](auto& options, const Subject& s, const Asking& a) {
         options.hold = {.norms = true, .patterns = true};
         options.sweep.stack = a.stack;
         options.sweep.into = s.input;
       }),
       {.stacks = true}},
      {"`attribution_patching` with `integration`",
       estimated([](auto& options, const Subject&, const Asking&) {
         options.integration = {.over = IntegrateOver::inputs, .steps = 1};
       })},
      {"`attribution_patching` by `rank` or `top1`",
       [](const Subject& s, const Asking&) {
         auto options = s.heads();
         options.metric = rank(1);
         attribution_patching(s.model, {.sweep = options});
       },
       {},
       predicts},
      {"`attribution_patching` of ids",
       [](const Subject& s, const Asking&) {
         attribution_patching(s.model, {.sweep = s.sweep(act::expert_indices, {Axis::layer})});
       },
       {},
       has_experts},
      {"`attribution_patching` with `query_key`",
       estimated([](auto& options, const Subject& s, const Asking& a) {
         options.sweep = s.heads(act::k);
         options.sweep.stack = a.stack;
         options.query_key = true;
       }),
       {.stacks = true}},
      {"`attribution_patching` with `drop_layers`",
       estimated([](auto& options, const Subject&, const Asking&) { options.drop_layers = true; })},
      {"`attribution_patching` with `layers_at_once`",
       estimated([](auto& options, const Subject&, const Asking&) { options.layers_at_once = 1; }),
       {},
       predicts},
      {"`attribution_patching` with `layers_at_once` and hooks or edits",
       estimated([](auto& options, const Subject& s, const Asking&) {
         options.sweep.edits = {zero(act::z(s.attending()))};
         options.layers_at_once = 1;
       })},
      {"`attribution_patching` with `layers_at_once` by a metric of activations",
       estimated([](auto& options, const Subject& s, const Asking&) {
         options.sweep.metric = s.of_stream();
         options.layers_at_once = 1;
       })},
      {"`attribution_patching` with `layers_at_once` of what all layers read",
       estimated([](auto& options, const Subject& s, const Asking&) {
         options.sweep.site = std::nullopt;
         options.sweep.over.clear();
         options.sweep.table = {{s.config.shortformer() ? Address(act::pos_embed) : act::relative_bias(0)}};
         options.layers_at_once = 1;
       }),
       {},
       [](const ModelConfig& c, const Asking&) {
         return c.shortformer() || (c.relative() != nullptr && !c.relative()->in_every_block);
       }},
      {"`edge_attribution`", edges([](auto& options, const Subject&, const Asking&) { options.check = 1; })},
      {"`edge_attribution` by `rank` or `top1`",
       edges([](auto& options, const Subject&, const Asking&) { options.sweep.metric = top1(1); }),
       {},
       [](const ModelConfig& c, const Asking& a) { return predicts(c, a) && has_edges(c, a); }},
      {"`edge_attribution` with `check` and `by_position`",
       edges([](auto& options, const Subject&, const Asking&) {
         options.check = 1;
         options.by_position = true;
       })},
      {"`edge_attribution` with hooks or edits of the stream",
       edges([](auto& options, const Subject&, const Asking&) {
         options.sweep.edits = {zero(act::resid_pre(0))};
       })},
      {"`node_attribution`, `choose_circuit`, `model_parts`",
       [](const Subject& s, const Asking&) {
         const auto scores = node_attribution(s.model, {.sweep = s.sweep()});
         choose_circuit(s.model, scores, {.count = 2});
       }},
      {"`run_circuits` of nodes, `judge_circuit`",
       [](const Subject& s, const Asking&) {
         run_circuits(s.model, {s.first_node()}, s.sweep());
         judge_circuit(s.model, s.first_node(), {.sweep = s.sweep(), .sets = 1});
       }},
      {"`run_circuits` of edges",
       [](const Subject& s, const Asking&) {
         run_circuits(s.model, {Circuit::of_edges(s.model, {{"embed", "logits"}})}, s.sweep());
       }},
  };
}

std::vector<Call> all_calls() {
  auto calls = reading_calls();
  for (auto* more : {circuit_calls, patching_calls}) {
    for (Call& call : (*more)()) calls.push_back(std::move(call));
  }
  return calls;
}

/// The ways in which a call is made for a model that has what it needs.
std::vector<Asking> askings(const Call& call, const ModelConfig& config) {
  std::vector<Asking> all;
  const auto of_layer = [&](Asking asking) {
    all.push_back(asking);
    asking.norms = false;
    if (call.ways.norms) all.push_back(asking);
  };
  const auto first = first_layer(config, true);
  of_layer({.layer = first});
  if (call.ways.layers) {
    auto last = config.n_layers - 1;
    while (!config.attends(last)) --last;
    if (last > first) of_layer({.layer = last});
    if (!config.attends_everywhere()) of_layer({.layer = first_layer(config, false)});
  }
  if (call.ways.stacks && config.has_encoder()) {
    of_layer({.stack = Stack::encoder});
    if (call.ways.layers && config.n_encoder_layers() > 1)
      of_layer({.stack = Stack::encoder, .layer = config.n_encoder_layers() - 1});
  }
  if (call.ways.crosses && config.has_encoder()) all.push_back({.crosses = true});
  if (call.ways.prefix && one_causal_stack(config)) all.push_back({.layer = first, .prefix = true});
  std::erase_if(all, [&](const Asking& a) { return !call.there(config, a); });
  return all;
}

std::string text_of(const Asking& a) {
  return fmt::format("{}{} of layer {}{}{}", a.norms ? "" : " without norms",
                     a.stack == Stack::encoder ? " of the encoder" : "", a.layer,
                     a.crosses ? " of cross-attention" : "", a.prefix ? " after a prefix" : "");
}

// --- The models.

/// The traits that may decide whether something is refused.
std::vector<std::string> traits_of(const ModelConfig& c) {
  std::vector<std::string> traits{
      fmt::format("norms {} {}", c.norm == NormKind::none, static_cast<int>(c.norm_place)),
      fmt::format("layout {}", static_cast<int>(c.layout)), fmt::format("mlp {}", static_cast<int>(c.mlp)),
      fmt::format("direction {}", static_cast<int>(c.direction)),
      fmt::format("positions {}", c.positions.index())};
  const auto add = [&](bool has, const char* trait) {
    if (has) traits.emplace_back(trait);
  };
  add(c.has_encoder(), "encoder");
  add(!c.pre_norm_layers.empty(), "pre_norm_layers");
  add(c.final_norm == NormKind::none, "no final norm");
  add(!c.first_attention_norm, "first_attention_norm");
  add(c.post_embedding_norm, "post_embedding_norm");
  add(c.embedding_sum_norm, "embedding_sum_norm");
  add(c.token_types > 0, "token types");
  add(c.layer_scale, "layer_scale");
  add(c.mlp_norm, "mlp_norm");
  add(c.experts.has_value(), "experts");
  add(c.experts && c.experts->d_shared > 0, "shared expert");
  add(c.experts && c.experts->own_norms, "norms of a mixture's own");
  add(c.score_soft_cap > 0, "score_soft_cap");
  add(c.qk_norm.has_value(), "qk_norm");
  add(c.qk_norm && !c.qk_norm->layers.empty(), "qk_norm in some layers");
  add(c.value_norm, "value_norm");
  add(c.query_growth.has_value(), "query_growth");
  add(c.qkv_clip > 0, "qkv_clip");
  add(c.latent_attention(), "latents");
  add(c.query_latent(), "query latents");
  add(c.attention_sinks, "sinks");
  add(c.gated_heads, "gated_heads");
  add(c.window.has_value(), "window");
  add(c.full_heads.has_value(), "full_heads");
  add(c.shared_keys.has_value(), "shared_keys");
  add(c.layer_input.has_value(), "layer_input");
  add(c.grouped_query(), "grouped");
  add(c.short_conv.has_value(), "short_conv");
  add(c.delta_net.has_value(), "delta_net");
  add(!c.has_unembedding(), "no unembedding");
  add(c.has_mlm_head(), "mlm_head");
  add(c.unembedding && c.d_vocab_out() != c.d_vocab, "another vocabulary");
  add(c.unembedding && c.unembedding->soft_cap > 0, "logit cap");
  add(c.n_layers == 1, "one layer");
  add(!c.processing.empty(), "processed");
  return traits;
}

/// Whether a model combines two traits that no earlier model combined.
bool is_new(const ModelConfig& config, std::set<std::pair<std::string, std::string>>& met) {
  const auto traits = traits_of(config);
  const auto before = met.size();
  for (const auto& one : traits) {
    for (const auto& other : traits) met.emplace(one, other);
  }
  return met.size() > before;
}

/// Every function of a model or a cache that the headers of the analyses declare.
std::set<std::string> functions_of_models() {
  static const std::regex kDeclaration(
      R"(^[A-Za-z_][\w:<>]* (\w+?)(?:_report)?\(const (?:HookedTransformer|ActivationCache)& )");
  std::set<std::string> names;
  const auto headers = std::filesystem::path(HOOKED_SOURCE_DIR) / "include/hooked/analysis";
  for (const auto& header : std::filesystem::directory_iterator(headers)) {
    std::ifstream in(header.path());
    for (std::string line; std::getline(in, line);) {
      std::smatch found;
      if (std::regex_search(line, found, kDeclaration)) names.insert(found[1]);
    }
  }
  return names;
}

TEST(Refusals, EveryFunctionOfModelsIsCalled) {
  const auto calls = all_calls();
  const auto functions = functions_of_models();
  EXPECT_GT(functions.size(), 40U);
  for (const std::string& function : functions) {
    const auto written = fmt::format("`{}`", function);
    EXPECT_TRUE(std::ranges::any_of(
        calls, [&](const Call& call) { return call.name.find(written) != std::string::npos; }))
        << function << " is in no call of this test";
  }
}

/// A small model of a kind that no golden checkpoint has.
HookedTransformer with_growing_queries() {
  auto config = two_layer_config();
  config.positions = RotaryPositions{};
  config.query_growth = QueryGrowth{.growth = 0.1, .tokens = 4};
  return random_model(config);
}

/// Calls `check` with models that cover any two traits that some golden checkpoint combines.
void for_each_kind(const std::function<void(const std::string& name, const Subject& subject)>& check) {
  std::set<std::pair<std::string, std::string>> traits;
  for (const GoldenCase& golden : golden_cases()) {
    auto model = load_golden(golden);
    if (is_new(model.config(), traits)) check(golden.name, Subject(std::move(model), read_golden(golden)));
  }
  const auto& golden = golden_case("gpt2");
  check("gpt2, processed",
        Subject(load_golden(golden, WeightProcessing::all_that_apply()), read_golden(golden)));
  GoldenRun prompt;
  prompt.tokens = random_row(kColumns, 11, 1);
  check("growing queries", Subject(with_growing_queries(), prompt));
}

/// The refusal of a call, empty if it has none. Fails the test for another error.
std::string refused_by(const Call& call, const Subject& subject, const Asking& asking) {
  try {
    call.make(subject, asking);
  } catch (const HookError& error) {
    return error.what();
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "this is not a refusal: " << error.what();
  }
  return {};
}

TEST(Refusals, AreTheRowsOfTheTable) {
  const auto rows = refusals();
  const auto calls = all_calls();
  std::set<std::pair<std::string_view, std::string_view>> met;  // `where` of a row and its call
  for_each_kind([&](const std::string& name, const Subject& subject) {
    for (const Call& call : calls) {
      for (const Asking& asking : askings(call, subject.config)) {
        SCOPED_TRACE(name + ": " + call.name + text_of(asking));
        bool named = false;
        for (const Refusal& row : rows) {
          if (std::ranges::count(row.calls, call.name) == 0 || !row.holds(subject.config, asking)) continue;
          named = true;
          met.emplace(row.where, call.name);
        }
        const auto refused = refused_by(call, subject, asking);
        EXPECT_EQ(named, !refused.empty())
            << (named ? "the table says that this is refused" : "no row of the table says this: " + refused);
      }
    }
  });
  for (const Refusal& row : rows) {
    for (const auto call : row.calls)
      EXPECT_TRUE(met.contains({row.where, call})) << "nothing met " << call << " | " << row.where;
  }
}

}  // namespace
}  // namespace hooked::refusals_test
