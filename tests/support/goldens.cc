#include "tests/support/goldens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "families/shared/native_config.h"
#include "hooked/io/safetensors.h"
#include "tests/support/golden_folder.h"

namespace hooked {
namespace {

std::filesystem::path golden_root() { return std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden"; }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<GoldenCase> read_index() {
  const auto index = nlohmann::json::parse(read_text(golden_root() / "index.json"));
  std::vector<GoldenCase> cases;
  for (const auto& row : index.at("cases")) {
    GoldenCase golden;
    golden.name = row.at("case");
    golden.family = row.at("family");
    golden.oracle = row.at("oracle");
    if (row.contains("processing")) golden.processing = row.at("processing");
    for (const std::string kind : row.at("exceptions")) {
      const auto& exception = index.at("exceptions").at(kind);
      for (const std::string glob : exception.at("points")) golden.exceptions[glob] = exception.at("why");
    }
    if (row.contains("gradients")) {
      const auto& metric = row.at("gradients");
      golden.gradients =
          GoldenMetric{metric.at("answer"), metric.at("against"), metric.at("row"), metric.at("position")};
    }
    cases.push_back(std::move(golden));
  }
  return cases;
}

at::Tensor taken(RecordedTensors& from, const std::string& name) {
  const auto found = from.extract(name);
  return found.empty() ? at::Tensor() : found.mapped().tensor();
}

}  // namespace

std::filesystem::path GoldenCase::folder() const {
  return golden_folder(std::filesystem::path("cases") / name);
}

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> cases = read_index();
  return cases;
}

const GoldenCase& golden_case(const std::string& name) {
  const auto found = std::ranges::find(golden_cases(), name, &GoldenCase::name);
  if (found == golden_cases().end()) throw std::out_of_range("no golden case " + name);
  return *found;
}

std::optional<std::int64_t> padding_token(const GoldenCase& golden) {
  static const std::set<std::string> counted = {"roberta",   "roberta-prelayernorm", "xlm-roberta",
                                                "camembert", "data2vec-text",        "m2m_100"};
  if (!counted.contains(golden.family)) return std::nullopt;
  return nlohmann::json::parse(read_text(golden.folder() / "config.json"))
      .value("pad_token_id", std::int64_t{1});
}

at::Tensor with_padding_of(const GoldenCase& golden, const at::Tensor& recorded, const at::Tensor& made) {
  const std::optional<std::int64_t> padding = padding_token(golden);
  if (!padding || !made.defined()) return made;
  return made.masked_fill(made.eq(*padding), *padding + 1).masked_fill(recorded.eq(*padding), *padding);
}

GoldenRun read_golden(const GoldenCase& golden, const std::string& file) {
  const auto folder = golden_root() / "cases" / golden.name;
  RecordedTensors recorded = read_recorded(folder / "golden.safetensors");
  GoldenRun run{.tokens = taken(recorded, "tokens"),
                .attention_mask = taken(recorded, "attention_mask"),
                .token_types = taken(recorded, "token_type_ids"),
                .decoder_tokens = taken(recorded, "decoder_tokens"),
                .greedy = taken(recorded, "greedy"),
                .outputs = {}};
  taken(recorded, "decoder_attention_mask");  // every token of a decoder is real
  if (file == "golden") {
    run.outputs = std::move(recorded);
  } else {
    run.outputs = read_recorded(folder / (file + ".safetensors"));
    for (const char* input : {"tokens", "attention_mask", "token_type_ids"}) run.outputs.erase(input);
  }
  return run;
}

NamedTensors read_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.read(info.name);
  return tensors;
}

ModelConfig native_config(const GoldenCase& golden) {
  const auto path = golden.folder() / "config.json";
  return read_native_config(read_text(path), path.string()).config;
}

StateDict native_weights(const GoldenCase& golden) {
  StateDict weights = read_tensors(golden.folder() / "model.safetensors");
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
