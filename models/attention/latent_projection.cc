#include "models/attention/latent_projection.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "models/ops/ops.h"

namespace hooked {
namespace {

// Whether computing keys and values of all the past is more work than what its latents cost every query.
bool is_less_work(const LatentProjection& projection, const Sequence& sequence,
                  const std::vector<KeysAndValues>& past) {
  std::int64_t columns = 0;  // of all rows that the past has
  for (const KeysAndValues& segment : past) columns += segment.keys.size(0) * segment.keys.size(2);
  if (columns == 0) return false;
  std::int64_t pairs = 0;  // of queries and columns
  for (const Sequence& part : sequence.parts()) {
    const std::int64_t queries = part.positions().size(1);
    pairs += part.batch() * queries * (part.past() + queries);
  }
  return pairs * projection.more_for_a_latent() <= columns * projection.multiplications_of_heads();
}

KeysAndValues latents_of(const Heads& own) {
  const at::Tensor columns =  // [batch, pos, latent and shared part]
      own.shared.defined() ? at::cat({own.latent, own.shared.squeeze(2)}, -1) : own.latent;
  const at::Tensor keys = columns.unsqueeze(1);
  return {keys, keys.narrow(3, 0, own.latent.size(2)), KeyForm::latents};
}

}  // namespace

LatentProjection::LatentProjection(torch::nn::Module& attention, const GraphContext& context)
    : config_(context.config) {
  const ModelConfig& c = config_;
  const Latents& latent = *c.latent;
  const std::int64_t group = std::gcd(std::gcd(c.query_latent() ? latent.d_query : c.d_head, latent.d_kv),
                                      latent.d_shared_key);  // of the widths stored together in W_down
  const std::int64_t read = query_width() + latent.d_kv + latent.d_shared_key;
  W_down_ = add_matrix(attention, "W_down", read, c.d_model, {.out = group, .in = c.d_model}, context);
  if (c.qkv_bias) b_down_ = add_parameter(attention, "b_down", {read}, context);
  const auto norm = [&](const char* name, Site normalized, std::int64_t width) {
    return add_norm(attention, name,
                    {.kind = NormKind::rms_norm,
                     .normalized = normalized,
                     .shape = {width},
                     .offset = c.norm_offset,
                     .eps = latent.eps},
                    context);
  };
  if (latent.d_query > 0) {
    W_UQ_ = add_matrix(attention, "W_UQ", c.n_heads * c.d_head, latent.d_query,
                       {.out = c.d_head, .in = latent.d_query}, context);
    q_norm_ = norm("q_latent_norm", Site::q_latent_norm_normalized, latent.d_query);
    hook_q_latent_ = add_point(attention, Site::q_latent, context);
  }
  W_UKV_ = add_matrix(attention, "W_UKV", c.n_heads * (c.own_key_dim() + latent.d_value), latent.d_kv,
                      {.out = std::gcd(c.own_key_dim(), latent.d_value), .in = latent.d_kv}, context);
  kv_norm_ = norm("kv_latent_norm", Site::kv_latent_norm_normalized, latent.d_kv);
  hook_kv_latent_ = add_point(attention, Site::kv_latent, context);
  hook_k_shared_ = add_point(attention, Site::k_shared, context);
}

std::int64_t LatentProjection::query_width() const {
  return config_.query_latent() ? config_.latent->d_query : config_.n_heads * config_.d_head;
}

Heads LatentProjection::project(const AttentionInput& input, Run& run) const {
  Heads heads = project_to_latents(input, run);
  const Heads made = made_of(heads.latent, heads.shared, run);
  heads.k = made.k;
  heads.v = made.v;
  return heads;
}

Heads LatentProjection::project_to_latents(const AttentionInput& input, Run& run) const {
  assert(!input.query && !input.key && !input.value && "such a model has no split inputs");
  const Latents& latent = *config_.latent;
  const at::Tensor read = ops::linear(input.shared, W_down_, b_down_, run);
  at::Tensor q = read.narrow(-1, 0, query_width());
  if (q_norm_) {
    q = hook_q_latent_->forward(q_norm_->forward(q, run), run.watch);
    q = ops::linear(q, W_UQ_, {}, run);
  }
  Heads heads{.q = q.unflatten(-1, {config_.n_heads, config_.d_head}), .k = {}, .v = {}};
  heads.latent = hook_kv_latent_->forward(kv_norm_->forward(read.narrow(-1, query_width(), latent.d_kv), run),
                                          run.watch);
  if (hook_k_shared_) {
    heads.shared = hook_k_shared_
                       ->forward(read.narrow(-1, query_width() + latent.d_kv, latent.d_shared_key),
                                 run.watch)  // [batch, pos, shared part]
                       .unsqueeze(2);
  }
  return heads;
}

Heads LatentProjection::made_of(const at::Tensor& latent, const at::Tensor& shared, Memory memory) const {
  const std::int64_t h = config_.n_heads, own = h * config_.own_key_dim();
  const at::Tensor kv = ops::linear(latent, W_UKV_, {}, memory);
  at::Tensor k = kv.narrow(-1, 0, own).unflatten(-1, {h, config_.own_key_dim()});
  if (shared.defined()) k = at::cat({k, shared.expand({-1, -1, h, -1})}, -1);
  const at::Tensor v =
      kv.narrow(-1, own, h * config_.latent->d_value).unflatten(-1, {h, config_.latent->d_value});
  return {.q = {}, .k = k, .v = v};
}

Matrix LatentProjection::key_maps() const {
  return W_UKV_.narrow(0, config_.n_heads * config_.own_key_dim());
}

Matrix LatentProjection::value_maps() const {
  return W_UKV_.narrow(config_.n_heads * config_.own_key_dim(), config_.n_heads * config_.latent->d_value);
}

bool LatentProjection::can_remember_latents() const {
  const ModelConfig& c = config_;
  const RotaryPositions* rotary = c.rotary();
  const bool turns_shared_parts_alone =
      rotary == nullptr || (rotary->at_end && c.rotary_dim(0) <= c.latent->d_shared_key);
  return !c.qk_norm && c.qkv_clip == 0 && turns_shared_parts_alone &&
         c.latent->d_kv + c.latent->d_shared_key < c.n_heads * (c.d_head + c.latent->d_value);
}

KeysAndValues LatentProjection::heads_of(const KeysAndValues& latents, Memory memory) const {
  const at::Tensor columns = latents.keys.transpose(1, 2);  // [batch or 1, pos, 1, latent and shared part]
  const std::int64_t d_kv = config_.latent->d_kv, d_shared = config_.latent->d_shared_key;
  const Heads made = made_of(columns.narrow(3, 0, d_kv).squeeze(2),
                             d_shared > 0 ? columns.narrow(3, d_kv, d_shared) : at::Tensor(), memory);
  return {made.k.transpose(1, 2), made.v.transpose(1, 2)};
}

at::Tensor LatentProjection::queries_of_latents(const at::Tensor& q, Memory memory) const {
  const at::Tensor own =
      ops::by_head_product_back(q.narrow(-1, 0, config_.own_key_dim()), key_maps(), memory);
  const std::int64_t shared = config_.latent->d_shared_key;
  return shared > 0 ? at::cat({own, q.narrow(-1, config_.own_key_dim(), shared)}, -1) : own;
}

at::Tensor LatentProjection::sums_of_values(const at::Tensor& sums, Memory memory) const {
  return ops::by_head_product(sums, value_maps(), memory);
}

std::int64_t LatentProjection::multiplications_of_heads() const {
  return config_.latent->d_kv * config_.n_heads * (config_.own_key_dim() + config_.latent->d_value);
}

std::int64_t LatentProjection::more_for_a_latent() const {
  const Latents& latent = *config_.latent;
  return config_.n_heads * (2 * latent.d_kv + latent.d_shared_key - config_.d_head - config_.latent->d_value);
}

WeightSlots LatentProjection::slots(const std::string& path) const {
  const Latents& latent = *config_.latent;
  const std::int64_t h = config_.n_heads;
  // Outputs of a matrix as [in, out] or by heads [head, in, out].
  const auto rows = [](const Matrix& matrix, std::int64_t first, std::int64_t count) {
    return matrix.narrow(first, count).as_in_out();
  };
  const auto by_head = [&](const Matrix& matrix, std::int64_t first, std::int64_t width) {
    return matrix.narrow(first, h * width).by_output_heads(h);
  };
  const std::int64_t own = config_.own_key_dim(), kv = query_width(), shared = kv + latent.d_kv;
  WeightSlots slots;
  const auto add = [&](const char* name, const SlotView& view) { slots.push_back({path + name, view}); };
  if (q_norm_) {
    add(".W_DQ", rows(W_down_, 0, latent.d_query));
    add(".W_UQ", by_head(W_UQ_, 0, config_.d_head));
  } else {
    add(".W_Q", by_head(W_down_, 0, config_.d_head));
  }
  add(".W_DKV", rows(W_down_, kv, latent.d_kv));
  add(".W_UK", by_head(W_UKV_, 0, own));
  add(".W_UV", by_head(W_UKV_, h * own, latent.d_value));
  if (latent.d_shared_key > 0) add(".W_KR", rows(W_down_, shared, latent.d_shared_key));
  if (b_down_.defined()) {
    const at::Tensor of_queries = b_down_.narrow(0, 0, kv);
    add(q_norm_ ? ".b_DQ" : ".b_Q", q_norm_ ? of_queries : of_queries.view({h, config_.d_head}));
    add(".b_DKV", b_down_.narrow(0, kv, latent.d_kv));
    if (latent.d_shared_key > 0) add(".b_KR", b_down_.narrow(0, shared, latent.d_shared_key));
  }
  add_slots(slots, q_norm_, path + ".q_latent_norm");
  add_slots(slots, kv_norm_, path + ".kv_latent_norm");
  return slots;
}

LatentKeys::LatentKeys(const LatentProjection& projection, std::int64_t layer, const Sequence& sequence,
                       bool heads_may_change, Memory memory)
    : sequence_(sequence), layer_(layer), kept_(sequence.cache() != nullptr) {
  const auto holds = [&](KeyForm form) { return kept_ && sequence.cache()->form(layer) == form; };
  if (sequence.in_room()) {
    // One query, and always the same work: the room's contents are read as they are.
    absorbed_ = remembers_ = holds(KeyForm::latents);
    return;
  }
  std::vector<KeysAndValues> past = sequence.past(layer);
  const auto is_latents = [](const KeysAndValues& segment) { return segment.form == KeyForm::latents; };
  remembers_ = !heads_may_change && projection.can_remember_latents() && !holds(KeyForm::heads) &&
               std::all_of(past.begin(), past.end(), is_latents);
  absorbed_ = remembers_ && is_less_work(projection, sequence, past);
  if (absorbed_) return;
  for (KeysAndValues& segment : past) {
    past_.push_back(is_latents(segment) ? projection.heads_of(segment, memory) : std::move(segment));
  }
}

std::vector<KeysAndValues> LatentKeys::append(std::size_t part, const Heads& own) const {
  const Sequence& sequence = sequence_.parts()[part];
  if (absorbed_) return sequence.append(layer_, latents_of(own));
  const KeysAndValues heads{own.k.transpose(1, 2), own.v.transpose(1, 2)};
  if (sequence.in_room()) return sequence.append(layer_, heads);
  std::vector<KeysAndValues> attended = past_;
  if (sequence_.ragged() != nullptr) {  // after some of the prefix's columns
    KeysAndValues& prefix = attended.front();
    for (at::Tensor* x : {&prefix.keys, &prefix.values}) *x = x->narrow(2, 0, sequence.past());
  }
  attended.push_back(heads);
  if (!kept_) return attended;
  KvCache& cache = *sequence.cache();
  if (remembers_) {
    cache.append(layer_, latents_of(own));
  } else {
    if (cache.length() > 0 && cache.layer(layer_, 0).form == KeyForm::latents) {
      cache.replace(layer_, past_.back());
    }
    cache.append(layer_, heads);
  }
  return attended;
}

}  // namespace hooked
