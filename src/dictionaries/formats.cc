#include "dictionaries/formats.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "core/name_list.h"
#include "core/parse_integer.h"
#include "core/shell_word.h"
#include "dictionaries/dictionary_data.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/hub_cache.h"
#include "io/checkpoint/model_files.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

/// The first one that recognises a path reads it.
constexpr std::array kFormats = {
    DictionaryFormat{"SAELens", "cfg.json and sae_weights.safetensors", is_saelens, plan_saelens},
    DictionaryFormat{"sparsify", "cfg.json and sae.safetensors", is_sparsify, plan_sparsify},
    DictionaryFormat{"Llama Scope", "hyperparams.json and checkpoints/final.safetensors", is_llama_scope,
                     plan_llama_scope},
    DictionaryFormat{"Llamascopium", "config.json with sae_type", is_llamascopium, plan_llamascopium},
    DictionaryFormat{"dictionary_learning", "ae.pt and config.json", is_dictionary_learning,
                     plan_dictionary_learning},
    DictionaryFormat{"circuit-tracer",
                     "config.yaml, layer_<i>.safetensors, or W_enc_<i>.safetensors and W_dec_<i>.safetensors",
                     is_circuit_tracer, plan_circuit_tracer},
    DictionaryFormat{"Gemma Scope", "params.npz", is_gemma_scope, plan_gemma_scope},
    DictionaryFormat{"Gemma Scope 2", "params.safetensors, or params_layer_<i>.safetensors", is_gemma_scope_2,
                     plan_gemma_scope_2},
    DictionaryFormat{"Qwen Scope", "layer<i>.sae.pt", is_qwen_scope, plan_qwen_scope},
};

const DictionaryFormat* format_of_dictionary(const std::filesystem::path& path) {
  const auto found =
      std::ranges::find_if(kFormats, [&](const DictionaryFormat& row) { return row.recognises(path); });
  return found == kFormats.end() ? nullptr : &*found;
}

/// Folders of a folder that are dictionaries, two levels deep: repositories hold one for each layer and
/// width.
std::vector<std::string> dictionaries_below(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  for (const std::string& name : names_in(folder)) {
    if (!is_folder(folder / name)) continue;
    if (format_of_dictionary(folder / name) != nullptr) found.push_back(name);
    for (const std::string& inner : names_in(folder / name)) {
      if (format_of_dictionary(folder / name / inner) != nullptr)
        found.push_back(fmt::format("{}/{}", name, inner));
    }
  }
  return found;
}

/// A folder with a folder for each layer; nothing if some do not say of which layer they are, or several are
/// of one.
std::optional<DictionaryPlans> plan_folders(const std::filesystem::path& folder,
                                            const std::vector<std::string>& below) {
  DictionaryPlans set;
  std::set<std::int64_t> layers;
  for (const std::string& name : below) {
    DictionaryPlans one = format_of_dictionary(folder / name)->plan(folder / name);
    const auto layer = one.members.front().config.layer;
    if (one.members.size() != 1 || !layer || !layers.insert(*layer).second) return std::nullopt;
    set.members.push_back(std::move(one.members.front()));
    std::ranges::move(one.notes, std::back_inserter(set.notes));
  }
  if (set.members.empty()) return std::nullopt;
  std::ranges::sort(set.members, {}, [](const DictionaryPlan& member) { return *member.config.layer; });
  return set;
}

void check_shape(const DictionaryWeightRow& row, const DictionaryConfig& config, const StoredWeight& weight) {
  const auto wanted = row.shape(config);
  const auto same = [](std::int64_t want, std::int64_t is) { return want < 0 ? is > 0 : want == is; };
  if (std::ranges::equal(*wanted, weight.shape, same)) return;
  const bool turned = wanted->size() == 2 && weight.shape.size() == 2 && wanted->at(0) == weight.shape[1] &&
                      wanted->at(1) == weight.shape[0];
  throw CheckpointError(
      weight.where,
      fmt::format("the tensor does not fit the config; expected {} as {}, got {}{}", shape_text(*wanted),
                  row.name, shape_text(weight.shape), turned ? ", which looks transposed" : ""));
}

}  // namespace

void take_sizes_from_weights(DictionaryPlan& plan) {
  const StoredWeight& W_enc = plan.weights.at("W_enc");
  const StoredWeight& W_dec = plan.weights.at("W_dec");
  const std::size_t axes = plan.config.crosses_layers ? 3 : 2;
  for (const auto& [weight, wanted] : {std::pair(&W_enc, std::size_t{2}), {&W_dec, axes}}) {
    if (weight->shape.size() == wanted) continue;
    throw CheckpointError(weight->where,
                          fmt::format("the tensor has another number of axes; expected {}, got {}", wanted,
                                      shape_text(weight->shape)));
  }
  plan.config.d_in = W_enc.shape[0];
  plan.config.features = W_enc.shape[1];
  plan.config.d_out = W_dec.shape.back();
}

std::map<std::int64_t, std::filesystem::path> numbered_files(const std::filesystem::path& folder,
                                                             std::string_view before,
                                                             std::string_view after) {
  std::map<std::int64_t, std::filesystem::path> found;
  for (const std::string& name : names_in(folder)) {
    const std::string_view text = name;
    if (text.size() <= before.size() + after.size() || !text.starts_with(before) || !text.ends_with(after))
      continue;
    const auto number = parse_integer(text.substr(before.size(), text.size() - before.size() - after.size()));
    if (number && *number >= 0) found.emplace(*number, folder / name);
  }
  return found;
}

std::string whole_path_text(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto whole = std::filesystem::absolute(path, ignored);
  return (ignored ? path : whole).lexically_normal().generic_string();
}

std::string name_of_folder_at(const std::filesystem::path& folder) {
  const std::filesystem::path whole(whole_path_text(folder));
  return (whole.has_filename() ? whole : whole.parent_path()).filename().native();
}

void DictionaryPlan::check() const {
  check_config(config, files.empty() ? std::string("dictionary") : path_text(files.back()));
  for (const DictionaryWeightRow& row : dictionary_weight_rows()) {
    if (!row.shape(config)) continue;
    const auto found = weights.find(row.name);
    if (found == weights.end()) {
      throw CheckpointError(
          files.empty() ? std::string("dictionary") : path_text(files.front()),
          fmt::format("a weight is missing; expected {}, which {} has", row.name, architecture_text(config)));
    }
    const StoredWeight& weight = found->second;
    check_shape(row, config, weight);
    if (weight.dtype == at::ScalarType::Undefined || !at::isFloatingType(weight.dtype)) {
      throw CheckpointError(weight.where,
                            fmt::format("its numbers are no floating-point numbers; expected float32, "
                                        "float64, float16 or bfloat16, got {}",
                                        dtype_text(weight.dtype)));
    }
  }
}

Dictionary DictionaryPlan::read(const DictionaryOptions& options) const {
  check();
  const at::NoGradGuard no_grad;
  Dictionary::Data data{.config = config, .weights = {}, .read_from = {}};
  data.config.dtype = options.dtype.value_or(states_dtype ? config.dtype : weights.at("W_dec").dtype);
  for (const DictionaryWeightRow& row : dictionary_weight_rows()) {
    if (!row.shape(config)) continue;
    const StoredWeight& stored = weights.at(std::string(row.name));
    at::Tensor tensor = stored.read().to(options.device, data.config.dtype).contiguous();
    if (const auto odd = tensor.isfinite().logical_not().sum().item<std::int64_t>(); odd > 0)
      data.config.notes.push_back(fmt::format("{}: {} of its numbers are not finite", stored.where, odd));
    data.weights.*row.tensor = std::move(tensor);
  }
  check_config(data.config, "dictionary");
  check_weights(data.config, data.weights);
  for (const std::filesystem::path& file : files) data.read_from.push_back(std::filesystem::absolute(file));
  return Dictionary(std::make_shared<const Dictionary::Data>(std::move(data)));
}

std::filesystem::path locate_dictionary(std::string_view text) {
  const std::filesystem::path path(text);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  const auto name = parse_hub_name(text);
  if (!name) {
    throw CheckpointError(path_text(path),
                          "there is no such folder or file; expected one with a dictionary, or "
                          "org/name[@revision][:path] in the hub cache");
  }
  const HubCache cache = hub_cache();
  const std::filesystem::path found = places_of(*name, cache).snapshot / name->file;
  if (std::filesystem::exists(found, ignored)) return found;
  HubName wanted = name->without_file();
  const std::string include =
      name->file.empty() ? "" : " --include " + shell_quoted(path_text(name->file) + "*");
  throw CheckpointError(printable(text),
                        fmt::format("there is no such folder or file, and it is not in the hub cache "
                                    "'{}'; expected a dictionary; `{}{}` downloads it",
                                    path_text(cache.path), download_command(wanted), include));
}

DictionaryPlans plan_dictionaries(const std::filesystem::path& path) {
  if (const DictionaryFormat* format = format_of_dictionary(path)) return format->plan(path);
  const auto below = is_folder(path) ? dictionaries_below(path) : std::vector<std::string>();
  if (auto set = plan_folders(path, below)) return *std::move(set);
  if (!below.empty()) {
    throw CheckpointError(path_text(path),
                          fmt::format("the folder holds several dictionaries; expected one; give the "
                                      "path of one of {}",
                                      name_list(below)));
  }
  std::string known;
  for (const DictionaryFormat& row : kFormats)
    known += fmt::format("{}{} ({})", known.empty() ? "" : "; ", row.files, row.name);
  throw CheckpointError(path_text(path),
                        fmt::format("this is no dictionary that is read; expected one of: {}", known));
}

bool holds_dictionary(const std::filesystem::path& path) {
  if (format_of_dictionary(path) != nullptr) return true;
  // A model's repository may have dictionaries in folders of its own.
  const auto own = is_folder(path) ? names_in(path) : std::vector<std::string>();
  const bool has_config = std::ranges::find(own, "config.json") != own.end();
  return is_folder(path) && !has_config && !dictionaries_below(path).empty();
}

Dictionary Dictionary::load(std::string_view path, const DictionaryOptions& options) {
  const std::filesystem::path place = locate_dictionary(path);
  const DictionaryPlans plans = plan_dictionaries(place);
  const auto& members = plans.members;
  if (!options.layer && members.size() == 1) return members.front().read(options);
  std::vector<std::string> layers;
  for (const DictionaryPlan& member : members) {
    if (options.layer && member.config.layer == options.layer) return member.read(options);
    layers.push_back(member.config.layer ? std::to_string(*member.config.layer) : "unknown");
  }
  throw CheckpointError(
      path_text(place),
      fmt::format("expected the layer of one of its {} dictionaries ({}), got {}", members.size(),
                  name_list(layers), options.layer ? std::to_string(*options.layer) : "none"));
}

}  // namespace hooked
