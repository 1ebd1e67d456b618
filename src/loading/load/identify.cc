#include "loading/load/identify.h"

#include <fmt/format.h>

#include <exception>
#include <system_error>
#include <utility>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/model_folder.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/source_tensor.h"
#include "io/files/hub_name.h"
#include "loading/adapter/adapter.h"
#include "loading/gguf/gguf_architectures.h"
#include "loading/gguf/gguf_model.h"
#include "loading/plan/plan_weights.h"
#include "loading/plan/score_head.h"

namespace hooked {
namespace {

CheckpointTraits traits_of(const CheckpointReader& reader, std::string config, std::string config_where) {
  CheckpointTraits seen;
  seen.config = std::move(config);
  seen.config_where = std::move(config_where);
  seen.values = reader.values();
  for (const std::string& name : reader.names()) seen.shapes.emplace(name, reader.info(name).shape);
  if (!reader.names().empty()) seen.weights_where = reader.file_of(reader.names().front()).string();
  return seen;
}

// For all models except GGUF files.
IdentifiedModel identify_folder(const std::filesystem::path& model) {
  const auto file = folder_of_model(model) / "config.json";
  const std::string where = file.string();
  std::error_code ignored;
  const bool has_config =
      std::filesystem::symlink_status(file, ignored).type() != std::filesystem::file_type::not_found;
  const std::string text = has_config ? read_text_file(file, kModelConfigBytes) : "{}";
  const ConfigReader config(text, where);
  if (config.has("model_type")) {
    const RecognisedFamily named = named_family({text, where});
    if (named.family.recognise == nullptr) {
      return {
          named.family, read_family_config(named.family, named.config), {text, where, named.config.group}};
    }
  }
  const CheckpointReader reader = open_checkpoint(model);
  const auto found = recognise_family(traits_of(reader, text, where));
  if (!found) {
    if (!has_config) {
      throw IoError(where, fmt::format("the file does not exist; expected the model's config; fetch it {}",
                                       how_to_fetch(folder_of_model(model))));
    }
    refuse_unnamed_family(where);
  }
  return {found->family, read_family_config(found->family, found->config), {text, where}};
}

}  // namespace

IdentifiedModel identify(const std::filesystem::path& model, MissingShards when_missing) {
  if (is_gguf_file(model)) return identify_gguf(open_checkpoint(model, when_missing));
  IdentifiedModel identified = identify_folder(model);
  ModelConfig& config = identified.read.config;
  identified.generation = read_generation_config(folder_of_model(model), identified.config, config.d_vocab);
  // In transformers, this precedes what config.json says.
  if (config.encoder && identified.generation.decoder_start_token) {
    config.encoder->decoder_start_token = identified.generation.decoder_start_token;
  }
  return identified;
}

std::string named_model_type(std::string_view id) try {
  const auto place = base_of(locate_model(id));
  if (is_gguf_file(place)) {
    const CheckpointReader reader = open_checkpoint(place, MissingShards::left_out);
    return printable(gguf_architecture_name(reader).value_or(""));
  }
  const Json config =
      parse_python_json(read_text_file(folder_of_model(place) / "config.json", kModelConfigBytes),
                        {.bytes = kModelConfigBytes});
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? printable(type->get<std::string>()) : std::string();
} catch (const std::exception&) {  // the reader of models reports what is wrong with it
  return {};
}

ModelConfig read_model_config(std::string_view id) {
  const auto place = base_of(locate_model(id));
  IdentifiedModel identified = identify(place);
  if (is_gguf_file(place)) return identified.read.config;
  try {
    const CheckpointReader reader = open_checkpoint(place);
    const SourceTensors source = source_tensors(reader);
    resolve_optional_part(source, identified.family, identified.read);
    resolve_head(source, identified.family, identified.read);
  } catch (const CheckpointError&) {  // no readable weights: the config is all there is
  }
  return identified.read.config;
}

}  // namespace hooked
