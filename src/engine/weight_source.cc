#include "engine/weight_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/selection.h"
#include "models/transformer.h"

namespace hooked {
namespace {

constexpr std::size_t kListed = 20;  // names shown of a long list

std::string list_text(const std::vector<std::string>& names) {
  const std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kListed)));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kListed ? fmt::format(" and {} more", names.size() - kListed) : "");
}

bool is_buffer(const std::string& name, const Family& family) {
  return std::any_of(family.buffers.begin(), family.buffers.end(),
                     [&](std::string_view glob) { return glob_matches(glob, name); });
}

// The source's names without the family's prefix. Some files have it, some do not; one file has one kind.
std::map<std::string, std::string> names_without_prefix(const WeightSource& source, const Family& family) {
  std::map<std::string, std::string> found;
  std::vector<std::string> with, without;
  for (const std::string& name : source.names()) {
    const bool prefixed = !family.prefix.empty() && name.starts_with(family.prefix);
    found.emplace(prefixed ? name.substr(family.prefix.size()) : name, name);
    if (!is_buffer(name, family)) (prefixed ? with : without).push_back(name);
  }
  if (!with.empty() && !without.empty()) {
    throw CheckpointError(
        source.where(without.front()),
        fmt::format("some tensors have the prefix '{}' and some do not, such as '{}' and '{}'; expected "
                    "one kind; save the model again",
                    family.prefix, with.front(), without.front()));
  }
  return found;
}

void require_shape(const WeightSource& source, const TensorRecipe& recipe, const at::Tensor& slot) {
  const at::Tensor theirs = source.shape_of(recipe.source);
  const auto mismatch = [&](at::IntArrayRef got) {
    const bool transposed =
        got.size() == 2 && slot.dim() == 2 && got[0] == slot.size(1) && got[1] == slot.size(0);
    throw CheckpointError(
        source.where(recipe.source),
        fmt::format("tensor '{}' has another shape than the config says; expected {} for {}, got {}{}",
                    recipe.source, shape_text(slot.sizes()), recipe.target, shape_text(got),
                    transposed ? "; it looks transposed" : "; check config.json"));
  };
  if (!recipe.make) {
    if (theirs.sizes() != slot.sizes()) mismatch(theirs.sizes());
    return;
  }
  at::Tensor made;
  try {
    made = recipe.make(theirs);
  } catch (const c10::Error&) {
    mismatch(theirs.sizes());  // it cannot even be cut into the pieces that the config says
  }
  if (made.sizes() != slot.sizes()) mismatch(theirs.sizes());
}

}  // namespace

GatheredWeights gather_weights(WeightSource& source, const Family& family, const ModelConfig& config) {
  const PointIndex points(config);
  const Transformer graph(config, points, at::TensorOptions(config.dtype).device(at::kMeta));
  std::map<std::string, at::Tensor> slots;
  for (const WeightSlot& slot : graph.slots()) slots.emplace(slot.name, slot.view);

  const auto present = names_without_prefix(source, family);
  std::vector<TensorRecipe> recipes;
  std::vector<std::string> missing;
  std::set<std::string> used;
  for (TensorRecipe& recipe : family.recipes(config)) {
    auto found = present.find(recipe.source);
    if (found == present.end() && !recipe.alias.empty()) found = present.find(recipe.alias);
    if (found == present.end()) {
      // Several recipes may cut up one tensor.
      const bool named = std::find(missing.begin(), missing.end(), recipe.source) != missing.end();
      if (!recipe.optional && !named) missing.push_back(recipe.source);
      continue;
    }
    used.insert(found->first);
    recipe.source = found->second;
    recipes.push_back(std::move(recipe));
  }
  if (!missing.empty()) {
    throw CheckpointError(
        present.empty() ? "weights" : source.where(present.begin()->second),
        fmt::format("{} tensors that the config asks for are missing: {}; check that config.json belongs to "
                    "these weights and that no file of the model is missing",
                    missing.size(), list_text(missing)));
  }
  std::vector<std::string> extra;
  for (const auto& [name, full_name] : present) {
    if (!used.contains(name) && !is_buffer(name, family)) extra.push_back(full_name);
  }
  for (const TensorRecipe& recipe : recipes) require_shape(source, recipe, slots.at(recipe.target));

  GatheredWeights gathered;
  if (!extra.empty()) {
    gathered.notes.push_back(
        fmt::format("{} tensors of the checkpoint are not part of this model and were not read: {}",
                    extra.size(), list_text(extra)));
  }
  // Several of ours may be cut out of one of theirs: it is read once and let go after the last.
  std::map<std::string, std::size_t> uses;
  for (const TensorRecipe& recipe : recipes) ++uses[recipe.source];
  std::map<std::string, at::Tensor> open;
  for (const TensorRecipe& recipe : recipes) {
    at::Tensor& theirs = open[recipe.source];
    if (!theirs.defined()) theirs = source.read(recipe.source);
    gathered.weights.emplace(recipe.target, recipe.make ? recipe.make(theirs) : theirs);
    if (--uses[recipe.source] == 0) open.erase(recipe.source);
  }
  return gathered;
}

}  // namespace hooked
