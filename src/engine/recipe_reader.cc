#include "engine/recipe_reader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

namespace hooked {
namespace {

// Dimensions from the outermost in memory to the innermost; those of one index last.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto distance = [&](std::int64_t d) { return tensor.size(d) == 1 ? -1 : tensor.stride(d); };
  std::ranges::stable_sort(order, [&](auto a, auto b) { return distance(a) > distance(b); });
  return order;
}

// See Note [Blocks from the file]. `made` is what a recipe makes of `theirs`, both on the meta device.
std::optional<weights::StoredTensor> in_file(WeightSource& source, const std::string& name,
                                             const at::Tensor& theirs, const at::Tensor& made) {
  const auto read_elements = source.elements(name);
  if (!read_elements || !made.is_alias_of(theirs) || made.scalar_type() != theirs.scalar_type() ||
      made.dim() == 0) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> order = memory_order(made);
  if (!made.permute(order).is_contiguous()) return std::nullopt;
  std::vector<std::int64_t> back(order.size()), sizes(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    sizes[i] = made.size(order[i]);
  }
  const std::int64_t slice =
      std::accumulate(sizes.begin() + 1, sizes.end(), std::int64_t{1}, std::multiplies<>());
  const auto read = [=, offset = made.storage_offset(), dtype = made.scalar_type()](
                        std::int64_t first, std::int64_t count) mutable {
    const at::Tensor flat = at::empty({count * slice}, dtype);
    (*read_elements)(offset + first * slice, flat);
    sizes.front() = count;
    return flat.view(sizes).permute(back);
  };
  return weights::StoredTensor{.shape = made.sizes().vec(),
                               .dtype = made.scalar_type(),
                               .device = at::kCPU,
                               .dimension = order.front(),
                               .read = read};
}

}  // namespace

RecipeReader::RecipeReader(WeightSource& source, const std::vector<TensorRecipe>& recipes) : source_(source) {
  std::set<std::string> whole;
  for (const TensorRecipe& recipe : recipes) {
    Entry& entry = entries_[recipe.target] = {recipe, std::nullopt};
    if (recipe.sources.size() == 1) {
      const std::string& name = recipe.sources.front();
      const at::Tensor theirs = source.shape_of(name);
      entry.stored = in_file(source, name, theirs, recipe.make ? recipe.make({theirs}) : theirs);
    }
    if (!entry.stored) whole.insert(recipe.sources.begin(), recipe.sources.end());
  }
  for (auto& [target, entry] : entries_) {
    const auto& sources = entry.recipe.sources;
    if (entry.stored && !whole.contains(sources.front())) continue;
    entry.stored.reset();
    for (const std::string& name : sources) ++uses_[name];
  }
}

at::Tensor RecipeReader::make(const TensorRecipe& recipe) {
  std::vector<at::Tensor> theirs;
  for (const std::string& name : recipe.sources) {
    at::Tensor& tensor = open_[name];
    if (!tensor.defined()) tensor = source_.read(name);
    theirs.push_back(tensor);
  }
  at::Tensor made = recipe.make ? recipe.make(theirs) : theirs.front();
  for (const std::string& name : recipe.sources) {
    if (--uses_[name] == 0) open_.erase(name);
  }
  return made;
}

std::optional<weights::StoredTensor> RecipeReader::find(const std::string& target) {
  const auto found = entries_.find(target);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  if (!entry.stored) entry.stored = weights::in_memory(make(entry.recipe));
  return entry.stored;
}

void RecipeReader::done(const std::string& target) { entries_.erase(target); }

weights::StoredTensor stored_tensor(WeightSource& source, const std::string& name) {
  const at::Tensor theirs = source.shape_of(name);
  if (auto stored = in_file(source, name, theirs, theirs)) return *std::move(stored);
  return weights::in_memory(source.read(name));
}

}  // namespace hooked
