// Every public function of the analyses runs in the suite on a device, and its waits are on
// docs/device-counts.md: a function that is added to a header and to neither is found here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/device/function_counts.h"

namespace hooked::device_tests {
namespace {

namespace fs = std::filesystem;

/// Why a function has nothing to do with devices.
const std::map<std::string, std::string>& on_the_host() {
  static const std::map<std::string, std::string> kWhy{
      {"bar_plot_svg", "a picture of a grid"},
      {"choose_circuit", "a grid's numbers"},
      {"contrast_components", "fits in float64 on the host"},
      {"contrast_mean", "fits in float64 on the host"},
      {"difference_test", "a grid's numbers"},
      {"graph_json", "a graph's numbers"},
      {"graph_scores", "a graph's numbers"},
      {"head_score_row", "a table"},
      {"head_score_rows", "a table"},
      {"heat_map_svg", "a picture of a grid"},
      {"line_plot_svg", "a picture of a grid"},
      {"load_graph", "a file"},
      {"logistic_regression", "fits in float64 on the host"},
      {"mean_difference", "fits in float64 on the host"},
      {"mean_interval", "a grid's numbers"},
      {"model_parts", "names"},
      {"node_link_svg", "a picture"},
      {"node_links", "a graph's or a circuit's numbers"},
      {"node_name", "a text"},
      {"other_spelling", "a text and ids"},
      {"parts_besides", "names"},
      {"patching_preset", "a table"},
      {"patching_presets", "a table"},
      {"principal_components", "fits in float64 on the host"},
      {"pruned", "a graph's numbers"},
      {"read_prompt_pairs", "texts and their ids"},
      {"repeated_random_tokens", "ids"},
      {"require_can_keep", "a file"},
      {"require_can_save_graph", "a file"},
      {"repeated_tokens_of", "ids"},
      {"ridge_classifier", "fits in float64 on the host"},
      {"ridge_regression", "fits in float64 on the host"},
      {"save_graph", "a file"},
      {"separating_features", "fits in float64 on the host"},
      {"share_interval", "a grid's numbers"},
      {"strongest_paths", "a graph's numbers"},
      {"token_axis", "texts and ids"},
      {"spelling_notes", "texts and ids; what it runs is the metric rank"},
      {"welch_bound", "two numbers"},
      {"write_prompt_pairs", "texts and their ids"},
  };
  return kWhy;
}

/// Metrics compute nothing until they score a run: `scores`.
const std::set<std::string>& metrics() {
  static const std::set<std::string> kNames{"attention",     "js_divergence",
                                            "kl_divergence", "log_probability",
                                            "logit",         "logit_difference",
                                            "loss",          "probability",
                                            "projection",    "rank",
                                            "top1"};
  return kNames;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The functions that headers declare outside classes; one with a report counts as the one without.
std::set<std::string> public_functions() {
  static const std::regex kDeclaration(R"(^(?:inline )?([A-Za-z_][\w:<>,&* ]*[ &*])(\w+)\()");
  std::set<std::string> names;
  for (const auto& header : fs::directory_iterator("include/hooked/analysis")) {
    std::ifstream in(header.path());
    for (std::string line; std::getline(in, line);) {
      std::smatch found;
      if (!std::regex_search(line, found, kDeclaration) || found[1].str().starts_with("using ")) continue;
      std::string name = found[2];
      if (const std::string report = "_report"; name.ends_with(report))
        name.resize(name.size() - report.size());
      names.insert(name);
    }
  }
  return names;
}

TEST(AnalysisCoverage, EveryFunctionRunsInTheSuite) {
  const std::string checks = text_of("tests/device/analysis_checks.cc") +
                             text_of("tests/device/reading_checks.cc") +
                             text_of("tests/device/dictionary_checks.cc");
  const auto functions = public_functions();
  EXPECT_GT(functions.size(), 60u);
  for (const std::string& name : functions) {
    if (on_the_host().contains(name)) continue;
    const bool called = std::regex_search(checks, std::regex("\\b" + name + "\\("));
    EXPECT_TRUE(called) << name << " is in no check of tests/device/";
  }
}

TEST(AnalysisCoverage, EveryFunctionsWaitsAreListed) {
  std::set<std::string> listed;
  for (const auto& counted : counted_functions()) listed.insert(counted.name);
  const auto functions = public_functions();
  for (const std::string& name : functions) {
    if (on_the_host().contains(name) || metrics().contains(name)) continue;
    EXPECT_TRUE(listed.contains(name)) << name << " is not in tests/device/function_counts.cc";
  }
  for (const std::string& name : listed) EXPECT_TRUE(functions.contains(name)) << name;
}

TEST(AnalysisCoverage, TheListsAreOfFunctionsThatAreThere) {
  const auto functions = public_functions();
  for (const auto& [name, why] : on_the_host()) EXPECT_TRUE(functions.contains(name)) << name << ": " << why;
  for (const std::string& name : metrics()) EXPECT_TRUE(functions.contains(name)) << name;
}

// Functions that only read a model's weights wait for nothing; those that read a run wait once for it.
TEST(AnalysisCoverage, CircuitsOfWeightsDoNotWait) {
  const std::set<std::string> never{"ov_circuits",     "qk_circuits", "full_qk_circuit", "full_ov_circuit",
                                    "virtual_weights", "matmul",      "composition"};
  for (const auto& counted : counted_functions()) {
    if (never.contains(counted.name)) {
      EXPECT_EQ(counted.counts.waits, 0) << counted.name;
    }
  }
}

}  // namespace
}  // namespace hooked::device_tests
