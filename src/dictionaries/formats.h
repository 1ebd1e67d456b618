#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "dictionaries/dictionary_plan.h"

namespace hooked {

/// A kind of files that dictionaries are read from.
struct DictionaryFormat {
  std::string_view name;
  std::string_view files;  ///< what it looks like, for errors
  /// Whether a path is of this kind, by the names of files and at most by what a small config says.
  bool (*recognises)(const std::filesystem::path& path);
  DictionaryPlans (*plan)(const std::filesystem::path& path);
};

/// SAELens's files, of version 6 and before.
inline constexpr const char* kSaeLensConfig = "cfg.json";
inline constexpr const char* kSaeLensWeights = "sae_weights.safetensors";

bool is_saelens(const std::filesystem::path& path);
DictionaryPlans plan_saelens(const std::filesystem::path& path);

/// Gemma Scope: params.npz, in a folder or as a file.
bool is_gemma_scope(const std::filesystem::path& path);
DictionaryPlans plan_gemma_scope(const std::filesystem::path& path);

/// Gemma Scope 2: params.safetensors with or without a config.json, or params_layer_<i>.safetensors for each
/// layer of a cross-layer transcoder.
bool is_gemma_scope_2(const std::filesystem::path& path);
DictionaryPlans plan_gemma_scope_2(const std::filesystem::path& path);

/// Llama Scope: hyperparams.json and checkpoints/final.safetensors.
bool is_llama_scope(const std::filesystem::path& path);
DictionaryPlans plan_llama_scope(const std::filesystem::path& path);

/// Llamascopium: a config.json with sae_type.
bool is_llamascopium(const std::filesystem::path& path);
DictionaryPlans plan_llamascopium(const std::filesystem::path& path);

/// dictionary_learning: ae.pt and config.json.
bool is_dictionary_learning(const std::filesystem::path& path);
DictionaryPlans plan_dictionary_learning(const std::filesystem::path& path);

/// sparsify: cfg.json and sae.safetensors.
bool is_sparsify(const std::filesystem::path& path);
DictionaryPlans plan_sparsify(const std::filesystem::path& path);

/// Qwen Scope: layer<i>.sae.pt, one file or a folder of them.
bool is_qwen_scope(const std::filesystem::path& path);
DictionaryPlans plan_qwen_scope(const std::filesystem::path& path);

/// circuit-tracer: a config.yaml, layer_<i>.safetensors, or W_enc_<i>.safetensors and W_dec_<i>.safetensors.
bool is_circuit_tracer(const std::filesystem::path& path);
DictionaryPlans plan_circuit_tracer(const std::filesystem::path& path);

// What several of them share.

/// The dictionary of a params.npz; `transcodes`: of a set of transcoders.
DictionaryPlan plan_gemma_params(const std::filesystem::path& file, bool transcodes);

/// The dictionary of a file with the names of Gemma Scope 2; of a cross-layer transcoder the one of `layer`.
DictionaryPlan plan_gemma_2_params(const std::filesystem::path& file, std::int64_t layer);

/// Whether a file has tensors with those names.
bool has_gemma_2_names(const std::filesystem::path& file);

/// Sets d_in and features from W_enc [d_in, features] and d_out from W_dec. Throws CheckpointError if they
/// have other numbers of axes.
void take_sizes_from_weights(DictionaryPlan& plan);

/// Files of a folder whose names are `before`, a number and `after`, by that number.
std::map<std::int64_t, std::filesystem::path> numbered_files(const std::filesystem::path& folder,
                                                             std::string_view before, std::string_view after);

/// The name of a folder, however its path is written.
std::string name_of_folder_at(const std::filesystem::path& folder);

/// An absolute path as a text, in which the folders of a repository say what its files do not.
std::string whole_path_text(const std::filesystem::path& path);

}  // namespace hooked
