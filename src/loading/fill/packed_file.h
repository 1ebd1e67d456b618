#pragma once

#include <filesystem>
#include <memory>

#include "hooked/core/model_config.h"
#include "hooked/core/progress.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/source_tensor.h"
#include "io/files/atomic_file.h"
#include "loading/config/identified_model.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Note [Packed files]
/// A packed file is a safetensors file of the graph's parameters as laid out in memory, by the parameters'
/// names: matrices in blocks of columns; queries, keys and values in one. Its metadata gives the version of
/// that layout and the storage (models/storage/matrix.h). The parameters of a model loaded from it are the
/// file's bytes, mapped read-only.
///
/// A parameter is written with its dimensions in memory order. Kernels want parameters at multiples of 64
/// bytes. Parameters whose size is such a multiple come first, so that each begins at one. The others, which
/// are small, are copied if they begin elsewhere.

/// Whether the checkpoint is a packed file.
bool is_packed(const CheckpointReader& reader);

/// The config that a packed file was written for. Throws CheckpointError if another model's is next to it.
const ModelConfig& config_of_packed(const IdentifiedModel& identified);

/// A model whose parameters are the file's bytes: on the CPU, in the file's dtype and storage. This processor
/// may be unable to multiply by that storage; the weights can be read all the same. Throws CheckpointError
/// for another layout and for tensors that are not those of `config`, IoError if the file cannot be mapped.
std::shared_ptr<LoadedModel> map_packed(const CheckpointReader& reader, const ModelConfig& config);

/// The weights of a model by their names in the state dict, each read on demand. `where` names the file in
/// errors.
SourceTensors source_tensors(const std::shared_ptr<const LoadedModel>& model,
                             const std::filesystem::path& where);

/// Writes the file that map_packed reads: the parameters of a model on the CPU as laid out in memory.
/// `progress` may be null. Throws IoError.
void write_packed(AtomicFile& file, const LoadedModel& model, const Progress& progress);

}  // namespace hooked
