#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/progress.h"
#include "hooked/weights/processing.h"
#include "loading/fill/loaded_model.h"
#include "loading/fill/recipe_reader.h"

namespace hooked {

/// What became of matrices that were to stay in codes.
struct MatricesInCodes {
  std::int64_t matrices = 0, in_codes = 0;
  std::uint64_t bytes = 0;  ///< of all weights in memory

  /// `210 of 211 matrices stay in codes …`
  std::string text() const;
};

/// What a model with Storage::codes would keep of the reader's weights. Reads none of them: a matrix whose
/// factors are not finite counts as kept, for example.
MatricesInCodes matrices_in_codes(const LoadedModel& empty, RecipeReader& reader);

/// A model of `config` with the reader's weights, processed. Works part by part, and in large tensors block
/// by block, from where they are stored into the packed parameters, so that memory holds hardly more than the
/// model. With Storage::codes, matrices of codes whose numbers no step changes stay codes, and a note says
/// how many. Blocks of the model are filled on several threads at once; the numbers do not depend on the
/// number of threads. With several devices, the layers are spread over them. `progress` may be null. Throws
/// ConfigError before anything is read.
std::shared_ptr<LoadedModel> streamed_model(RecipeReader& reader, const ModelConfig& config,
                                            const std::vector<c10::Device>& devices,
                                            const WeightProcessing& processing, Storage storage,
                                            const Progress& progress);

}  // namespace hooked
