#include "models/transformer/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/embedding.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/to_device.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

// The indices in each of a sequence's parts, [column] int64, of columns that are counted from the first one
// that any row has.
std::vector<at::Tensor> columns_of_parts(const Sequence& sequence, const at::Tensor& columns) {
  if (sequence.ragged() == nullptr) return {columns};
  std::vector<at::Tensor> of_parts;
  const auto& groups = sequence.ragged()->groups();
  for (const RaggedRows::Group& group : groups) {
    of_parts.push_back(columns - (group.first_column - groups.front().first_column));
  }
  return of_parts;
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, const PointIndex& points,
                         const at::TensorOptions& options, Storage storage, Placement placement,
                         const std::vector<c10::Device>& multiply_groups)
    : config_(config), placement_(std::move(placement)) {
  const Workspace memory;
  const auto on = [&](const c10::Device& device) {
    GraphContext context{config, points, options.device(device), storage, memory};
    context.multiplies_groups = std::ranges::find(multiply_groups, device) != multiply_groups.end();
    return context;
  };
  const GraphContext context = on(placement_.entry()), at_exit = on(placement_.exit());
  hook_tokens_ = add_point(*this, Site::tokens, context);
  embed_ = register_module("embed", std::make_shared<Embed>(context));
  // The parts of a sum with its own name belong to the module that computes the sum.
  const bool summed = config.summed_embedding();
  hook_embed_ =
      summed ? add_point(*embed_, Site::token_embed, context) : add_point(*this, Site::embed, context);
  if (config.has_pos_embed()) {
    const auto positions = register_module("pos_embed", std::make_shared<Folder>());
    W_pos_ = add_parameter(*positions, "W_pos", {config.n_ctx, config.d_model}, context);
    if (config.has_encoder()) {
      decoder_embed_ = register_module("decoder_embed", std::make_shared<DecoderEmbed>(context));
    }
  }
  hook_pos_embed_ =
      summed ? add_point(*embed_, Site::position_embed, context) : add_point(*this, Site::pos_embed, context);
  hook_full_embed_ = add_point(*this, Site::full_embed, context);
  const auto stack = [&](Stack name) {
    const auto folder = register_module(std::string(stack_name(name)), std::make_shared<Folder>());
    std::vector<std::shared_ptr<Block>> blocks;
    for (const BlockPlace& place : config.blocks()) {
      if (place.stack != name) continue;
      GraphContext of_block = on(placement_.of(place));
      of_block.stack = name;
      of_block.layer = place.layer;
      blocks.push_back(
          folder->register_module(std::to_string(place.layer), std::make_shared<Block>(of_block)));
    }
    return blocks;
  };
  const auto norm = [&](const char* name, NormKind kind, Site normalized, const GraphContext& where) {
    return add_norm(*this, name, stream_norm(config, kind, normalized, /*weighted=*/!config.norm_folded),
                    where);
  };
  if (config.rotary() != nullptr) {
    const auto there = [&](bool windowed) {
      RotaryFrequencies frequencies = rotary_frequencies(config, windowed);
      frequencies.values = frequencies.values.to(placement_.entry());
      return frequencies;
    };
    frequencies_ = {there(/*windowed=*/false), there(/*windowed=*/true)};
  }
  if (config.has_encoder()) {
    encoder_ = stack(Stack::encoder);
    if (!config.norms_stream()) {  // else its last block ends with a norm
      encoder_final_ln_ = norm("encoder_final_ln", config.norm, Site::encoder_final_ln_normalized,
                               on(placement_.of({Stack::encoder, config.n_encoder_layers() - 1})));
    }
  }
  blocks_ = stack(config.main_stack());
  if (config.final_norm != NormKind::none) {
    ln_final_ = config.has_encoder()
                    ? norm("decoder_final_ln", config.final_norm, Site::decoder_final_ln_normalized, at_exit)
                    : norm("ln_final", config.final_norm, Site::ln_final_normalized, at_exit);
  }
  if (config.has_mlm_head()) mlm_head_ = register_module("mlm_head", std::make_shared<MlmHead>(at_exit));
  if (config.has_unembedding()) {
    unembed_ = register_module("unembed", std::make_shared<Unembed>(embed_->W_E(), at_exit));
  }
  // One operator adds to tensors on one device.
  if (placement_.entry().is_cpu() || placement_.spread()) return;
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* const of_norm = module->as<Norm>()) of_norm->add_offset_weight(offset_weights_);
  }
}

at::Tensor Transformer::pos_embed(const at::Tensor& W_pos, const Sequence& sequence) const {
  // A decoder's table is with the embedding, its sequence where its blocks begin.
  const auto there = [&](const at::Tensor& x) { return to_device(x, W_pos.device()); };
  at::Tensor rows = at::embedding(W_pos, there(sequence.positions()));  // [1 or batch, pos, d_model], a copy
  if (sequence.real().defined()) rows = rows * there(sequence.real()).unsqueeze(-1);
  return rows;
}

at::Tensor Transformer::watched_tokens(const at::Tensor& tokens, Run& run) const {
  const at::Tensor seen =
      hook_tokens_->watched(run.watch) ? hook_tokens_->forward(tokens.clone(), run.watch) : tokens;
  // The caller's ids were checked on entry; on a GPU an id without a row would crash the whole process.
  if (run.watch.may_change(hook_tokens_->number()) &&
      (seen < 0).logical_or(seen >= config_.d_vocab).any().item<bool>()) {
    throw HookError(
        row(Site::tokens).path,
        fmt::format(
            "a hook or edit put in a token id that is not in the vocabulary; expected 0 to {}, got {} "
            "to {}",
            config_.d_vocab - 1, seen.min().item<std::int64_t>(), seen.max().item<std::int64_t>()));
  }
  return seen;
}

at::Tensor Transformer::forward(const GraphInput& input, const Reach& reach, Run& run) const {
  const auto [residual, columns] = stream(input, reach, run);
  return reach.exit ? exit(residual, columns, input.logit_tokens, run) : residual;
}

bool Transformer::narrows(const GraphInput& input, const Reach& reach, const Run& run) const {
  if (!input.logit_columns.defined() || !reach.exit || reach.first_block == reach.end_block) return false;
  // A mixture sorts out the padding among all tokens.
  if (config_.mixture(reach.end_block - 1) && run.sequence.real().defined()) return false;
  return !run.watch.plan().watches_all_columns_behind(blocks_.back()->first_point());
}

Stream Transformer::stream(const GraphInput& input, const Reach& reach, Run& run) const {
  // In training each weight has a gradient.
  if (!offset_weights_.empty() && !offset_weights_.front().requires_grad()) {
    run.offset_weights = at::_foreach_add(offset_weights_, 1.0);
  }
  const RaggedRows* ragged = run.sequence.ragged();
  const bool narrowed = narrows(input, reach, run);
  const auto tokens_of = [&](const at::Tensor& rows) {
    return ragged == nullptr ? rows : ragged->tokens_of(rows);
  };
  at::Tensor encoder_output;
  if (input.encoder_tokens.defined()) encoder_output = encode(input.encoder_tokens, reach, run);
  const at::Tensor tokens = input.tokens.defined() ? tokens_of(input.tokens) : input.tokens;
  const Entry entry =
      input.residual.defined() ? resume(tokens_of(input.residual), tokens, run) : embed(tokens, run);
  at::Tensor resid = entry.stream;
  if (reach.first_block < reach.end_block) {
    StackInputs inputs = stack_inputs(blocks_, run.sequence, run);
    inputs.query_key_positions = entry.query_key_positions;
    inputs.tokens = entry.tokens;
    inputs.embedding = entry.embedding;
    if (config_.has_encoder()) inputs.cross = cross_inputs(encoder_output, run);
    for (std::int64_t layer = reach.first_block; layer < reach.end_block; ++layer) {
      const auto& block = blocks_[static_cast<std::size_t>(layer)];
      enter({config_.main_stack(), layer}, resid, inputs);
      if (narrowed && layer + 1 == reach.end_block) {
        const auto asked = columns_of_parts(run.sequence, to_device(input.logit_columns, resid.device()));
        resid = block->forward(std::move(resid), inputs.at_columns(asked), run);
      } else {
        resid = block->forward(std::move(resid), inputs, run);
      }
    }
  }
  if (ragged != nullptr) resid = narrowed ? ragged->rows_of_equal(resid) : ragged->rows_of(resid);
  return {resid, narrowed ? at::Tensor() : input.logit_columns};
}

at::Tensor Transformer::encode(const at::Tensor& tokens, const Reach& reach, Run& run) const {
  at::Tensor stream = watched_embed(tokens, *run.encoder_sequence, run).stream;
  StackInputs inputs = stack_inputs(encoder_, *run.encoder_sequence, run);
  for (std::int64_t layer = 0; layer < reach.encoder_blocks; ++layer) {
    enter({Stack::encoder, layer}, stream, inputs);
    stream = encoder_[static_cast<std::size_t>(layer)]->forward(std::move(stream), inputs, run);
  }
  if (!reach.encoder_exit) return {};
  return encoder_final_ln_ ? encoder_final_ln_->forward(stream, run) : stream;
}

// Note [Models on several devices]
// The stream goes from device to device, together with what the blocks also read: masks, angles, the
// encoder's output. All of it is made where its stack begins and copied at each boundary, once per run. Keys
// and values stay with their layers, and so does whatever somebody watches: hooks see a layer's activations
// where it computes them. On one device none of this does anything.
void Transformer::enter(const BlockPlace& block, at::Tensor& stream, StackInputs& inputs) const {
  if (!placement_.spread()) return;
  const c10::Device& device = placement_.of(block);
  inputs.bring_to(device);
  stream = to_device(stream, device);
}

Transformer::Entry Transformer::embed(const at::Tensor& tokens, Run& run) const {
  // The points of the embedding are the encoder's if there is one: a decoder's is its first resid_pre.
  if (!config_.has_encoder()) return watched_embed(tokens, run.sequence, run);
  at::Tensor embedded = embed_->without_points(tokens, run);
  if (decoder_embed_) {
    embedded = decoder_embed_->forward(embedded, pos_embed(decoder_embed_->W_pos(), run.sequence), run);
  }
  return {embedded.to(config_.stream_dtype()), {}};
}

Transformer::Entry Transformer::watched_embed(const at::Tensor& tokens, const Sequence& sequence,
                                              Run& run) const {
  const at::Tensor read = watched_tokens(tokens, run);
  Entry entry{hook_embed_->forward(embed_->forward(read, run), run.watch), {}};
  if (config_.layer_input) {
    entry.tokens = read;
    entry.embedding = entry.stream;
  }
  if (W_pos_.defined()) {
    const at::Tensor positions = see_rows(*hook_pos_embed_, pos_embed(W_pos_, sequence), entry.stream, run);
    if (config_.shortformer()) {
      entry.query_key_positions = positions;
    } else {
      entry.stream = entry.stream + positions;
    }
  }
  if (hook_full_embed_) {
    entry.stream = hook_full_embed_->forward(embed_->finish_sum(entry.stream, run), run.watch);
  }
  entry.stream = entry.stream.to(config_.stream_dtype());
  return entry;
}

Transformer::Entry Transformer::resume(const at::Tensor& residual, const at::Tensor& tokens, Run& run) const {
  Entry entry{residual, config_.shortformer() ? pos_embed(W_pos_, run.sequence) : at::Tensor()};
  if (tokens.defined()) {  // a run of no block reads none
    entry.tokens = tokens;
    entry.embedding = embed_->without_points(tokens, run);
  }
  return entry;
}

StackInputs Transformer::stack_inputs(const std::vector<std::shared_ptr<Block>>& stack,
                                      const Sequence& sequence, Run& run) const {
  std::vector<ScoreBias> biases;
  for (const Sequence& part : sequence.parts()) biases.push_back(stack.front()->relative_bias(part, run));
  StackInputs inputs{.sequence = sequence};
  const auto of_layers = [&](bool windowed) {
    LayerInputs layers;
    for (std::size_t part = 0; part < biases.size(); ++part) {
      layers.kinds.push_back(sequence.parts()[part].layer_kind(windowed, biases[part]));
    }
    if (config_.rotary() != nullptr) {
      layers.angles = sequence.angles(windowed ? frequencies_.windowed : frequencies_.full);
    }
    return layers;
  };
  const auto layers = static_cast<std::int64_t>(stack.size());
  std::int64_t windowed = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) windowed += config_.windowed(layer) ? 1 : 0;
  if (windowed < layers) inputs.full = of_layers(/*windowed=*/false);
  if (windowed > 0) inputs.windowed = of_layers(/*windowed=*/true);
  if (config_.query_growth) inputs.query_growth = sequence.query_growth();
  if (config_.delta_net) inputs.run_tokens = sequence.run_tokens(config_.delta_net->kernel);
  if (config_.short_conv) {
    for (const Sequence& part : sequence.parts()) {
      inputs.earlier.push_back(part.earlier(config_.short_conv->kernel));
    }
  }
  return inputs;
}

std::optional<CrossInputs> Transformer::cross_inputs(const at::Tensor& encoder_output, Run& run) const {
  const std::int64_t queries = run.sequence.positions().size(1);
  if (const EncoderKeys* made = run.sequence.encoder_keys()) {
    return CrossInputs{{}, made, nullptr, cross_attention_kind(made->real, queries)};
  }
  const at::Tensor& real = run.encoder_sequence->real();
  EncoderKeys* kept = run.sequence.cache() == nullptr ? nullptr : &run.sequence.cache()->encoder();
  if (kept != nullptr) kept->real = real;
  return CrossInputs{encoder_output, nullptr, kept, cross_attention_kind(real, queries)};
}

at::Tensor Transformer::exit(const at::Tensor& stream, const at::Tensor& columns, const at::Tensor& tokens,
                             Run& run) const {
  if (!unembed_) return ln_final_->forward(to_device(stream, placement_.exit()), run);
  const auto logits_of = [&](const at::Tensor& x) {
    const at::Tensor asked = tokens.defined() ? to_device(tokens, x.device()) : tokens;
    return unembed_->forward(mlm_head_ ? mlm_head_->forward(x, run) : x, asked, run);
  };
  const auto asked_for = [&](const at::Tensor& x) {
    return columns.defined() ? x.index_select(1, to_device(columns, x.device())) : x;
  };
  const auto there = [&](const at::Tensor& x) { return to_device(x, placement_.exit()); };
  // A watched final norm shows every position; otherwise only those with requested logits are normed.
  if (!ln_final_) return logits_of(there(asked_for(stream)));
  const bool watched = ln_final_->watched(run);
  const at::Tensor input = there(watched ? stream : asked_for(stream));
  const at::Tensor normed = ln_final_->forward(input, run);
  return logits_of(watched ? asked_for(normed) : normed);
}

std::vector<KeyForm> Transformer::key_forms(const WatchPlan& plan) const {
  std::vector<KeyForm> forms;
  for (const auto& block : blocks_) forms.push_back(block->mixer().key_form(plan));
  return forms;
}

KvCache Transformer::in_forms(KvCache columns, const std::vector<KeyForm>& forms, Memory memory) const {
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    const auto layer = static_cast<std::int64_t>(l);
    if (forms[l] == KeyForm::latents || columns.form(layer) != KeyForm::latents) continue;
    const KeysAndValues latents = columns.layer(layer, columns.length());
    columns.replace(layer, blocks_[l]->mixer().in_form(latents, forms[l], memory));
  }
  return columns;
}

WeightSlots Transformer::slots() const {
  WeightSlots slots;
  add_slots(slots, embed_, "embed");
  add_slot(slots, "pos_embed.W_pos", W_pos_);
  add_slots(slots, decoder_embed_, "decoder_embed");
  for (const BlockPlace& place : config_.blocks()) {
    const auto& stack = place.stack == Stack::encoder ? encoder_ : blocks_;
    add_slots(slots, stack[static_cast<std::size_t>(place.layer)], place.path());
  }
  add_slots(slots, encoder_final_ln_, "encoder_final_ln");
  add_slots(slots, ln_final_, config_.has_encoder() ? "decoder_final_ln" : "ln_final");
  add_slots(slots, mlm_head_, "mlm_head");
  add_slots(slots, unembed_, "unembed");
  return slots;
}

}  // namespace hooked
