#pragma once

#include <filesystem>
#include <string_view>

#include "io/checkpoint/checkpoint_reader.h"
#include "io/files/replaceable.h"
#include "loading/adapter/adapter.h"

namespace hooked {

/// Where a model is read from: its folder and files, and its base model's if it is an adapter.
ReadFrom model_read_from(std::string_view model);

/// The same for a model that has been located already: its reader, if it was opened, and the adapter, or
/// null, that is merged into it.
ReadFrom model_read_from(const std::filesystem::path& place, const CheckpointReader& reader,
                         const Adapter* adapter);

}  // namespace hooked
