#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/reference/option_table.h"

/// What is drawn at random: which places, which partial run, which changes, which consumer. Everything is a
/// value that can be printed, so that a failure says how to reproduce it.
namespace hooked::combinations {

/// Places on one axis, as a caller writes them. Negative numbers count from the end.
struct Places {
  enum class Form : std::uint8_t { all, one, range, list, last, named };
  Form form = Form::all;
  std::vector<std::int64_t> numbers = {};  ///< of one and list; of named: the token, from a row's last
  std::optional<std::int64_t> begin = {}, end = {};  ///< of a range

  bool operator==(const Places&) const = default;
  bool given() const { return form != Form::all; }
  /// Whether a number counts from the end.
  bool from_the_end() const;
  std::string to_string() const;  ///< `3`, `1:-1`, `4+2`, `last`
};

/// A block of an activation of one layer, or of all of them.
struct Where {
  std::string path = "hook_resid_pre";     ///< after `blocks.L.`; for points outside blocks the whole name
  bool in_block = true;                    ///< whether it is in blocks
  std::optional<std::int64_t> layer = {};  ///< nothing: every layer, by a glob
  Places row = {}, pos = {}, head = {}, key = {};

  /// Whether it names columns by numbers from the end.
  bool from_the_end() const { return pos.from_the_end() || key.from_the_end(); }
  bool operator==(const Where&) const = default;
  std::string to_string() const;
};

/// What a change does to a block.
enum class Made : std::uint8_t { zero, set, add, scale, replace, project_out };

/// How it is written.
enum class Said : std::uint8_t { edit, hook, attached_hook };

/// One change of a run.
struct Change {
  Said said = Said::edit;
  Made made = Made::zero;
  Where where = {};
  double number = 0.0;
  Places kept = {};  ///< of a replacement: the positions in the cache of the other run

  bool operator==(const Change&) const = default;
  std::string to_string() const;
};

/// Stretches in which the columns are run.
enum class Split : std::uint8_t {
  none,
  prefix,         ///< the first columns are a prefix; requests apply to the rest
  joined,         ///< the same, and the caches of both are joined
  first_columns,  ///< each row leaves a prefix of one row at a column of its own
};

/// How a run is less than a whole run.
struct Less {
  Split split = Split::none;
  std::int64_t at = 0;                           ///< columns of the prefix
  std::vector<std::int64_t> first_columns = {};  ///< by row
  std::optional<std::int64_t> start = {}, stop = {};
  Places kept = {};
  bool kept_on_device = false;  ///< whether KeepOptions::device is set
  Places asked = {};            ///< positions whose logits are computed

  bool operator==(const Less&) const = default;
};

/// The source of a sweep's values.
struct Source {
  enum class Kind : std::uint8_t { run, zero, value, mean_rows, mean_positions, resampled };
  Kind kind = Kind::run;
  double number = 0.0;                          ///< of `value`
  std::optional<double> share_of_zero = {};     ///< a mixture with zeros
  std::vector<std::int64_t> data_lengths = {};  ///< of the rows of a mean and of what is drawn from

  bool operator==(const Source&) const = default;
  std::string to_string() const;
};

/// A score.
struct Score {
  enum class Kind : std::uint8_t {
    logit,
    logit_difference,
    probability,
    log_probability,
    rank,
    loss,
    kl_from_other,  ///< from the logits of the other run
    kl_from_itself,
  };
  Kind kind = Kind::logit;
  std::vector<std::int64_t> answers = {0};
  std::vector<std::int64_t> against = {1};
  bool by_row = false;                      ///< whether each row's set is given separately
  std::optional<std::int64_t> column = {};  ///< nothing: each row's last token
  std::optional<std::int64_t> named = {};   ///< a named place: the token, from each row's last

  bool operator==(const Score&) const = default;
  std::string to_string() const;
};

/// What is computed from the runs.
enum class Consumer : std::uint8_t {
  read,
  edit,
  sweep,
  generation,
  file,
  estimates,
  attribution,
  lens,
  head_scores,
  gradients,
  edges,
  circuits,
};
inline constexpr int kConsumers = 12;

/// One axis of a sweep. Positions of the run that values come from may be others.
struct SweptPlaces {
  std::string axis;
  std::vector<std::int64_t> into = {};  ///< none: all
  std::vector<std::int64_t> from = {};  ///< none: the same
  bool last = false;                    ///< Position::last() instead, of `pos`
  /// A named place instead: the token, from each row's last; and that in the run that values come from.
  std::optional<std::int64_t> named = {}, named_from = {};

  bool operator==(const SweptPlaces&) const = default;
  std::string to_string() const;
};

/// How an estimate by gradients is made.
struct Estimate {
  bool query_key = false, drop_layers = false;
  bool over_inputs = false;
  std::int64_t steps = 0;  ///< of an integral; 0: one gradient
  bool operator==(const Estimate&) const = default;
};

/// A patching experiment.
struct Sweep {
  std::string path = "hook_resid_pre";
  std::vector<SweptPlaces> over = {};
  Source source = {};
  Score score = {};
  std::int64_t tokens_per_run = 1024;
  /// Stopped after that many runs and resumed from its partial file; with `other_source` by another source.
  std::optional<std::int64_t> resumed_after = {};
  bool other_source = false;
  bool edges = false;  ///< of a circuit: whether it is one of edges
  Estimate estimate = {};

  bool operator==(const Sweep&) const = default;
};

/// A generation.
struct Generation {
  std::int64_t tokens = 1;
  std::vector<Change> prompt_changes = {}, new_token_changes = {};
  bool operator==(const Generation&) const = default;
};

/// Everything about one comparison.
struct Combination {
  std::map<std::size_t, std::size_t> options = {};  ///< of the option table: option, value; others: default
  bool processed = false;                           ///< whether the weights are
  std::uint64_t seed = 0;                           ///< of weights and tokens
  std::vector<std::int64_t> lengths = {3};          ///< of the rows, in tokens
  reference::Padding side = reference::Padding::left;
  Less less = {};
  std::vector<Change> changes = {};
  std::vector<Where> reads = {};
  Consumer consumer = Consumer::read;
  Sweep sweep = {};
  Generation generation = {};
  bool same_clean = false;  ///< whether the other run is of the same tokens

  bool operator==(const Combination&) const = default;

  std::int64_t rows() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t columns() const;
  bool padded() const;
};

std::string_view consumer_name(Consumer consumer);

/// All of it, without what is at its default.
std::string describe(const Combination& combination);

/// The config of its model.
ModelConfig config_of(const Combination& combination);

/// A combination; the same for the same seed.
Combination draw(std::uint64_t seed);

/// Combinations with one thing less each, the boldest first.
std::vector<Combination> shrunk(const Combination& combination);

}  // namespace hooked::combinations
