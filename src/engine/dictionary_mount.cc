// A dictionary at its place in a model: where it reads and writes, and in which basis.
#include "engine/dictionary_mount.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dictionaries/dictionary_data.h"
#include "engine/model_text.h"
#include "engine/standing_dictionaries.h"
#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/weights/processing.h"
#include "hooks/watch_plan.h"
#include "text/tokenizer/special_ids.h"

namespace hooked {
namespace {

// A step of weight processing as the table of sites, a dictionary's basis and the model's report have it.
struct BasisStep {
  ProcessingStep step;
  bool SiteSteps::*changes;
  bool DictionaryBasis::*fitted;
};

constexpr std::array kBasisSteps = {
    BasisStep{ProcessingStep::fold_ln, &SiteSteps::folded, &DictionaryBasis::folded_norms},
    BasisStep{ProcessingStep::center_writing_weights, &SiteSteps::centred, &DictionaryBasis::centred_writes},
    BasisStep{ProcessingStep::center_unembed, &SiteSteps::logits, &DictionaryBasis::centred_unembedding},
    BasisStep{ProcessingStep::fold_value_biases, &SiteSteps::value_bias,
              &DictionaryBasis::folded_value_biases},
};

bool applied(const LoadedModel& model, ProcessingStep step) {
  return std::ranges::any_of(model.processing, [&](const StepReport& report) {
    return report.step == step && (report.outcome == "applied" || report.outcome == "already applied");
  });
}

// How a dictionary reads and writes a model whose values are not those that it was fitted to.
struct Carried {
  bool centres_input = false;  // the mean over d_model is removed from what it reads ...
  bool returns_mean = false;   // ... and put back into what it writes
};

// The same dictionary for activations whose heads are side by side already, as a Coder is given them.
Dictionary with_flat_heads(const Dictionary& dictionary) {
  DictionaryConfig config = dictionary.config();
  config.flattens_heads = false;
  return {std::move(config), dictionary.weights()};
}

class DictionaryCoder : public Coder {
 public:
  DictionaryCoder(Dictionary dictionary, Carried carried)
      : as_read_(std::move(dictionary)), dictionary_(with_flat_heads(as_read_)), carried_(carried) {}

  at::Tensor input_of(const at::Tensor& x) const override {
    const at::Tensor input = dictionary_.input_of(x);
    return carried_.centres_input ? input - input.mean(-1, true) : input;
  }
  at::Tensor preactivations(const at::Tensor& input) const override {
    return dictionary_.preactivations(input);
  }
  at::Tensor activations(const at::Tensor& preactivations, const at::Tensor& input) const override {
    return dictionary_.activations(preactivations, input);
  }
  at::Tensor decode(const std::vector<at::Tensor>& features, const at::Tensor& input) const override {
    return dictionary_.reconstruction(features.front(), input);
  }
  at::Tensor output_of(const at::Tensor& reconstruction, const at::Tensor& input,
                       const at::Tensor& x) const override {
    const at::Tensor output = dictionary_.output_of(reconstruction, input, x);
    return carried_.returns_mean ? output + x.mean(-1, true) : output;
  }
  bool has_preactivations() const override { return dictionary_.has_preactivations(); }
  at::Tensor reconstruct(const at::Tensor& input) const override {
    constexpr std::int64_t features_at_once = std::int64_t{1} << 22;
    const std::int64_t at_once = std::max<std::int64_t>(1, features_at_once / dictionary_.config().features);
    const at::Tensor tokens = input.flatten(0, -2);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& some : tokens.split(at_once)) {
      const at::Tensor before = dictionary_.preactivations(some);
      parts.push_back(dictionary_.reconstruction(dictionary_.activations(before, some), some));
    }
    std::vector<std::int64_t> sizes = input.sizes().vec();
    sizes.back() = dictionary_.config().d_out;
    return at::cat(parts).view(sizes);
  }

  // As its files say.
  const Dictionary& dictionary() const noexcept { return as_read_; }

 private:
  const Dictionary as_read_, dictionary_;  // in this order
  const Carried carried_;
};

// A layer of a cross-layer transcoder: its decoder reads the features of all layers before it, too.
class CrossLayerCoder : public DictionaryCoder {
 public:
  CrossLayerCoder(DictionarySet set, std::size_t member)
      : DictionaryCoder(set.members()[member], {}), set_(std::move(set)), member_(member) {}

  at::Tensor decode(const std::vector<at::Tensor>& features, const at::Tensor& input) const override {
    std::vector<at::Tensor> codes = features;  // of the layers before and of this one
    codes.resize(set_.members().size());
    return set_.decode(set_.layers()[member_], codes, input);
  }

 private:
  const DictionarySet set_;
  const std::size_t member_;
};

Dictionary on_device(const Dictionary& dictionary, const c10::Device& device) {
  DictionaryWeights weights = dictionary.weights();
  for (const DictionaryWeightRow& row : dictionary_weight_rows()) {
    at::Tensor& weight = weights.*row.tensor;
    if (weight.defined()) weight = weight.to(device);
  }
  return {dictionary.config(), std::move(weights)};
}

std::string basis_text(bool step_applied) { return step_applied ? "with" : "without"; }

// Moves what the dictionary reads and writes to where it is exact in this model, or throws.
Carried carry(const LoadedModel& model, const DictionaryConfig& config, MountedDictionary& mounted) {
  Carried carried;
  for (const BasisStep& basis : kBasisSteps) {
    const bool here = applied(model, basis.step), fitted = config.basis.*basis.fitted;
    if (here == fitted) continue;
    const bool reads = row(mounted.reads.site).changed_by.*basis.changes;
    const bool writes = row(mounted.writes.site).changed_by.*basis.changes;
    if (!reads && !writes) continue;
    if (basis.step == ProcessingStep::center_writing_weights && fitted) {
      // The centred stream is the raw one without its mean.
      carried.centres_input = reads;
      carried.returns_mean = writes && mounted.reads == mounted.writes;
      if (!writes || carried.returns_mean) continue;
    }
    if (basis.step == ProcessingStep::fold_ln && fitted && mounted.reads.site == Site::mlp_input && !writes) {
      mounted.reads.site = Site::ln2_normalized;  // what a folded norm's output is
      if (model.points.find(mounted.reads)) continue;
    }
    throw ConfigError(
        "dictionary",
        fmt::format("it was fitted to {} of a model {} {}, and this model was loaded {} it; expected a model "
                    "loaded {} that step ({})",
                    mounted.reads.to_string(), basis_text(fitted), processing_step_name(basis.step),
                    basis_text(here), basis_text(fitted),
                    fitted ? "its processing, or the folder of the processed model"
                           : "its processing, or --process on the command line"));
  }
  return carried;
}

// What an activation is to a dictionary: its width, over all heads or of one.
std::int64_t width_of(const LoadedModel& model, const ActivationName& name,
                      const std::optional<std::int64_t>& head) {
  const SiteRow& site = row(name.site);
  const bool rows = !site.integers && (site.axes.size() == 3 || site.axes.size() == 4) &&
                    site.axes[0] == Axis::batch && site.axes[1] == Axis::pos;
  const bool heads = rows && site.axes.size() == 4;
  if (name.host || !rows || (head && !heads)) {
    throw HookError(name.to_string(),
                    head && rows
                        ? fmt::format("the dictionary belongs to head {}, and this activation has no "
                                      "heads; expected one such as attn.hook_z",
                                      *head)
                        : std::string("a dictionary reads a row of numbers for each token; expected an "
                                      "activation with the axes [batch, pos, width] or [batch, pos, "
                                      "head, width]"));
  }
  const std::int64_t last = model.size_of_axis(name, site.axes[site.axes.size() - 1]);
  if (!heads) return last;
  const std::int64_t n_heads = model.size_of_axis(name, site.axes[2]);
  if (head && *head >= n_heads) {
    throw HookError(name.to_string(),
                    fmt::format("the dictionary belongs to head {}; expected 0 to {}", *head, n_heads - 1));
  }
  return head ? last : n_heads * last;
}

void require_width(const LoadedModel& model, const ActivationName& name,
                   const std::optional<std::int64_t>& head, std::int64_t width, std::string_view what) {
  const std::int64_t there = width_of(model, name, head);
  if (there == width) return;
  throw ShapeError(name.to_string(),
                   fmt::format("the dictionary {} {} numbers for each token; expected {}, the "
                               "width of this activation",
                               what, width, there));
}

// A name that the dictionary's files give.
ActivationName named(const std::string& text, std::string_view what) {
  if (text.empty()) {
    throw HookError("dictionary", fmt::format("its files do not say which activation it {}; expected "
                                              "the {} in its place, or FOLDER@SITE on the command line",
                                              what == "input" ? "reads" : "replaces", what));
  }
  return Address(text).name();
}

std::vector<std::int64_t> excluded_of(const LoadedModel& model, const DictionaryConfig& config) {
  std::vector<std::int64_t> ids = config.excluded.ids;
  if (!config.excluded.special) return ids;
  const auto special = special_ids(tokenizer_of(model));
  ids.insert(ids.end(), special.begin(), special.end());
  if (model.config.encoder && model.config.encoder->decoder_start_token)
    ids.push_back(*model.config.encoder->decoder_start_token);
  return ids;
}

// Where it reads and writes.
std::pair<ActivationName, ActivationName> ends_of(const DictionaryConfig& config,
                                                  const DictionaryPlace& place) {
  const ActivationName reads = place.input ? *place.input : named(config.input, "input");
  const ActivationName writes = place.output         ? *place.output
                                : !config.transcodes ? reads
                                                     : named(config.output, "output");
  return {reads, writes};
}

}  // namespace

std::vector<ProcessingStep> steps_that_change(const Dictionary& dictionary, const DictionaryPlace& place) {
  const auto [reads, writes] = ends_of(dictionary.config(), place);
  std::vector<ProcessingStep> steps;
  for (const BasisStep& basis : kBasisSteps) {
    const bool changes =
        row(reads.site).changed_by.*basis.changes || row(writes.site).changed_by.*basis.changes;
    if (changes && !(dictionary.config().basis.*basis.fitted)) steps.push_back(basis.step);
  }
  return steps;
}

MountedDictionary mounted(const LoadedModel& model, const Dictionary& dictionary,
                          const DictionaryPlace& place) {
  const DictionaryConfig& config = dictionary.config();
  const auto [reads_at, writes_at] = ends_of(config, place);
  MountedDictionary made{.reads = reads_at,
                         .writes = writes_at,
                         .head = config.head,
                         .with_error = place.with_error,
                         .excluded = excluded_of(model, config),
                         .coder = nullptr,
                         .features = config.features,
                         .d_read = config.d_in,
                         .d_written = config.d_out,
                         .sources = {0}};
  for (ActivationName* name : {&made.reads, &made.writes}) *name = model.points.resolve(*name);
  const Carried carried = carry(model, config, made);
  require_width(model, made.reads, made.head, config.d_in, "reads");
  require_width(model, made.writes, made.head, config.d_out, "writes");
  const std::size_t reads = model.points.require(made.reads), writes = model.points.require(made.writes);
  if (reads > writes) {
    throw HookError(
        made.writes.to_string(),
        fmt::format("the dictionary there reads {}, which is computed later; expected an activation "
                    "before it",
                    made.reads.to_string()));
  }
  for (const std::string& note : config.notes)
    made.notes.push_back(fmt::format("the dictionary at {}: {}", made.writes.to_string(), note));
  made.coder = std::make_shared<DictionaryCoder>(
      on_device(dictionary, device_of(made.writes, model.placement)), carried);
  return made;
}

namespace {

// Throws if some dictionary stands there already.
void require_free(const LoadedModel& model, const ActivationName& place) {
  for (const MountedDictionary& other : model.dictionaries) {
    if (other.writes != place) continue;
    throw HookError(place.to_string(),
                    "a dictionary stands there already; expected one at another activation, or the model "
                    "without that one");
  }
}

}  // namespace

HookedTransformer HookedTransformer::with_dictionary(const Dictionary& dictionary,
                                                     const DictionaryPlace& place) const {
  if (dictionary.config().crosses_layers) {
    throw ConfigError(
        "dictionary",
        "this is one layer of a cross-layer transcoder; expected all of them, as a DictionarySet");
  }
  const MountedDictionary made = mounted(*model_, dictionary, place);
  require_free(*model_, made.writes);
  return HookedTransformer(std::make_shared<const LoadedModel>(loaded(), MountedDictionaries{made}));
}

HookedTransformer HookedTransformer::with_dictionaries(const DictionarySet& set, bool with_error) const {
  std::vector<Dictionary> here;
  MountedDictionaries all;
  for (std::size_t i = 0; i < set.members().size(); ++i) {
    all.push_back(mounted(*model_, set.members()[i], {.with_error = with_error}));
    require_free(*model_, all.back().writes);
    here.push_back(on_device(set.members()[i], device_of(all.back().writes, model_->placement)));
    all.back().sources = {i};
  }
  if (set.crosses_layers()) {
    const DictionarySet placed(std::move(here));
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].coder = std::make_shared<CrossLayerCoder>(placed, i);
      all[i].sources.resize(i + 1);
      std::iota(all[i].sources.begin(), all[i].sources.end(), std::size_t{0});
    }
  }
  return HookedTransformer(std::make_shared<const LoadedModel>(loaded(), all));
}

const MountedDictionaries& mounted_in(const HookedTransformer& model) { return model.loaded()->dictionaries; }

std::vector<StandingDictionary> HookedTransformer::dictionaries() const {
  std::vector<StandingDictionary> standing;
  for (const MountedDictionary& each : model_->dictionaries) {
    standing.push_back({.dictionary = dynamic_cast<const DictionaryCoder&>(*each.coder).dictionary(),
                        .input = each.reads,
                        .output = each.writes,
                        .with_error = each.with_error});
  }
  return standing;
}

HookedTransformer HookedTransformer::without_dictionary(const ActivationName& place) const {
  const ActivationName there = model_->points.resolve(place);
  const MountedDictionaries& all = model_->dictionaries;
  std::vector<bool> goes;
  for (const MountedDictionary& each : all) goes.push_back(each.writes == there);
  if (std::ranges::count(goes, true) == 0)
    throw HookError(there.to_string(), "no dictionary stands there; expected the place of one");
  // The layers of a cross-layer transcoder go together.
  for (bool more = true; std::exchange(more, false);) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const std::size_t source : all[i].sources) {
        if (goes[i] == goes[source]) continue;
        goes[i] = goes[source] = more = true;
      }
    }
  }
  MountedDictionaries others;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (goes[i]) continue;
    others.push_back(all[i]);
    for (std::size_t& source : others.back().sources)
      source -= static_cast<std::size_t>(
          std::count(goes.begin(), goes.begin() + static_cast<std::ptrdiff_t>(source), true));
  }
  const std::shared_ptr<const LoadedModel> base = model_->base;
  return HookedTransformer(others.empty() ? base : std::make_shared<const LoadedModel>(base, others));
}

}  // namespace hooked
