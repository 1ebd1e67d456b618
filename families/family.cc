#include "families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/config_reader.h"
#include "core/json.h"
#include "core/nearest.h"
#include "families/composite.h"
#include "families/shared/hf_config.h"
#include "families/unsupported.h"
#include "hooked/core/error.h"

namespace hooked {

// Included twice, so that a family is one row: its declaration and its place in the list.
#define FAMILY(file, name)   \
  namespace families::file { \
  extern const Family name;  \
  }
#include "families/table.inc"
#undef FAMILY

namespace {

// For a known kind of model, the error says more than that it is not in a list.
void refuse_if_lacking(std::string_view model_type, std::string_view where) {
  const auto lacking = lacking_for(model_type);
  if (!lacking) return;
  throw ConfigError(where, fmt::format("models of type '{}' are not supported; expected one without {}",
                                       printable(model_type), *lacking));
}

}  // namespace

std::span<const Family> all_families() {
#define FAMILY(file, name) families::file::name,
  static const Family kFamilies[] = {
#include "families/table.inc"
  };
#undef FAMILY
  return kFamilies;
}

const Family& native_family() { return families::hooked_transformer::kHookedTransformer; }

FamilyConfig read_family_config(const Family& family, const ConfigText& config) {
  if (family.read_all != nullptr) return family.read_all(config);
  HfConfig hf(config.text, config.where, config.group);
  ModelConfig made = family.read(hf);
  RecipeMaker recipes = family.recipes.of_config;
  if (family.recipes.of_both != nullptr) {
    recipes = [make = family.recipes.of_both, hf](const ModelConfig& c) { return make(c, hf); };
  }
  FamilyConfig read = std::move(hf).finish(std::move(made), std::move(recipes));
  if (family.inside != nullptr) settle_logits(*family.inside, read);
  return read;
}

const Family& family_of(std::string_view model_type, std::string_view where) {
  std::vector<std::string> known;
  for (const Family& family : all_families()) {
    if (family.model_type == model_type) return family;
    known.emplace_back(family.model_type);
  }
  refuse_if_lacking(model_type, where);
  throw ConfigError(
      where, fmt::format("model_type '{}' is not supported; expected one of the {} in docs/families.md{}",
                         printable(model_type), known.size(),
                         nearest_text("; the nearest name is '{}'", model_type, known)));
}

RecognisedFamily named_family(const ConfigText& config) {
  const ConfigReader reader(config.text, config.where);
  const std::string model_type = reader.text("model_type");
  if (const Composite* composite = find_composite(model_type)) return text_part(*composite, config);
  const auto named = [&](const Family& family) { return family.model_type == model_type; };
  if (reader.holds_object(kTextGroup) && std::ranges::none_of(all_families(), named)) {
    refuse_if_lacking(model_type, reader.where("model_type"));
    std::vector<std::string_view> known;
    for (const Composite& composite : all_composites()) known.push_back(composite.model_type);
    throw ConfigError(
        reader.where("model_type"),
        fmt::format("checkpoints of type '{}' hold several models and are not supported; expected one of "
                    "[{}], whose text part is read; save the text part as a model of its own",
                    printable(model_type), fmt::join(known, ", ")));
  }
  return {family_of(model_type, config.where), config};
}

std::optional<RecognisedFamily> recognise_family(const CheckpointTraits& seen) {
  const ConfigReader config(seen.config, seen.config_where);
  if (config.has("model_type")) {
    RecognisedFamily named = named_family({seen.config, seen.config_where});
    auto completed = named.family.recognise == nullptr ? std::nullopt : named.family.recognise(seen);
    if (completed) named.config = std::move(*completed);
    return named;
  }
  for (const Family& family : all_families()) {
    if (family.recognise == nullptr) continue;
    if (auto found = family.recognise(seen)) return RecognisedFamily{family, std::move(*found)};
  }
  return std::nullopt;
}

void refuse_unnamed_family(std::string_view config_where) {
  std::vector<std::string> otherwise;
  for (const Family& family : all_families()) {
    if (family.recognise == nullptr) continue;
    otherwise.push_back(fmt::format("{} ({})", family.recognised_by, family.model_type));
  }
  throw ConfigError(
      fmt::format("{}: model_type", config_where),
      fmt::format("missing; expected the name of a family, or a checkpoint that is known without "
                  "it by {}; got neither",
                  fmt::join(otherwise, ", or by ")));
}

}  // namespace hooked
