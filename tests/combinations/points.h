#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hooked/hooks/activation_name.h"
#include "tests/combinations/combination.h"

/// The points of a model as combinations write them.
namespace hooked::combinations {

/// `hook_resid_pre` of `blocks.3.hook_resid_pre`; of a point outside blocks the whole name.
std::string path_of(const ActivationName& name);

/// Points that are read: all but ids and those in single experts, whose tokens come from all rows.
std::vector<ActivationName> read_points(const ModelConfig& config);

/// Points that are changed: those of them that the plain model can change.
std::vector<ActivationName> changed_points(const ModelConfig& config);

/// The name of a Where's point in a layer; the layer has no meaning outside blocks.
ActivationName name_in(const Where& where, std::int64_t layer);

/// The layers of a model that a Where names and that have the point, ascending; one number outside of blocks.
std::vector<std::int64_t> layers_of(const Where& where, const ModelConfig& config);

/// The dimension of a site that such an index names (`pos` means queries, `head` key/value heads too), or
/// nothing.
enum class Index : std::uint8_t { row, pos, head, key };
std::optional<std::size_t> dimension_of(Site site, Index index);

/// The index of a Where on a dimension of a site, or nothing.
const Places* places_on(const Where& where, Site site, std::size_t dimension);

}  // namespace hooked::combinations
