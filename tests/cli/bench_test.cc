#include "tests/cli/cli_fixture.h"
#include "tests/support/random_dictionaries.h"

namespace hooked::bench_test {
namespace {

class BenchTest : public CliTest {};

TEST_F(BenchTest, JsonHasTheContractsFields) {
  const auto json = succeed({"bench", model(), "--batch", "2", "--length", "4", "--iterations", "3", "--seed",
                             "7", "--threads", "1", "--json"})
                        .json();
  EXPECT_EQ(json["batch"], 2);
  EXPECT_EQ(json["length"], 4);
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_GT(json["points"].get<int>(), 20);
  for (const auto* kind : {"plain_ms", "cache_ms"}) {
    EXPECT_GT(json[kind]["min"].get<double>(), 0);
    EXPECT_LE(json[kind]["min"].get<double>(), json[kind]["median"].get<double>());
    EXPECT_LE(json[kind]["median"].get<double>(), json[kind]["max"].get<double>());
  }
  EXPECT_TRUE(json.contains("decode_ms"));
  EXPECT_GT(json["peak_bytes"].get<std::int64_t>(), 1 << 20);
  EXPECT_LT(json["max_logit_difference"].get<double>(), 1e-4);  // float32
}

TEST_F(BenchTest, TheTableHasTheRatio) {
  const auto out = succeed({"bench", model(), "--length", "4", "--iterations", "2"}).out;
  for (const auto* part : {"plain run", "with cache", "ratio", "largest difference"}) {
    EXPECT_NE(out.find(part), std::string::npos) << out;
  }
}

TEST_F(BenchTest, ADictionaryIsTimedInItsPlace) {
  random_autoencoder("blocks.0.hook_resid_post", config().d_model).save(path("sae"));
  const std::vector<std::string> plain{"bench",        model(), "--length",        "4",
                                       "--iterations", "1",     "--no-processing", "--json"};
  std::vector<std::string> spliced = plain;
  spliced.insert(spliced.end(), {"--dictionary", path("sae")});
  const auto json = succeed(spliced).json();
  EXPECT_GT(json["plain_ms"]["min"].get<double>(), 0);
  EXPECT_GE(json["points"].get<int>(), succeed(plain).json()["points"].get<int>());
}

TEST_F(BenchTest, ALengthBeyondTheContextIsRefused) {
  expect_failure({"bench", model(), "--length", "9", "--iterations", "1"}, 1, "9");
}

}  // namespace
}  // namespace hooked::bench_test
