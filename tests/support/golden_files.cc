#include "tests/support/golden_files.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "hooked/io/safetensors.h"

namespace hooked {
namespace {

std::filesystem::path golden_root() {
  return std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/files";
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::map<std::string, at::Tensor> read_all(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::map<std::string, at::Tensor> tensors;
  for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.read(info.name);
  return tensors;
}

std::vector<GoldenCase> read_index() {
  std::vector<GoldenCase> cases;
  for (const auto& row : nlohmann::json::parse(read_text(golden_root() / "index.json"))) {
    GoldenCase golden;
    golden.name = row.at("case");
    golden.oracle = row.at("oracle");
    golden.processed = row.at("processed");
    golden.processing = row.value("processing", std::vector<std::string>());
    golden.exceptions = row.at("exceptions").get<std::map<std::string, std::string>>();
    if (row.contains("gradients")) {
      const auto& metric = row.at("gradients");
      golden.gradients =
          GoldenMetric{metric.at("answer"), metric.at("against"), metric.at("row"), metric.at("position")};
    }
    cases.push_back(std::move(golden));
  }
  return cases;
}

}  // namespace

std::filesystem::path GoldenCase::folder() const { return golden_root() / name; }

bool GoldenCase::native() const {
  return nlohmann::json::parse(read_text(folder() / "config.json")).value("model_type", "") ==
         "hooked_transformer";
}

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> cases = read_index();
  return cases;
}

GoldenRun read_golden(const GoldenCase& golden, const std::string& file) {
  GoldenRun run;
  std::map<std::string, at::Tensor> inputs = read_all(golden.folder() / "golden.safetensors");
  run.tokens = inputs.at("tokens");
  if (inputs.contains("attention_mask")) run.attention_mask = inputs.at("attention_mask");
  if (inputs.contains("token_type_ids")) run.token_types = inputs.at("token_type_ids");
  run.outputs = file == "golden" ? std::move(inputs) : read_all(golden.folder() / (file + ".safetensors"));
  run.outputs.erase("tokens");
  run.outputs.erase("attention_mask");
  run.outputs.erase("token_type_ids");
  return run;
}

ModelConfig native_config(const GoldenCase& golden) {
  const auto path = golden.folder() / "config.json";
  return ModelConfig::from_json(read_text(path), path.string()).config;
}

StateDict native_weights(const GoldenCase& golden) {
  StateDict weights = read_all(golden.folder() / "model.safetensors");
  if (native_config(golden).grouped_query()) return weights;
  // TransformerLens writes `_W_K` as soon as n_key_value_heads is set, even where it equals n_heads.
  StateDict plain;
  for (const auto& [name, weight] : weights) {
    const auto grouped = name.find("attn._");
    plain[grouped == std::string::npos ? name : name.substr(0, grouped + 5) + name.substr(grouped + 6)] =
        weight;
  }
  return plain;
}

std::string golden_test_name(const testing::TestParamInfo<GoldenCase>& info) { return info.param.name; }

void PrintTo(const GoldenCase& golden, std::ostream* out) {
  *out << golden.name << " (" << golden.oracle << ")";
}

}  // namespace hooked
