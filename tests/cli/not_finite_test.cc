// Every command that runs a model reports numbers that are not finite: a line on stderr, `not_finite` in
// JSON, and no mean that leaves them out.
#include <ATen/ops/full.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace hooked::not_finite_test {
namespace {

using Words = std::vector<std::string>;

class NotFiniteCli : public CliTest {
 protected:
  NotFiniteCli() {
    StateDict weights = load().state_dict();
    weights.at("embed.W_E")[5].fill_(std::numeric_limits<double>::infinity());
    HookedTransformer::from_state_dict(weights, load().config(), {.processing = WeightProcessing::none()})
        .save(folder_ / "spoiled");
  }

  /// The output of a command for a model in which token 5 is infinite.
  void expect_said(Words command, const std::string& values) const {
    SCOPED_TRACE(command.front());
    command.insert(command.begin() + 1, path("spoiled"));
    const auto plain = hooked(command);
    EXPECT_EQ(plain.exit_code, 0) << plain.error;
    EXPECT_NE(plain.error.find("note: not finite: "), std::string::npos) << plain.error;
    command.emplace_back("--json");
    const Json said = hooked(command).json()["not_finite"];
    ASSERT_GE(said.size(), 1u);
    EXPECT_NE(said[0].get<std::string>().find(values), std::string::npos) << said[0];
  }
};

TEST_F(NotFiniteCli, EachCommandSaysSo) {
  const Words tokens{"--tokens", "1,2,5"};
  const auto with = [&](Words command, const Words& more = {}) {
    command.insert(command.end(), tokens.begin(), tokens.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  // Whether positions before the token are finite depends on the kernels: zero times infinity is NaN.
  expect_said(with({"run"}), "logits at ");
  expect_said(with({"cache"}, {"--out", path("a.safetensors"), "--force"}), "logits at ");
  expect_said(with({"cache"}, {"--stop-at-layer", "1", "--out", path("b.safetensors"), "--force"}),
              "residual at ");
  expect_said(with({"lens"}), "of 3 positions");
  expect_said(with({"attribute"}, {"--answer-token", "3"}), "of 3 positions");
  expect_said(with({"heads"}), "hook_pattern at ");
}

TEST_F(NotFiniteCli, PatchingSaysSo) {
  const Words prompts{"--clean-tokens", "1,2,5", "--corrupted-tokens", "1,2,3",
                      "--answer-token", "4",     "--against-token",    "6"};
  const auto with = [&](Words command, const Words& more) {
    command.insert(command.end(), prompts.begin(), prompts.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  expect_said(with({"patch"}, {"--sweep", "resid_pre"}), "the clean run's scores");
  expect_said(with({"circuits"}, {}), "the score without a patch");
}

TEST_F(NotFiniteCli, FiniteRunsHaveAnEmptyList) {
  for (const Words& command : {Words{"run", model(), "--tokens", "1,2"},
                               {"lens", model(), "--tokens", "1,2"},
                               {"heads", model(), "--tokens", "1,2"},
                               {"attribute", model(), "--tokens", "1,2", "--answer-token", "3"},
                               {"bench", model(), "--length", "3", "--iterations", "1"}}) {
    Words words = command;
    words.emplace_back("--json");
    EXPECT_EQ(succeed(words).json()["not_finite"], Json::array()) << command.front();
  }
}

// A token cannot be drawn from such logits.
TEST_F(NotFiniteCli, GeneratingIsAnError) {
  expect_failure({"generate", path("spoiled"), "--tokens", "1,2,5", "--max-new-tokens", "1"}, 1,
                 "are not finite numbers");
}

}  // namespace
}  // namespace hooked::not_finite_test
