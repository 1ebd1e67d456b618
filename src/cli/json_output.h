#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/input_options.h"
#include "core/json.h"
#include "core/json_number.h"
#include "hooked/analysis/grid.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/provenance.h"
#include "options/command_options.h"

namespace hooked::cli {

// What several commands' --json have in common, each in one form; docs/command-line.md documents them.

/// null for an empty text or list, or an optional without a value.
template <typename Value>
Json or_null(const Value& value) {
  if constexpr (requires { value.empty(); }) {
    return value.empty() ? Json(nullptr) : Json(value);
  } else {
    return value ? Json(*value) : Json(nullptr);
  }
}

/// Writes one JSON value and a newline to stdout.
void print_json(const Json& value);

/// What every output begins with: `model`, `fingerprint`, `dtype` and `processing`, null if they are not
/// known.
Json model_json(const Provenance& model);
Json model_json(const HookedTransformer& model);

/// `{id, token}`: the text that the token adds, its blank included; null if the model has no tokenizer, or if
/// its logits are not about tokens but about labels.
Json token_json(const HookedTransformer& model, std::int64_t id);
/// A token that could come next: the same with `logit` and `probability`.
Json next_token_json(const HookedTransformer& model, std::int64_t id, double logit, double probability);

/// The tokens that are put around texts, and why: `before` and `after`, each [{id, token}], and `why`.
Json around_json(const Tokenizer& tokenizer, const TokensAround& around);
/// The same for the tokens that `model` puts there.
Json around_json(const HookedTransformer& model, PrependBos choice);

/// Rows of ids [batch, pos], without padding: where `mask` [batch, pos] is 0; undefined: there is none.
Json rows_json(const at::Tensor& tokens, const at::Tensor& mask = {});

/// Adds `tokens`, their `padding` if there is any on the left, and `decoder_tokens` if there are any.
void add_tokens(const Input& input, Json& json);
/// The same with `around`, the tokens around texts; null if the input was ids.
void add_tokens(const GivenInput& given, Json& json);

/// The place of a column of the main tokens in its row's ids: padding before it does not count.
std::int64_t position_in_row(const Input& input, std::int64_t row, std::int64_t column);

/// A grid as Grid::to_json writes it.
Json grid_json(const Grid& grid);

/// Numbers [n].
Json numbers_json(const at::Tensor& numbers);

/// `{name, unit}`: the name is that of the C++ function.
Json metric_json(MetricKind kind);

/// The notes of a command's runs that say that numbers are not finite.
Json not_finite_json(const std::vector<std::string>& notes);

}  // namespace hooked::cli
