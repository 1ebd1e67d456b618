#include "loading/plan/score_head.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "loading/config/tensor_names.h"

namespace hooked {
namespace {

// Names of the weights of score heads.
constexpr std::array<std::string_view, 2> kScoreWeights = {"score.weight", "classifier.weight"};
constexpr std::array<std::string_view, 2> kScoreBiases = {"score.bias", "classifier.bias"};

// Parts of the names of classes whose head, if any, is not an unembedding.
constexpr std::array<std::string_view, 5> kOtherHeads = {
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "Reward", "ForEmbedding"};
// Names of classes with an unembedding that end like those of classes without a head.
constexpr std::array<std::string_view, 2> kModelsWithHead = {"LMHeadModel", "DoubleHeadsModel"};

bool has_unembedding(std::string_view architecture) {
  const auto names = [&](std::string_view part) { return architecture.find(part) != std::string_view::npos; };
  if (std::ranges::any_of(kOtherHeads, names)) return false;
  const bool bare = architecture.ends_with("Model");
  return !bare || std::ranges::any_of(kModelsWithHead,
                                      [&](std::string_view end) { return architecture.ends_with(end); });
}

// Whether the files contain any part of an unembedding, under any of its names.
bool holds_unembedding(const SourceTensors& source, const Family& family, const FamilyConfig& read) {
  ModelConfig untied = read.config;
  untied.unembedding->tied = false;
  std::set<std::string> names;
  for (const TensorRecipe& recipe : read.recipes(untied)) {
    if (recipe.target != "unembed.W_U") continue;
    names.insert(recipe.sources.begin(), recipe.sources.end());
    names.insert(recipe.alias);
  }
  const std::string_view module = family.unembedding.substr(0, family.unembedding.rfind('.') + 1);
  return std::ranges::any_of(source, [&](const auto& tensor) {
    const std::string rest = tensor.first.substr(prefix_of(tensor.first, family).size());
    return rest.starts_with(module) || names.contains(rest);
  });
}

// The same recipes with the scores' weights instead of the unembedding's.
RecipeMaker with_scores(RecipeMaker recipes, std::string_view weight, std::string_view bias) {
  return [make = std::move(recipes), weight = std::string(weight),
          bias = std::string(bias)](const ModelConfig& config) {
    std::vector<TensorRecipe> all = make(config);
    std::erase_if(all, [](const TensorRecipe& recipe) { return recipe.target.starts_with("unembed."); });
    all.push_back({.target = "unembed.W_U",
                   .sources = {weight},
                   .make = [](const std::vector<at::Tensor>& stored) { return stored[0].t(); }});
    if (config.unembedding->bias) all.push_back({.target = "unembed.b_U", .sources = {bias}});
    return all;
  };
}

}  // namespace

std::vector<std::string> resolve_head(const SourceTensors& source, Family& family, FamilyConfig& read) {
  if (!read.config.has_unembedding() || read.config.has_encoder() || family.unembedding.empty() ||
      !family.optional_part.tensors.empty() || std::ranges::any_of(read.architectures, has_unembedding) ||
      holds_unembedding(source, family, read)) {
    return {};
  }
  const std::string named =
      read.architectures.empty() ? "no class" : fmt::format("{}", fmt::join(read.architectures, ", "));
  for (std::size_t i = 0; i < kScoreWeights.size(); ++i) {
    const auto weight = source.find(std::string(kScoreWeights[i]));
    if (weight == source.end() || weight->second.shape.size() != 2) continue;
    const bool bias = source.contains(std::string(kScoreBiases[i]));
    const std::int64_t labels = weight->second.shape[0];
    read.config.unembedding = Unembedding{.d_vocab = labels, .tied = false, .bias = bias};
    read.recipes = with_scores(std::move(read.recipes), kScoreWeights[i], kScoreBiases[i]);
    family.unembedding = kScoreWeights[i];
    return {
        fmt::format("the checkpoint has no unembedding but a head of scores ('{}', of {}): logits are its {} "
                    "scores at every position; transformers reads those of a row's last token",
                    kScoreWeights[i], named, labels)};
  }
  if (read.config.tied_unembedding()) return {};  // the embedding is used for both
  const NormKind final_norm = read.config.final_norm;
  read.config = without_unembedding(std::move(read.config));
  read.config.final_norm = final_norm;
  return {
      fmt::format("the checkpoint has no unembedding (no tensor '{}', and config.json names {}): the model "
                  "ends with its {} and "
                  "has no logits",
                  family.unembedding, named, final_norm == NormKind::none ? "stream" : "final norm")};
}

}  // namespace hooked
