#include "models/attention/latent_keys.h"

#include <ATen/ops/cat.h>

#include <algorithm>

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
