// Prints docs/families.md from the table of families and the index of golden checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/composite.h"
#include "families/family.h"
#include "families/unsupported.h"

namespace {

constexpr std::string_view kPreface = R"(# Checkpoint families

Generated from the table of families (`families/table.inc`) and the golden cases (`tests/golden/index.json`); do not
edit. A test fails when this page is out of date.

A family is read by the `model_type` of its config.json, never by a name or a path; [below](#without-a-model_type) are those
that have none. Every case is a tiny random checkpoint in the form that its library or script saves, run in float64 by {oracle},
with every parameter random and sizes that are awkward on purpose. The ordinary tests load each and compare, without Python:

| what | how | within |
|---|---|---|
| logits, residual stream before and after each layer, attention patterns, head outputs `z`, neurons, the unembedding's input | weights as they are | 1e-9 of the largest value |
| log-probabilities | default weight processing | 1e-9 nats |
| greedy continuation of 20 tokens | as they are, and processed | the same ids |
| rows of a batch padded on the left or on the right | against the rows alone; the cases `padded` also against transformers, which is given positions that count tokens, as its generation gives them | 1e-9 |

Encoders have no continuation. Those of their checkpoints that have no masked-LM head (`no_head`) are compared in all but logits,
and processing must keep their last stream.

`python tests/golden/make.py compare` builds the cases anew and compares them with the program; with other rows in
`tests/golden/makers/checkpoints/table.py` it compares other configurations. [How to add a family](adding-a-family.md).

| `model_type` | cases | variants |
|---|---:|---|
)";

constexpr std::string_view kClosing = R"(
What a config says is honoured or refused. An unknown activation, kind of rotary scaling, kind of layer or quantisation is an
error that names the key. Every key that transformers' class of a family reads is read here or refused. Any other key has no effect there,
and none here: `hooked info` lists it as ignored, and a note names it if it sounds as if it had one, such as `sliding_window` on a Llama
([decision 90](decisions/0090-keys-that-a-family-does-not-read.md)). Where two keys say one number, the one holds that transformers
takes, and a note names the other if it differs, or both are refused. Longer inputs than `n_ctx` are refused; families whose
configs name no longest context (BLOOM, dynamic rotary scaling) have none here.

Decoders may lack their unembedding. Where `architectures` names a class without one, or none at all, the model ends with its final norm
(embedding models), or has the head of scores of the file (`score`, `classifier`) in the unembedding's place: its logits are then one for
each label at every position. transformers reads those of a row's last token, and `hooked run` prints them. A `…ForCausalLM`
without its `lm_head` is an error.

Positions count the tokens that the mask calls real. In RoBERTa's families and M2M-100 transformers counts the tokens that are not the padding
token instead. Inputs for which the two differ are refused there: a padding token that the mask shows, and another token that it hides
before a real one.

## The text part of several models

Models that read images or sounds as well are published in one checkpoint with their towers. The text model inside is loaded as a
model of its own: what its group of config.json says, `text_config`, is honoured or refused by key as above; the keys of the whole that
concern the towers are ignored by name; and the towers' tensors are left unread, which a note counts. Its only input is token ids; those of
images mean no more than their embedding. Rotary positions in sections (m-rope) are plain ones for text.

| `model_type` | text part | names in the files begin with | left unread |
|---|---|---|---|
{composites}
The text part is read by the family that its `text_config` names; the table has the one where it names none. The cases `in_gemma3` and so
on are such checkpoints. Sizes that a `text_config` leaves out are those of its class in transformers, which once wrote nothing else
down. {composite_notes}
Other checkpoints of several models are refused by name. `hooked save` makes a native folder of the text part.

## Quantised storage

Matrices that are stored in fewer bits are dequantised when read, into the dtype asked for, block by block while they
are loaded: nothing is computed in the storage's format. They are the weights of the quantised model; its activations, keys and values are not quantised
here, and factors for them are left unread. A note says what the storage was.

| `quant_method` | read as | stored |
|---|---|---|
{formats}
MXFP4 is `*_blocks` with `*_scales`: groups of 32 numbers (e2m1), two in a byte, the first in its lower half, times a power of two. fp8 is e4m3
times a factor (`weight_scale_inv`, `weight_scale`) for the whole matrix, for each row, or for each block of rows and columns (`weight_block_size`;
the last may be smaller). Factors are floating point numbers or powers of two (e8m0). The product is rounded once, to float32, that of
compressed-tensors to the dtype of the factors.

GPTQ, AWQ, bitsandbytes and compressed-tensors, and which package each form is compared with: [loading.md](loading.md#quantised-storage). Each key of
`quantization_config` is honoured or refused; modules that it says are not quantised must not be.

## Kinds that are not read

Known kinds whose models have something that the graph lacks are refused with what that is. Any other `model_type` is an error that names the nearest one that is
read; options of families that are read, such as inputs for single layers in Gemma 4 and state-space layers in Granite 4, are refused at their key.

| `model_type` | what the graph lacks |
|---|---|
{unsupported}
## Without a `model_type`

These are known by what their files hold; a `model_type` in config.json goes first.

| family | known by |
|---|---|
{recognised}
A folder's weights are `final.pth`, `ckpt.pt`, `model.pt` or another of the names that `hooked info` lists when there is none; else
its only `.pt` or `.pth` file, the only one of several that ends in `final.pth`, or the only one in `checkpoints/`. Where there are
several the path of one is given instead of the folder: config.json and tokenizer are looked for next to it, for a file in
`checkpoints/` also in the folder above.

**`transformer_lens`**: a state dict next to a config.json, either `HookedTransformerConfig.to_dict()` or the settings of a training
run (`normalization`, `shortformer_pos`, `ln_eps`). Biases that the file lacks are zero, as in TransformerLens. The first SoLU models
are known by their names of norms (`blocks.0.norm1.w`) or by `"architecture": "neel-solu-old"`; up to 6 layers all their matrices
are the other way round, up to 8 the positions. minGPT's early tensors next to such a config are read as TransformerLens reads them.

**`nanogpt`**: `ckpt.pt` as train.py saves it; every key of `model_args` is honoured or refused. The file does not say which GELU the
model was trained with: without the key `bias` (before 27 January 2023) it is the tanh approximation, else the exact one, which
nanoGPT has since 17 May 2023. For a file from between, or to correct any other key, write a config.json next to it
(`"activation_function": "gelu_new"`): its keys go before those of `model_args`.

**`mingpt`**: a state dict, and the config.json of its trainer, whose `model` group gives the number of heads itself or by name
(`gpt-mini`); vocabulary and context come from the tensors. The names of 2020 (`tok_emb`, `attn.query`) mean the exact GELU.

A bare state dict does not tell the number of heads, nor nanoGPT's from minGPT's: write a config.json with `"model_type": "mingpt"`
or `"nanogpt"` and `"n_head"`.
)";

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  return text.replace(text.find(what), what.size(), by);
}

std::string code_list(std::span<const std::string_view> names) {
  std::vector<std::string> quoted;
  for (const std::string_view name : names) quoted.push_back(fmt::format("`{}`", name));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

}  // namespace

int main(int, char** argv) {
  const auto index =
      nlohmann::json::parse(std::ifstream(std::filesystem::path(argv[1]) / "tests/golden/index.json"));
  std::map<std::string, std::map<std::string, std::string>, std::less<>> by_family;  // case -> variant
  std::set<std::string> oracles;
  for (const auto& row : index.at("cases")) {
    const std::string family = row.at("family"), name = row.at("case");
    if (family == "hooked_transformer") continue;  // described in coverage.md, option by option
    oracles.insert(row.at("oracle").get<std::string>());
    const bool base = name.size() == family.size();  // a case's name has _ where a family's has -
    by_family[family][name] = fmt::format("`{}`", base ? "base" : name.substr(family.size() + 1));
  }
  std::cout << replaced(std::string(kPreface), "{oracle}", fmt::format("{}", fmt::join(oracles, " and ")));
  for (const hooked::Family& family : hooked::all_families()) {
    const auto cases = by_family.find(family.model_type);
    if (cases == by_family.end()) {
      std::cout << fmt::format(
          "| `{}` | | the native folder: see [architecture.md](architecture.md#a-native-folder) |\n",
          family.model_type);
      continue;
    }
    std::cout << fmt::format("| `{}` | {} | {} |\n", family.model_type, cases->second.size(),
                             fmt::join(std::views::values(cases->second), ", "));
  }
  std::string recognised;
  for (const hooked::Family& family : hooked::all_families()) {
    if (family.recognise == nullptr) continue;
    recognised += fmt::format("| `{}` | {} |\n", family.model_type, family.recognised_by);
  }
  std::string composites, notes;
  for (const hooked::Composite& composite : hooked::all_composites()) {
    composites += fmt::format("| `{}` | `{}`{} | {} | {} |\n", composite.model_type, composite.text_type,
                              composite.flat ? ", perhaps without a group" : "",
                              code_list(composite.prefixes), code_list(composite.others));
    if (!composite.note.empty()) notes += fmt::format("{}.\n", composite.note);
  }
  std::string closing = replaced(std::string(kClosing), "{composites}", composites);
  closing = replaced(std::move(closing), "{composite_notes}", notes);
  std::string formats;
  for (const hooked::StorageMethod& method : hooked::storage_methods()) {
    for (const hooked::StorageForm& form : method.forms) {
      std::vector<std::string> factors, beside;
      for (const std::string_view ending : form.factors) factors.push_back(fmt::format("`*{}`", ending));
      for (const std::string_view ending : form.beside) beside.push_back(fmt::format("`*{}`", ending));
      formats += fmt::format("| `{}` | {} | `*{}` ({}) with {}{}{} |\n", method.method, form.name,
                             form.ending, form.dtype, fmt::join(factors, " or "),
                             beside.empty() ? "" : "; perhaps ", fmt::join(beside, ", "));
    }
  }
  closing = replaced(std::move(closing), "{formats}", formats);
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> lacking;  // what, and which kinds
  for (const hooked::UnsupportedKind& kind : hooked::unsupported_kinds()) {
    auto row = std::ranges::find(lacking, kind.lacking, [](const auto& known) { return known.first; });
    if (row == lacking.end()) row = lacking.insert(row, {kind.lacking, {}});
    row->second.push_back(kind.model_type);
  }
  std::string unsupported;
  for (const auto& [what, kinds] : lacking)
    unsupported += fmt::format("| {} | {} |\n", code_list(kinds), what);
  closing = replaced(std::move(closing), "{unsupported}", unsupported);
  std::cout << replaced(std::move(closing), "{recognised}", recognised);
}
