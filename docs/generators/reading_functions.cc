// Prints docs/reading-functions.md from the indices of the goldens of TransformerLens's ActivationCache and
// detect_head, and from the table of what is refused.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "refusals.h"

namespace {

constexpr std::string_view kPreface = R"(# TransformerLens's functions for reading a run

Generated from the golden results (`tests/golden/reading/index.json`, `tests/golden/heads/index.json`, `tests/golden/circuits/index.json`, `tests/golden/gradients/index.json`, `tests/golden/bridge/index.json`) and the table of refusals (`docs/generators/refusals.h`); do not edit. Run
`cmake --build --preset release --target docs` after a change. A test fails when this page is out of date.

You have code that calls TransformerLens's `ActivationCache`. This page names the function here that gives the same number, and says
where the numbers differ and why. [analysis.md](analysis.md) describes the functions themselves, and the last section lists what each of them refuses.

How close they are: a test compares {recorded} results with what {oracle} returned in float64, each number within 1e-9. They come from {calls} calls
(every mode, label, slice and projection) on {models} models, with raw and with folded weights, on three rows padded on the left. In {absent} further
calls TransformerLens crashes or returns a number that contradicts its own definition. The last column points to the reason below.

| `ActivationCache` | here | differs, see |
|---|---|---|
)";

constexpr std::pair<std::string_view, std::string_view> kMethods[] = {
    {"accumulated_resid",
     "`accumulated_residual`; for `layer` and `mlp_input` write `.until`, for `apply_ln` write `.norm`"},
    {"decompose_resid",
     "`residual_parts`; for `layer`, `mlp_input` and `apply_ln` write `.of`; modes are labels of the axis `part`"},
    {"stack_head_results", "`residual_parts` with `Grain::head`"},
    {"stack_neuron_results",
     "`residual_parts` with `Grain::neuron`; for `project_output_onto` write `.along`, transposed"},
    {"get_neuron_results", "the same with `.of = act::mlp_out(layer)`"},
    {"get_full_resid_decomposition",
     "`residual_parts` with `Grain::neuron`; its `bias` is the sum of the biases here"},
    {"apply_ln_to_stack", "`normed_stack`"},
    {"stack_activation", "`cache.stack(site)`"},
    {"logit_attrs", "`direct_logit_attribution` of a stack; pass tokens as `Answers`"}};

constexpr std::string_view kHabits = R"(
## Differences that hold for every function

| | TransformerLens | here |
|---|---|---|
| axes | component first; an int slice drops an axis | a `Grid` [row, part, pos, d_model] with labels and addresses |
| labels | `0_attn_out`, `L0H1`, `L0N2`, `0_pre`, `final_post` | `attn 0`, `head 0.1`, `neuron 0.2`, `resid_pre 0`, `resid_post 2` |
| padding | numbers | NaN |
| remainder | the stream minus the parts that this call returns | the stream minus all parts: rounding, or what edits changed |
| a norm that is recomputed | only the last, with its weight and bias | any norm of the stream, without weight and bias |
| a norm's weight that is not folded, in `logit_attrs` | left out | included |
| a layer's norm before a parallel MLP, output norms, norms on the stream, experts, two stacks | parts do not add up, or a crash | parts add up |

## Where TransformerLens's number is wrong or missing

| | what TransformerLens does | calls | models |
|---|---|---|---|
)";

constexpr std::string_view kHeads = R"(
## Heads

For `detect_head` call `head_scores`. A test compares it with {oracle} in float64, each number within 1e-9: {models} models, two whole prompts and three
rows padded on the left, `{patterns}`, `{measures}`, with and without each exclusion. TransformerLens rounds `abs` to three digits; `head_scores` does not.
It takes one prompt at a time, so it was given the rows of the padded batch one by one.

| option, on a row padded on the left | why TransformerLens's number is wrong |
|---|---|
)";

constexpr std::string_view kCircuits = R"(
## Circuits

`FactoredMatrix` has the same members under the same names: products on either side, transpose, SVD, eigenvalues, norm, `make_even`, `collapse_l` and
`collapse_r`, slices.

| TransformerLens | here |
|---|---|
| `all_composition_scores` | `composition_scores` with `.norms = false` |
| `composition_scores` of two matrices | `composition` |
| `OV.eigenvalues` | those of `ov_circuits` with `.norms = false` |
| `SVDInterpreter.get_singular_vectors` | `singular_directions`, whose signs are free |

Tests compare them with {oracle} in float64, each number within 1e-9: {matrices} shapes of factors, and {models} models with raw and with folded weights. Singular values
are compared with torch's, and `copying_scores` with plain PyTorch over the vocabulary's whole matrix.

| | TransformerLens | here |
|---|---|---|
| circuits of unfolded models | without the norms' weights | with them, unless asked otherwise |
| grouped heads | keys and values repeated | the same |
| no composition (the same layer or an earlier one) | 0 | NaN |
| query and key norms | left out | QK circuits are refused |
| `get_singular_vectors` of grouped heads | a KeyError | the heads of their group |
| `get_singular_vectors("w_in")` of unfolded models | with ln2's weight, not centred, read through an unembedding without its norm | both with their norms, or both bare |
| singular vectors of equal singular values | any basis | marked as one subspace |
| singular vectors of QK circuits, W_gate and experts | none | `SingularOf`, `stream_matrix` |
| indices | Python's, on all axes | `[]` for leading axes, `rows`, `columns`, `row`, `column`, `at` |
)";

constexpr std::string_view kGradients = R"(
## Gradients, paths and circuits

TransformerLens 3.9 has no functions for these; its demonstrations, the papers' programs and TransformerLens 4 have. Tests compare the functions here with plain autograd,
written from the papers, over TransformerLens's models in float64, each number within 1e-9: {models} models on three pairs padded on the left; nodes, held norms and patterns, integration over
inputs and activations ({steps} steps), both corrections of AtP*, and edges.

| elsewhere | here |
|---|---|
| attribution patching (demonstration; `attribution_patching` of 4.x) | `attribution_patching`, `node_attribution` |
| EAP, EAP-IG (inputs), with `use_split_qkv_input`, `use_attn_result`, `use_hook_mlp_in` and ungrouped heads | `edge_attribution`, without switches |
| EAP-IG (activations) | `attribution_patching` with `IntegrateOver::activations`, of nodes |
| AtP*: query-key correction, GradDrop | `.query_key`, `.drop_layers` |
| path patching (ARENA, `path_patching`, `nnpatch`) | `path_patching` |
| a circuit's graph: top-n, greedy, pruning, evaluation (EAP-IG's `Graph`) | `Circuit`, `choose_circuit`, `run_circuits`, `judge_circuit` |
)";

constexpr std::string_view kBridge = R"(
### The tools of TransformerLens 4

Another test compares the functions here with the tools of {oracle} on checkpoints that its `TransformerBridge` runs with raw weights, in float64, each number within 1e-9:
`attribution_patch` by node ({nodes}), and by edge with `faithfulness` of circuits and `get_act_patch_direct_path_all_sources` ({edges}).

| TransformerLens 4 | here |
|---|---|
| `attribution_patch` by edge, by column, without position embeddings; keys that heads share are refused | `edge_attribution` with `.by_position`; all embeddings; the heads of a group have one edge |
| `faithfulness`, on a scale from the corrupted prompt's score to the clean one's | `run_circuits`; the scale of `judge_circuit` begins at the score with everything ablated |
| `get_act_patch_direct_path`, exact since 4.0; zero if the receiving head is not later | `path_patching`, which then gives the score without a patch; `direct_path` is the function of 3.9, with the norms' scales held |
| integrated gradients: declared, not implemented yet | `.integration` |
)";

constexpr std::string_view kRefused = R"(
## What is refused

Some functions have no answer for some models and throw an error that says why. A test calls every analysis on every kind of golden checkpoint and compares what is refused with this
table. In addition, every function refuses by name what a model does not have (a layer, a head, an encoder, an activation, a weight), what a cache has not kept, and options
that are empty or contradict one another. Circuits from weights are of a stack's own attention; `WeightView::cross_attention` has cross-attention's matrices.

| function | where | because |
|---|---|---|
)";

/// One thing that TransformerLens gets wrong, and where.
struct Fault {
  std::string reason;
  std::string kind;
  std::size_t calls = 0;
  std::vector<std::string> models;
};

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

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

void print_heads(const nlohmann::json& index) {
  const auto joined = [&](const char* key) {
    return fmt::format("{}", fmt::join(index.at(key).get<std::vector<std::string>>(), "`, `"));
  };
  std::string text = replaced(std::string(kHeads), "{oracle}", index.at("oracle"));
  text = replaced(text, "{models}", std::to_string(index.at("models").size()));
  text = replaced(text, "{patterns}", joined("patterns"));
  std::cout << replaced(text, "{measures}", joined("measures"));
  for (const auto& fault : index.at("faults")) {
    std::cout << fmt::format("| `{}` | {} |\n", fault.at("of").get<std::string>(),
                             fault.at("reason").get<std::string>());
  }
}

void print_circuits(const nlohmann::json& index) {
  std::string text = replaced(std::string(kCircuits), "{oracle}", index.at("oracle"));
  text = replaced(text, "{matrices}", std::to_string(index.at("matrices").size()));
  std::cout << replaced(text, "{models}", std::to_string(index.at("models").size()));
}

void print_gradients(const nlohmann::json& index) {
  const std::string text =
      replaced(std::string(kGradients), "{models}", std::to_string(index.at("models").size()));
  std::cout << replaced(text, "{steps}", std::to_string(index.at("steps").get<int>()));
}

void print_bridge(const nlohmann::json& index) {
  std::vector<std::string> nodes, edges;
  for (const auto& model : index.at("models")) {
    nodes.push_back(model.at("model"));
    if (!model.contains("edges_refused")) edges.push_back(model.at("model"));
  }
  std::string text = replaced(std::string(kBridge), "{oracle}", index.at("oracle"));
  text = replaced(text, "{nodes}", fmt::format("{}", fmt::join(nodes, ", ")));
  std::cout << replaced(text, "{edges}", fmt::format("{}", fmt::join(edges, ", ")));
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

void print_refused() {
  std::cout << kRefused;
  std::vector<std::string_view> before;
  for (const hooked::Refusal& row : hooked::refusals()) {
    const std::string calls = row.calls == before ? "the same" : listed(row.calls);
    std::cout << fmt::format("| {} | {} | {} |\n", calls, row.where, row.because);
    before = row.calls;
  }
}

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
  std::string preface(kPreface);
  preface = replaced(preface, "{oracle}", index.at("oracle"));
  preface = replaced(preface, "{models}", std::to_string(models));
  preface = replaced(preface, "{recorded}", std::to_string(models * 2 * calls - absent));
  preface = replaced(preface, "{calls}", std::to_string(calls));
  std::cout << replaced(preface, "{absent}", std::to_string(absent));
  for (const auto& [method, ours] : kMethods)
    std::cout << fmt::format("| `{}` | {} | {} |\n", method, ours,
                             fmt::join(of_method[std::string(method)], ", "));
  std::cout << kHabits;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    std::cout << fmt::format("| {} | {}: {} | {} | {} |\n", i + 1, faults[i].kind, faults[i].reason,
                             faults[i].calls, fmt::join(faults[i].models, ", "));
  }
  print_heads(read_index(argv[1], "heads/index.json"));
  print_circuits(read_index(argv[1], "circuits/index.json"));
  print_gradients(read_index(argv[1], "gradients/index.json"));
  print_bridge(read_index(argv[1], "bridge/index.json"));
  print_refused();
}
