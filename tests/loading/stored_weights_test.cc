// Quantised weights that stay as they are stored: which tensors' codes become which matrices, and models that
// compute with them as expanded ones do.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include "families/shared/native_layout.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/source_tensor.h"
#include "loading/config/open_checkpoint.h"
#include "loading/fill/loaded_model.h"
#include "loading/fill/recipe_reader.h"
#include "loading/fill/streamed_model.h"
#include "loading/gguf/gguf_source.h"
#include "loading/load/identify.h"
#include "loading/plan/plan_weights.h"
#include "loading/storage/quantised_source.h"
#include "models/storage/matrix_parts.h"
#include "tests/support/coded_rows.h"
#include "tests/support/goldens.h"
#include "tests/support/random_config.h"
#include "tests/support/relative_difference.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/thrown_by.h"
#include "tests/support/tiny_model.h"

namespace hooked::stored_weights_test {
namespace {

const std::filesystem::path kGgufFolder = HOOKED_SOURCE_DIR "/tests/golden/gguf";

// Every tensor as codes: a block is one number, which is its factor.
void store_as_codes(SourceTensors& source) {
  for (auto& [name, tensor] : source) {
    if (!tensor.read_elements || !at::isFloatingType(tensor.dtype)) continue;
    tensor.codes = SourceCodes{
        {.bits = 8, .group = 1, .block = 1}, [tensor](std::int64_t first, std::span<CodedBlock> into) {
          const at::Tensor run = at::empty({static_cast<std::int64_t>(into.size())}, tensor.dtype);
          tensor.read_elements(first, run);
          const at::Tensor numbers = run.to(at::kFloat);
          for (std::size_t i = 0; i < into.size(); ++i) {
            into[i].codes[0] = 1;
            into[i].factor = numbers.const_data_ptr<float>()[i];
          }
        }};
  }
}

/// The matrices of a model, and how many get their codes.
struct Coded {
  int coded = 0, matrices = 0;
};

// Each must be the numbers that it gets expanded. Weights that are not quantised are made codes.
Coded coded_matrices(const std::filesystem::path& place, const LoadOptions& raw) {
  IdentifiedModel identified = identify(place);
  const CheckpointReader reader = open_checkpoint(place);
  SourceTensors source = source_tensors(reader);
  if (reader.gguf() == nullptr) read_storage_file(place, source, identified);
  if (identified.read.storage) {
    read_quantised(source, *identified.read.storage, identified.family);
  } else {
    store_as_codes(source);
  }
  if (reader.gguf() != nullptr) read_gguf_tensors(source, gguf_architecture(reader), identified.read.config);
  const WeightPlan plan = plan_weights(source, identified.family, identified.read);
  RecipeReader numbers(source, plan.recipes);
  const LoadedModel empty(plan.config, c10::Device(at::kCPU), Storage::codes);
  const StateDict expanded = HookedTransformer::load(place.string(), raw).state_dict();
  Coded found;
  for (const WeightSlot& slot : empty.slots()) {
    const CodedSlot* const matrix = slot.view.coded();
    if (matrix == nullptr) continue;
    ++found.matrices;
    const auto outputs_first = [&](const at::Tensor& tensor) { return matrix->outputs_first(tensor); };
    const auto rows = numbers.find_codes(slot.name, outputs_first);
    if (!rows) continue;
    ++found.coded;
    const at::Tensor wanted = outputs_first(expanded.at(slot.name)).reshape({rows->out, rows->in});
    const auto held = rows->hold ? rows->hold() : nullptr;
    const at::Tensor got = numbers_of(*rows);
    EXPECT_TRUE(at::equal(got.to(wanted.scalar_type()), wanted)) << slot.name;
  }
  return found;
}

const LoadOptions kRaw = {.dtype = at::kFloat, .processing = WeightProcessing::none()};

TEST(CodedRows, AreThoseOfEveryGgufLayout) {
  for (const auto& file : std::filesystem::directory_iterator(kGgufFolder)) {
    if (file.path().extension() != ".gguf" || file.path().stem() == "blocks" ||
        file.path().stem() == "sentencepiece")
      continue;
    SCOPED_TRACE(file.path().stem().string());
    const Coded found = coded_matrices(file.path(), kRaw);
    EXPECT_GE(found.matrices, 4);
    EXPECT_EQ(found.coded, found.matrices);
  }
}

TEST(CodedRows, AreThoseOfEveryFamily) {
  std::set<std::string> met;
  for (const GoldenCase& golden : golden_cases()) {
    if (!std::filesystem::exists(golden.folder() / "model.safetensors")) continue;
    SCOPED_TRACE(golden.name);
    const Coded found = coded_matrices(golden.folder(), kRaw);
    if (found.coded > 0) met.insert(golden.name);
  }
  EXPECT_GE(met.size(), golden_cases().size() / 2);
}

/// A model twice: with numbers, and with the same numbers in codes.
struct Twice {
  HookedTransformer expanded, stored;
  int coded;  ///< matrices
};

std::shared_ptr<LoadedModel> filled(const SourceTensors& source, const ModelConfig& config, Storage storage) {
  RecipeReader reader(source, native_recipes(config));
  return streamed_model(reader, config, {at::kCPU}, WeightProcessing::none(), storage, nullptr);
}

// The matrices whose rows are whole blocks of a form that the seed chooses are in codes.
Twice twice(const ModelConfig& config, std::uint32_t seed) {
  std::mt19937 random(seed);
  SourceTensors source = source_tensors(random_weights(config, seed));
  const LoadedModel empty(config, c10::Device(at::kCPU), Storage::codes);
  const auto forms = coded_forms();
  int coded = 0;
  for (const WeightSlot& slot : empty.slots()) {
    const CodedSlot* const matrix = slot.view.coded();
    if (matrix == nullptr) continue;
    // The numbers in the order of the rows, and where the elements of the weight are among them.
    std::int64_t all = 1;
    for (const std::int64_t size : slot.view.sizes()) all *= size;
    const at::Tensor order = matrix->outputs_first(at::arange(all).view(slot.view.sizes()));
    const std::int64_t in = order.size(2) * order.size(3), out = all / in;
    const CodedForm form = forms[random() % forms.size()].form;
    if (in % form.block != 0) continue;
    const at::Tensor places = at::empty({all}, at::kLong);
    places.index_copy_(0, order.flatten(), at::arange(all));
    std::vector<std::int64_t> strides(slot.view.sizes().size());
    std::int64_t step = all;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      step /= slot.view.sizes()[d];
      strides[d] = slot.view.sizes()[d] == 1 ? 1 : places[step].item<std::int64_t>();
    }
    const auto blocks = std::make_shared<const std::vector<CodedBlock>>(random_blocks(form, out, in, random));
    const at::Tensor numbers = (numbers_of(form, *blocks, out)).flatten();
    const at::Tensor weight = numbers.as_strided(slot.view.sizes(), strides);
    source[slot.name] = {.shape = slot.view.sizes(),
                         .dtype = at::kFloat,
                         .dtype_name = "codes",
                         .where = "test",
                         .read = [weight] { return weight; },
                         .read_elements =
                             [numbers](std::int64_t first, const at::Tensor& into) {
                               into.copy_(numbers.narrow(0, first, into.numel()).view(into.sizes()));
                             },
                         .strides = strides,
                         .codes = SourceCodes{form, [blocks](std::int64_t first, std::span<CodedBlock> into) {
                                                std::copy_n(blocks->begin() + first, into.size(),
                                                            into.begin());
                                              }}};
    ++coded;
  }
  return {HookedTransformer(filled(source, config, Storage::fastest)),
          HookedTransformer(filled(source, config, Storage::codes)), coded};
}

at::Tensor tokens_for(const ModelConfig& config) {
  return at::arange(10).remainder(config.d_vocab).view({2, 5});
}

void expect_same(const Twice& models, double tolerance) {
  const auto& [expanded, stored, coded] = models;
  const auto weights = expanded.state_dict(), in_codes = stored.state_dict();
  ASSERT_EQ(weights.size(), in_codes.size());
  for (const auto& [name, tensor] : weights) ASSERT_TRUE(at::equal(tensor, in_codes.at(name))) << name;
  const at::Tensor tokens = tokens_for(expanded.config());
  const auto run = stored.run_with_cache(tokens), wanted = expanded.run_with_cache(tokens);
  ASSERT_EQ(run.cache.names(), wanted.cache.names());
  for (const ActivationName& name : run.cache.names())
    EXPECT_LE(relative_difference(run.cache[name], wanted.cache[name]), tolerance) << name.to_string();
  if (wanted.logits().defined()) {
    EXPECT_LE(relative_difference(run.logits(), wanted.logits()), tolerance);
  }
}

// Random models of every architecture, in float64: then products with codes are as exact as those with
// numbers.
TEST(StoredWeights, ComputeWhatExpandedOnesDoInEveryArchitecture) {
  int models = 0, matrices = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_config(seed);
    config.d_model = 64;
    config.d_mlp = 96;
    config.dtype = at::kDouble;
    try {
      config.validate();
    } catch (const ConfigError&) {
      continue;
    }
    const Twice models_of_seed = twice(config, seed);
    matrices += models_of_seed.coded;
    models += models_of_seed.coded > 0 ? 1 : 0;
    expect_same(models_of_seed, 1e-10);
  }
  EXPECT_GE(models, 40);
  EXPECT_GE(matrices, 300);
}

ModelConfig wide_config(at::ScalarType dtype) {
  ModelConfig config = small_config();
  config.d_model = 256;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 64;
  config.d_mlp = 512;
  config.d_vocab = 300;
  config.n_ctx = 16;
  config.unembedding = Unembedding{.d_vocab = config.d_vocab};
  config.dtype = dtype;
  return config;
}

// Folders whose weights are quantised: in codes as expanded.
TEST(StoredWeights, ComputeWhatExpandedOnesDoInFolders) {
  for (const char* const name : {"llama_nf4", "llama_fp8_rows", "gpt_oss_mxfp4"}) {
    SCOPED_TRACE(name);
    const auto golden = std::ranges::find(golden_cases(), name, &GoldenCase::name);
    ASSERT_NE(golden, golden_cases().end());
    const std::string place = golden->folder().string();
    const auto stored =
                   HookedTransformer::load(place, {.dtype = at::kFloat, .weights = WeightStorage::stored}),
               expanded = HookedTransformer::load(place, kRaw);
    EXPECT_EQ(stored.weight_storage(), WeightStorage::stored);
    const at::Tensor tokens = tokens_for(expanded.config());
    EXPECT_LE(relative_difference(stored.run(tokens).logits(), expanded.run(tokens).logits()), 1e-5);
    for (const auto& [key, tensor] : expanded.state_dict())
      EXPECT_TRUE(at::equal(tensor, stored.state_dict().at(key))) << key;
  }
}

TEST(StoredWeights, KeepTheRestOfTheEngine) {
  const Twice models = twice(wide_config(at::kFloat), 5);
  ASSERT_GE(models.coded, 8);
  expect_same(models, 1e-4);
  const at::Tensor tokens = tokens_for(models.stored.config());
  // Generation, per-head results, gradients, edits.
  const GenerateOptions greedy{.max_new_tokens = 6, .sampling = {.greedy = true}};
  EXPECT_TRUE(at::equal(models.stored.generate(tokens, greedy).tokens,
                        models.expanded.generate(tokens, greedy).tokens));
  const RunOptions edited{.edits = {zero(act::z(1).head(1))}};
  EXPECT_LE(relative_difference(models.stored.run(tokens, edited).logits(),
                                models.expanded.run(tokens, edited).logits()),
            1e-4);
  const auto asked = [&](const HookedTransformer& model) {
    return model
        .run(tokens, {.logit_positions = std::vector<std::int64_t>{-1},
                      .logit_tokens = std::vector<std::int64_t>{7, 0}})
        .logits();
  };
  EXPECT_LE(relative_difference(asked(models.stored), asked(models.expanded)), 1e-4);
  // A model of numbers is saved.
  const TempFolder folder;
  models.stored.save(folder / "saved");
  const auto back = HookedTransformer::load((folder / "saved").string());
  EXPECT_TRUE(at::equal(back.run(tokens).logits(), models.expanded.run(tokens).logits()));
  models.stored.save(folder / "packed", {.packed = true});
  const auto packed = HookedTransformer::load((folder / "packed").string());
  EXPECT_TRUE(at::equal(packed.run(tokens).logits(), models.expanded.run(tokens).logits()));
  // Biases that the model lacks are zeros where its weights are.
  EXPECT_EQ(models.stored.weights().b_U().sizes(), models.expanded.weights().b_U().sizes());
  EXPECT_TRUE(at::equal(models.stored.weights().W_O(0), models.expanded.weights().W_O(0)));
}

// Against the stored numbers in float64: the geometric mean of several models' errors, as a single one is a
// matter of luck.
TEST(StoredWeights, AreAsGoodInEveryDtype) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    double log_ratio = 0.0;
    constexpr std::uint32_t kModels = 12;
    for (std::uint32_t seed = 0; seed < kModels; ++seed) {
      const Twice models = twice(wide_config(dtype), seed), exact = twice(wide_config(at::kDouble), seed);
      const at::Tensor tokens = tokens_for(models.stored.config()),
                       wanted = exact.expanded.run(tokens).logits();
      const auto error = [&](const HookedTransformer& model) {
        return (model.run(tokens).logits().to(at::kDouble) - wanted).norm().item<double>() /
               wanted.norm().item<double>();
      };
      log_ratio += std::log(error(models.stored) / error(models.expanded)) / kModels;
    }
    EXPECT_LE(std::exp(log_ratio), 1.1) << toString(dtype);
  }
}

const std::string kQuantised = (kGgufFolder / "quantised.gguf").string();

TEST(StoredWeights, OfAFileThatMixesFormats) {
  const auto expanded = HookedTransformer::load(kQuantised, {.processing = WeightProcessing::none()});
  const auto stored = HookedTransformer::load(kQuantised, {.weights = WeightStorage::stored});
  expect_same({expanded, stored, 1}, 1e-4);
  for (const StepReport& step : stored.processing())
    EXPECT_TRUE(step.outcome == "not requested" || step.outcome == "the weights stay as they are stored")
        << step.outcome;
}

TEST(StoredWeights, AreRefusedWithProcessingThatWasAskedFor) {
  const LoadOptions folded = {.processing = WeightProcessing::only({ProcessingStep::fold_ln}),
                              .weights = WeightStorage::stored};
  EXPECT_TRUE(
      throws<ConfigError>([&] { HookedTransformer::load(kQuantised, folded); }, "weights",
                          {"cannot stay as they are stored", "got fold_ln", "load the weights expanded"}));
}

TEST(StoredWeights, AreRefusedWhereThereAreNone) {
  const LoadOptions stored = {.weights = WeightStorage::stored};
  const std::string plain = (kGgufFolder / "llama.gguf").string();
  EXPECT_TRUE(
      throws<ConfigError>([&] { HookedTransformer::load(plain, stored); }, "weights", {"files without any"}));
  EXPECT_TRUE(throws<ConfigError>([&] { describe(plain, stored); }, "weights", {"files without any"}));
  const LoadOptions on_gpu = {.device = "cuda", .weights = WeightStorage::stored};
  EXPECT_TRUE(throws<ConfigError>([&] { HookedTransformer::load(kQuantised, on_gpu); }, "weights",
                                  {"on the CPU only"}));
  const ModelConfig config = small_config();
  EXPECT_TRUE(throws<ConfigError>(
      [&] { HookedTransformer::from_state_dict(random_weights(config, 1), config, stored); }, "weights",
      {"files without any"}));
}

TEST(StoredWeights, AreDescribed) {
  const ModelDescription expanded = describe(kQuantised),
                         stored = describe(kQuantised, {.weights = WeightStorage::stored});
  EXPECT_LT(stored.bytes, expanded.bytes / 3);
  EXPECT_EQ(expanded.processing.front().outcome, "applied");
  EXPECT_EQ(stored.processing.front().outcome, "the weights stay as they are stored");
  EXPECT_EQ(expanded.weights, WeightStorage::expanded);
  EXPECT_EQ(stored.weights, WeightStorage::stored);
  const auto model = HookedTransformer::load(kQuantised, {.weights = WeightStorage::stored});
  EXPECT_EQ(model.weight_storage(), WeightStorage::stored);
  EXPECT_EQ(HookedTransformer::load(kQuantised).weight_storage(), WeightStorage::expanded);
  // What is said before and after loading is the same.
  const auto kept = [](const std::vector<std::string>& notes) {
    const auto found = std::ranges::find_if(notes, [](const std::string& note) {
      return note.find("matrices stay in codes") != std::string::npos;
    });
    return found == notes.end() ? std::string() : *found;
  };
  EXPECT_NE(kept(stored.notes), "");
  EXPECT_EQ(kept(stored.notes), kept(model.notes()));
  EXPECT_EQ(kept(expanded.notes), "");
}

}  // namespace
}  // namespace hooked::stored_weights_test
