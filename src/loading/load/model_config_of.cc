// What config.json says of a model, without its weights.
#include <exception>
#include <string>
#include <string_view>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/model_folder.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/source_tensor.h"
#include "loading/adapter/adapter.h"
#include "loading/load/identify.h"
#include "loading/plan/plan_weights.h"
#include "loading/plan/score_head.h"

namespace hooked {

std::string named_model_type(std::string_view id) try {
  const Json config = parse_python_json(
      read_text_file(folder_of_model(base_of(locate_model(id))) / "config.json", kModelConfigBytes),
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
