#include "tests/support/family_goldens.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "hooked/io/safetensors.h"

namespace hooked {
namespace {

std::filesystem::path root() { return std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/families"; }

}  // namespace

std::filesystem::path FamilyGolden::folder() const { return root() / name; }

const std::vector<FamilyGolden>& family_goldens() {
  static const std::vector<FamilyGolden> goldens = [] {
    std::vector<FamilyGolden> list;
    const auto index = nlohmann::json::parse(std::ifstream(root() / "index.json"));
    for (const auto& [name, row] : index.items()) {
      list.push_back({name, row.at("model_type"), row.at("oracle"), row.at("compared")});
    }
    return list;
  }();
  return goldens;
}

FamilyRun read_family_golden(const FamilyGolden& golden) {
  const SafetensorsFile file = SafetensorsFile::open(golden.folder() / "golden.safetensors");
  FamilyRun run;
  for (const TensorInfo& info : file.tensors()) {
    const at::Tensor tensor = file.read(info.name);
    if (info.name == "tokens") {
      run.tokens = tensor;
    } else if (info.name == "token_type_ids") {
      run.token_types = tensor;
    } else if (info.name == "attention_mask") {
      run.attention_mask = tensor;
    } else if (info.name == "decoder_tokens") {
      run.decoder_tokens = tensor;
    } else if (info.name == "decoder_attention_mask") {
      continue;  // all of them are real
    } else if (info.name == "logits") {
      run.logits = tensor;
    } else if (info.name == "greedy") {
      run.greedy = tensor;
    } else {
      run.activations.emplace(info.name, tensor);
    }
  }
  return run;
}

void PrintTo(const FamilyGolden& golden, std::ostream* out) { *out << golden.name; }

}  // namespace hooked
