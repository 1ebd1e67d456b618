#include <algorithm>
#include <utility>

#include "hooked/core/error.h"
#include "option_values.h"

namespace hooked::reference {
namespace {

constexpr std::int64_t kStartToken = 3;

/// Puts an encoder of that many layers before the decoder, with positions that both may have.
void add_encoder(Config& c, std::int64_t n_layers) {
  c.encoder = Encoder{.n_layers = n_layers};
  if (c.relative() == nullptr && !c.learned_positions())
    c.positions = RelativePositions{.buckets = 7, .max_distance = 5};
}

OptionValue decoder_value(std::string name, DecoderReads reads, std::string no_oracle) {
  return {.name = std::move(name),
          .apply =
              [reads](Case& c) {
                if (!c.config.has_encoder()) add_encoder(c.config, c.config.n_layers);
                if (reads == DecoderReads::start_token) c.config.encoder->decoder_start_token = kStartToken;
                c.decoder_reads = reads;
              },
          .holds = [reads](const Case& c) { return c.config.has_encoder() && c.decoder_reads == reads; },
          .no_oracle = std::move(no_oracle)};
}

}  // namespace

Option stacks() {
  return {"stacks",
          {value(
               "one", [](Config&) {}, [](const Config& c) { return !c.has_encoder(); }),
           value(
               "two, the decoder as deep or deeper",
               [](Config& c) { add_encoder(c, std::max<std::int64_t>(1, c.n_layers - 1)); },
               [](const Config& c) { return c.has_encoder() && c.n_encoder_layers() <= c.n_layers; }),
           value(
               "two, the encoder deeper", [](Config& c) { add_encoder(c, c.n_layers + 1); },
               [](const Config& c) { return c.n_encoder_layers() > c.n_layers; })}};
}

Option decoder_inputs() {
  const std::string rows_alone = "a padded row is compared with the row alone";
  return {
      "decoder reads",
      {{.name = "fewer tokens than the encoder, or there is none",
        .apply = [](Case&) {},
        .holds = [](const Case& c) { return c.decoder_reads == DecoderReads::fewer; }},
       decoder_value("more tokens, padded on the left", DecoderReads::more_left_padded, rows_alone),
       decoder_value("as many tokens, padded on the right", DecoderReads::as_many_right_padded, rows_alone),
       decoder_value("its start token alone", DecoderReads::start_token,
                     "the recorded continuations begin with it")}};
}

std::vector<ModelConfig> two_stack_configs() {
  const std::vector<Option>& table = option_table();
  const auto two = std::ranges::find(table, "stacks", &Option::name) - table.begin();
  std::vector<ModelConfig> configs;
  for (std::size_t option = 0; option < table.size(); ++option) {
    for (std::size_t value = 0; value < table[option].values.size(); ++value) {
      Choice choice(table.size(), 0);
      choice[static_cast<std::size_t>(two)] = 1 + value % 2;  // which of them is deeper
      choice[option] = value;
      const Case made = make_case(choice);
      if (!made.config.has_encoder() || !table[option].values[value].holds(made)) continue;
      try {
        made.config.validate();
        configs.push_back(made.config);
      } catch (const ConfigError&) {  // not in an encoder-decoder
      }
    }
  }
  return configs;
}

}  // namespace hooked::reference
