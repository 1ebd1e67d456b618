#include "loading/recipe_reader.h"

#include <set>
#include <utility>

namespace hooked {

RecipeReader::RecipeReader(SourceTensors source, const std::vector<TensorRecipe>& recipes)
    : source_(std::move(source)) {
  std::set<std::string> whole;
  for (const TensorRecipe& recipe : recipes) {
    Entry& entry = entries_[recipe.target] = {recipe, std::nullopt};
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
    for (const std::string& name : sources) ++uses_[name];
  }
}

at::Tensor RecipeReader::make(const TensorRecipe& recipe) {
  std::vector<at::Tensor> theirs;
  for (const std::string& name : recipe.sources) {
    at::Tensor& tensor = open_[name];
    if (!tensor.defined()) tensor = source_.at(name).read();
    theirs.push_back(tensor);
  }
  at::Tensor made = recipe.make ? recipe.make(theirs) : theirs.front();
  for (const std::string& name : recipe.sources) {
    if (--uses_[name] > 0) continue;
    open_.erase(name);
    source_.erase(name);  // a state dict's tensor goes with it
  }
  return made;
}

std::optional<StoredTensor> RecipeReader::find(const std::string& target) {
  const auto found = entries_.find(target);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  if (!entry.stored) entry.stored = in_memory(make(entry.recipe));
  return entry.stored;
}

void RecipeReader::done(const std::string& target) { entries_.erase(target); }

}  // namespace hooked
