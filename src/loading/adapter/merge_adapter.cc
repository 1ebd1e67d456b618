#include "loading/adapter/merge_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/json.h"
#include "core/name_list.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/selection.h"
#include "io/files/path_text.h"
#include "loading/adapter/low_rank_weight.h"
#include "loading/config/tensor_names.h"

namespace hooked {
namespace {

/// The adapter's tensors for one module, by their names; empty if there are none.
struct ModuleChange {
  std::string a, b, bias, magnitude;
  bool embedding = false;
};

/// The end of such a tensor's name, after the module's path.
struct AdapterPart {
  std::string_view ending;
  std::string ModuleChange::*name;
  bool embedding;
};

constexpr AdapterPart kParts[] = {
    {".lora_A.weight", &ModuleChange::a, false},
    {".lora_B.weight", &ModuleChange::b, false},
    {".lora_B.bias", &ModuleChange::bias, false},
    {".lora_embedding_A", &ModuleChange::a, true},
    {".lora_embedding_B", &ModuleChange::b, true},
    {".lora_magnitude_vector", &ModuleChange::magnitude, false},
};

// PEFT's prefix of the path of a module of the base model, and its infix before its own tensors.
constexpr std::string_view kWrapper = "base_model.model.";
constexpr std::string_view kBaseLayer = ".base_layer.";

std::string without_base_layer(std::string_view path) {
  std::string name(path);
  if (const auto at = name.rfind(kBaseLayer); at != std::string::npos)
    name.replace(at, kBaseLayer.size(), ".");
  return name;
}

// Names without the family's prefix, which adapters and files may or may not have.
std::string bare(std::string_view name, const Family& family) {
  return std::string(name.substr(prefix_of(name, family).size()));
}

class Merge {
 public:
  Merge(SourceTensors& source, const Adapter& adapter, const Family& family, const FamilyConfig& read)
      : source_(source),
        adapter_(adapter),
        family_(family),
        read_(read),
        tensors_(source_tensors(adapter.reader)) {
    for (const auto& [name, tensor] : source) {
      if (!other_model_of(name, family)) names_.emplace(bare(name, family), name);
    }
    for (const auto& [name, tensor] : tensors_) sort_in(name);
    if (changes_.empty() && replaced_.empty())
      throw CheckpointError(path_text(adapter.folder),
                            "the adapter has no tensors for this model; expected LoRA's, lora_A and lora_B");
    check_names();
  }

  std::vector<std::string> apply() {
    keep_the_other_of_two_tied();
    for (const auto& [weight, tensor] : replaced_) replace(weight, tensor);
    for (const auto& [module, change] : changes_) apply(module, change);
    return notes();
  }

 private:
  void sort_in(const std::string& name) {
    if (!name.starts_with(kWrapper)) {
      refuse(name, fmt::format("is none of PEFT's; expected a name that begins with '{}'", kWrapper));
    }
    const std::string_view path = std::string_view(name).substr(kWrapper.size());
    if (const auto other = other_model_of(path, family_)) {
      ++unread_[std::string(*other)];
      return;
    }
    for (const auto& [ending, member, embedding] : kParts) {
      if (!path.ends_with(ending)) continue;
      const std::string_view module = path.substr(0, path.size() - ending.size());
      ModuleChange& change = changes_[std::string(module)];
      change.*member = name;
      change.embedding = change.embedding || embedding;
      return;
    }
    const std::string weight = bare(without_base_layer(path), family_);
    const bool buffer = std::ranges::any_of(
        family_.buffers, [&](std::string_view glob) { return glob_matches(glob, weight); });
    if (!buffer) replaced_.emplace(weight, name);
  }

  // Every tensor must belong to an existing weight, be complete, and be of a kind that the config mentions.
  void check_names() const {
    std::vector<std::string> strangers;
    const auto known = [&](const std::string& weight) { return names_.contains(weight) || is_tied(weight); };
    for (const auto& [weight, tensor] : replaced_) {
      if (!known(weight)) strangers.push_back(tensor);
    }
    for (const auto& [module, change] : changes_) {
      const std::string weight = weight_of(module);
      const std::string& any = !change.a.empty() ? change.a : !change.b.empty() ? change.b : change.magnitude;
      if (!known(weight)) strangers.push_back(any.empty() ? change.bias : any);
    }
    if (!strangers.empty()) {
      throw CheckpointError(
          path_text(adapter_.folder),
          fmt::format("{} tensors of the adapter fit no weight of its base model '{}': {}; expected an "
                      "adapter of that model; check base_model_name_or_path",
                      strangers.size(), adapter_.base, name_list(strangers)));
    }
    for (const auto& [module, change] : changes_) check_whole(module, change);
  }

  void check_whole(const std::string& module, const ModuleChange& change) const {
    const auto need = [&](bool wanted, const std::string& name, std::string_view what, std::string_view key) {
      if (wanted == !name.empty()) return;
      throw CheckpointError(
          path_text(adapter_.folder),
          fmt::format("the adapter's module '{}' {} {}; expected {}, as {} says", printable(module),
                      wanted ? "lacks" : "has", what, wanted ? "one" : "none", key));
    };
    need(true, change.a, change.embedding ? "lora_embedding_A" : "lora_A", "adapter_config.json");
    need(true, change.b, change.embedding ? "lora_embedding_B" : "lora_B", "adapter_config.json");
    need(adapter_.dora, change.magnitude, "a lora_magnitude_vector", "use_dora");
    need(adapter_.bias && !change.embedding, change.bias, "a bias of lora_B", "lora_bias");
  }

  std::string weight_of(const std::string& module) const { return bare(module + ".weight", family_); }

  // The tensor that embeddings are read from.
  std::string embedding() const {
    for (const TensorRecipe& recipe : read_.recipes(read_.config)) {
      if (recipe.target == "embed.W_E" && recipe.sources.size() == 1) return recipe.sources.front();
    }
    return {};
  }

  // Whether it is the unembedding that a tied model's files leave out.
  bool is_tied(const std::string& weight) const {
    return weight == family_.unembedding && !weight.empty() && read_.config.tied_unembedding() &&
           !names_.contains(weight) && names_.contains(embedding());
  }

  void keep_the_other_of_two_tied() {
    const std::string unembedding(family_.unembedding);
    if (!is_tied(unembedding)) return;
    const std::string theirs = embedding();
    const auto touches = [&](const std::string& weight) {
      return replaced_.contains(weight) || std::ranges::any_of(changes_, [&](const auto& change) {
               return weight_of(change.first) == weight;
             });
    };
    if (!touches(unembedding) && !touches(theirs)) return;
    source_[unembedding] = source_.at(names_.at(theirs));
    names_[unembedding] = unembedding;
  }

  void replace(const std::string& weight, const std::string& name) {
    SourceTensor& base = source_.at(names_.at(weight));
    const SourceTensor& tensor = floating(name);
    if (tensor.shape != base.shape) {
      refuse(name, fmt::format("takes the place of the base model's '{}' and has another shape; expected {}, "
                               "got {}; where the vocabulary was resized, save the merged model in Python",
                               weight, shape_text(base.shape), shape_text(tensor.shape)));
    }
    base = tensor;
    ++replacements_;
  }

  void apply(const std::string& module, const ModuleChange& names) {
    const std::string weight = weight_of(module);
    SourceTensor& base = source_.at(names_.at(weight));
    LowRankChange change{.a = floating(names.a),
                         .b = floating(names.b),
                         .magnitude = std::nullopt,
                         .scale = 1.0,
                         .turned = names.embedding || (family_.conv1d && weight != family_.unembedding)};
    const auto &a = change.a.shape, &b = change.b.shape;
    const bool product = a.size() == 2 && b.size() == 2 && a[0] == b[1] && a[0] > 0;
    const auto wanted = !product        ? std::vector<std::int64_t>()
                        : change.turned ? std::vector<std::int64_t>{a[1], b[0]}
                                        : std::vector<std::int64_t>{b[0], a[1]};
    if (!product || base.shape != wanted || !base.strides.empty()) {
      refuse(names.a, fmt::format("does not fit the base model's '{}' with '{}'; expected two matrices whose "
                                  "product has its shape {}, got {} and {}; check base_model_name_or_path",
                                  weight, names.b, shape_text(base.shape), shape_text(a), shape_text(b)));
    }
    const std::int64_t rank = adapter_.rank_of(module);
    if (rank != a[0]) {
      refuse(names.a, fmt::format("has another rank than {} says; expected {}, got {}", adapter_.config_where,
                                  rank, a[0]));
    }
    change.scale = adapter_.scale_of(module, rank);
    const std::vector<std::int64_t> outputs = {b[0]};
    if (!names.magnitude.empty()) change.magnitude = of_shape(names.magnitude, outputs);
    const double scale = change.scale;
    base = changed_weight(base, std::move(change), dtype_of(base));
    ranks_.insert(rank);
    ++changed_;
    if (names.bias.empty()) return;
    const auto bias = names_.find(bare(module + ".bias", family_));
    if (bias == names_.end())
      refuse(names.bias, "is for a bias that the base model does not have; expected none");
    SourceTensor& theirs = source_.at(bias->second);
    theirs = changed_bias(theirs, of_shape(names.bias, outputs), scale, dtype_of(theirs));
  }

  // Numbers are rounded to float32 once, which represents the files' numbers, unless the model is float64.
  at::ScalarType dtype_of(const SourceTensor& base) const {
    return read_.config.dtype == at::kDouble || base.dtype == at::kDouble ? at::kDouble : at::kFloat;
  }

  const SourceTensor& floating(const std::string& name) const {
    const SourceTensor& tensor = tensors_.at(name);
    if (!at::isFloatingType(tensor.dtype))
      refuse(name, fmt::format("holds {}; expected floating point numbers", tensor.dtype_name));
    return tensor;
  }

  const SourceTensor& of_shape(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const SourceTensor& tensor = floating(name);
    if (tensor.shape != shape) {
      refuse(name, fmt::format("has another shape than its module; expected {}, got {}", shape_text(shape),
                               shape_text(tensor.shape)));
    }
    return tensor;
  }

  [[noreturn]] void refuse(const std::string& name, std::string_view what) const {
    throw CheckpointError(tensors_.at(name).where,
                          fmt::format("the adapter's tensor '{}' {}", printable(name), what));
  }

  std::vector<std::string> notes() const {
    std::string done;
    if (changed_ > 0) {
      const std::string ranks = ranks_.size() == 1
                                    ? fmt::format("rank {}", *ranks_.begin())
                                    : fmt::format("ranks {} to {}", *ranks_.begin(), *ranks_.rbegin());
      done = fmt::format("{} weights have its low-rank products ({}{}) added", changed_,
                         adapter_.dora ? "DoRA, " : "", ranks);
    }
    if (replacements_ > 0)
      done += fmt::format("{}{} tensors are its own", done.empty() ? "" : " and ", replacements_);
    std::vector<std::string> all = {fmt::format("[{}] is an adapter of '{}' ({}) and was merged into it: {}",
                                                path_text(adapter_.folder), adapter_.base,
                                                path_text(adapter_.base_place), done)};
    if (!unread_.empty()) {
      std::vector<std::string> parts;
      for (const auto& [part, count] : unread_) parts.push_back(fmt::format("{} {}", part, count));
      all.push_back(
          fmt::format("tensors of the adapter that are for other parts of the checkpoint were not "
                      "read ({})",
                      fmt::join(parts, ", ")));
    }
    return all;
  }

  SourceTensors& source_;
  const Adapter& adapter_;
  const Family& family_;
  const FamilyConfig& read_;
  const SourceTensors tensors_;                  // the adapter's
  std::map<std::string, std::string> names_;     // of the base: without the family's prefix, and whole
  std::map<std::string, ModuleChange> changes_;  // by the module's path
  std::map<std::string, std::string> replaced_;  // the base's weight without prefix, the adapter's tensor
  std::map<std::string, std::size_t> unread_;    // by the checkpoint's other model
  std::set<std::int64_t> ranks_;
  std::size_t changed_ = 0, replacements_ = 0;
};

}  // namespace

std::vector<std::string> merge_adapter(SourceTensors& source, const Adapter& adapter, const Family& family,
                                       const FamilyConfig& read) {
  return Merge(source, adapter, family, read).apply();
}

}  // namespace hooked
