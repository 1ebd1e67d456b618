#include "plain_model.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "plain_layers.h"
#include "random_weights.h"

namespace hooked::reference {
namespace {

/// The weights as plain arrays; exactly those that the config asks for.
Weights read_weights(const ModelConfig& config, const StateDict& state) {
  Weights weights;
  for (const auto& [name, shape] : weight_shapes(config)) {
    const auto found = state.find(name);
    if (found == state.end()) {
      // A gated MLP may leave out its gate's bias, which is zero then.
      if (name.ends_with(".b_gate")) continue;
      throw std::invalid_argument("weight " + name + " is missing");
    }
    const at::Tensor dense = found->second.to(at::kCPU, at::kDouble).contiguous();
    if (dense.sizes().vec() != shape) throw std::invalid_argument("weight " + name + " has another shape");
    Array array(shape);
    std::copy_n(dense.data_ptr<double>(), dense.numel(), array.values.begin());
    weights.emplace(name, std::move(array));
  }
  for (const auto& [name, tensor] : state) {
    if (!weights.contains(name))
      throw std::invalid_argument("weight " + name + " has no place in this config");
  }
  return weights;
}

Sequence read_sequence(const Tokens& tokens, const std::optional<Mask>& mask, std::string stack,
                       AttentionDirection direction) {
  Sequence sequence{
      .stack = std::move(stack), .direction = direction, .real = {}, .positions = {}, .pos_embed = {}};
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    std::vector<bool> real;
    std::vector<std::int64_t> positions;
    std::int64_t seen = 0;
    for (std::size_t p = 0; p < tokens[b].size(); ++p) {
      const bool is_real = !mask || mask->at(b).at(p) != 0;
      seen += is_real ? 1 : 0;
      real.push_back(is_real);
      positions.push_back(std::max<std::int64_t>(seen - 1, 0));
    }
    sequence.real.push_back(std::move(real));
    sequence.positions.push_back(std::move(positions));
  }
  return sequence;
}

/// Rows of a table [row, width] picked by `pick(b, p)`; a negative row gives zeros. [batch, pos, width].
template <class Pick>
Array gather(const Array& table, std::int64_t batch, std::int64_t length, Pick pick) {
  Array out({batch, length, table.size(1)});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t p = 0; p < length; ++p) {
      const std::int64_t from = pick(b, p);
      if (from < 0) continue;
      for (std::int64_t m = 0; m < table.size(1); ++m) out(b, p, m) = table(from, m);
    }
  }
  return out;
}

/// `x` [batch, pos, d_model] given to each of `heads` heads: [batch, pos, heads, d_model].
Array for_each_head(const Array& x, std::int64_t heads) {
  Array out({x.size(0), x.size(1), heads, x.size(2)});
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t p = 0; p < out.size(1); ++p) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t m = 0; m < out.size(3); ++m) out(b, p, h, m) = x(b, p, m);
      }
    }
  }
  return out;
}

/// What a block adds to the stream `x` for its per-layer embeddings (Gemma 3n): the formula of LayerInput.
Array layer_input(const ModelConfig& config, const Weights& weights, const std::string& name, const Array& x,
                  const Sequence& sequence, Points& points) {
  const auto width = static_cast<double>(config.layer_input->width);
  Array mapped = linear(sequence.embedding, weights.at(name + "W_embed"), {});
  for (double& value : mapped.values) value /= std::sqrt(static_cast<double>(config.d_model));
  const Array normed =
      apply_norm(norm_of(config, weights, config.norm, name + "ln"), mapped, name + "ln", points);
  Array in = gather(weights.at(name + "W_token"), x.size(0), x.size(1),
                    [&](auto b, auto p) { return sequence.tokens[b][p]; });
  for (std::size_t i = 0; i < in.values.size(); ++i) {
    in.values[i] = (std::sqrt(width) * in.values[i] + normed.values[i]) / std::sqrt(2.0);
  }
  in = points.keep(name + "hook_in", in);
  const Array pre = points.keep(name + "hook_pre", linear(x, weights.at(name + "W_gate"), {}));
  Array post = activate_all(config.activation, pre);
  for (std::size_t i = 0; i < post.values.size(); ++i) post.values[i] *= in.values[i];
  post = points.keep(name + "hook_post", post);
  return apply_norm(norm_of(config, weights, config.norm, name + "ln_post"),
                    linear(post, weights.at(name + "W_out"), {}), name + "ln_post", points);
}

/// One block on the stream [batch, pos, d_model]; returns the next block's.
Array block(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& given,
            const Sequence& sequence, Points& points) {
  const std::string name = sequence.stack + "." + std::to_string(layer) + ".";
  const bool pre = !config.pre_norm_layers.empty() && config.pre_norm_layers[layer];
  const NormPlace place = pre ? NormPlace::pre : config.norm_place;
  const bool norms_inputs = place == NormPlace::pre || place == NormPlace::both;
  const bool norms_outputs = place == NormPlace::output || place == NormPlace::both;
  const bool norms_sums = place == NormPlace::post;
  const bool norms_stream = place == NormPlace::stream;
  const std::string mlp_norm = name + (sequence.encoded != nullptr ? "ln3" : "ln2");
  // With one norm for both branches, ln2 is ln1 under another name.
  const std::string mlp_norm_weights =
      config.layout == BlockLayout::parallel_one_norm ? name + "ln1" : mlp_norm;
  const auto norm = [&](const std::string& point, const std::string& of, const Array& x) {
    return apply_norm(norm_of(config, weights, config.norm, of), x, point, points);
  };
  const auto norm_if = [&](bool on, const std::string& which, const Array& x) {
    return on ? norm(name + which, name + which, x) : x;
  };
  const auto keep = [&](const std::string& point, Array value) {
    return points.keep(name + point, std::move(value));
  };
  const auto note = [&](const std::string& point, Array value) {
    points.note(name + point, std::move(value));
  };

  const Array resid_pre = keep("hook_resid_pre", given);
  // The stream to which attention's output is added, and the one that it reads.
  const Array before = norm_if(norms_stream, "ln1", resid_pre);
  if (config.attends(layer) && !config.latent_attention()) {
    if (!config.grouped_query()) note("hook_attn_in", for_each_head(before, config.n_heads));
    note("hook_q_input", for_each_head(before, config.n_heads));
    if (!config.shared_keys || layer < config.n_layers - config.shared_keys->layers) {
      note("hook_k_input", for_each_head(before, config.kv_heads(layer)));
      note("hook_v_input", for_each_head(before, config.kv_heads(layer)));
    }
  }

  const Array read = norm_if(norms_inputs && (layer > 0 || config.first_attention_norm), "ln1", before);
  const Array mixed = config.convolves(layer)
                          ? short_convolution(config, weights, layer, read, sequence, points)
                      : config.recurs(layer) ? delta_net(config, weights, layer, read, sequence, points)
                                             : attention(config, weights, layer, read, sequence, points);
  const Array attn_out = keep("hook_attn_out", norm_if(norms_outputs, "ln1_post", mixed));
  Array after_attention = sum(before, attn_out);

  // The layer scale multiplies the stream at the end of the block (Gemma 4).
  const auto scaled = [&](Array stream_sum) {
    if (!config.layer_scale) return stream_sum;
    stream_sum = keep("hook_resid_sum", stream_sum);
    for (double& value : stream_sum.values) value *= weights.at(name + "resid_scale")(0);
    return stream_sum;
  };
  if (!config.has_mlp()) return keep("hook_resid_post", scaled(norm_if(norms_sums, "ln1", after_attention)));

  if (!config.parallel()) after_attention = keep("hook_resid_mid", after_attention);
  // The stream to which the MLP's output is added, and the one that it reads.
  Array stream =
      norms_stream ? norm_if(true, "ln2", after_attention) : norm_if(norms_sums, "ln1", after_attention);
  const bool crosses = sequence.encoded != nullptr;
  if (crosses) {
    stream = keep("hook_cross_attn_in", stream);
    const Array cross_read = norm_if(norms_inputs, "ln2", stream);
    const Array cross_out = cross_attention(config, weights, layer, cross_read, *sequence.encoded, points);
    stream = keep("hook_resid_mid_cross", sum(stream, keep("hook_cross_attn_out", cross_out)));
    stream = norm_if(norms_sums, "ln2", stream);
  }
  const Array mlp_in = keep("hook_mlp_in", config.parallel() ? resid_pre : stream);
  const Array mlp_read =
      keep("mlp.hook_in", norms_inputs ? norm(mlp_norm, mlp_norm_weights, mlp_in) : mlp_in);
  const Array mlp_out =
      keep("hook_mlp_out",
           norm_if(norms_outputs, "ln2_post",
                   config.mixture(layer) ? mixture(config, weights, layer, mlp_in, mlp_read, sequence, points)
                                         : mlp(config, weights, name + "mlp.", mlp_read, points)));
  Array with_mlp = sum(stream, mlp_out);
  if (config.layer_input) {
    with_mlp = keep("hook_resid_mid_mlp", with_mlp);
    const Array out = layer_input(config, weights, name + "layer_input.", with_mlp, sequence, points);
    with_mlp = sum(with_mlp, keep("hook_layer_input_out", out));
  }
  const Array resid_post = keep("hook_resid_post", scaled(with_mlp));
  if (!norms_sums || config.norm == NormKind::none) return resid_post;
  return keep("hook_normalized_resid_post", norm_if(true, crosses ? "ln3" : "ln2", resid_post));
}

Array transposed(const Array& matrix) {
  Array out({matrix.size(1), matrix.size(0)});
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    for (std::int64_t j = 0; j < out.size(1); ++j) out(i, j) = matrix(j, i);
  }
  return out;
}

void check_tokens(const ModelConfig& config, const Tokens& tokens) {
  if (tokens.empty()) throw std::invalid_argument("no tokens");
  for (const auto& row : tokens) {
    if (row.size() != tokens[0].size()) throw std::invalid_argument("rows of tokens differ in length");
    for (const std::int64_t id : row) {
      if (id < 0 || id >= config.d_vocab) throw std::invalid_argument("token id out of range");
    }
  }
}

/// What the first block of a stack reads, [batch, pos, d_model].
Array embed(const ModelConfig& config, const Weights& weights, const Tokens& tokens,
            const std::optional<Tokens>& token_types, Sequence& sequence, Points& points) {
  const auto batch = static_cast<std::int64_t>(tokens.size());
  const auto length = static_cast<std::int64_t>(tokens[0].size());
  Array ids({batch, length});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t p = 0; p < length; ++p) ids(b, p) = static_cast<double>(tokens[b][p]);
  }
  points.note("hook_tokens", ids);
  Array stream = gather(weights.at("embed.W_E"), batch, length, [&](auto b, auto p) { return tokens[b][p]; });
  for (double& value : stream.values) value *= config.embedding_scale;
  if (config.post_embedding_norm) {
    stream =
        apply_norm(norm_of(config, weights, config.embedding_norm, "embed.ln"), stream, "embed.ln", points);
  }
  // A decoder with an encoder has positions and a norm of its own.
  const bool of_decoder = sequence.stack == "decoder";
  // The parts of a sum of embeddings that is normed or has types belong to the module that computes it.
  const bool summed = config.embedding_sum_norm || config.token_types > 0;
  const std::string part = summed ? "embed." : "";
  stream = points.keep(part + "hook_embed", stream);
  sequence.tokens = tokens;
  sequence.embedding = stream;
  if (config.has_pos_embed()) {
    sequence.pos_embed =
        gather(weights.at(of_decoder ? "decoder_embed.W_pos" : "pos_embed.W_pos"), batch, length,
               [&](auto b, auto p) { return sequence.real[b][p] ? sequence.positions[b][p] : -1; });
    sequence.pos_embed = points.keep(part + "hook_pos_embed", sequence.pos_embed);
    if (config.learned_positions()) stream = sum(stream, sequence.pos_embed);
  }
  if (config.token_types > 0) {
    const Array types =
        points.keep("embed.hook_token_type_embed",
                    gather(weights.at("embed.token_type_embed.W_token_type"), batch, length,
                           [&](auto b, auto p) { return token_types ? (*token_types)[b][p] : 0; }));
    stream = sum(stream, types);
  }
  if (config.embedding_sum_norm) {
    const std::string name = of_decoder ? "decoder_embed.ln" : "embed.ln";
    stream = apply_norm(norm_of(config, weights, config.embedding_norm, name), stream, name, points);
  }
  if (summed) stream = points.keep("hook_full_embed", stream);
  return stream;
}

/// What the last of `layers` blocks returns, [batch, pos, d_model].
Array run_stack(const ModelConfig& config, const Weights& weights, std::int64_t layers, Array stream,
                Sequence sequence, Points& points) {
  std::map<bool, MadeKeys> made;
  sequence.made = &made;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    stream = block(config, weights, layer, stream, sequence, points);
  }
  return stream;
}

/// The decoder's tokens of an encoder-decoder.
Tokens decoder_tokens(const ModelConfig& config, const Tokens& tokens, const Beside& beside) {
  if (beside.decoder) return *beside.decoder;
  if (!config.encoder->decoder_start_token)
    throw std::invalid_argument("nothing says what the decoder reads");
  return Tokens(tokens.size(), {*config.encoder->decoder_start_token});
}

/// The stream at the end of an encoder-decoder's decoder. The points of the embedding are the encoder's.
Array run_two_stacks(const ModelConfig& config, const Weights& weights, const Tokens& tokens,
                     const Beside& beside, Points& points) {
  Sequence source = read_sequence(tokens, beside.mask, "encoder", AttentionDirection::bidirectional);
  const Array read = embed(config, weights, tokens, beside.types, source, points);
  const Array last = run_stack(config, weights, config.encoder->n_layers, read, source, points);
  const bool ends_normed = config.norm_place == NormPlace::post;
  const Norm norm = norm_of(config, weights, ends_normed ? NormKind::none : config.norm, "encoder_final_ln");
  const Encoded encoded{apply_norm(norm, last, "encoder_final_ln", points), source.real};

  const Tokens own = decoder_tokens(config, tokens, beside);
  check_tokens(config, own);
  if (own.size() != tokens.size()) throw std::invalid_argument("the decoder has other rows than the encoder");
  Sequence target = read_sequence(own, beside.decoder_mask, "decoder", AttentionDirection::causal);
  target.encoded = &encoded;
  Points not_kept;  // the decoder's embedding has no points
  const Array first = embed(config, weights, own, std::nullopt, target, not_kept);
  return run_stack(config, weights, config.n_layers, first, target, points);
}

/// The logits, or the stream, of a run.
PlainRun outputs(const ModelConfig& config, const Weights& weights, const Tokens& tokens,
                 const Beside& beside, Points& points) {
  PlainRun run;
  Array stream;
  if (config.has_encoder()) {
    stream = run_two_stacks(config, weights, tokens, beside, points);
  } else {
    Sequence sequence = read_sequence(tokens, beside.mask, "blocks", config.direction);
    stream = embed(config, weights, tokens, beside.types, sequence, points);
    stream = run_stack(config, weights, config.n_layers, stream, sequence, points);
  }

  if (!config.has_unembedding() && config.final_norm == NormKind::none) return run;
  const std::string last_norm = config.has_encoder() ? "decoder_final_ln" : "ln_final";
  stream = apply_norm(norm_of(config, weights, config.final_norm, last_norm), stream, last_norm, points);
  if (!config.has_unembedding()) {
    run.residual = stream;
    return run;
  }
  if (config.has_mlm_head()) {
    stream = linear(stream, weights.at("mlm_head.W"), weights.at("mlm_head.b"));
    stream = apply_norm(norm_of(config, weights, NormKind::layer_norm, "mlm_head.ln"),
                        activate_all(*config.unembedding->mlm_head, stream), "mlm_head.ln", points);
  }
  for (double& value : stream.values) value *= config.unembedding->in_scale;
  stream = points.keep("unembed.hook_in", stream);
  const Array W_U =
      config.tied_unembedding() ? transposed(weights.at("embed.W_E")) : weights.at("unembed.W_U");
  run.logits = linear(stream, W_U, weight_or_empty(weights, "unembed.b_U"));
  for (double& logit : run.logits.values) logit *= config.unembedding->scale;
  run.logits = points.keep("unembed.hook_out", run.logits);
  if (config.unembedding->soft_cap > 0.0) {
    for (double& logit : run.logits.values) {
      logit = config.unembedding->soft_cap * std::tanh(logit / config.unembedding->soft_cap);
    }
  }
  return run;
}

}  // namespace

PlainRun forward(const ModelConfig& config, const StateDict& state, const Tokens& tokens,
                 const Beside& beside) {
  check_tokens(config, tokens);
  const Weights weights = read_weights(config, state);
  Points points(beside.change);
  PlainRun run = outputs(config, weights, tokens, beside, points);
  run.activations = points.values();
  run.undecided = points.undecided();
  return run;
}

Array log_probabilities(const Array& logits) {
  Array out(logits.shape);
  for (std::int64_t r = 0; r < logits.rows(); ++r) {
    const double largest = *std::max_element(logits.row(r), logits.row(r) + logits.last());
    double total = 0.0;
    for (std::int64_t i = 0; i < logits.last(); ++i) total += std::exp(logits.row(r)[i] - largest);
    for (std::int64_t i = 0; i < logits.last(); ++i) {
      out.row(r)[i] = logits.row(r)[i] - largest - std::log(total);
    }
  }
  return out;
}

}  // namespace hooked::reference
