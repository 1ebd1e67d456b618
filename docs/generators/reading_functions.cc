// Prints docs/reading-functions.md from the indices of the goldens of TransformerLens's ActivationCache and
// detect_head, and from the table of what is refused.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "page.h"
#include "refusals.h"

namespace {

constexpr std::pair<std::string_view, std::string_view> kMethods[] = {
    {"accumulated_resid",
     "`accumulated_residual`; for `layer` and `mlp_input` write `.until`, for `apply_ln` write `.norm` with "
     "`NormScale::own`"},
    {"decompose_resid",
     "`residual_parts`; for `layer`, `mlp_input` and `apply_ln` write `.of`; modes are labels of the axis "
     "`part`"},
    {"stack_head_results", "`residual_parts` with `Grain::head`"},
    {"stack_neuron_results",
     "`residual_parts` with `Grain::neuron`; for `project_output_onto` write `.along`, transposed"},
    {"get_neuron_results", "the same with `.of = act::mlp_out(layer)`"},
    {"get_full_resid_decomposition",
     "`residual_parts` with `Grain::neuron`; its `bias` is the sum of the biases here"},
    {"apply_ln_to_stack", "`normed_stack`"},
    {"stack_activation", "`cache.stack(site)`"},
    {"logit_attrs", "`direct_logit_attribution` of a stack; pass tokens as `Answers`"}};

/// One thing that TransformerLens gets wrong, and where.
struct Fault {
  std::string reason;
  std::string kind;
  std::size_t calls = 0;
  std::vector<std::string> models;
};

/// The reason of a call without the layer that an error names.
std::string general(const nlohmann::json& call) {
  std::string reason = call.at("reason");
  if (call.at("kind") == "wrong") return reason;
  if (const auto layer = reason.find("blocks."); layer != std::string::npos) reason[layer + 7] = 'L';
  return reason.substr(0, reason.find(". "));
}

nlohmann::json read_index(const std::filesystem::path& root, const char* file) {
  return nlohmann::json::parse(std::ifstream(root / "tests/golden" / file));
}

/// `a` by b, `a` by c, `d` as "`a` by b, by c, `d`".
std::string listed(const std::vector<std::string_view>& calls) {
  std::string text;
  std::string_view before;
  for (const std::string_view call : calls) {
    const auto function = call.substr(0, call.find('`', 1) + 1);
    text += (text.empty() ? "" : ", ") +
            std::string(function == before ? call.substr(function.size() + 1) : call);
    before = function;
  }
  return text;
}

std::string refused() {
  std::string text;
  std::vector<std::string_view> before;
  for (const hooked::Refusal& row : hooked::refusals()) {
    const std::string calls = row.calls == before ? "the same" : listed(row.calls);
    text += fmt::format("| {} | {} | {} |\n", calls, row.where, row.because);
    before = row.calls;
  }
  return text;
}

std::string count_of(const nlohmann::json& list) { return std::to_string(list.size()); }

}  // namespace

int main(int, char** argv) {
  const auto index = read_index(argv[1], "reading/index.json");
  std::vector<Fault> faults;
  std::map<std::string, std::set<std::size_t>> of_method;
  std::size_t absent = 0;
  for (const auto& model : index.at("models")) {
    for (const auto& call : model.at("absent")) {
      ++absent;
      const std::string reason = general(call), name = model.at("model");
      auto fault = std::ranges::find(faults, reason, &Fault::reason);
      if (fault == faults.end())
        fault = faults.insert(fault, {.reason = reason, .kind = call.at("kind"), .calls = 0, .models = {}});
      ++fault->calls;
      if (std::ranges::find(fault->models, name) == fault->models.end()) fault->models.push_back(name);
      of_method[index.at("calls").at(call.at("call").get<std::size_t>()).at("method")].insert(
          static_cast<std::size_t>(fault - faults.begin()) + 1);
    }
  }
  const auto models = index.at("models").size(), calls = index.at("calls").size();
  std::string methods, rows, heads_faults;
  for (const auto& [method, ours] : kMethods)
    methods +=
        fmt::format("| `{}` | {} | {} |\n", method, ours, fmt::join(of_method[std::string(method)], ", "));
  for (std::size_t i = 0; i < faults.size(); ++i) {
    rows += fmt::format("| {} | {}: {} | {} | {} |\n", i + 1, faults[i].kind, faults[i].reason,
                        faults[i].calls, fmt::join(faults[i].models, ", "));
  }
  const auto heads = read_index(argv[1], "heads/index.json");
  const auto joined = [&](const char* key) {
    return fmt::format("{}", fmt::join(heads.at(key).get<std::vector<std::string>>(), "`, `"));
  };
  for (const auto& fault : heads.at("faults")) {
    heads_faults += fmt::format("| `{}` | {} |\n", fault.at("of").get<std::string>(),
                                fault.at("reason").get<std::string>());
  }
  const auto circuits = read_index(argv[1], "circuits/index.json");
  const auto gradients = read_index(argv[1], "gradients/index.json");
  const auto bridge = read_index(argv[1], "bridge/index.json");
  std::vector<std::string> nodes, edges;
  for (const auto& model : bridge.at("models")) {
    nodes.push_back(model.at("model"));
    if (!model.contains("edges_refused")) edges.push_back(model.at("model"));
  }
  hooked::print_page(argv[1], "reading_functions",
                     {{"oracle", index.at("oracle").get<std::string>()},
                      {"models", std::to_string(models)},
                      {"recorded", std::to_string(models * 2 * calls - absent)},
                      {"calls", std::to_string(calls)},
                      {"absent", std::to_string(absent)},
                      {"methods", methods},
                      {"faults", rows},
                      {"heads_oracle", heads.at("oracle").get<std::string>()},
                      {"heads_models", count_of(heads.at("models"))},
                      {"heads_patterns", joined("patterns")},
                      {"heads_measures", joined("measures")},
                      {"heads_faults", heads_faults},
                      {"circuits_oracle", circuits.at("oracle").get<std::string>()},
                      {"circuits_matrices", count_of(circuits.at("matrices"))},
                      {"circuits_models", count_of(circuits.at("models"))},
                      {"gradients_models", count_of(gradients.at("models"))},
                      {"gradients_steps", std::to_string(gradients.at("steps").get<int>())},
                      {"bridge_oracle", bridge.at("oracle").get<std::string>()},
                      {"bridge_nodes", fmt::format("{}", fmt::join(nodes, ", "))},
                      {"bridge_edges", fmt::format("{}", fmt::join(edges, ", "))},
                      {"refused", refused()}});
}
