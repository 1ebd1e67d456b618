// The libFuzzer targets: the environment variable HOOKED_FUZZ_TARGET names the property that gets the bytes.
// Built and run by scripts/fuzz.sh; ordinary tests run the same properties over corpora in every test run.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/chat_template_property.h"
#include "tests/fuzz/circuit_property.h"
#include "tests/fuzz/dictionary_property.h"
#include "tests/fuzz/encode_property.h"
#include "tests/fuzz/gguf_model_property.h"
#include "tests/fuzz/gguf_property.h"
#include "tests/fuzz/gguf_tokenizer_property.h"
#include "tests/fuzz/graph_property.h"
#include "tests/fuzz/grid_property.h"
#include "tests/fuzz/lens_maps_property.h"
#include "tests/fuzz/manifest_property.h"
#include "tests/fuzz/names_property.h"
#include "tests/fuzz/packed_property.h"
#include "tests/fuzz/probe_property.h"
#include "tests/fuzz/prompt_pairs_property.h"
#include "tests/fuzz/safetensors_property.h"
#include "tests/fuzz/tokenizer_files_property.h"
#include "tests/fuzz/tokenizer_json_property.h"
#include "tests/fuzz/zip_checkpoint_property.h"

namespace {

using Property = bool (*)(std::string_view);

struct Target {
  const char* name;
  Property property;
};

constexpr Target kTargets[] = {{"chat_template", hooked::chat_template_property},
                               {"circuit", hooked::circuit_property},
                               {"dictionary", hooked::dictionary_property},
                               {"encode", hooked::encode_property},
                               {"gguf", hooked::gguf_property},
                               {"gguf_model", hooked::gguf_model_property},
                               {"gguf_tokenizer", hooked::gguf_tokenizer_property},
                               {"graph", hooked::graph_property},
                               {"grid", hooked::grid_property},
                               {"lens_maps", hooked::lens_maps_property},
                               {"manifest", hooked::manifest_property},
                               {"names", hooked::names_property},
                               {"packed", hooked::packed_property},
                               {"probe", hooked::probe_property},
                               {"prompt_pairs", hooked::prompt_pairs_property},
                               {"safetensors", hooked::safetensors_property},
                               {"tokenizer_files", hooked::tokenizer_files_property},
                               {"tokenizer_json", hooked::tokenizer_json_property},
                               {"zip_checkpoint", hooked::zip_checkpoint_property}};

Property chosen_property = nullptr;

}  // namespace

/// Without a name, or with another one, lists the targets.
extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  const char* const name = std::getenv("HOOKED_FUZZ_TARGET");
  for (const Target& target : kTargets) {
    if (name != nullptr && std::string_view(name) == target.name) chosen_property = target.property;
  }
  if (chosen_property != nullptr) return 0;
  for (const Target& target : kTargets) std::puts(target.name);
  std::exit(name == nullptr ? 0 : 1);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  chosen_property({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
