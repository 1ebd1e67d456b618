// What a dictionary computes beyond the goldens: dtypes, gradients, sparse codes, unit decoders, saving.
#include "hooked/dictionaries/dictionary.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "hooked/dictionaries/dictionary_set.h"
#include "tests/dictionaries/golden_dictionaries.h"
#include "tests/support/temp_folder.h"

namespace hooked::dictionary_test {
namespace {

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
}

DictionaryConfig small() {
  DictionaryConfig config;
  config.d_in = config.d_out = 4;
  config.features = 10;
  config.dtype = at::kDouble;
  return config;
}

DictionaryWeights weights_of(const DictionaryConfig& c) {
  DictionaryWeights weights{.W_enc = drawn({c.d_in, c.features}, 1),
                            .b_enc = drawn({c.features}, 2),
                            .W_dec = drawn({c.features, c.d_out}, 3),
                            .b_dec = drawn({c.d_out}, 4)};
  if (c.activation == CodeActivation::jump_relu) weights.threshold = drawn({c.features}, 5);
  if (c.skips) weights.W_skip = drawn({c.d_out, c.d_in}, 6);
  return weights;
}

TEST(DictionaryTest, ComputesInItsOwnDtypeAndAnswersInTheInputs) {
  DictionaryConfig config = small();
  config.dtype = at::kFloat;
  DictionaryWeights weights = weights_of(config);
  for (at::Tensor* w : {&weights.W_enc, &weights.b_enc, &weights.W_dec, &weights.b_dec})
    *w = w->to(at::kFloat);
  const Dictionary dictionary(config, weights);
  const at::Tensor x = drawn({3, 4}, 9).to(at::kBFloat16);
  EXPECT_EQ(dictionary.encode(x).scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(dictionary.encode(x), dictionary.encode(x.to(at::kFloat))));
  EXPECT_EQ(dictionary.reconstruct(x).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(
      at::equal(dictionary.reconstruct(x), dictionary.reconstruct(x.to(at::kFloat)).to(at::kBFloat16)));
}

/// A dictionary of one feature and one number: the code is max(0, x + bias), the output the code.
Dictionary of_one_number(DictionaryConfig config, double bias, double threshold = 0) {
  config.d_in = config.d_out = config.features = 1;
  const auto number = [&](double value) { return at::full({1}, value, at::TensorOptions(config.dtype)); };
  DictionaryWeights w{.W_enc = number(1).view({1, 1}),
                      .b_enc = number(bias),
                      .W_dec = number(1).view({1, 1}),
                      .b_dec = number(0)};
  if (config.activation == CodeActivation::jump_relu) w.threshold = number(threshold);
  return {config, w};
}

// The input loses what the dictionary's dtype does not hold before anything is computed.
TEST(DictionaryTest, RoundsItsInputToItsOwnDtype) {
  DictionaryConfig config = small();
  config.dtype = at::kBFloat16;
  const at::Tensor x = at::full({1, 1}, 1.00390625, at::kFloat);
  EXPECT_EQ(of_one_number(config, -1).encode(x).item<double>(), 0);
  config.dtype = at::kFloat;
  EXPECT_EQ(of_one_number(config, -1).encode(x).item<double>(), 0.00390625);
}

// SAELens cuts JumpReLU's codes at 0, circuit-tracer does not; thresholds below 0 tell.
TEST(DictionaryTest, CodesAboveANegativeThresholdAreRectifiedOrNot) {
  DictionaryConfig config = small();
  config.activation = CodeActivation::jump_relu;
  const at::Tensor x = at::tensor({-0.5, -2.0, 1.0}, at::kDouble).unsqueeze(1);
  EXPECT_TRUE(at::equal(of_one_number(config, 0, -1).encode(x),
                        at::tensor({0.0, 0.0, 1.0}, at::kDouble).unsqueeze(1)));
  config.rectified = false;
  const Dictionary whole = of_one_number(config, 0, -1);
  EXPECT_TRUE(at::equal(whole.encode(x), at::tensor({-0.5, 0.0, 1.0}, at::kDouble).unsqueeze(1)));
  EXPECT_TRUE(at::equal(whole.reconstruct(x), whole.encode(x)));
}

TEST(DictionaryTest, GradientsPassThroughCodes) {
  for (const CodeActivation activation :
       {CodeActivation::relu, CodeActivation::top_k, CodeActivation::jump_relu}) {
    DictionaryConfig config = small();
    config.activation = activation;
    config.k = 3;
    config.rectified = activation == CodeActivation::relu;
    const Dictionary dictionary(config, weights_of(config));
    at::Tensor x = drawn({2, 4}, 10).requires_grad_();
    dictionary.reconstruct(x).sum().backward();
    // d sum / d x = sum over active features of W_enc[:, i] · sum(W_dec[i])
    const at::Tensor active = (dictionary.encode(x.detach()) != 0).to(at::kDouble);
    const auto& w = dictionary.weights();
    EXPECT_LT(largest(x.grad() - (active * w.W_dec.sum(1)).matmul(w.W_enc.t())), 1e-12);
    at::Tensor again = x.detach().clone().requires_grad_();
    dictionary.decode_sparse(dictionary.encode_sparse(again), again).sum().backward();
    EXPECT_LT(largest(x.grad() - again.grad()), 1e-12);
  }
}

TEST(DictionaryTest, SparseCodesOfManyTokensAreThoseOfEach) {
  DictionaryConfig config = small();
  config.features = 1 << 20;  // so that tokens are encoded in several parts
  config.activation = CodeActivation::top_k;
  config.k = 2;
  config.dtype = at::kFloat;
  DictionaryWeights weights{.W_enc = drawn({4, config.features}, 1).to(at::kFloat),
                            .b_enc = at::zeros({config.features}),
                            .W_dec = drawn({config.features, 4}, 2).to(at::kFloat),
                            .b_dec = at::zeros({4})};
  const Dictionary dictionary(config, weights);
  const at::Tensor x = drawn({2, 5, 4}, 3).to(at::kFloat);
  const SparseCodes codes = dictionary.encode_sparse(x);
  EXPECT_EQ(codes.values.sizes(), (std::vector<std::int64_t>{2, 5, 2}));
  const at::Tensor dense = dictionary.encode(x);
  EXPECT_LT(largest(dense.gather(-1, codes.indices) - codes.values), 1e-5);
  EXPECT_LT(largest(dictionary.decode_sparse(codes, x) - dictionary.decode(dense, x)), 1e-4);
}

TEST(DictionaryTest, SparseCodesOfNoTokens) {
  const Dictionary dictionary(small(), weights_of(small()));
  const at::Tensor x = at::zeros({0, 3, 4}, at::kDouble);
  EXPECT_EQ(dictionary.encode_sparse(x).dense().sizes(), (std::vector<std::int64_t>{0, 3, 10}));
  EXPECT_EQ(dictionary.decode_sparse(dictionary.encode_sparse(x), x).sizes(), x.sizes());
}

// Neuronpedia's activations are those of a decoder with rows of norm 1.
TEST(DictionaryTest, AUnitDecoderIsTheSameFunctionWithCodesTimesTheNorms) {
  DictionaryConfig config = small();
  config.activation = CodeActivation::jump_relu;
  const Dictionary raw(config, weights_of(config));
  const Dictionary unit = raw.with_unit_decoder();
  const at::Tensor x = drawn({5, 4}, 11);
  EXPECT_LT(largest(unit.decoder_norms() - 1.0), 1e-12);
  EXPECT_LT(largest(unit.encode(x) - raw.encode(x) * raw.decoder_norms()), 1e-12);
  EXPECT_LT(largest(unit.reconstruct(x) - raw.reconstruct(x)), 1e-12);
  config.activation = CodeActivation::top_k;
  config.k = 2;
  DictionaryWeights weights = weights_of(config);
  EXPECT_THAT(text_thrown_by<ConfigError>(
                  [&] { static_cast<void>(Dictionary(config, weights).with_unit_decoder()); }),
              HasSubstr("would choose other features"));
}

TEST(DictionaryTest, AUnitDecoderOpensTheSameGates) {
  DictionaryConfig config = small();
  config.d_in = config.d_out = 2;
  config.features = 1;
  config.activation = CodeActivation::gated;
  const auto numbers = [](std::vector<double> values) { return at::tensor(values, at::kDouble); };
  DictionaryWeights w{.W_enc = numbers({1, 0}).view({2, 1}),
                      .b_enc = at::Tensor(),
                      .W_dec = numbers({3, 4}).view({1, 2}),  // its norm is 5
                      .b_dec = at::zeros({2}, at::kDouble)};
  w.b_gate = numbers({-0.5});
  w.b_mag = numbers({0.25});
  w.r_mag = numbers({std::log(2.0)});
  const Dictionary raw(config, w);
  const Dictionary unit = raw.with_unit_decoder();
  EXPECT_NEAR(raw.encode(numbers({1, 0})).item<double>(), 2.25, 1e-12);
  EXPECT_NEAR(unit.encode(numbers({1, 0})).item<double>(), 11.25, 1e-12);
  EXPECT_EQ(unit.encode(numbers({0.3, 0})).item<double>(), 0) << "the gate is closed";
  EXPECT_LT(largest(unit.reconstruct(numbers({1, 0})) - raw.reconstruct(numbers({1, 0}))), 1e-12);
}

// A feature of a cross-layer transcoder has one norm, over all layers that it writes to.
TEST(DictionaryTest, AUnitDecoderAcrossLayersHasOneNormPerFeature) {
  DictionaryConfig config = small();
  config.transcodes = config.crosses_layers = true;
  DictionaryWeights w = weights_of(config);
  w.W_dec = drawn({config.features, 3, config.d_out}, 8);
  const Dictionary raw(config, w);
  const Dictionary unit = raw.with_unit_decoder();
  const at::Tensor x = drawn({5, 4}, 11), norms = w.W_dec.flatten(1).norm(2, 1);
  EXPECT_LT(largest(unit.encode(x) - raw.encode(x) * norms), 1e-12);
  EXPECT_LT(largest(unit.weights().W_dec - w.W_dec / norms.view({-1, 1, 1})), 1e-12);
}

TEST(DictionaryTest, WhatDoesNotFitIsRefused) {
  const Dictionary dictionary(small(), weights_of(small()));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                static_cast<void>(dictionary.encode(at::zeros({2, 5})));
              }),
              HasSubstr("expected [..., 4], got [2, 5]"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                static_cast<void>(dictionary.decode(at::zeros({2, 9}), at::zeros({2, 4})));
              }),
              HasSubstr("expected 10, got [2, 9]"));
  DictionaryWeights weights = weights_of(small());
  weights.W_dec = weights.W_dec.t();
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { Dictionary(small(), weights); }),
              HasSubstr("[W_dec] the weight is not"));
  DictionaryConfig config = small();
  config.activation = CodeActivation::top_k;
  config.k = 11;
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { Dictionary(config, weights_of(config)); }),
              HasSubstr("1 to 10, got 11"));
}

class SaveDictionary : public testing::Test {
 protected:
  void refused(const DictionaryConfig& config, std::string_view why) const {
    const Dictionary dictionary(config, weights_of(config));
    EXPECT_THAT(text_thrown_by<ConfigError>([&] { dictionary.save(folder_ / "no"); }),
                HasSubstr(std::string(why)));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "no"));
  }
  const TempFolder folder_;
};

TEST_F(SaveDictionary, WhatTheFormatLacksIsRefused) {
  DictionaryConfig config = small();
  config.activation = CodeActivation::top_k;
  config.k = 2;
  config.rectified = false;
  refused(config, "its codes can be negative");
  config.rectified = true;
  config.decoder_norms = DecoderNorms::chosen;
  refused(config, "chosen by code times decoder norm");
  config.decoder_norms = DecoderNorms::ignored;
  config.transcodes = true;
  refused(config, "no architecture has these parts together");
  config = small();
  config.activation = CodeActivation::jump_relu;
  config.rectified = false;  // and some thresholds are negative
  refused(config, "its codes can be negative");
}

TEST_F(SaveDictionary, PlacesAndBasisAreWrittenAndReadBack) {
  DictionaryConfig config = small();
  config.model_name = "tiny";
  config.input = config.output = "blocks.2.hook_resid_pre";
  config.basis.centred_writes = true;
  config.excluded.ids = {0, 7};
  Dictionary(config, weights_of(config)).save(folder_ / "own");
  const Dictionary read = Dictionary::load((folder_ / "own").native());
  EXPECT_EQ(read.config().basis, config.basis);
  EXPECT_EQ(read.config().excluded.ids, config.excluded.ids);
  EXPECT_EQ(read.config().input, config.input);
  EXPECT_EQ(read.config().layer, 2);
  EXPECT_EQ(read.config().format, "SAELens 6");
}

TEST_F(SaveDictionary, TheVersionIsOneThatSaeLensReads) {
  const auto version = [&](const std::string& metadata) {
    DictionaryConfig config = small();
    config.metadata = metadata;
    const Dictionary dictionary(config, weights_of(config));
    dictionary.save(folder_ / "own");
    return Dictionary::load((folder_ / "own").native()).config();
  };
  EXPECT_EQ(version("{}").format, "SAELens 6");
  EXPECT_THAT(version(R"({"sae_lens_version": "5.9.1"})").metadata,
              HasSubstr(R"("sae_lens_version":"6.54.12")"));
  EXPECT_THAT(version(R"({"sae_lens_version": "10.0"})").metadata, HasSubstr(R"("sae_lens_version":"10.0")"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { version("{"); }), HasSubstr("metadata of a dictionary"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { version("[]"); }), HasSubstr("expected one, got"));
}

TEST_F(SaveDictionary, OnlyItsOwnFoldersAreReplaced) {
  const Dictionary dictionary(small(), weights_of(small()));
  dictionary.save(folder_ / "own");
  dictionary.save(folder_ / "own");  // its own
  const Dictionary read = Dictionary::load((folder_ / "own").native());
  EXPECT_THAT(text_thrown_by<IoError>([&] { read.save(folder_ / "own"); }),
              HasSubstr("from which the dictionary was read"));
  const std::filesystem::path others = folder_ / "others";
  std::filesystem::copy(kDictionaryGoldens / "saelens" / "standard", others);
  EXPECT_THAT(text_thrown_by<IoError>([&] { dictionary.save(others); }),
              HasSubstr("which hooked did not write"));
}

TEST(DictionarySetTest, LayersMustFitTogether) {
  DictionaryConfig config = small();
  config.layer = 1;
  const Dictionary one(config, weights_of(config));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] {
                DictionarySet({one, one});
              }),
              HasSubstr("two of a set are of layer 1"));
  config.transcodes = config.crosses_layers = true;
  DictionaryWeights weights = weights_of(config);
  weights.W_dec = drawn({10, 3, 4}, 3);
  const Dictionary crossing(config, weights);
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { DictionarySet({crossing}); }),
              HasSubstr("writes to 3 layers"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] {
                static_cast<void>(crossing.reconstruct(at::zeros({1, 4})));
              }),
              HasSubstr("the set of all layers decodes it"));
}

TEST(DictionarySetTest, AFolderForEachLayerIsASet) {
  const TempFolder folder;
  const auto save = [&](const char* name, std::int64_t layer) {
    DictionaryConfig config = small();
    config.layer = layer;
    config.input = config.output = "blocks." + std::to_string(layer) + ".hook_resid_post";
    Dictionary(config, weights_of(config)).save(folder / name);
  };
  save("b", 3);
  save("a", 5);
  EXPECT_EQ(DictionarySet::load(folder.path().native()).layers(), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(describe_dictionary(folder.path().native()).members.size(), 2U);
  save("c", 5);
  EXPECT_THAT(text_thrown_by<CheckpointError>(
                  [&] { static_cast<void>(DictionarySet::load(folder.path().native())); }),
              HasSubstr("holds several dictionaries"));
}

}  // namespace
}  // namespace hooked::dictionary_test
