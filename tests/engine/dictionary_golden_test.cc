// Spliced runs of SAELens 6.54 (HookedSAETransformer over TransformerLens 3.9) in float64: logits with and
// without the error term and with edits of features, and codes, of dictionaries at several places, of a raw
// model and of processed ones. tests/engine/makers/spliced_runs.py made them.
#include <fmt/format.h>

#include "core/json.h"
#include "hooked/dictionaries/dictionary.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::dictionary_golden_test {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr double kMost = 1e-9;

struct Golden {
  Tensors tensors;
  Json configs;  // of each dictionary, cfg.json as SAELens writes it
};

const Golden& golden() {
  static const Golden all = [] {
    const SafetensorsFile file = SafetensorsFile::open(std::string(HOOKED_SOURCE_DIR) +
                                                       "/tests/engine/golden/spliced_runs.safetensors");
    return Golden{.tensors = load_safetensors(file.path()),
                  .configs = Json::parse(file.metadata().at("cfg.json"))};
  }();
  return all;
}

const at::Tensor& wanted(const std::string& name) { return golden().tensors.at(name); }

// The tensors whose names begin so, by the rest of their names.
Tensors below(const std::string& prefix) {
  Tensors found;
  for (const auto& [name, value] : golden().tensors) {
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = value;
  }
  return found;
}

HookedTransformer model(const std::string& kind) {
  using enum ProcessingStep;
  const std::map<std::string, WeightProcessing> processing = {
      {"raw", WeightProcessing::none()},
      {"folded", WeightProcessing::only({fold_ln, center_unembed})},
      {"processed",
       WeightProcessing::only({fold_ln, center_writing_weights, center_unembed, fold_value_biases})}};
  const ModelConfig config = tiny_config(
      {.n_layers = 2, .d_model = 10, .n_ctx = 6, .n_heads = 3, .d_head = 5, .d_mlp = 11, .d_vocab = 9});
  return HookedTransformer::from_state_dict(below("model."), config,
                                            {.dtype = at::kDouble, .processing = processing.at(kind)});
}

// Read from a folder such as SAELens saves. Its metadata says to which model it was fitted: "raw" or
// "processed".
Dictionary dictionary(const std::string& fitted_to, const std::string& name) {
  const TempFolder folder;
  Tensors weights = below(name + ".");
  weights.erase("features");
  write_file(folder / "cfg.json", golden().configs.at(fitted_to + "." + name).dump());
  save_safetensors(folder / "sae_weights.safetensors", {weights.begin(), weights.end()});
  return Dictionary::load(folder.path().native());
}

// The changes of codes that the maker makes in hooks, each of features of its own.
std::vector<Edit> edits(const std::string& kind, const Dictionary& of, const std::string& name) {
  const Address codes = act::sae_acts_post(Address(of.config().output));
  const at::Tensor& features = wanted(name + ".features");
  const auto feature = [&](std::int64_t i) { return features[i].item<std::int64_t>(); };
  const std::map<std::string, std::vector<Edit>> table = {
      {"ablated", {zero(codes.feature(feature(0)))}},
      {"clamped", {set(codes.pos(2).feature(feature(1)), 2.5)}},
      {"moved", {scale(codes.row(1).feature(feature(2)), 3.0), add(codes.feature(feature(3)), 0.75)}}};
  if (kind != "edited") return table.at(kind);
  std::vector<Edit> all;
  for (const auto& [unused, some] : table) all.insert(all.end(), some.begin(), some.end());
  return all;
}

void expect_close(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  EXPECT_EQ(got.scalar_type(), at::kDouble) << what;
  EXPECT_LT(largest(got - expected), kMost) << what;
}

// Compares every recorded run of the dictionary in that model, and returns how many there are.
std::size_t compare_runs(const HookedTransformer& model, const std::string& kind, const Dictionary& of,
                         const std::string& name) {
  const at::Tensor& tokens = wanted("tokens");
  const std::string at = fmt::format("{}.{}.", kind, name);
  const HookedTransformer alone = model.with_dictionary(of);
  const HookedTransformer with_error = model.with_dictionary(of, {.with_error = true});
  // To the last bit, except that a norm whose output is read is computed in steps.
  const double most = of.config().input.ends_with("hook_normalized") ? 1e-12 : 0;
  EXPECT_LE(largest(with_error(tokens) - model(tokens)), most) << at;
  Tensors runs = below(at);
  runs.erase("codes");
  for (const auto& [run, logits] : runs) {  // `alone`, `ablated.alone`, `ablated.with_error`
    const bool error = run.ends_with("with_error");
    RunOptions options;
    if (const auto dot = run.find('.'); dot != std::string::npos)
      options.edits = edits(run.substr(0, dot), of, name);
    expect_close((error ? with_error : alone).run(tokens, options).logits(), logits, at + run);
  }
  return runs.size();
}

struct Fitted {
  const char* name;  // its architecture in SAELens
  // Whether what is fitted to the processed model stands in the raw one: it reads and writes one activation,
  // which centring alone changes.
  bool carried;
};

void PrintTo(const Fitted& fitted, std::ostream* out) { *out << fitted.name; }

class SplicedLikeSaeLens : public testing::TestWithParam<Fitted> {
 protected:
  std::string name() const { return GetParam().name; }
};

TEST_P(SplicedLikeSaeLens, InTheRawModel) {
  const Dictionary of = dictionary("raw", name());
  EXPECT_EQ(golden().configs.at("raw." + name()).at("architecture").get<std::string>(), name());
  EXPECT_EQ(compare_runs(model("raw"), "raw", of, name()), 7U);
}

TEST_P(SplicedLikeSaeLens, InAModelThatIsProcessedAsItsFilesSay) {
  const Dictionary of = dictionary("processed", name());
  EXPECT_TRUE(of.config().basis.folded_norms && of.config().basis.centred_writes);
  EXPECT_EQ(compare_runs(model("processed"), "processed", of, name()), 3U);
}

TEST_P(SplicedLikeSaeLens, InAModelWhoseStepsLeaveItsPlaceAsItIs) {
  const Dictionary of = dictionary("raw", name());
  if (of.config().input.ends_with("mlp.hook_in")) {
    EXPECT_THROW(model("folded").with_dictionary(of), ConfigError) << "fold_ln changes what the MLP reads";
    return;
  }
  EXPECT_EQ(compare_runs(model("folded"), "folded", of, name()), 2U);
}

TEST_P(SplicedLikeSaeLens, HasItsCodes) {
  for (const std::string kind : {"raw", "processed"}) {
    const Dictionary of = dictionary(kind, name());
    const Address codes = act::sae_acts_post(Address(of.config().output));
    for (const bool with_error : {false, true}) {
      const auto run = model(kind)
                           .with_dictionary(of, {.with_error = with_error})
                           .run(wanted("tokens"), {.capture = codes});
      expect_close(run.cache[codes], wanted(fmt::format("{}.{}.codes", kind, name())), kind);
    }
  }
}

// SAELens would run these, with numbers that mean nothing.
TEST_P(SplicedLikeSaeLens, IsRefusedInAModelWhoseStepsChangeItsPlace) {
  EXPECT_THROW(model("processed").with_dictionary(dictionary("raw", name())), ConfigError);
}

// Log-probabilities, because only a processed model's logits are centred over the vocabulary.
TEST_P(SplicedLikeSaeLens, IsCarriedFromTheProcessedModelIntoTheRawOneWhereThatIsExact) {
  const Dictionary of = dictionary("processed", name());
  const HookedTransformer raw = model("raw");
  if (!GetParam().carried) {
    EXPECT_THROW(raw.with_dictionary(of), ConfigError);
    return;
  }
  for (const bool with_error : {false, true}) {
    const std::string run =
        fmt::format("processed.{}.edited.{}", name(), with_error ? "with_error" : "alone");
    const at::Tensor logits = raw.with_dictionary(of, {.with_error = with_error})
                                  .run(wanted("tokens"), {.edits = edits("edited", of, name())})
                                  .logits();
    expect_close(logits.log_softmax(-1), wanted(run).log_softmax(-1), run);
  }
}

constexpr Fitted kFitted[] = {
    {.name = "standard", .carried = true},
    {.name = "gated", .carried = false},    // fold_value_biases changes z
    {.name = "jumprelu", .carried = true},  // with a layer norm of its input
    {.name = "topk", .carried = true},      // which leaves token 4 as it is
    {.name = "abstopk", .carried = true},
    {.name = "matching_pursuit", .carried = true},
    {.name = "transcoder", .carried = false},
    {.name = "jumprelu_transcoder", .carried = false},
    {.name = "skip_transcoder", .carried = false},
};

INSTANTIATE_TEST_SUITE_P(All, SplicedLikeSaeLens, testing::ValuesIn(kFitted), named);

TEST(SplicedRuns, SeveralDictionariesReadWhatThoseBeforeThemLeave) {
  for (const std::string kind : {"raw", "folded", "processed"}) {
    const std::string fitted_to = kind == "processed" ? kind : "raw";
    const Dictionary gated = dictionary(fitted_to, "gated");
    const HookedTransformer plain = model(kind);
    expect_close(plain(wanted("tokens")), wanted(kind + ".logits"), kind);
    const HookedTransformer several = plain.with_dictionary(dictionary(fitted_to, "standard"))
                                          .with_dictionary(gated, {.with_error = true})
                                          .with_dictionary(dictionary(fitted_to, "transcoder"));
    expect_close(several.run(wanted("tokens"), {.edits = edits("edited", gated, "gated")}).logits(),
                 wanted(kind + ".several"), kind);
  }
}

}  // namespace
}  // namespace hooked::dictionary_golden_test
