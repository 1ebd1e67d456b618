#include "hooked/dictionaries/dictionary_set.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "dictionaries/dictionary_data.h"
#include "dictionaries/dictionary_plan.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

std::int64_t layer_of(const Dictionary& dictionary) {
  const auto layer = dictionary.config().layer;
  if (!layer)
    throw ConfigError("dictionaries",
                      "one of a set does not know its layer; expected its layer in its config");
  return *layer;
}

std::int64_t targets_of(const Dictionary& dictionary) {
  return dictionary.config().crosses_layers ? dictionary.weights().W_dec.size(1) : 1;
}

void check_set(const std::vector<Dictionary>& members) {
  if (members.empty()) throw ConfigError("dictionaries", "a set is empty; expected at least one dictionary");
  const std::int64_t last = layer_of(members.back());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t layer = layer_of(members[i]);
    if (i > 0 && layer == layer_of(members[i - 1]))
      throw ConfigError("dictionaries",
                        fmt::format("two of a set are of layer {}; expected one for each layer", layer));
    if (members[i].config().crosses_layers != members.front().config().crosses_layers)
      throw ConfigError("dictionaries", "some of a set cross layers and some do not; expected one kind");
    if (!members[i].config().crosses_layers) continue;
    if (targets_of(members[i]) != last - layer + 1 ||
        layer != static_cast<std::int64_t>(i) + layer_of(members.front())) {
      throw ConfigError("dictionaries",
                        fmt::format("the one of layer {} writes to {} layers; expected one of each layer, "
                                    "which write to those from their own to the last, {}",
                                    layer, targets_of(members[i]), last));
    }
  }
}

}  // namespace

DictionarySet::DictionarySet(std::vector<Dictionary> members, std::string scan)
    : members_(std::move(members)), scan_(std::move(scan)) {
  std::ranges::stable_sort(members_, {}, layer_of);
  check_set(members_);
}

DictionarySet DictionarySet::load(std::string_view path, const DictionaryOptions& options) {
  const DictionaryPlans plans = plan_dictionaries(locate_dictionary(path));
  for (const DictionaryPlan& plan : plans.members) plan.check();
  std::vector<Dictionary> members;
  for (const DictionaryPlan& plan : plans.members) members.push_back(plan.read(options));
  return DictionarySet(std::move(members), plans.scan);
}

std::vector<std::int64_t> DictionarySet::layers() const {
  std::vector<std::int64_t> layers;
  for (const Dictionary& member : members_) layers.push_back(layer_of(member));
  return layers;
}

bool DictionarySet::crosses_layers() const noexcept { return members_.front().config().crosses_layers; }

Dictionary DictionarySet::at(std::int64_t layer) const {
  const auto found = std::ranges::find(members_, layer, layer_of);
  if (found == members_.end())
    throw ConfigError("dictionaries", fmt::format("there is none of this layer; expected one of {}, got {}",
                                                  shape_text(layers()), layer));
  return *found;
}

at::Tensor DictionarySet::decoder(std::int64_t source, std::int64_t target) const {
  const Dictionary from = at(source);
  const std::int64_t slot = target - source;
  if (slot < 0 || slot >= targets_of(from)) {
    throw ConfigError(
        "dictionaries",
        fmt::format("features of layer {} write nothing to layer {}; expected a layer from {} to {}", source,
                    target, source, source + targets_of(from) - 1));
  }
  const at::Tensor& W_dec = from.weights().W_dec;
  return from.config().crosses_layers ? W_dec.select(1, slot) : W_dec;
}

at::Tensor DictionarySet::decode(std::int64_t target, const std::vector<at::Tensor>& codes,
                                 const at::Tensor& x) const {
  if (codes.size() != members_.size())
    throw ShapeError("codes",
                     fmt::format("there is another number of codes than dictionaries; expected {}, got {}",
                                 members_.size(), codes.size()));
  const Dictionary own = at(target);
  const std::vector<std::int64_t> all = layers();
  const auto codes_of = [&](std::int64_t layer) {
    const auto& found = codes[static_cast<std::size_t>(std::ranges::find(all, layer) - all.begin())];
    if (found.defined()) return found;
    throw ShapeError(
        "codes",
        fmt::format("those of layer {}, which writes to layer {}, are undefined; expected all that do", layer,
                    target));
  };
  if (!crosses_layers()) return own.decode(codes_of(target), x);
  const DictionaryConfig& c = own.config();
  const DictionaryWeights& w = own.weights();
  at::Tensor sum = w.b_dec;
  for (const std::int64_t source : all) {
    if (source <= target) sum = codes_of(source).matmul(decoder(source, target)) + sum;
  }
  if (c.skips) sum = sum + own.input_of(x).matmul(w.W_skip.t());
  return sum.to(x.scalar_type());
}

DictionaryDescription describe_dictionary(std::string_view path) {
  const std::filesystem::path place = locate_dictionary(path);
  DictionaryPlans plans = plan_dictionaries(place);
  DictionaryDescription described{
      .path = place.native(), .members = {}, .scan = plans.scan, .notes = plans.notes};
  for (DictionaryPlan& plan : plans.members) {
    plan.check();
    for (const auto& [name, weight] : plan.weights) {
      std::int64_t numbers = 1;
      for (const std::int64_t size : weight.shape) numbers *= size;
      described.parameters += numbers;
    }
    described.stored_bytes += plan.stored_bytes;
    if (!plan.states_dtype) plan.config.dtype = plan.weights.at("W_dec").dtype;
    described.members.push_back(std::move(plan.config));
  }
  return described;
}

bool is_dictionary(std::string_view path) {
  try {
    return holds_dictionary(locate_dictionary(path));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace hooked
