// Adapters load merged into their base model: the logits equal PEFT's.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/describe.h"
#include "tests/support/golden_folder.h"
#include "tests/support/goldens.h"

namespace hooked::adapter_golden_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(HOOKED_SOURCE_DIR) / "tests/golden/adapters";

std::vector<std::string> adapters() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class AdapterGoldens : public testing::TestWithParam<std::string> {
 protected:
  /// The adapter, in a place where its base model can be found.
  static std::string folder() { return golden_folder("adapters/" + GetParam()).string(); }

  const GoldenCase& base() const {
    std::ifstream file(kFolder / GetParam() / "adapter_config.json", std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const fs::path base = parse_json(text, {})["base_model_name_or_path"].get<std::string>();
    return golden_case(base.filename().string());
  }

  static HookedTransformer load_raw(const std::string& folder) {
    return HookedTransformer::load(folder, {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  }

  at::Tensor logits(const HookedTransformer& model) const {
    const GoldenRun run = read_golden(base());
    if (!run.decoder_tokens.defined()) return model.run(run.tokens).logits();
    return model.run({run.tokens, {.decoder = {.tokens = run.decoder_tokens}}}).logits();
  }

  at::Tensor expected() const {
    return read_tensors(kFolder / GetParam() / "expected.safetensors").at("logits");
  }

  static double largest(const at::Tensor& difference) { return difference.abs().max().item<double>(); }
};

TEST_P(AdapterGoldens, LogitsAreThoseOfPeft) {
  const auto model = load_raw(folder());
  EXPECT_LT(largest(logits(model) - expected()), 1e-10);
  EXPECT_GT(largest(logits(load_raw(base().folder().string())) - expected()), 1e-2) << "the base model's";
  const auto merged = [](const std::string& note) {
    return note.find("was merged into it") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(model.notes(), merged), 1);
}

TEST_P(AdapterGoldens, ProcessingKeepsWhatIsMerged) {
  const auto model = HookedTransformer::load(folder(), {.dtype = at::kDouble});
  EXPECT_LT(largest(logits(model).log_softmax(-1) - expected().log_softmax(-1)), 1e-10);
}

TEST_P(AdapterGoldens, OtherDtypesAndThreadsGiveTheSame) {
  const auto one = HookedTransformer::load(folder(), {.processing = WeightProcessing::none(), .threads = 1});
  const auto two = HookedTransformer::load(folder(), {.processing = WeightProcessing::none(), .threads = 2});
  const StateDict weights = one.state_dict();
  for (const auto& [name, values] : two.state_dict()) EXPECT_TRUE(values.equal(weights.at(name))) << name;
  EXPECT_LT(largest(logits(one) - expected()), 1e-4);
}

TEST_P(AdapterGoldens, DescribingSaysWhatLoadingDoes) {
  const ModelDescription said = describe(folder());
  const auto model = HookedTransformer::load(folder(), {.processing = WeightProcessing::none()});
  EXPECT_EQ(said.notes, model.notes());
  EXPECT_EQ(said.parameters, model.config().parameter_count());
  ASSERT_TRUE(said.adapter);
  EXPECT_GT(said.adapter->tensors, 0);
  EXPECT_EQ(outline(folder()).family, said.family);
  EXPECT_EQ(named_model_type(folder()).empty(), false);
  EXPECT_EQ(read_model_config(folder()).n_layers, model.config().n_layers);
}

INSTANTIATE_TEST_SUITE_P(Recorded, AdapterGoldens, testing::ValuesIn(adapters()),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace hooked::adapter_golden_test
