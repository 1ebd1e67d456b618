#pragma once

#include "families/family.h"
#include "hooked/weights/processing.h"

namespace hooked {

/// What is done to the weights when nobody says: every step that preserves the function, but to a model that
/// was saved with a record of its processing nothing more.
inline WeightProcessing usual_processing(const FamilyConfig& read) {
  return read.processing_recorded ? WeightProcessing::none() : WeightProcessing::all_that_apply();
}

}  // namespace hooked
