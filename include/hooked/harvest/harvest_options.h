#pragma once

#include <ATen/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/text_options.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/selection.h"

namespace HOOKED_EXPORT hooked {

/// How documents become the rows that a model reads, its contexts.
enum class Packing : std::uint8_t {
  by_default,    ///< texts are packed, documents of ids are not
  packed,        ///< documents follow each other and are cut into contexts of one length, as SAELens does it
  per_document,  ///< each document begins a context; a longer one continues in further contexts
};

/// How contexts are made. For designated initialisers.
///
/// Packed contexts follow SAELens's three rules: `begin_context` opens each context, `begin_document` each
/// document, and `separator` stands between two documents of a context; each only where that token is
/// not there already. The incomplete context at the end of a unit is dropped.
struct ContextOptions {
  /// For a token of the rules: none is put there.
  static constexpr std::int64_t kNone = -1;

  std::int64_t length = 128;              ///< tokens of a context
  Packing packing = Packing::by_default;  ///< whether contexts hold several documents
  /// How texts are encoded. The policy for BOS says which token opens a context.
  TextOptions text = {};
  /// Absent: for texts, what the policy puts in front if that is one token; for ids, nothing.
  std::optional<std::int64_t> begin_context = std::nullopt;
  std::optional<std::int64_t> begin_document = std::nullopt;  ///< absent: nothing
  std::optional<std::int64_t> separator = std::nullopt;       ///< absent: as `begin_context`
};

/// Which tokens' activations are kept. Padding never is. For designated initialisers.
struct RowOptions {
  /// Leave out the tokenizer's special tokens (BOS, EOS, PAD, SEP) wherever they stand.
  bool exclude_special_tokens = false;
  std::vector<std::int64_t> exclude_tokens = {};  ///< further ids to leave out
  std::int64_t skip_first = 0;                    ///< leave out the first tokens of each context, this many
  /// The share of the remaining rows that is kept, drawn for each token by itself from the seed, its document
  /// and its offset.
  double share = 1;
  std::uint64_t seed = 0;  ///< of that draw
};

/// How far a harvest has come.
struct HarvestProgress {
  std::int64_t units_done = 0;   ///< of this process's share, those that were there before included
  std::int64_t units_total = 0;  ///< of this process's share
  std::int64_t tokens = 0;       ///< that the model has read since the harvest began
  double seconds = 0;            ///< since then
  double share_done = 0;         ///< of the bytes of this process's share, from 0 to 1
  std::optional<double> seconds_left = std::nullopt;  ///< at the rate so far; nothing at first
};

/// What is kept of a corpus, and how the model reads it. For designated initialisers.
struct HarvestOptions {
  /// The activations: any with a row for each token. The model runs no further than the last of them.
  Selection names = {};
  ContextOptions contexts = {};  ///< how documents become rows
  RowOptions rows = {};          ///< which tokens are kept
  /// The dtype of what is kept. Absent: that in which the model computes it.
  std::optional<at::ScalarType> dtype = std::nullopt;
  Edits edits = {};                  ///< in force in every run, as are the hooks of the model's handle
  std::int64_t batch_tokens = 1024;  ///< that a run reads at most, but at least one context
  std::optional<int> threads = std::nullopt;  ///< of a run; absent: LibTorch's current number
  /// Called after each run, and on the CPU between its layers. Returns false to end: the unit in hand is
  /// dropped.
  std::function<bool(const HarvestProgress&)> progress = nullptr;
};

}  // namespace hooked
