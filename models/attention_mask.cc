#include "models/attention_mask.h"

#include <ATen/ops/zeros.h>

namespace hooked {
namespace {

const at::Tensor& made_once(at::Tensor& value, const AttentionMask::Make& make) {
  if (!value.defined() && make) value = make();
  return value;
}

}  // namespace

const at::Tensor& AttentionMask::blocked() const { return made_once(blocked_, make_blocked_); }

const at::Tensor& AttentionMask::bias() const { return made_once(bias_, make_bias_); }

const at::Tensor& AttentionMask::summand(at::ScalarType dtype) const {
  return made_once(summand_, [&] {
    const at::Tensor& where = blocked();
    if (!where.defined()) return bias();
    if (bias().defined()) return bias().masked_fill(where, kMasked);
    return at::zeros(where.sizes(), where.options().dtype(dtype)).masked_fill_(where, kMasked);
  });
}

}  // namespace hooked
