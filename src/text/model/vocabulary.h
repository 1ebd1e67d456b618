#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/config_reader.h"

namespace hooked::text {

/// Hashes strings and string views alike, for look-ups without a copy.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

/// Pieces and their ids. Ids may have gaps.
class Vocabulary {
 public:
  /// Largest number of ids: 2^24.
  static constexpr std::int64_t kIds = std::int64_t{1} << 24;

  /// Reads the `vocab` of a model, an object of ids. A piece that is named more than once has the last of its
  /// ids, as in the package `tokenizers`, and is listed in repeated(). Throws TokenizerError for ids out of
  /// range and for two pieces with one id.
  static Vocabulary read(const ConfigReader& model);

  /// Adds a piece with its id. Returns the reason if that is impossible, or nothing if it was added (or
  /// already has that id).
  std::optional<std::string> add(std::string_view piece, std::int64_t id);

  /// Adds a piece with the next id. Several ids may have one piece; find() gives the last of them.
  void append(std::string_view piece);

  /// The piece of an id, or null.
  const std::string* piece(std::int64_t id) const noexcept;
  std::optional<std::int64_t> find(std::string_view piece) const noexcept;

  /// One past the largest id.
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(pieces_.size()); }

  /// The pieces that the file names more than once, sorted.
  const std::vector<std::string>& repeated() const noexcept { return repeated_; }

 private:
  std::optional<std::string> give_id(const std::string& piece, std::int64_t id);

  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> ids_;
  // [id]: the key in ids_ (keys of a node map stay put), null in gaps
  std::vector<const std::string*> pieces_;
  std::vector<std::string> repeated_;
};

}  // namespace hooked::text
