#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hooked/core/model_config.h"

namespace hooked::reference {

enum class Padding : std::uint8_t { none, left, right };

/// The decoder's tokens of an encoder-decoder, compared with those of its encoder.
enum class DecoderReads : std::uint8_t { fewer, more_left_padded, as_many_right_padded, start_token };

/// One model and one kind of input to compare on.
struct Case {
  ModelConfig config;
  Padding padding = Padding::none;                   ///< of the tokens
  DecoderReads decoder_reads = DecoderReads::fewer;  ///< for encoder-decoders only
};

/// One value of an option of the module graph.
struct OptionValue {
  std::string name;
  std::function<void(Case&)> apply;
  std::function<bool(const Case&)> holds;
  /// Why no outside oracle covers the value; empty if one must.
  std::string no_oracle = {};
};

struct Option {
  std::string name;
  std::vector<OptionValue> values;  ///< the first one is the default
};

/// Every option of the module graph with its values, in an order in which they can be applied in
/// turn.
const std::vector<Option>& option_table();

/// Picks one value per option.
using Choice = std::vector<std::size_t>;

/// The case that a choice describes; not validated.
Case make_case(const Choice& choice);

/// Valid encoder-decoders: one for each value of the table that may be in one, the rest at their defaults.
std::vector<ModelConfig> two_stack_configs();

/// `norm=RMS, heads=grouped-query, ...`: the chosen values, without the defaults.
std::string describe(const Case& which);

}  // namespace hooked::reference
