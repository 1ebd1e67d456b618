#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

#include "hooked/core/export.h"
#include "hooked/core/progress.h"
#include "hooked/loading/device_names.h"
#include "hooked/weights/processing.h"

namespace HOOKED_EXPORT hooked {

/// How a checkpoint becomes a model.
struct LoadOptions {
  /// `cpu`, `cuda` or `cuda:N`. Over several GPUs the layers are spread: about as many bytes on each.
  DeviceNames device = "cpu";
  /// float32 when absent, or the dtype that a native folder records.
  std::optional<at::ScalarType> dtype = std::nullopt;
  /// When absent every step that preserves this model's function; none for a native folder that records which
  /// were applied before it was saved, so that saving and loading is bit-identical.
  std::optional<WeightProcessing> processing = std::nullopt;
  /// Threads that loading uses; LibTorch's number (`at::get_num_threads()`) when absent.
  std::optional<int> threads = std::nullopt;
  /// Bytes of the model's weights that are in their place.
  Progress progress = nullptr;
};

/// How fresh weights are drawn; TransformerLens's init modes.
enum class InitMode : std::uint8_t { gpt2, xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal };

/// How a model is made from a config alone.
struct CreateOptions {
  std::uint64_t seed = 0;          ///< the same seed draws the same weights
  InitMode init = InitMode::gpt2;  ///< the distribution of the matrices
  /// Standard deviation for gpt2 (default 0.8 / sqrt(d_model)), gain for the others (default 1).
  std::optional<double> initializer_range = std::nullopt;
  /// `cpu`, `cuda` or `cuda:N`. Over several GPUs the layers are spread: about as many bytes on each.
  DeviceNames device = "cpu";
  /// The config's dtype when absent.
  std::optional<at::ScalarType> dtype = std::nullopt;
};

}  // namespace hooked
