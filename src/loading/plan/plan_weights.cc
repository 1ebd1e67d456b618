#include "loading/plan/plan_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/json.h"
#include "core/name_list.h"
#include "core/nearest.h"
#include "core/weight_table.h"
#include "families/composite.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/selection.h"
#include "io/safetensors/safetensors_format.h"
#include "loading/config/tensor_names.h"
#include "loading/plan/score_head.h"

namespace hooked {
namespace {

// The tensor of that name, which must have floating point numbers.
const SourceTensor& readable(const SourceTensors& source, const std::string& name) {
  const SourceTensor& tensor = source.at(name);
  if (at::isFloatingType(tensor.dtype)) return tensor;
  if (tensor.dtype == at::ScalarType::Undefined && !tensor.dtype_name.empty()) {
    refuse_safetensors_dtype(tensor.where, name, tensor.dtype_name);
  }
  const std::string held =
      tensor.dtype_name.empty() ? "nothing" : fmt::format("{} numbers", dtype_text(tensor.dtype));
  throw CheckpointError(tensor.where,
                        fmt::format("tensor '{}' holds {}; expected floating point weights", name, held));
}

const std::string& where_of(const SourceTensors& source, const std::string& name) {
  return source.at(name).where;
}

bool is_buffer(const std::string& name, const Family& family) {
  return std::any_of(family.buffers.begin(), family.buffers.end(),
                     [&](std::string_view glob) { return glob_matches(glob, name); });
}

bool is_embedding_copy(std::string_view name, const Family& family) {
  return std::ranges::find(family.embedding_copies, name) != family.embedding_copies.end();
}

// Whether `name` belongs to the unembedding or the optional part, which are outside the prefixed body.
bool is_beside_body(std::string_view name, const Family& family) {
  const std::string_view part = family.optional_part.tensors;
  if (!part.empty() && name.starts_with(part)) return true;
  const std::string_view module = family.unembedding.substr(0, family.unembedding.rfind('.') + 1);
  return !module.empty() && name.starts_with(module);
}

// The source's names without the family's prefix; those of other models are left out. Some files have the
// prefix, some do not; a file must be consistent, among the tensors that the recipes know.
std::map<std::string, std::string> names_without_prefix(const SourceTensors& source, const Family& family,
                                                        const std::vector<TensorRecipe>& recipes) {
  std::set<std::string> known;
  for (const TensorRecipe& recipe : recipes) {
    for (const TensorRecipe* each = &recipe; each != nullptr; each = each->otherwise.get()) {
      known.insert(each->sources.begin(), each->sources.end());
    }
  }
  std::map<std::string, std::string> found;
  std::map<std::string_view, std::string> example;  // of each kind of prefix
  for (const auto& [name, tensor] : source) {
    if (other_model_of(name, family)) continue;
    const std::string_view prefix = prefix_of(name, family);
    const std::string rest = name.substr(prefix.size());
    found.emplace(rest, name);
    const bool beside = is_beside_body(family.inside == nullptr ? name : rest, family);
    if (known.contains(rest) && !beside) example.emplace(prefix, name);
  }
  if (example.size() > 1) {
    const std::string &one = example.begin()->second, &other = std::next(example.begin())->second;
    throw CheckpointError(
        where_of(source, one),
        fmt::format("some tensors have the prefix '{}' and some do not, such as '{}' and '{}'; expected "
                    "one kind; save the model again",
                    std::next(example.begin())->first, other, one));
  }
  return found;
}

// The result of a recipe for tensors of these shapes, or nothing if it cannot even cut them.
std::optional<at::Tensor> made_of(const TensorRecipe& recipe, const std::vector<at::Tensor>& theirs) {
  if (!recipe.make) return theirs.front();
  try {
    return recipe.make(theirs);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

void require_shape(const SourceTensors& source, const TensorRecipe& recipe,
                   const std::vector<std::int64_t>& shape) {
  std::vector<at::Tensor> theirs;
  for (const std::string& name : recipe.sources) theirs.push_back(readable(source, name).meta());
  const auto fits = [&] {
    const auto made = made_of(recipe, theirs);
    return made && made->sizes() == at::IntArrayRef(shape);
  };
  if (fits()) return;
  const std::string got = shape_text(theirs.front().sizes());
  const std::string& name = recipe.sources.front();
  if (theirs.size() == 1 && theirs.front().dim() == 2) {
    theirs.front() = theirs.front().t();
    if (fits()) {
      throw CheckpointError(where_of(source, name),
                            fmt::format("tensor '{}' has another shape than the config says; expected {}, "
                                        "got {}; it looks transposed",
                                        name, shape_text(theirs.front().sizes()), got));
    }
  }
  throw CheckpointError(where_of(source, name),
                        fmt::format("tensor '{}' has another shape than the config says; expected one that "
                                    "gives {} {}, got {}; check config.json",
                                    name, recipe.target, shape_text(shape), got));
}

// The common prefix of all names, in whole parts up to a dot.
std::string shared_prefix(const std::vector<std::string>& names) {
  const auto [first, last] = std::ranges::minmax(names);
  const auto end = std::ranges::mismatch(first, last).in1 - first.begin();
  return first.substr(0, first.substr(0, static_cast<std::size_t>(end)).rfind('.') + 1);
}

// The recipes whose sources exist, under the names in the files.
class RecipeBook {
 public:
  /// `tied`: the config says that the unembedding is the embedding.
  RecipeBook(const SourceTensors& source, const Family& family, std::vector<TensorRecipe> recipes, bool tied)
      : source_(source),
        family_(family),
        present_(names_without_prefix(source, family, recipes)),
        tied_(tied) {
    for (const auto& [name, full_name] : present_) {
      if (full_name.size() == name.size() || is_beside_body(name, family)) continue;
      prefix_ = full_name.substr(0, full_name.size() - name.size());
    }
    for (TensorRecipe& recipe : recipes) add(std::move(recipe));
  }

  /// Throws CheckpointError if tensors are missing, with the reasons that `options` has.
  void require_whole(const PlanOptions& options) const {
    if (missing_.empty()) return;
    std::vector<std::string> reasons;
    for (const std::string& name : missing_) {
      if (const auto reason = options.absent.find(name); reason != options.absent.end())
        reasons.push_back(reason->second);
    }
    throw CheckpointError(
        present_.empty() ? "weights" : where_of(source_, present_.begin()->second),
        fmt::format("{} tensors that the config asks for are missing: {}; {}; check that config.json belongs "
                    "to these weights and that no file of the model is missing{}{}",
                    missing_.size(), name_list(missing_), what_is_there(), reasons.empty() ? "" : ": ",
                    reasons.empty() ? "" : name_list(reasons)));
  }

  const std::vector<TensorRecipe>& recipes() const noexcept { return recipes_; }

  /// Tensors of the files that no recipe reads.
  std::vector<std::string> extra() const {
    std::vector<std::string> names;
    for (const auto& [name, full_name] : present_) {
      // Copies that resolve_tying and resolve_embedding have compared.
      const bool spare_copy = (tied_ && name == family_.unembedding) || is_embedding_copy(name, family_);
      if (!used_.contains(name) && !spare_copy && !is_buffer(name, family_)) names.push_back(full_name);
    }
    return names;
  }

 private:
  bool any_there(const TensorRecipe& recipe) const {
    return (!recipe.alias.empty() && present_.contains(recipe.alias)) ||
           std::ranges::any_of(recipe.sources, [&](const auto& name) { return present_.contains(name); });
  }

  // About the tensors that no recipe reads: their common prefix if no tensor is read, and those whose names
  // are nearest to the first missing one.
  std::string what_is_there() const {
    constexpr std::size_t kLookedAt = 1000, kCompared = 256, kNamed = 3;
    std::vector<std::string> unread = extra();
    if (unread.empty()) return "those that are there are all read";
    const std::size_t count = unread.size();
    const std::string prefix = used_.empty() && count > 1 ? shared_prefix(unread) : std::string();
    unread.resize(std::min(count, kLookedAt));
    std::ranges::stable_sort(unread, {}, [&](const std::string& name) {
      return edit_distance(missing_.front(), std::string_view(name).substr(prefix.size(), kCompared));
    });
    unread.resize(std::min(unread.size(), kNamed));
    const std::string wrapped =
        prefix.empty() ? ""
                       : fmt::format(
                             "; all of them begin with '{}', which this family's names do not: save "
                             "the model without what it is wrapped in",
                             printable(prefix));
    return fmt::format("nothing reads {} of those that are there, such as {}{}", count, name_list(unread),
                       wrapped);
  }

  void add(TensorRecipe recipe) {
    if (recipe.otherwise != nullptr && !any_there(recipe) && any_there(*recipe.otherwise)) {
      recipe = TensorRecipe(*recipe.otherwise);
    }
    bool complete = true;
    for (std::string& name : recipe.sources) {
      auto found = present_.find(name);
      if (found == present_.end() && !recipe.alias.empty()) found = present_.find(recipe.alias);
      if (found == present_.end()) {
        complete = false;
        // Several recipes may use one tensor. It is named as this file would name it.
        const std::string full_name = is_beside_body(name, family_) ? name : prefix_ + name;
        const bool named = std::find(missing_.begin(), missing_.end(), full_name) != missing_.end();
        if (!recipe.optional && !named) missing_.push_back(full_name);
        continue;
      }
      used_.insert(found->first);
      name = found->second;
    }
    if (complete) recipes_.push_back(std::move(recipe));
  }

  const SourceTensors& source_;
  const Family& family_;
  std::map<std::string, std::string> present_;  // name without prefix to full name
  bool tied_;
  std::string prefix_;  // the prefix of this file's names
  std::vector<TensorRecipe> recipes_;
  std::vector<std::string> missing_;
  std::set<std::string> used_;
};

const TensorRecipe* recipe_of(const std::vector<TensorRecipe>& recipes, std::string_view target) {
  const auto found = std::ranges::find(recipes, target, &TensorRecipe::target);
  return found == recipes.end() ? nullptr : &*found;
}

// The same recipes with the embedding read from the tensor `name`.
RecipeMaker with_embedding_from(RecipeMaker recipes, const std::string& name) {
  return [make = std::move(recipes), name](const ModelConfig& config) {
    std::vector<TensorRecipe> all = make(config);
    for (TensorRecipe& each : all) {
      if (each.target == "embed.W_E") each.sources = {name};
    }
    return all;
  };
}

bool same_tensors(const SourceTensors& source, const std::string& one, const std::string& other) {
  const auto stored = [&](const std::string& name) { return stored_tensor(readable(source, name)); };
  return same_numbers(stored(one), stored(other));
}

// Files of two stacks may also contain the shared embedding under each stack's name, or only there. Copies
// that differ would be two embeddings, but a model has one.
void resolve_embedding(const SourceTensors& source, const Family& family, FamilyConfig& read) {
  if (family.embedding_copies.empty()) return;
  const std::vector<TensorRecipe> recipes = read.recipes(read.config);
  const auto present = names_without_prefix(source, family, recipes);
  std::vector<std::string> copies;
  for (const std::string_view name : family.embedding_copies) {
    if (present.contains(std::string(name))) copies.emplace_back(name);
  }
  if (copies.empty()) return;
  std::string embedding = recipe_of(recipes, "embed.W_E")->sources.front();
  if (!present.contains(embedding)) {
    embedding = copies.front();
    read.recipes = with_embedding_from(std::move(read.recipes), embedding);
  }
  const std::string& one = present.at(embedding);
  for (const std::string& copy : copies) {
    const std::string& other = present.at(copy);
    if (copy == embedding || same_tensors(source, one, other)) continue;
    throw CheckpointError(where_of(source, other),
                          fmt::format("'{}' and '{}' hold different embeddings; expected one embedding for "
                                      "all stacks; leave the one that is not the model's out of the file",
                                      other, one));
  }
}

// Note [Tied unembeddings in files]
// A tied model's file may contain the embedding, the unembedding, or both. One is enough for both. If both
// exist and differ, config.json is wrong about the file, and the model is loaded untied; transformers does
// the same.
std::vector<std::string> resolve_tying(const SourceTensors& source, const Family& family,
                                       FamilyConfig& read) {
  if (!read.config.tied_unembedding() || family.unembedding.empty()) return {};
  const std::vector<TensorRecipe> recipes = read.recipes(read.config);
  const auto present = names_without_prefix(source, family, recipes);
  const auto unembedding = present.find(std::string(family.unembedding));
  if (unembedding == present.end()) return {};
  const TensorRecipe* recipe = recipe_of(recipes, "embed.W_E");
  if (recipe == nullptr || recipe->make || recipe->sources.size() != 1) return {};
  const auto embedding = present.find(recipe->sources.front());
  if (embedding == present.end()) {
    read.recipes = with_embedding_from(std::move(read.recipes), unembedding->first);
    return {};
  }
  if (same_tensors(source, embedding->second, unembedding->second)) return {};
  read.config.unembedding->tied = false;
  return {
      fmt::format("config.json ties the unembedding to the embedding, but '{}' and '{}' differ: both are "
                  "used, each in its place, as transformers does",
                  embedding->second, unembedding->second)};
}

// The number of tensors of the checkpoint's other models.
std::map<std::string, std::size_t> unread_models(const SourceTensors& source, const Family& family) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [name, tensor] : source) {
    if (const auto other = other_model_of(name, family)) ++counts[std::string(*other)];
  }
  return counts;
}

}  // namespace

// Note [Files without a part]
// Encoders are published with and without their masked-LM head, and T5's encoder with and without its
// decoder; `architectures` in config.json does not tell which (fine-tuning drops heads, and an encoder alone
// keeps the config of the whole). The file decides: without any tensor of the part, the model is one without
// the part.
std::vector<std::string> resolve_optional_part(const SourceTensors& source, const Family& family,
                                               FamilyConfig& read) {
  const OptionalPart& part = family.optional_part;
  if (part.tensors.empty() || !part.in(read.config)) return {};
  const auto in_part = [&](const auto& tensor) {
    return tensor.first.starts_with(part.tensors) && !is_embedding_copy(tensor.first, family);
  };
  if (std::ranges::any_of(source, in_part)) return {};
  read.config = part.without(std::move(read.config));
  return {fmt::format("the checkpoint has no {} (no tensor '{}*'): {}", part.name, part.tensors,
                      part.what_is_left)};
}

WeightPlan plan_weights(const SourceTensors& source, const Family& family, FamilyConfig read) {
  return plan_weights(source, family, std::move(read), {.absent = {}});
}

WeightPlan plan_weights(const SourceTensors& source, const Family& named, FamilyConfig read,
                        const PlanOptions& options) {
  WeightPlan plan;
  Family family = named;
  plan.notes = resolve_optional_part(source, family, read);
  for (std::string& note : resolve_head(source, family, read)) plan.notes.push_back(std::move(note));
  resolve_embedding(source, family, read);
  for (std::string& note : resolve_tying(source, family, read)) plan.notes.push_back(std::move(note));
  const ModelConfig& config = plan.config = std::move(read.config);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const WeightPart& part : weight_parts(config)) {
    for_each_weight(config, part, [&](const WeightRow& row, const std::string& local_name) {
      shapes.emplace(weight_name(part, local_name, config), weight_shape(row, config, part));
    });
  }

  if (family.inside != nullptr)
    plan.notes.push_back(composite_note(*family.inside, unread_models(source, family)));
  const RecipeBook book(source, family, read.recipes(config), config.tied_unembedding());
  book.require_whole(options);
  for (const TensorRecipe& recipe : book.recipes()) require_shape(source, recipe, shapes.at(recipe.target));
  if (const std::vector<std::string> extra = book.extra(); !extra.empty()) {
    plan.notes.push_back(
        fmt::format("{} tensors of the checkpoint are not part of this model and were not read: {}",
                    extra.size(), name_list(extra)));
  }
  plan.recipes = book.recipes();
  return plan;
}

}  // namespace hooked
