#include "loading/storage/quantised_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/config_reader.h"
#include "core/json.h"
#include "families/composite.h"
#include "hooked/core/error.h"
#include "hooked/hooks/selection.h"
#include "hooked/io/file.h"
#include "io/checkpoint/model_files.h"
#include "io/files/path_text.h"
#include "loading/config/open_checkpoint.h"
#include "loading/storage/stored_parts.h"

namespace hooked {
namespace {

// `model.layers.0.mlp.up_proj` of its weight.
std::string_view module_of(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

// The pattern of config.json that says that this module is stored as numbers, or nothing. Regular expressions
// (`re:`) are not checked here.
const std::string* said_to_be_numbers(const QuantisedStorage& storage, std::string_view module) {
  const auto found = std::ranges::find_if(
      storage.as_they_are, [&](const std::string& pattern) { return glob_matches(pattern, module); });
  return found == storage.as_they_are.end() ? nullptr : &*found;
}

// The existing tensor among the possible names of a weight's factors.
std::optional<std::string> factors_beside(const SourceTensors& source, const StorageForm& form,
                                          const std::string& stem) {
  for (const std::string_view ending : form.factors) {
    std::string name = stem + std::string(ending);
    if (source.contains(name)) return name;
  }
  return std::nullopt;
}

/// Builds the weights of a form.
using MakeWeight = SourceTensor (*)(StoredParts parts, const QuantisedStorage& storage);

MakeWeight maker_of(NumberCode code) {
  switch (code) {
    case NumberCode::mxfp4:
      return mxfp4_weight;
    case NumberCode::fp8:
      return fp8_weight;
    case NumberCode::gptq:
      return gptq_weight;
    case NumberCode::awq:
      return awq_weight;
    case NumberCode::packed:
      return packed_weight;
    case NumberCode::integers:
      return integer_weight;
    case NumberCode::parts_of_127:
      return parts_of_127_weight;
    case NumberCode::levels:
      break;
  }
  return level_weight;
}

StoredParts parts_of(const SourceTensors& source, const QuantisedStorage& storage, const StorageForm& form,
                     const Family& family, const std::string& numbers_name) {
  const std::string stem = numbers_name.substr(0, numbers_name.size() - form.ending.size());
  StoredParts parts{.weight = stem + std::string(form.weight),
                    .numbers = {numbers_name, source.at(numbers_name)},
                    .factors = {},
                    .beside = {},
                    .turned = family.conv1d && !numbers_name.starts_with(module_of(family.unembedding)),
                    .notes = nullptr};
  if (!parts.numbers.tensor.read_bytes)
    refuse_part(parts.numbers, "is not in safetensors; expected quantised weights there");
  if (const std::string* said = said_to_be_numbers(storage, module_of(parts.weight))) {
    refuse_part(
        parts.numbers,
        fmt::format("is stored as {}, and {} says of '{}' that it is not; expected what the config says",
                    storage.name, storage.where, *said));
  }
  const auto factors = factors_beside(source, form, stem);
  if (!factors) {
    refuse_part(parts.numbers,
                fmt::format("is stored as {} without its factors; expected a tensor '{}{}'", storage.name,
                            stem, fmt::join(form.factors, fmt::format("' or '{}", stem))));
  }
  if (parts.weight != numbers_name && source.contains(parts.weight)) {
    refuse_part(parts.numbers,
                fmt::format("is '{}' a second time; expected the weight once, as {} or as numbers",
                            parts.weight, storage.name));
  }
  parts.factors = {*factors, source.at(*factors)};
  for (const std::string_view ending : form.beside) {
    const std::string name = stem + std::string(ending);
    if (const auto found = source.find(name); found != source.end())
      parts.beside.emplace(ending, NamedTensor{name, found->second});
  }
  for (const auto& [ending, part] : parts.beside) {
    if (!part.tensor.read_bytes) refuse_part(part, "is not in safetensors; expected quantised weights there");
  }
  return parts;
}

// Factors of activations, keys and values that are stored with the weights.
bool is_activation_factor(std::string_view name) {
  constexpr std::string_view kEndings[] = {".input_scale",  ".input_scale_ub", ".activation_scale",
                                           ".output_scale", ".k_scale",        ".v_scale",
                                           ".q_scale"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Zero points and similar tensors, which have the dtype of numbers.
bool is_beside_weights(std::string_view name, const StorageForm& form) {
  return std::ranges::any_of(form.beside, [&](std::string_view ending) { return name.ends_with(ending); });
}

constexpr std::string_view kFiles[] = {"quantize_config.json", "quant_config.json"};

/// Names that mean one number in either file.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"quant_method", "quant_method"}, {"bits", "w_bit"}, {"group_size", "q_group_size"},
    {"desc_act", "desc_act"},         {"sym", "sym"},    {"zero_point", "zero_point"},
    {"checkpoint_format", "format"},
};

Json value_of(const Json& group, const std::pair<std::string_view, std::string_view>& names) {
  for (const std::string_view name : {names.first, names.second}) {
    if (const auto found = group.find(name); found != group.end() && !found->is_null()) return *found;
  }
  return nullptr;
}

Json parsed(const std::string& text, const std::string& where) {
  try {
    Json json = parse_json(text, {.bytes = kModelConfigBytes});
    if (json.is_object()) return json;
  } catch (const std::invalid_argument& reason) {
    throw ConfigError(where, reason.what());
  }
  throw ConfigError(where, "is not an object; expected how the weights are quantised");
}

// Differences of the file from config.json's group.
std::vector<std::string> contradictions(const Json& file, const Json& group) {
  std::vector<std::string> found;
  for (const auto& names : kSpellings) {
    const Json here = value_of(file, names), there = value_of(group, names);
    if (!here.is_null() && !there.is_null() && here != there)
      found.push_back(
          fmt::format("{} {}, not {}", names.first, printable(json_text(here)), printable(json_text(there))));
  }
  return found;
}

Json group_of(const ConfigText& config) {
  const Json whole = parse_json(config.text, {.bytes = kModelConfigBytes});
  const auto group_in = [](const Json& object) {
    const auto found = object.find(kQuantisationKey);
    return found == object.end() ? Json() : *found;
  };
  const Json group = config.group.empty() ? Json() : group_in(whole.at(config.group));
  return group.is_object() ? group : group_in(whole);
}

}  // namespace

std::vector<std::string> read_quantised(SourceTensors& source, const QuantisedStorage& storage,
                                        const Family& family) {
  const auto of_another = [&](const std::string& name) {
    return family.inside != nullptr && other_part(*family.inside, name).has_value();
  };
  std::vector<std::pair<std::string, const StorageForm*>> quantised;
  for (const auto& [name, tensor] : source) {
    const auto form =
        std::ranges::find_if(storage.forms, [&, &name = name, &tensor = tensor](const StorageForm* each) {
          return tensor.dtype_name == each->dtype && name.ends_with(each->ending) && !of_another(name);
        });
    if (form == storage.forms.end() || is_beside_weights(name, **form)) continue;
    quantised.emplace_back(name, *form);
  }
  if (quantised.empty()) {
    return {
        fmt::format("[{}] says that weights are stored as {}, and no tensor is: they are read as they are",
                    storage.where, storage.name)};
  }
  std::set<std::string> notes;
  for (const auto& [name, form] : quantised) {
    StoredParts parts = parts_of(source, storage, *form, family, name);
    std::vector<std::string> used{name, parts.factors.name};
    for (const auto& [ending, part] : parts.beside) used.push_back(part.name);
    const std::string weight = parts.weight;
    parts.notes = &notes;
    SourceTensor made = maker_of(form->code)(std::move(parts), storage);
    for (const std::string& part : used) source.erase(part);
    source.insert_or_assign(weight, std::move(made));
  }
  std::erase_if(source, [&](const auto& tensor) {
    return is_activation_factor(tensor.first) && !of_another(tensor.first);
  });
  std::vector<std::string> all = {
      fmt::format("{} weights are stored as {}: they have the numbers of the quantised model, and its "
                  "activations are not quantised",
                  quantised.size(), storage.name)};
  all.insert(all.end(), notes.begin(), notes.end());
  return all;
}

void read_storage_file(const std::filesystem::path& folder, const SourceTensors& source,
                       IdentifiedModel& model) {
  constexpr std::string_view kNumbers = ".qweight";
  const auto quantised =
      std::ranges::find_if(source, [&](const auto& tensor) { return tensor.first.ends_with(kNumbers); });
  if (quantised == source.end()) return;
  FamilyConfig& read = model.read;
  for (const std::string_view name : kFiles) {
    const std::filesystem::path file = folder / name;
    if (!is_there(file)) continue;
    const std::string where = path_text(file);
    const std::string text = read_text_file(file, kModelConfigBytes);
    Json json = parsed(text, where);
    if (!read.storage) {
      // Neither AutoAWQ's files nor GPTQ's older ones have the method; AutoAWQ's names tell its files.
      if (!json.contains("quant_method"))
        json["quant_method"] = json.contains("w_bit") || json.contains("zero_point") ? "awq" : "gptq";
      read.storage = read_storage_group(ConfigReader(std::move(json), where, make_error<ConfigError>));
      return;
    }
    for (const std::string& other : contradictions(json, group_of(model.config))) {
      read.notes.push_back(
          fmt::format("[{}] says {}: {} holds, as in transformers", where, other, read.storage->where));
    }
  }
  if (read.storage) return;
  throw CheckpointError(quantised->second.where,
                        fmt::format("tensor '{}' is quantised as GPTQ's or AWQ's are, and nothing says how; "
                                    "expected {} in config.json, or {} or {} next to it",
                                    quantised->first, kQuantisationKey, kFiles[0], kFiles[1]));
}

}  // namespace hooked
