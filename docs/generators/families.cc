// Prints docs/families.md from the table of families and the index of golden checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/families/family.h"

namespace {

constexpr std::string_view kPreface = R"(# Checkpoint families

Generated from the table of families (`models/families/table.inc`) and the golden checkpoints (`tests/golden/families`); do not
edit. A test fails when this page is out of date.

A family is read by the `model_type` of its config.json, never by a name or a path. Every case below is a tiny random checkpoint
that {oracle} built, saved and ran in float64, with every parameter random and sizes that are awkward on purpose. The ordinary
tests load each and compare, without Python:

| what | how | within |
|---|---|---|
| logits, residual stream before and after each layer, attention patterns, head outputs `z`, neurons, the unembedding's input | weights as they are | 1e-9 of the largest value |
| log-probabilities | default weight processing | 1e-9 nats |
| greedy continuation of 20 tokens | as they are, and processed | the same ids |
| rows of a batch padded on the left or on the right | against the rows alone | 1e-9 |

Encoders have no continuation. Those of their checkpoints that have no masked-LM head (`no_head`) are compared in all but logits,
and processing must keep their last stream.

`python scripts/parity.py` builds the cases anew and compares them with the program; with other rows in
`scripts/parity_cases/table.py` it compares other configurations. [How to add a family](adding-a-family.md).

| `model_type` | cases | variants |
|---|---:|---|
)";

constexpr std::string_view kClosing = R"(
What a config says is honoured or refused. An unknown activation, kind of rotary scaling, kind of layer or quantisation is an
error that names the key; so is an unread key whose name belongs to rotary positions, attention, experts, scaling or
quantisation, unless it says no (null, false, 0). Other unread keys are listed by `hooked info` as ignored. Where transformers
itself does not read a key of a family, neither do we, and a note says so. Longer inputs than `n_ctx` are refused; families whose
configs name no longest context (BLOOM, dynamic rotary scaling) have none here.
)";

struct Cases {
  std::vector<std::string> variants;
  std::set<std::string> oracles;
};

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  return text.replace(text.find(what), what.size(), by);
}

}  // namespace

int main(int, char** argv) {
  const auto index = nlohmann::json::parse(
      std::ifstream(std::filesystem::path(argv[1]) / "tests/golden/families/index.json"));
  std::map<std::string, Cases, std::less<>> by_family;
  std::set<std::string> oracles;
  for (const auto& [name, row] : index.items()) {
    const std::string family = row.at("model_type");
    oracles.insert(row.at("oracle").get<std::string>());
    const std::string variant = name.size() > family.size() ? name.substr(family.size() + 1) : "base";
    by_family[family].variants.push_back(fmt::format("`{}`", variant));
  }
  std::cout << replaced(std::string(kPreface), "{oracle}", fmt::format("{}", fmt::join(oracles, " and ")));
  for (const hooked::Family& family : hooked::families()) {
    const auto cases = by_family.find(family.model_type);
    if (cases == by_family.end()) {
      std::cout << fmt::format(
          "| `{}` | | the native folder: see [architecture.md](architecture.md#a-native-folder) |\n",
          family.model_type);
      continue;
    }
    std::cout << fmt::format("| `{}` | {} | {} |\n", family.model_type, cases->second.variants.size(),
                             fmt::join(cases->second.variants, ", "));
  }
  std::cout << kClosing;
}
