#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/index_text.h"

namespace hooked::cli {

// The options of each command, as given on the command line. No type of LibTorch is used here: the program
// reads its command line before it loads the engine.

/// A value given as 1,2,-3; empty if it is not given.
using IntegerList = std::vector<std::int64_t>;

/// Places on an axis (positions, layers, heads) given as 0,-1,2:5,last,all; empty if they are not given. A
/// range without ends is all.
using PlaceList = std::vector<IndexText>;

/// Options of commands that load a model.
struct ModelOptions {
  std::string model;
  std::string device = "cpu";
  std::string dtype;
  int threads = 0;  ///< 0: LibTorch's own choice
  std::vector<std::string> process;
  bool no_processing = false;
  std::string weights = "expanded";
  std::vector<std::string> dictionaries;  ///< `FOLDER[@SITE]` each
  bool with_error = false;
};

/// Texts as a user's messages in a conversation.
struct ChatTextOptions {
  bool chat = false;  ///< texts go through the model's chat template
  std::optional<std::string> system;
};

/// The input of a command.
struct InputOptions {
  std::vector<std::string> texts;  ///< `-` is standard input
  std::string text_file;
  std::vector<IntegerList> token_rows;
  std::string tokens_file;
  std::vector<IntegerList> token_type_rows;
  std::vector<IntegerList> decoder_token_rows;
  std::string prepend_bos;
  ChatTextOptions chat;
};

/// Interventions, and what they may read.
struct EditOptions {
  std::vector<std::string> texts;  ///< `ADDRESS OP VALUE` each
  std::string from_model;          ///< model whose values files may have; empty: the model that runs
};

/// Options of commands that run a model on an input.
struct InputCommandOptions {
  ModelOptions model;
  InputOptions input;
  EditOptions edits;
};

/// The file that a command writes.
struct OutOptions {
  std::string out;
  bool force = false;  ///< it may replace any file
};

struct ListOptions {
  bool json = false;
};

struct InfoOptions {
  ModelOptions model;
  bool check_processing = false;
  bool json = false;
};

struct NamesOptions {
  std::string model;
  std::string names;
  std::optional<std::int64_t> tokens_length;
  bool json = false;
};

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;
  std::optional<std::string> texts_file;
  IntegerList decode;
  bool add_special_tokens = false;
  ChatTextOptions chat;
  bool json = false;
};

/// Tokens given as texts or as ids.
struct TokenChoice {
  std::vector<std::string> texts;
  IntegerList ids;

  bool empty() const { return texts.empty() && ids.empty(); }
};

struct RunCommandOptions : InputCommandOptions {
  std::int64_t top_k = 10;
  PlaceList positions;
  TokenChoice answers;
  bool json = false;
};

struct LensOptions : InputCommandOptions, OutOptions {
  PlaceList positions;
  std::int64_t top_k = 3;
  TokenChoice answers;
  bool mid = false;
  std::string parts;  ///< a grain; empty: the stream
  std::string maps;
  bool json = false;
};

struct AttributeOptions : InputCommandOptions, OutOptions {
  TokenChoice answers, against;
  PlaceList positions;
  std::string grain = "layer";
  bool value_biases_apart = false;
  bool sources = false;
  std::int64_t top_k = 20;
  bool json = false;
};

/// A layer, or one head of it.
struct HeadsOfLayer {
  std::int64_t layer;
  std::optional<std::int64_t> head = std::nullopt;
};

struct HeadsOptions : InputCommandOptions, OutOptions {
  std::optional<HeadsOfLayer> pattern;  ///< whose attention is shown, instead of scores
  std::int64_t half = 0;                ///< of random tokens that are repeated once; 0: the input
  std::int64_t rows = 8;                ///< of such tokens
  std::uint64_t seed = 0;
  std::vector<std::string> scores;
  std::string measure = "share";
  bool exclude_bos = false, exclude_current_token = false;
  std::string of;  ///< whose heads: encoder or cross; empty: those of the predicting stack
  bool per_row = false;
  bool json = false;
};

struct CacheOptions : InputCommandOptions, OutOptions {
  std::string names;
  std::optional<std::int64_t> stop_at_layer;
  bool gradients = false;
  TokenChoice answers, against;       ///< one token each
  std::optional<IndexText> position;  ///< one, or last
  bool list = false;
  bool json = false;
};

struct ShowOptions {
  std::string file;
  bool list = false;
  bool json = false;
};

/// Options that are not given have the defaults of GenerateOptions (hooked/engine/generate_options.h).
struct GenerateCommandOptions : InputCommandOptions, OutOptions {
  std::optional<std::int64_t> max_new_tokens;
  bool greedy = false;
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p, min_p;
  std::optional<double> repetition_penalty, frequency_penalty;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> prompt_edits, new_token_edits;
  std::vector<std::string> stop_strings;
  IntegerList stop_tokens;
  bool ignores_stop_tokens = false;  ///< the model's stop tokens
  std::string capture;
  bool json = false;
};

struct SaveOptions {
  ModelOptions model;
  std::string out;
  bool packed = false;
  bool json = false;
};

struct BenchOptions {
  ModelOptions model;
  std::int64_t batch = 1;
  std::int64_t length = 0;  ///< 0: the usual one, or as the context allows
  std::int64_t iterations = 20;
  std::uint64_t seed = 0;
  bool json = false;
};

/// What is swept: a preset, paths into heads, or a site over some axes.
struct SweepChoice {
  enum class Kind : std::uint8_t { preset, direct_path, site };
  Kind kind;
  std::string name;                    ///< of a preset its first name; `direct_path_q`; `post:layer,d_mlp`
  std::string site = {};               ///< of a site
  std::vector<std::string> axes = {};  ///< of a site
};

/// What a run is scored by.
enum class MetricKind : std::uint8_t {
#define HOOKED_METRIC(name, ...) name,
#include "core/metrics.inc"
};

/// What places are patched with.
enum class PatchWith : std::uint8_t { other_run, zero, mean_rows, mean_rows_and_positions, resampled };

/// Pairs of prompts, and the metrics of their runs.
struct ScoredPairOptions {
  ModelOptions model;
  std::optional<std::string> clean, corrupted;
  IntegerList clean_tokens, corrupted_tokens;
  std::string pairs;
  TokenChoice answers, against;
  std::string prepend_bos;
  ChatTextOptions chat;
  std::vector<MetricKind> metrics;  ///< none: logit difference, or logit if there is nothing to subtract
  std::string position = "last";
  EditOptions edits;
};

struct PatchOptions : ScoredPairOptions, OutOptions {
  std::vector<SweepChoice> sweeps;
  std::optional<std::pair<std::int64_t, std::int64_t>> source;  ///< layer and head where paths begin
  PlaceList layers, heads;
  std::vector<std::string> positions;
  PatchWith with = PatchWith::other_run;
  std::optional<std::uint64_t> seed;
  bool noising = false;
  bool per_pair = false;
  bool rescaled = false;  ///< of a file of numbers
  bool scores = false;    ///< of a picture, which is rescaled otherwise
  std::string partial;
  std::string replicas;
  bool json = false;
};

struct CircuitsOptions : ScoredPairOptions, OutOptions {
  bool edges = false;      ///< scores of edges, not of nodes
  std::int64_t steps = 0;  ///< of integration over inputs; 0: one gradient
  bool hold_norms = false, hold_patterns = false;
  std::int64_t check = 0;  ///< cells that are also swept; of nodes
  std::optional<std::int64_t> top;
  std::optional<double> threshold;
  bool greedy = false;
  std::string circuit;                ///< a file: that circuit instead of a choice
  std::string save;                   ///< a file for the chosen one, for which `force` counts as well
  std::optional<std::int64_t> judge;  ///< other sets to compare it with
  PatchWith with = PatchWith::other_run;
  std::uint64_t seed = 0;
  std::int64_t top_k = 20;  ///< scores that are shown
  bool json = false;
};

struct WeightsOptions : OutOptions {
  ModelOptions model;
  std::vector<std::string> composition;  ///< by queries (q), keys (k), values (v); none: something else
  bool copying = false;
  std::string singular;  ///< matrix whose directions are read, by its name in SingularOf
  std::int64_t layer = 0;
  std::int64_t index = 0;  ///< head or expert
  std::int64_t directions = 10;
  std::int64_t draws = 64;    ///< pairs of random heads
  std::int64_t sample = 500;  ///< tokens to test
  std::uint64_t seed = 0;
  std::int64_t top_k = 5;
  std::int64_t largest = 20;  ///< pairs of heads that are shown
  bool bare = false;          ///< without the norms' weights
  bool encoder = false;
  bool json = false;
};

/// A feature of a dictionary, and the value that it gets.
struct FeatureValue {
  std::int64_t feature;
  double value;
};

struct SaeOptions : InputCommandOptions {
  PlaceList positions;   ///< empty: all
  IntegerList features;  ///< to show; empty: those that fire most
  std::int64_t count = 20;
  std::int64_t top_k = 5;
  std::vector<FeatureValue> changes;  ///< of features while the model runs
  TokenChoice answers;
  bool quality = false;
  bool json = false;
};

struct GraphOptions : OutOptions {
  ModelOptions model;
  InputOptions input;
  TokenChoice answers;  ///< none: the most probable tokens
  double probability = 0.95;
  std::int64_t max_logits = 10;
  std::optional<std::int64_t> max_features;
  std::int64_t skip_first = 1;  ///< positions whose MLPs have no nodes
  std::int64_t batch = 256;
  double memory = 16;  ///< GiB
  double node_share = 0.8, edge_share = 0.98;
  std::int64_t paths = 10;  ///< that are shown
  std::string scan;
  bool json = false;
};

struct ReportCommandOptions : OutOptions {
  ModelOptions model;
  InputOptions input;
  std::optional<std::string> corrupted;
  IntegerList corrupted_tokens;
  TokenChoice answers, against;
  bool neurons = false;  ///< an attribution graph over them
  std::int64_t features = 20;
  std::vector<std::string> examples;  ///< folders of harvests
  std::string title;
  bool json = false;
};

/// Which documents, which of their activations, and where to.
struct HarvestCommandOptions {
  ModelOptions model;
  EditOptions edits;
  std::string corpus, field;
  bool whole_files = false;
  std::optional<std::int64_t> max_documents;
  std::string names;
  std::string out;
  std::string stored_dtype;  ///< empty: that of the model
  std::int64_t context = 128;
  std::string packing = "default";
  std::string prepend_bos;
  std::optional<std::int64_t> begin_context, begin_document, separator;  ///< -1: none
  bool exclude_special_tokens = false;
  IntegerList exclude_tokens;
  std::int64_t skip_first = 0;
  double share = 1;
  std::uint64_t seed = 0;
  std::int64_t batch_tokens = 1024;
  std::uint64_t unit_tokens = 65'536, shard_mib = 512;
  bool moments = false;
  std::int64_t examples = 0, example_before = 10, example_after = 5;
  bool by_launcher = false;  ///< the share that the environment names
  std::int64_t share_index = 0, shares = 1;
  bool mixed = false, dry_run = false;
  /// One of them instead of a harvest: a store that is looked at, joined or verified.
  std::string status, join, verify;
  bool json = false;
};

/// The options of the command that was called.
using CommandOptions =
    std::variant<ListOptions, InfoOptions, NamesOptions, TokenizeOptions, RunCommandOptions, CacheOptions,
                 ShowOptions, GenerateCommandOptions, LensOptions, AttributeOptions, HeadsOptions,
                 PatchOptions, CircuitsOptions, WeightsOptions, SaeOptions, GraphOptions,
                 HarvestCommandOptions, ReportCommandOptions, SaveOptions, BenchOptions>;

}  // namespace hooked::cli
