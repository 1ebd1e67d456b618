#include "loading/fill/recipe_reader.h"

#include <set>
#include <utility>

namespace hooked {

RecipeReader::RecipeReader(SourceTensors source, const std::vector<TensorRecipe>& recipes)
    : source_(std::move(source)) {
  std::set<std::string> whole;
  for (const TensorRecipe& recipe : recipes) {
    Entry& entry = entries_[recipe.target];
    entry.recipe = recipe;
    if (recipe.sources.size() == 1) {
      const SourceTensor& theirs = source_.at(recipe.sources.front());
      const at::Tensor meta = theirs.meta();
      entry.stored = view_in_file(theirs, meta, recipe.make ? recipe.make({meta}) : meta);
    }
    if (!entry.stored) whole.insert(recipe.sources.begin(), recipe.sources.end());
  }
  for (auto& [target, entry] : entries_) {
    const auto& sources = entry.recipe.sources;
    if (entry.stored && !whole.contains(sources.front())) continue;
    entry.stored.reset();
    entry.reads_whole = true;
    for (const std::string& name : sources) ++wholes_[name].uses;
  }
}

at::Tensor RecipeReader::make(const TensorRecipe& recipe) {
  std::vector<at::Tensor> theirs;
  for (const std::string& name : recipe.sources) {
    std::unique_lock lock(mutex_);
    Whole& whole = wholes_.at(name);
    const SourceTensor& source = source_.at(name);
    lock.unlock();
    std::call_once(whole.once, [&] { whole.tensor = source.read(); });
    theirs.push_back(whole.tensor);
  }
  at::Tensor made = recipe.make ? recipe.make(theirs) : theirs.front();
  const std::lock_guard lock(mutex_);
  release(recipe);
  return made;
}

void RecipeReader::release(const TensorRecipe& recipe) {
  for (const std::string& name : recipe.sources) {
    if (--wholes_.at(name).uses > 0) continue;
    wholes_.erase(name);
    source_.erase(name);  // also frees a state dict's tensor
  }
}

std::optional<StoredTensor> RecipeReader::find(const std::string& target) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(target);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  lock.unlock();
  std::call_once(entry.once, [&] {
    if (!entry.stored) entry.stored = in_memory(make(entry.recipe));
  });
  return entry.stored;
}

std::optional<CodedRows> RecipeReader::find_codes(const std::string& target,
                                                  const RecipeOfRows& outputs_first) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(target);
  if (found == entries_.end()) return std::nullopt;
  const TensorRecipe recipe = found->second.recipe;
  if (recipe.sources.size() != 1) return std::nullopt;
  const auto theirs = source_.find(recipe.sources.front());
  if (theirs == source_.end()) return std::nullopt;
  const SourceTensor stored = theirs->second;
  lock.unlock();  // heads that are picked out take time
  return coded_rows(stored, [&](const at::Tensor& source) {
    return outputs_first(recipe.make ? recipe.make({source}) : source);
  });
}

void RecipeReader::done(const std::string& target) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(target);
  if (found == entries_.end()) return;
  if (found->second.reads_whole && !found->second.stored) release(found->second.recipe);  // it was in codes
  entries_.erase(found);
}

}  // namespace hooked
