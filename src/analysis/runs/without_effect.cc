#include "analysis/runs/without_effect.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>

#include <cstdint>
#include <string>

#include "core/id_list.h"
#include "core/to_device.h"
#include "hooked/hooks/axis_block.h"

namespace hooked {

std::vector<char> without_effect(const std::vector<Patch>& patches, const ActivationCache& unpatched) {
  std::vector<char> here;
  std::vector<at::Tensor> there;      // answers on other devices
  std::vector<std::size_t> of_patch;  // the patch of each; none for a patch that puts in nothing
  for (const Patch& patch : patches) {
    bool all_same = true;
    at::Tensor same;
    for (const PatchedBlock& block : patch) {
      const ActivationName& name = block.place.name();
      const std::string where = name.to_string();
      const at::Tensor now =
          take_block(unpatched[Address(name)], block.place.indices(), {name.site, where, {}});
      if (now.device().is_cpu()) {
        all_same = all_same && at::equal(now, block.value.expand_as(now));
        continue;
      }
      const at::Tensor equal = (now == block.value).all();
      if (same.defined()) {
        same = same.logical_and(to_device(equal, same.device()));
      } else {
        same = there.empty() ? equal : to_device(equal, there.front().device());
      }
    }
    here.push_back(all_same ? 1 : 0);
    if (!same.defined()) continue;
    there.push_back(same);
    of_patch.push_back(here.size() - 1);
  }
  if (there.empty()) return here;
  const std::vector<std::int64_t> answers = id_list(at::stack(there));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] == 0) here[of_patch[i]] = 0;
  }
  return here;
}

}  // namespace hooked
