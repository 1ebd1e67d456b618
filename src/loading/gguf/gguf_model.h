#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "loading/config/identified_model.h"
#include "loading/gguf/gguf_architectures.h"

namespace hooked {

/// Reads the metadata of a GGUF file as the config of the family's own checkpoints. Every key of the
/// architecture is obeyed or refused by its name. Keys are given without the architecture's name:
/// `rope.freq_base`.
class GgufModelReader {
 public:
  GgufModelReader(const CheckpointReader& reader, const GgufArchitecture& architecture);

  /// The whole config. Throws CheckpointError that names a key.
  Json config() &&;

  void set(std::string_view key, Json value) { config_[std::string(key)] = std::move(value); }

  // Values; nothing for a missing key. A list of equal numbers counts as one number.
  std::optional<std::int64_t> integer(std::string_view key);
  std::optional<double> real(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// A required size, 1 to 2^24.
  std::int64_t required(std::string_view key);

  /// Refuses a key that is present and not `value`.
  void require(std::string_view key, bool value);
  /// Refuses a key that is neither 0 nor 1.
  void zero_or_one(std::string_view key);
  /// `what` continues a sentence after the key.
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;

  bool has_tensor(std::string_view name) const { return reader_.contains(name); }
  /// The layers whose block has no such tensor.
  std::vector<std::int64_t> layers_without(std::string_view tensor) const;

  std::int64_t n_layers() const noexcept { return n_layers_; }
  std::int64_t d_model() const noexcept { return d_model_; }
  std::int64_t n_heads() const noexcept { return n_heads_; }
  std::int64_t d_head() const noexcept { return d_head_; }
  std::int64_t n_ctx() const noexcept { return n_ctx_; }

  /// How many keys windowed layers see; nothing for 0 or if the key is absent.
  std::optional<std::int64_t> window();
  /// The number of experts, under `key`, and the number used for each token.
  void read_experts(std::string_view key);
  /// `rope_parameters` of a config: base, rotated dimensions, scaling.
  Json rope();

 private:
  const GgufValue* find(std::string_view key);
  void read_sizes();
  void read_heads();
  void read_scaling(Json& parameters);
  void read_long_factors(Json& parameters);
  Json factors(std::string_view tensor) const;
  void check_neutral();
  void refuse_unread() const;

  const CheckpointReader& reader_;
  const GgufArchitecture& architecture_;
  const GgufMetadata& metadata_;
  std::string where_;
  std::set<std::string, std::less<>> read_;  // keys
  Json config_ = Json::object();
  std::int64_t n_layers_ = 0, d_model_ = 0, n_heads_ = 0, d_head_ = 0, n_ctx_ = 0;
};

/// The family of a GGUF file and the config that it reads from the metadata. If files are missing, the others
/// are used, if they suffice. Throws CheckpointError or ConfigError.
IdentifiedModel identify_gguf(const CheckpointReader& reader);

}  // namespace hooked
