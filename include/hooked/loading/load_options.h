#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

#include "hooked/core/export.h"
#include "hooked/core/progress.h"
#include "hooked/loading/device_names.h"
#include "hooked/weights/processing.h"

namespace HOOKED_EXPORT hooked {

/// What becomes of weights that a file stores in a few bits each.
enum class WeightStorage : std::uint8_t {
  expanded,  ///< numbers of the model's dtype: two to twelve times the bytes
  /// On the CPU they stay the codes that they are in the files: about the files' bytes in memory. Products
  /// decode them. Processing would change them, so it is left out. Matrices that are not in codes, or whose
  /// rows are not whole blocks of them, are expanded. ConfigError for files without codes, for a GPU, and for
  /// processing steps that were asked for.
  stored
};

/// How a checkpoint is loaded as a model.
struct LoadOptions {
  /// `cpu`, `cuda` or `cuda:N`. Several GPUs share the layers, with about the same number of bytes on each.
  DeviceNames device = "cpu";
  /// float32 when absent, or the dtype that a native folder records.
  std::optional<at::ScalarType> dtype = std::nullopt;
  /// If absent, every step that preserves this model's function. For a native folder that records the steps
  /// applied before it was saved, none, so that saving and loading is bit-identical.
  std::optional<WeightProcessing> processing = std::nullopt;
  /// Steps that are left out of these: those that would change what a dictionary was fitted to
  /// (steps_that_change()).
  std::vector<ProcessingStep> without = {};
  /// Quantised weights in memory.
  WeightStorage weights = WeightStorage::expanded;
  /// Threads that loading uses; if absent, LibTorch's number (`at::get_num_threads()`).
  std::optional<int> threads = std::nullopt;
  /// Counts the bytes of the model's weights that have been loaded.
  Progress progress = nullptr;
};

/// The distribution of fresh weights; TransformerLens's init modes.
enum class InitMode : std::uint8_t { gpt2, xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal };

/// How a model is created from a config alone.
struct CreateOptions {
  std::uint64_t seed = 0;          ///< the same seed draws the same weights
  InitMode init = InitMode::gpt2;  ///< the distribution of the matrices
  /// Standard deviation for gpt2 (default 0.8 / sqrt(d_model)), gain for the others (default 1).
  std::optional<double> initializer_range = std::nullopt;
  /// `cpu`, `cuda` or `cuda:N`. Several GPUs share the layers, with about the same number of bytes on each.
  DeviceNames device = "cpu";
  /// The config's dtype when absent.
  std::optional<at::ScalarType> dtype = std::nullopt;
};

}  // namespace hooked
