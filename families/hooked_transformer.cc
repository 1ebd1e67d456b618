// The native folder: TransformerLens's config fields and state-dict names.
#include "families/family.h"
#include "families/shared/native_config.h"
#include "families/shared/native_layout.h"

namespace hooked {
namespace families::hooked_transformer {
namespace {

FamilyConfig read(const ConfigText& file) {
  NativeConfig parsed = read_native_config(file.text, file.where);
  std::vector<std::string> notes;
  if (parsed.processing_recorded) {
    notes.emplace_back(
        "config.json records how the weights were processed (hooked.processing): unless steps are asked for, "
        "they are loaded as they were saved");
  }
  return {.config = std::move(parsed.config),
          .recipes = native_recipes,
          .notes = std::move(notes),
          .ignored_keys = std::move(parsed.ignored_keys),
          .processing_recorded = parsed.processing_recorded,
          .padding_token = parsed.padding_token};
}

}  // namespace

extern const Family kHookedTransformer{
    .model_type = "hooked_transformer", .buffers = kNativeBuffers, .read_all = read};

}  // namespace families::hooked_transformer

}  // namespace hooked
