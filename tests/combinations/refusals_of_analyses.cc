// What analyses refuse among the drawn combinations.
#include <algorithm>
#include <string_view>

#include "docs/generators/refusals.h"
#include "tests/combinations/conditions.h"
#include "tests/combinations/refusals.h"

namespace hooked::combinations {
namespace {

bool estimates(C c) { return c.consumer == Consumer::estimates || c.consumer == Consumer::edges; }

/// Whether docs/reading-functions.md says that a function refuses models of this config.
bool documented(M config, std::string_view call) {
  return std::ranges::any_of(hooked::refusals(), [&](const hooked::Refusal& row) {
    const bool of_call = std::ranges::find(row.calls, call) != row.calls.end();
    for (std::int64_t layer = 0; of_call && layer < config.n_layers; ++layer) {
      if (row.holds(config, {.layer = layer})) return true;
    }
    return false;
  });
}

/// Whether the score is a divergence of the run from itself.
bool at_its_minimum(C c) {
  const Score::Kind kind = c.sweep.score.kind;
  return kind == Score::Kind::kl_from_itself ||
         (kind == Score::Kind::kl_from_other && c.same_clean && c.changes.empty());
}

bool reads_padding(C c, M) {
  const Places& asked = c.reads.front().pos;
  return (c.consumer == Consumer::attribution || c.consumer == Consumer::lens) &&
         asked.form != Places::Form::named && std::ranges::any_of(asked.numbers, [&](std::int64_t column) {
           return padding_at(c, column < 0 ? column + c.columns() : column);
         });
}

bool of_a_stretch(C c, M) {
  return reads_a_cache(c) && (c.less.split == Split::prefix || c.less.kept.given());
}

bool is_one_layer(C c, M config) {
  return c.consumer == Consumer::estimates && c.sweep.estimate.drop_layers && config.n_layers == 1;
}

}  // namespace

std::vector<Refusal> refusals_of_analyses() {
  return {
      {"moves in steps", "gradients of a rank",
       [](C c, M) {
         return (estimates(c) || c.consumer == Consumer::gradients) &&
                c.sweep.score.kind == Score::Kind::rank;
       },
       true},
      {"the least that there is", "gradients at the minimum of a divergence",
       [](C c, M) { return estimates(c) && c.sweep.estimate.steps == 0 && at_its_minimum(c); }, true},
      {"the least that there is", "gradients where two runs predict the same",
       [](C c, M) { return estimates(c) && c.sweep.score.kind == Score::Kind::kl_from_other; }},
      {"is infinite, and the run's own value is not", "an estimate of scores that become infinite",
       [](C c, M) { return c.consumer == Consumer::estimates && c.sweep.path.ends_with("scores"); }},
      {"edges are carried from writers to readers", "edges under changes between writers and readers",
       [](C c, M) { return c.consumer == Consumer::edges && !c.changes.empty(); }},
      {"from a prefix", "scores of heads after a prefix",
       [](C c, M) { return c.consumer == Consumer::head_scores && c.less.split == Split::prefix; }, true},
      {"edges are carried from writers to readers",
       "circuits of edges under changes between writers and readers",
       [](C c, M) { return c.consumer == Consumer::circuits && c.sweep.edges && !c.changes.empty(); }},
      {"", "a model in which circuits of edges do not run",
       [](C c, M config) {
         return c.consumer == Consumer::circuits && c.sweep.edges &&
                documented(config, "`run_circuits` of edges");
       },
       true},
      {"", "a model whose edges nobody knows",
       [](C c, M config) {
         return c.consumer == Consumer::edges && documented(config, "`edge_attribution`");
       },
       true},
      {"", "a model whose logits are not a sum",
       [](C c, M config) {
         return c.consumer == Consumer::attribution && documented(config, "`direct_logit_attribution`");
       },
       true},
      {"", "a model whose stream cannot be read everywhere",
       [](C c, M config) { return c.consumer == Consumer::lens && documented(config, "`logit_lens`"); },
       true},
      {"is padding in row", "a reading of padding", reads_padding, true},
      {"not kept", "a reading of columns that the cache does not hold", of_a_stretch},
      {"were kept", "a reading of columns that the cache does not hold", of_a_stretch},
      {"is not held", "a reading of columns that the cache does not hold", of_a_stretch},
      {"is outside the tokens of the run", "a reading of columns that the cache does not hold", of_a_stretch},
      {"out of range", "a reading of columns that the cache does not hold", of_a_stretch},
      {"query_key knows what one key does", "query_key of keys under a change of the pattern",
       [](C c, M) { return c.sweep.estimate.query_key && !c.changes.empty(); }},
      {"without it nothing is left", "drop_layers of one layer", is_one_layer},
      {"one layer", "drop_layers of one layer", is_one_layer},
  };
}

}  // namespace hooked::combinations
