#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/dictionaries/dictionary.h"

namespace HOOKED_EXPORT hooked {

/// Dictionaries of one model that belong together, one for each of several layers: per-layer transcoders, or
/// the layers of a cross-layer transcoder, whose features write to their own layer and to all after it.
class DictionarySet {
 public:
  /// Of these, each with its layer (DictionaryConfig::layer). Throws ConfigError unless layers differ, and
  /// for dictionaries that cross layers unless each writes to exactly the layers from its own to the last.
  explicit DictionarySet(std::vector<Dictionary> members, std::string scan = {});

  /// Reads all dictionaries of a folder, as Dictionary::load reads one of them: circuit-tracer's sets, Gemma
  /// Scope 2's and Llamascopium's cross-layer transcoders, Qwen Scope's repositories.
  /// DictionaryOptions::layer is not used. Throws CheckpointError, ConfigError or IoError.
  static DictionarySet load(std::string_view path, const DictionaryOptions& options = {});

  /// In the order of their layers.
  const std::vector<Dictionary>& members() const& noexcept { return members_; }
  /// The same of a temporary, as a copy.
  std::vector<Dictionary> members() const&& { return members_; }
  /// The dictionary of a layer. Throws ConfigError if there is none.
  Dictionary at(std::int64_t layer) const;
  /// The layers that have one, in order.
  std::vector<std::int64_t> layers() const;
  /// Whether features write to layers after their own.
  bool crosses_layers() const noexcept;
  /// Its name for the web pages of features; may be empty.
  const std::string& scan() const& noexcept { return scan_; }
  /// The same of a temporary, as a copy.
  std::string scan() const&& { return scan_; }

  /// What the features of layer `source` write to layer `target`: [features, d_out]. Throws ConfigError where
  /// they write nothing.
  at::Tensor decoder(std::int64_t source, std::int64_t target) const;

  /// The reconstruction of layer `target`: what the codes of it, and of a cross-layer transcoder those of all
  /// layers before, write there, with b_dec and the skip connection of the layer. `codes` are those of
  /// layers() in order
  /// [..., features]; undefined where they are not known and not needed. `x` is the activation that the
  /// dictionary of the layer encodes.
  at::Tensor decode(std::int64_t target, const std::vector<at::Tensor>& codes, const at::Tensor& x) const;

 private:
  std::vector<Dictionary> members_;
  std::string scan_;
};

/// What is in the files of one or several dictionaries. Reading it costs their headers.
struct DictionaryDescription {
  std::string path;                       ///< where the files are
  std::vector<DictionaryConfig> members;  ///< one, or one for each layer
  std::string scan;                       ///< DictionarySet::scan
  std::vector<std::string> notes;         ///< about all of them; each has its own, too
  std::int64_t parameters = 0;            ///< of all
  std::uint64_t stored_bytes = 0;         ///< of their tensors in the files
};

/// Describes the dictionary or dictionaries at a path, which Dictionary::load and DictionarySet::load take.
/// Throws as they do.
DictionaryDescription describe_dictionary(std::string_view path);

/// Whether there are files at a path that dictionaries have, by their names, or folders with such files;
/// false for what is not there.
bool is_dictionary(std::string_view path);

}  // namespace hooked
