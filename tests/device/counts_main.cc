// Prints docs/device-counts.md: what runs on a device cost in launches and waits.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "tests/device/counts_table.h"
#include "tests/device/function_counts.h"
#include "tests/support/strict_device/device.h"

namespace {

using hooked::strict::Counts;

constexpr const char* kPreface = R"(# Launches and waits on a device

Generated: the program `tests/device/counts_main.cc` runs small models on the strict test device and counts. Do not edit; run
`cmake --build --preset release --target docs`. A test holds the numbers.

At small batches a GPU is as fast as the host hands it work: what counts is how many kernels are launched, and how often the host
waits for an answer. Both are properties of the program and are counted here without a GPU, on a device of LibTorch's that the
tests register: it computes on the host, closes its memory to everybody else, refuses tensors of several devices in one operator as
CUDA does, and counts ([decision 46](decisions/0046-a-strict-test-device.md)). What it cannot tell is time.

A launch is an operator that launches at least one kernel (sort, topk and cumsum launch several), or a copy that nobody waits for;
views and allocations are none. A wait is a number that the host asks for, an operator whose result's size depends on numbers, or a
copy to or from memory that is not pinned. Numbers are `launches / waits`.

- **A run** of tokens that lie on the host waits nowhere, and so can be recorded as a graph. Ids that lie on the device are
  checked there before the first launch: one wait.
- **A step of a generation** waits once: for the ids that were picked, which the caller sees.
- **A run that is replayed** ([gpu.md](gpu.md)) is one launch, and the copies of what it reads and of what it made. The rest of
  a replayed step is what picks the token: penalties, the likeliest, its probability.
- **What is kept on the host** goes there in one copy a run, and its first reader waits ([gpu.md](gpu.md#to-the-host)).
- **A block** is what the last block adds, which finds the masks that others made.
- **Cached**: with all default points kept but those of single experts. Watching these waits for how many tokens each
  expert got, and the experts compute one by one ([decision 61](decisions/0061-mixtures-that-wait-nowhere.md)).

Checkpoints are the small ones of the tests, in float32, with the steps of processing that apply.

| checkpoint (blocks) | run | tokens there | cached | cached, on the host | a block | a block, cached | cached, replayed | gradients | a step | replayed | a sweep's cell | replayed |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
)";

constexpr const char* kBetween = R"(
## The operators of a block

What the last block launches in a plain run, in order. `bmm` and `baddbmm` are products of several matrices, `mm` and `addmm` of one;
`cat`, `clone`, `copy_` and `contiguous` write what others made where the next one reads it.

| checkpoint | launches | operators |
|---|---|---|
)";

constexpr const char* kEnd = R"(
- gradients: of the stream before each block. A sweep: over the stream before each block and all positions of one row, over its cells.
- llama's and mistral's keys are shared by heads, which no fused attention of CUDA's takes in float32: keys and values are repeated,
  2 launches a block.
- A block of GPT-2's shape is two norms, four products, attention, the activation and two sums. Rotation takes three operators more
  for queries and keys together, a gate one: at most 16, and 22 cached, in dense models that fused attention serves. What is above that
  is arithmetic that LibTorch has no fewer operators for ([decision 65](decisions/0065-what-is-left-to-record.md)):
- gemma2 has four norms, and caps its scores, which no fused attention of LibTorch's does: two products, cap, mask, softmax, and
  copies of queries, keys, values and z to where products read them, 9 in place of 1.
- gpt_oss has sinks, which fused attention takes as one more key and value of zeros and a mask of each head: 3 copies, in place of those
  that repeat keys and values. Its activation is 4 (two limits, a swish with a factor of its own, a product), and biases of several
  experts are copied before their products.
- A mixture's router takes 3 (product, softmax, the largest; renormalised 2 more), its experts 6 in place of an MLP's 4.
- deepseek_v3 has two norms and two products more for its latents, turns queries and keys apart (9), has a shared expert (5, with
  its sum), and chooses experts in groups (17).
- qwen3_next's last block is a gated delta net next to a mixture, computed in chunks of tokens by products and one triangular system; lfm2's is a
  short convolution.
- The places of all waits: `strict::Trace` in a test (tests/support/strict_device/counts.h).
)";

constexpr const char* kFunctions = R"(
## Analyses

What one call costs on the checkpoint {}, a row of its tokens, whose cache lies on the device; with all runs that
it makes, the second time that it is called. A wait reads numbers of the cache or of weights where they are reckoned with on the host, or fetches
scores. What reads a cache waits for each activation that it reads, what patches for the scores of each batch of runs: no analysis waits within a run.

| function | | launches | waits |
|---|---|---|---|
)";

std::string text(const std::optional<Counts>& counts) {
  return counts ? fmt::format("{} / {}", counts->launches, counts->waits) : "–";
}

std::string per_cell(const std::optional<Counts>& sweep, std::int64_t all) {
  if (!sweep) return "–";
  const auto cells = static_cast<double>(all);
  return fmt::format("{:.1f} / {:.2f}", static_cast<double>(sweep->launches) / cells,
                     static_cast<double>(sweep->waits) / cells);
}

// `aten::mm.out` as `mm`; equal neighbours are merged, with their number.
std::string list_of(const std::vector<std::string>& operators) {
  std::string list;
  for (std::size_t i = 0, next = 0; i < operators.size(); i = next) {
    for (next = i; next < operators.size() && operators[next] == operators[i];) ++next;
    std::string name = operators[i].substr(operators[i].starts_with("aten::") ? 6 : 0);
    name = name.substr(0, name.find('.'));
    list +=
        fmt::format("{}`{}`{}", i == 0 ? "" : ", ", name, next - i > 1 ? fmt::format(" ×{}", next - i) : "");
  }
  return list;
}

}  // namespace

int main() {
  hooked::strict::install();
  std::cout << kPreface;
  std::vector<hooked::device_tests::CountedModel> models;
  for (const std::string& name : hooked::device_tests::counted_checkpoints()) {
    const auto& model = models.emplace_back(hooked::device_tests::counted(name));
    std::cout << fmt::format("| {} ({}) | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                             name, model.layers, text(model.run), text(model.run_there), text(model.cached),
                             text(model.cached_here), text(model.block), text(model.cached_block),
                             text(model.replayed), text(model.gradients), text(model.step),
                             text(model.replayed_step), per_cell(model.sweep, model.cells),
                             per_cell(model.replayed_sweep, model.cells));
  }
  std::cout << kBetween;
  for (const auto& model : models) {
    std::cout << fmt::format("| {} | {} | {} |\n", model.name, model.block.launches,
                             list_of(model.operators));
  }
  std::cout << kEnd << fmt::format(kFunctions, hooked::device_tests::kAnalysedCheckpoint);
  for (const auto& function : hooked::device_tests::counted_functions()) {
    std::cout << fmt::format("| `{}` | {} | {} | {} |\n", function.name, function.asked,
                             function.counts.launches, function.counts.waits);
  }
}
