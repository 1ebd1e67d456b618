// Every key of every golden config.json with values that it must not have: refused in one line that names a
// key of the file, or read as something valid.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "families/family.h"
#include "hooked/core/error.h"
#include "tests/support/golden_configs.h"

namespace hooked::malformed_config_test {
namespace {

std::vector<Json> bad_values() {
  std::vector<Json> values = {nullptr,
                              true,
                              false,
                              "",
                              "NaN",
                              "two\nlines",
                              0,
                              1,
                              -1,
                              1.5,
                              -0.0,
                              1e300,
                              Json::array(),
                              Json::array({1, "a", nullptr}),
                              Json::array({Json::array({Json::array()})}),
                              Json::object(),
                              7,
                              3,
                              1'000'000'000'000'000'000,
                              1e18,
                              1e-300};
  values.push_back({{"nested", {{"deep", Json::array({1})}}}});
  return values;
}

// The keys that a file has, as errors spell them; a list's entries are `key[0]`.
bool names_a_key_of(const Json& config, std::string key) {
  key = key.substr(0, key.find('['));
  const std::vector<JsonPath> paths = paths_of(config);
  return std::any_of(paths.begin(), paths.end(), [&](const JsonPath& path) { return dotted(path) == key; });
}

void expect_good_error(const ConfigError& error, const Json& config) {
  const std::string text = error.what();
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_LT(text.size(), 1500u) << text;  // some list every family
  EXPECT_NE(text.find("; expected "), std::string::npos) << text;
  const std::string prefix = "config.json: ";
  ASSERT_EQ(error.where().substr(0, prefix.size()), prefix) << text;
  const std::string key = error.where().substr(prefix.size());
  const bool says_absent =
      text.find("missing;") != std::string::npos || text.find("an absent value") != std::string::npos;
  EXPECT_TRUE(says_absent || names_a_key_of(config, key)) << text;
}

TEST(MalformedConfigs, AreRefusedAtAKeyOfTheFileOrHold) {
  int refused = 0, held = 0;
  for (const GoldenConfig& golden : golden_configs()) {
    if (golden.model_type == "hooked_transformer") continue;  // its keys are ours
    for (const JsonPath& path : paths_of(golden.json)) {
      for (const Json& value : bad_values()) {
        const Json config = with_value(golden.json, path, value);
        SCOPED_TRACE(fmt::format("{}: {} = {}", golden.name, dotted(path), value.dump()));
        try {
          const FamilyConfig read = read_as(golden, config);
          read.config.validate();
          ++held;
        } catch (const ConfigError& error) {
          ++refused;
          expect_good_error(error, config);
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(held, 1000);
}

}  // namespace
}  // namespace hooked::malformed_config_test
