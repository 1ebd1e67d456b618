#include "models/attention/turned_heads.h"

#include <vector>

#include "models/ops/recorded.h"
#include "models/storage/workspace.h"

namespace hooked {
namespace {

at::Tensor rotated(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary,
                   const Workspace* workspace) {
  if (workspace == nullptr) return rotate(x, angles, rotary);
  if (!x.device().is_cpu()) return rotate_in_few(x, angles, rotary);
  if (!can_rotate_rows(x, angles)) return rotate(x, angles, rotary);
  const at::Tensor out = workspace->empty(x.sizes(), x.options());
  rotate_into(out, x, angles, rotary);
  return out;
}

// Queries and keys that are adjacent, as one product leaves them, as one tensor [batch, pos, heads of both,
// d_head]; undefined if they are not adjacent.
at::Tensor side_by_side(const Heads& heads) {
  const at::Tensor &q = heads.q, &k = heads.k;
  const bool neighbours = q.is_alias_of(k) && q.strides() == k.strides() && q.size(1) == k.size(1) &&
                          k.storage_offset() == q.storage_offset() + q.size(2) * q.stride(2);
  if (!neighbours) return {};
  return q.as_strided({q.size(0), q.size(1), q.size(2) + k.size(2), q.size(3)}, q.strides());
}

}  // namespace

at::Tensor turned(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary,
                  const Run& run) {
  if (run.workspace == nullptr || !records(x)) return rotated(x, angles, rotary, run.workspace);
  const RotaryAngles back{angles.cosine, -angles.sine};
  return recorded(rotated(x.detach(), angles, rotary, run.workspace), {x},
                  [back, rotary, memory = *run.workspace](const at::Tensor& gradient) {
                    return std::vector{rotated(gradient, back, rotary, &memory)};
                  });
}

void turn(Heads& heads, const RotaryAngles& angles, const RotaryPositions& rotary, const Run& run) {
  if (heads.k.defined() && run.workspace != nullptr && !heads.q.device().is_cpu() && !records(heads.q) &&
      !records(heads.k)) {
    if (const at::Tensor both = side_by_side(heads); both.defined()) {
      const std::int64_t h = heads.q.size(2), kv = heads.k.size(2);
      const at::Tensor turned_both = rotate_in_few(both, angles, rotary);
      heads.q = turned_both.narrow(2, 0, h);
      heads.k = turned_both.narrow(2, h, kv);
      return;
    }
  }
  heads.q = turned(heads.q, angles, rotary, run);
  if (heads.k.defined()) heads.k = turned(heads.k, angles, rotary, run);
}

}  // namespace hooked
