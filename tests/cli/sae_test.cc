// hooked sae: the same numbers as the library's, features that are changed, and what is refused.
#include <ATen/TensorOperators.h>

#include "hooked/analysis/features.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/random_dictionaries.h"

namespace hooked::sae_test {
namespace {

class Sae : public CliTest {
 protected:
  Sae() {
    write_tokenizer();
    random_autoencoder("blocks.0.hook_resid_post", config().d_model).save(path("sae"));
    random_transcoders(config(), {}).front().save(path("transcoder"));
  }

  Json json(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"sae", model(), "--dictionary", path("sae"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = hooked(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.json();
  }

  HookedTransformer spliced(bool with_error = false) const {
    const auto sae = Dictionary::load(path("sae"));
    return HookedTransformer::load(model(), {.without = steps_that_change(sae)})
        .with_dictionary(sae, {.with_error = with_error});
  }

  const Address features_ = act::sae_acts_post(act::resid_post(0));
};

TEST_F(Sae, ListsWhatFires) {
  const Json found = json({"--tokens", "1,2,3,4", "--tokens", "5,6,7,8", "--count", "4"})["dictionaries"][0];
  EXPECT_EQ(found["place"], "blocks.0.hook_resid_post");
  EXPECT_EQ(found["features"], 20);
  const auto run = spliced().run_with_cache(at::tensor({1, 2, 3, 4, 5, 6, 7, 8}, at::kLong).view({2, 4}),
                                            act::sae_acts_post);
  const auto firing = firing_features(run.cache, features_, {.count = 4});
  ASSERT_EQ(found["firing"].size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& shown = found["firing"][i];
    EXPECT_EQ(shown["feature"], firing[i].feature);
    EXPECT_EQ(shown["row"], firing[i].row);
    EXPECT_EQ(shown["position"], firing[i].column);
    EXPECT_EQ(shown["tokens"], firing[i].tokens);
    EXPECT_NEAR(shown["largest"].get<double>(), firing[i].largest, 1e-5);
    EXPECT_NEAR(shown["mean"].get<double>(), firing[i].mean, 1e-5);
    const at::Tensor logits = feature_logits(spliced(), features_, {firing[i].feature})[0];
    EXPECT_EQ(shown["raises"][0]["id"], logits.argmax().item<std::int64_t>());
    EXPECT_EQ(shown["lowers"][0]["id"], logits.argmin().item<std::int64_t>());
    EXPECT_EQ(shown["raises"].size(), 5U);
  }
  EXPECT_NEAR(found["features_per_token"].get<double>(), run.cache[features_].ne(0).sum().item<double>() / 8,
              1e-9);
}

TEST_F(Sae, ShowsTheFeaturesAndPositionsThatAreAskedFor) {
  const Json found = json({"--tokens", "1,2,3,4", "--features", "7,0", "--positions", "1"});
  const Json& firing = found["dictionaries"][0]["firing"];
  ASSERT_EQ(firing.size(), 2U);
  EXPECT_EQ(firing[0]["feature"], 7);
  EXPECT_EQ(firing[1]["feature"], 0);
  const at::Tensor codes =
      spliced()
          .run_with_cache(at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4}), act::sae_acts_post)
          .cache[features_];
  for (const Json& feature : firing) {
    const double code = codes[0][1][feature["feature"].get<std::int64_t>()].item<double>();
    EXPECT_NEAR(feature["largest"].get<double>(), code, 1e-5);
    EXPECT_EQ(feature["tokens"], code == 0 ? 0 : 1);
    EXPECT_EQ(feature["position"], code == 0 ? Json(nullptr) : Json(1));
  }
}

TEST_F(Sae, ChangesFeaturesWhileTheModelRuns) {
  const Json found =
      json({"--tokens", "1,2,3,4", "--with-error", "--ablate", "3", "--clamp", "5=-1.5", "--answer", "w6"});
  const auto model = spliced(true);
  const at::Tensor tokens = at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4});
  const at::Tensor before = model(tokens)[0][3];
  const at::Tensor after =
      model.run(tokens, {.edits = {zero(features_.feature(3)), set(features_.feature(5), -1.5)}})
          .logits()[0][3];
  const Json& next = found["changes"][0]["next"];
  EXPECT_EQ(found["changes"][0]["position"], 3);
  EXPECT_EQ(next[0]["id"], 6) << "the answer comes first";
  EXPECT_GT((before - after).abs().max().item<double>(), 1e-3);
  for (const Json& token : next) {
    const auto id = token["id"].get<std::int64_t>();
    EXPECT_NEAR(token["logit"].get<double>(), before[id].item<double>(), 1e-4);
    EXPECT_NEAR(token["changed_logit"].get<double>(), after[id].item<double>(), 1e-4);
    EXPECT_NEAR(token["changed_probability"].get<double>(), after.softmax(-1)[id].item<double>(), 1e-5);
  }
}

TEST_F(Sae, MeasuresTheDictionary) {
  const Json quality =
      json({"--tokens", "1,2,3,4", "--tokens", "5,6,7,8", "--quality"})["dictionaries"][0]["quality"];
  const auto right =
      dictionary_quality(spliced(), features_, at::tensor({1, 2, 3, 4, 5, 6, 7, 8}, at::kLong).view({2, 4}));
  EXPECT_EQ(quality["tokens"], 8);
  EXPECT_EQ(quality["dead"], right.dead);
  EXPECT_NEAR(quality["explained_variance"].get<double>(), right.explained_variance, 1e-5);
  EXPECT_NEAR(quality["recovered"].get<double>(), right.recovered, 1e-4);
}

TEST_F(Sae, PrintsTables) {
  const auto result = hooked({"sae", model(), "--dictionary", path("sae"), "--text", "w2 w3", "--ablate", "3",
                              "--quality", "--no-processing"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  for (const char* part :
       {"blocks.0.hook_resid_post: 20 features, ", "raises", "explained variance", "with feature 3 = 0"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << '\n' << result.out;
}

TEST_F(Sae, RefusesWhatDoesNotFit) {
  expect_failure({"sae", model(), "--tokens", "1,2"}, 2, "expected --dictionary FOLDER[@ACTIVATION]");
  const std::vector<std::string> call{"sae",      model(), "--dictionary", path("sae"), "--no-processing",
                                      "--tokens", "1,2"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = call;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_failure(with({"--features", "20"}), 1, "feature 20 does not exist; expected 0 to 19");
  expect_failure(with({"--ablate", "20"}), 1, "20");
  expect_failure(with({"--clamp", "3"}), 2, "expected FEATURE=VALUE such as 182=2.5");
  expect_failure(with({"--clamp", "3=x"}), 2, "expected FEATURE=VALUE");
  expect_failure(with({"--ablate", "3", "--clamp", "3=2"}), 2,
                 "feature 3 is there twice; expected each once");
  expect_failure(with({"--ablate", "-1"}), 2, "feature -1 is none; expected 0 or more");
  expect_failure(with({"--answer", "w3"}), 2, "expected --ablate or --clamp");
  expect_failure(with({"--dictionary", path("transcoder"), "--ablate", "1"}), 2, "there are several");
}

}  // namespace
}  // namespace hooked::sae_test
