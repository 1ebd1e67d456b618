#include "option_table.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "option_values.h"
#include "tests/support/activations.h"

namespace hooked::reference {
namespace {

struct Sizes {
  std::string name;
  std::int64_t n_layers, d_model, n_heads, d_head, d_mlp, d_vocab, d_vocab_out;
  double eps;
};

Option sizes() {
  const std::vector<Sizes> kinds = {{"all different", 2, 10, 4, 6, 14, 17, 17, 1e-5},
                                    {"all equal", 2, 8, 4, 8, 8, 8, 8, 1e-6},
                                    {"d_mlp = d_model", 3, 12, 4, 4, 12, 19, 19, 1e-2},
                                    {"d_vocab = d_model", 1, 12, 6, 2, 20, 12, 12, 1e-5},
                                    {"odd", 2, 9, 6, 5, 13, 11, 11, 1e-3},
                                    {"d_vocab_out != d_vocab", 2, 6, 4, 8, 10, 13, 7, 1e-5}};
  const auto fits = [](const Sizes& s) -> std::function<bool(const Config&)> {
    if (s.name == "all equal") {
      return [](const Config& c) {
        return c.d_mlp == c.d_model && c.d_vocab == c.d_model && c.d_vocab_out() == c.d_model;
      };
    }
    if (s.name == "d_mlp = d_model") return [](const Config& c) { return c.d_mlp == c.d_model; };
    if (s.name == "d_vocab = d_model") return [](const Config& c) { return c.d_vocab == c.d_model; };
    if (s.name == "odd") return [](const Config& c) { return c.d_model % 2 == 1; };
    if (s.name == "d_vocab_out != d_vocab") {
      return [](const Config& c) { return c.has_unembedding() && c.d_vocab_out() != c.d_vocab; };
    }
    return [](const Config& c) {
      return c.d_mlp != c.d_model && c.d_vocab != c.d_model && c.n_heads * c.d_head != c.d_model;
    };
  };
  Option option{.name = "sizes", .values = {}};
  for (const Sizes& s : kinds) {
    option.values.push_back(value(
        s.name,
        [s](Config& c) {
          c.n_layers = s.n_layers;
          c.d_model = s.d_model;
          c.n_ctx = 9;
          c.n_heads = c.n_kv_heads = s.n_heads;
          c.d_head = s.d_head;
          c.d_mlp = s.d_mlp;
          c.d_vocab = s.d_vocab;
          c.unembedding = Unembedding{.d_vocab = s.d_vocab_out};
          c.eps = s.eps;
        },
        fits(s)));
  }
  return option;
}

OptionValue norm_value(std::string name, NormKind kind, std::function<void(Config&)> more,
                       std::function<bool(const Config&)> holds) {
  return value(
      std::move(name),
      [kind, more](Config& c) {
        c.norm = c.final_norm = kind;
        more(c);
      },
      [kind, holds](const Config& c) { return c.norm == kind && holds(c); });
}

Option norms() {
  using enum NormKind;
  const auto nothing = [](Config&) {};
  const auto folded = [](Config& c) { c.norm_folded = true; };
  const auto is_folded = [](const Config& c) { return c.norm_folded; };
  return {"norm",
          {norm_value("LayerNorm", layer_norm, nothing,
                      [](const Config& c) { return !c.norm_folded && c.norm_bias && !c.norm_offset; }),
           norm_value(
               "LayerNorm without bias", layer_norm, [](Config& c) { c.norm_bias = false; },
               [](const Config& c) { return !c.norm_folded && !c.norm_bias; }),
           norm_value(
               "LayerNorm with offset", layer_norm, [](Config& c) { c.norm_offset = true; },
               [](const Config& c) { return !c.norm_folded && c.norm_offset; }),
           norm_value("LayerNorm, folded", layer_norm, folded, is_folded),
           norm_value("RMSNorm", rms_norm, nothing,
                      [](const Config& c) { return !c.norm_folded && !c.norm_offset; }),
           norm_value(
               "RMSNorm with offset", rms_norm, [](Config& c) { c.norm_offset = true; },
               [](const Config& c) { return !c.norm_folded && c.norm_offset; }),
           norm_value("RMSNorm, folded", rms_norm, folded, is_folded),
           norm_value("none", none, nothing, [](const Config&) { return true; })}};
}

Option norm_places() {
  using enum NormPlace;
  Option option = field<NormPlace>("norm place", &Config::norm_place,
                                   {{"before", pre},
                                    {"after the sum", post},
                                    {"on the output", output},
                                    {"both", both},
                                    {"on the stream", stream}});
  option.values[1].apply = [](Case& c) {
    c.config.norm_place = post;
    c.config.final_norm = NormKind::none;
  };
  option.values[2].holds = [](const Case& c) {
    return c.config.norm_place == output && c.config.pre_norm_layers.empty();
  };
  option.values.push_back(value(
      "on the output, before in the first layer",
      [](Config& c) {
        c.norm_place = output;
        c.pre_norm_layers.assign(static_cast<std::size_t>(c.n_layers), false);
        c.pre_norm_layers.front() = true;
      },
      [](const Config& c) { return !c.pre_norm_layers.empty(); }));
  return option;
}

Option final_norms() {
  const auto set = [](NormKind kind) { return [kind](Config& c) { c.final_norm = kind; }; };
  return {
      "final norm",
      {value(
           "as in the blocks", [](Config&) {}, [](const Config& c) { return c.final_norm == c.norm; }),
       value("RMSNorm in a LayerNorm model", set(NormKind::rms_norm),
             [](const Config& c) {
               return c.final_norm == NormKind::rms_norm && c.norm == NormKind::layer_norm;
             }),
       value("none", set(NormKind::none), [](const Config& c) { return c.final_norm == NormKind::none; })}};
}

Option mlps() {
  using enum MlpKind;
  const auto no_bias = [](const Config& c) { return !c.mlp_bias; };
  return {"mlp",
          {value(
               "plain", [](Config& c) { c.mlp = plain; },
               [](const Config& c) { return c.mlp == plain && c.mlp_bias; }),
           value(
               "plain without bias",
               [](Config& c) {
                 c.mlp = plain;
                 c.mlp_bias = false;
               },
               [no_bias](const Config& c) { return c.mlp == plain && no_bias(c); }),
           value(
               "gated", [](Config& c) { c.mlp = gated; },
               [](const Config& c) { return c.mlp == gated && c.mlp_bias && !c.gated_bias_after_product; }),
           value(
               "gated without bias",
               [](Config& c) {
                 c.mlp = gated;
                 c.mlp_bias = false;
               },
               [no_bias](const Config& c) { return c.mlp == gated && no_bias(c); }),
           value(
               "gated, bias after the product",
               [](Config& c) {
                 c.mlp = gated;
                 c.gated_bias_after_product = true;
               },
               [](const Config& c) { return c.mlp == gated && c.mlp_bias && c.gated_bias_after_product; }),
           value(
               "none (attention only)",
               [](Config& c) {
                 c.mlp = none;
                 c.d_mlp = 0;
               },
               [](const Config& c) { return c.mlp == none; })}};
}

Option activations() {
  Option option{.name = "activation", .values = {}};
  for (const Activation activation : all_activations()) {
    if (activation == Activation::swish) continue;  // which has a number
    option.values.push_back(value(
        std::string(activation_name(activation)), [activation](Config& c) { c.activation = activation; },
        [activation](const Config& c) { return c.has_mlp() && c.activation == activation && !c.mlp_norm; }));
  }
  option.values.push_back(value(
      "swish with its own beta", [](Config& c) { c.activation = Activation::swish_with(1.4); },
      [](const Config& c) { return c.has_mlp() && c.activation.kind() == Activation::swish; }));
  option.values.push_back(value(
      "solu, then LayerNorm",
      [](Config& c) {
        c.activation = Activation::solu;
        c.mlp_norm = true;
      },
      [](const Config& c) { return c.has_mlp() && c.activation.kind() == Activation::solu && c.mlp_norm; }));
  return option;
}

// A mixture in the MLP's place, which has to be gated.
OptionValue mixture_value(std::string name, std::function<void(Config&)> change,
                          std::function<bool(const Config&)> holds) {
  return value(
      std::move(name),
      [change](Config& c) {
        if (c.mlp == MlpKind::plain) c.mlp = MlpKind::gated;
        c.experts = Experts{.n_experts = 4, .per_token = 2, .d_expert = c.d_mlp};
        change(c);
      },
      [holds](const Config& c) { return c.experts && holds(c); });
}

Option experts() {
  using enum RouterKind;
  const auto routed_by = [](RouterKind kind) {
    return [kind](const Config& c) { return c.experts && c.experts->router == kind; };
  };
  return {"experts",
          {value(
               "none", [](Config&) {}, [](const Config& c) { return !c.experts; }),
           mixture_value(
               "softmax, then choice", [](Config&) {},
               [](const Config& c) {
                 return c.experts->router == softmax_then_choose && !c.experts->renormalised;
               }),
           mixture_value(
               "choice with a bias, renormalised",
               [](Config& c) {
                 c.experts->choice_bias = c.experts->renormalised = true;
                 c.experts->least_sum = 0.8;
               },
               [](const Config& c) { return c.experts->choice_bias && c.experts->renormalised; }),
           mixture_value(
               "sigmoid, then choice from groups by their best two",
               [](Config& c) {
                 c.experts->router = sigmoid_then_choose;
                 c.experts->choice_bias = c.experts->renormalised = true;
                 c.experts->n_experts = 6;
                 c.experts->n_groups = 3;
                 c.experts->groups_per_token = 2;
                 c.experts->group_score = GroupScore::best_two;
                 c.experts->added_to_sum = 0.4;
               },
               [](const Config& c) {
                 return c.experts->router == sigmoid_then_choose && c.experts->choice_bias &&
                        c.experts->n_groups > 1 && c.experts->group_score == GroupScore::best_two;
               }),
           mixture_value(
               "softmax, then choice from groups by their best",
               [](Config& c) {
                 c.experts->n_experts = 6;
                 c.experts->n_groups = 3;
                 c.experts->groups_per_token = 2;
               },
               [](const Config& c) {
                 return c.experts->router == softmax_then_choose && c.experts->n_groups > 1 &&
                        c.experts->group_score == GroupScore::best;
               }),
           mixture_value(
               "choice, then softmax; biases",
               [](Config& c) {
                 c.experts->router = choose_then_softmax;
                 c.experts->router_bias = c.experts->bias = true;
               },
               [routed_by](const Config& c) {
                 return routed_by(choose_then_softmax)(c) && c.experts->router_bias && c.experts->bias;
               }),
           mixture_value(
               "sparse mixer",
               [](Config& c) {
                 c.experts->router = sparse_mixer;
                 c.experts->mixer_tolerance = 0.6;
               },
               routed_by(sparse_mixer)),
           mixture_value(
               "one per token, next to ordinary MLPs",
               [](Config& c) {
                 c.experts->per_token = 1;
                 c.experts->d_expert = c.d_mlp + 3;
                 c.experts->dense_layers.assign(static_cast<std::size_t>(c.n_layers), false);
                 c.experts->dense_layers.front() = true;
               },
               [](const Config& c) { return !c.experts->dense_layers.empty() && c.experts->per_token == 1; }),
           mixture_value(
               "shared expert", [](Config& c) { c.experts->d_shared = c.d_mlp + 1; },
               [](const Config& c) { return c.experts->d_shared > 0 && !c.experts->shared_gate; }),
           mixture_value(
               "weighted inputs",
               [](Config& c) {
                 c.experts->router = sigmoid_then_choose;
                 c.experts->weighted_inputs = true;
               },
               [](const Config& c) { return c.experts->weighted_inputs; }),
           mixture_value(
               "norms of their own, a number for each",
               [](Config& c) {
                 c.norm = NormKind::rms_norm;
                 if (c.final_norm == NormKind::layer_norm) c.final_norm = NormKind::rms_norm;
                 c.norm_place = NormPlace::both;
                 c.experts->renormalised = c.experts->own_norms = c.experts->expert_scale = true;
                 c.experts->d_shared = c.d_mlp + 2;
               },
               [](const Config& c) { return c.experts->own_norms && c.experts->expert_scale; }),
           mixture_value(
               "all per token, shared expert times a sigmoid",
               [](Config& c) {
                 c.experts->per_token = 4;
                 c.experts->d_shared = 5;
                 c.experts->shared_gate = true;
               },
               [](const Config& c) {
                 return c.experts->shared_gate && c.experts->per_token == c.experts->n_experts;
               })}};
}

Option gate_limits() {
  return {"gate",
          {value(
               "free", [](Config&) {}, [](const Config& c) { return c.gate_limit == 0.0 && !c.up_offset; }),
           value(
               "held, up branch plus 1",
               [](Config& c) {
                 if (c.mlp == MlpKind::plain) c.mlp = MlpKind::gated;
                 c.gate_limit = 0.7;
                 c.up_offset = true;
               },
               [](const Config& c) { return c.gate_limit > 0.0 && c.up_offset; })}};
}

/// A number of the config, or of its unembedding where it has one.
using NumberOf = double* (*)(Config&);

std::optional<double> number(NumberOf of, const Config& c) {
  Config copy = c;
  const double* found = of(copy);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

Option soft_cap(std::string name, NumberOf of, double cap) {
  return {std::move(name),
          {value(
               "none", [](Config&) {}, [of](const Config& c) { return number(of, c).value_or(0.0) == 0.0; }),
           value(
               "capped",
               [of, cap](Config& c) {
                 if (double* found = of(c)) *found = cap;
               },
               [of](const Config& c) { return number(of, c).value_or(0.0) > 0.0; })}};
}

Option multiplier(std::string name, NumberOf of, double factor) {
  return {std::move(name),
          {value(
               "1", [](Config&) {}, [of](const Config& c) { return number(of, c).value_or(1.0) == 1.0; }),
           value(
               "another",
               [of, factor](Config& c) {
                 if (double* found = of(c)) *found = factor;
               },
               [of](const Config& c) { return number(of, c).value_or(1.0) != 1.0; })}};
}

template <double Unembedding::*member>
double* of_unembedding(Config& c) {
  return c.unembedding ? &((*c.unembedding).*member) : nullptr;
}

template <double Config::*member>
double* of_config(Config& c) {
  return &(c.*member);
}

Option attention_biases() {
  const std::vector<std::string> names = {"q, k, v and output", "output only", "q, k, v only", "none"};
  Option option{.name = "attention biases", .values = {}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool qkv = i % 2 == 0, out = i < 2;
    option.values.push_back(value(
        names[i],
        [=](Config& c) {
          c.qkv_bias = qkv;
          c.attn_out_bias = out;
        },
        [=](const Config& c) { return c.qkv_bias == qkv && c.attn_out_bias == out; }));
  }
  return option;
}

Option unembeddings() {
  Option option{.name = "unembedding", .values = {}};
  // Untied with bias is the usual choice.
  for (const auto& [name, bias, tied] :
       {std::tuple{"with bias", true, false}, std::tuple{"without bias", false, false},
        std::tuple{"tied with bias", true, true}, std::tuple{"tied", false, true}}) {
    option.values.push_back(value(
        name,
        [bias = bias, tied = tied](Config& c) {
          c.unembedding->bias = bias;
          c.unembedding->tied = tied;
        },
        [bias = bias, tied = tied](const Config& c) {
          return c.unembedding && c.unembedding->bias == bias && c.unembedding->tied == tied;
        }));
  }
  option.values.push_back(value(
      "none", [](Config& c) { c = without_unembedding(std::move(c)); },
      [](const Config& c) { return !c.has_unembedding(); }));
  return option;
}

Option mlm_heads() {
  Option option{"masked-LM head",
                {value(
                    "none", [](Config&) {}, [](const Config& c) { return !c.has_mlm_head(); })}};
  for (const Activation activation : {Activation(Activation::gelu), Activation(Activation::relu)}) {
    option.values.push_back(value(
        std::string(activation_name(activation)),
        [activation](Config& c) {
          if (c.unembedding) c.unembedding->mlm_head = activation;
        },
        [activation](const Config& c) { return c.unembedding && c.unembedding->mlm_head == activation; }));
  }
  return option;
}

Option embedding_norms() {
  const auto sum = [](std::int64_t types) {
    return [types](Config& c) {
      c.embedding_sum_norm = true;
      c.token_types = types;
    };
  };
  const auto is_sum = [](std::int64_t types) {
    return [types](const Config& c) { return c.embedding_sum_norm && c.token_types == types; };
  };
  return {
      "norm after the embedding",
      {value(
           "off", [](Config&) {},
           [](const Config& c) { return !c.post_embedding_norm && !c.summed_embedding(); }),
       value(
           "on", [](Config& c) { c.post_embedding_norm = true; },
           [](const Config& c) { return c.post_embedding_norm && c.embedding_norm == NormKind::layer_norm; }),
       value(
           "on, RMS",
           [](Config& c) {
             c.post_embedding_norm = true;
             c.embedding_norm = NormKind::rms_norm;
           },
           [](const Config& c) { return c.post_embedding_norm && c.embedding_norm == NormKind::rms_norm; }),
       value("over the sum", sum(0), is_sum(0)),
       value("over the sum with token types", sum(3),
             [](const Config& c) { return c.embedding_sum_norm && c.token_types > 1; }),
       value("over the sum with one token type", sum(1), is_sum(1)),
       value(
           "off, with token types", [](Config& c) { c.token_types = 2; },
           [](const Config& c) { return c.token_types > 0 && !c.embedding_sum_norm; })}};
}

Option paddings() {
  Option option{.name = "padding", .values = {}};
  for (const auto& [name, padding] : std::vector<std::pair<std::string, Padding>>{
           {"none", Padding::none}, {"left", Padding::left}, {"right", Padding::right}}) {
    option.values.push_back({.name = name,
                             .apply = [padding = padding](Case& c) { c.padding = padding; },
                             .holds = [padding = padding](const Case& c) { return c.padding == padding; }});
  }
  return option;
}

std::vector<Option> make_table() {
  return {
      sizes(),
      heads(),
      norms(),
      norm_places(),
      final_norms(),
      field<bool>("norm before the first attention", &Config::first_attention_norm,
                  {{"as in the others", true}, {"none", false}}),
      mlps(),
      activations(),
      experts(),
      gate_limits(),
      field<BlockLayout>("block", &Config::layout,
                         {{"serial", BlockLayout::serial},
                          {"parallel, two norms", BlockLayout::parallel_two_norms},
                          {"parallel, one norm", BlockLayout::parallel_one_norm}}),
      field<bool>("number for each block", &Config::layer_scale, {{"off", false}, {"on", true}}),
      {"inputs of single blocks",
       {value(
            "none", [](Config&) {}, [](const Config& c) { return !c.layer_input; }),
        value(
            "of tokens", [](Config& c) { c.layer_input = LayerInput{.width = 3}; },
            [](const Config& c) { return c.layer_input.has_value(); })}},
      field<AttentionDirection>(
          "direction", &Config::direction,
          {{"causal", AttentionDirection::causal}, {"bidirectional", AttentionDirection::bidirectional}}),
      windows(),
      full_heads(),
      shared_keys(),
      positions(),
      attention_scales(),
      field<bool>("scale by inverse layer", &Config::scale_by_inverse_layer, {{"off", false}, {"on", true}}),
      soft_cap("score soft cap", of_config<&Config::score_soft_cap>, 1.5),
      soft_cap("logit soft cap", of_unembedding<&Unembedding::soft_cap>, 2.0),
      qk_norms(),
      query_growths(),
      latents(),
      short_convolutions(),
      delta_nets(),
      field<bool>("attention sinks", &Config::attention_sinks, {{"off", false}, {"on", true}}),
      field<bool>("gated heads", &Config::gated_heads, {{"off", false}, {"on", true}}),
      field<bool>("norms of values", &Config::value_norm, {{"off", false}, {"on", true}}),
      soft_cap("q, k, v clamp", of_config<&Config::qkv_clip>, 0.6),
      multiplier("embedding scale", of_config<&Config::embedding_scale>, 1.7),
      multiplier("unembedding input scale", of_unembedding<&Unembedding::in_scale>, 0.6),
      multiplier("logit scale", of_unembedding<&Unembedding::scale>, 0.4),
      attention_biases(),
      unembeddings(),
      mlm_heads(),
      embedding_norms(),
      paddings(),
      stacks(),
      decoder_inputs(),
  };
}

}  // namespace

const std::vector<Option>& option_table() {
  static const std::vector<Option> table = make_table();
  return table;
}

Case make_case(const Choice& choice) {
  Case result;
  for (std::size_t i = 0; i < choice.size(); ++i) option_table()[i].values[choice[i]].apply(result);
  return result;
}

std::string describe(const Case& which) {
  std::string text;
  for (const Option& option : option_table()) {
    if (option.values[0].holds(which)) continue;
    for (const OptionValue& v : option.values) {
      if (v.holds(which)) text += (text.empty() ? "" : "; ") + option.name + ": " + v.name;
    }
  }
  return text.empty() ? "all defaults" : text;
}

}  // namespace hooked::reference
