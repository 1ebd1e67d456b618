#pragma once

#include "families/family.h"
#include "loading/config/generation_config.h"

namespace hooked {

/// The family of a model and the config that it read.
struct IdentifiedModel {
  Family family;
  FamilyConfig read;
  ConfigText config;  ///< config.json as it is, `{}` if there is none, and the group that was read
  GenerationConfig generation = {};
};

}  // namespace hooked
