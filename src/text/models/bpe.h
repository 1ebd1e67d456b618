#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/model.h"
#include "text/models/merge_table.h"

namespace hooked {

/// Byte-pair encoding: a word's characters (or bytes) are joined by a ranked list of pairs.
class BpeModel : public Model {
 public:
  struct Options {
    std::optional<std::string> unknown;  ///< the piece of characters that the vocabulary lacks, else left out
    std::string continuing_prefix;       ///< before all characters of a word but the first
    std::string end_suffix;              ///< behind the last character of a word
    bool fuse_unknown = false;           ///< unknown characters next to each other are one token
    bool byte_fallback = false;          ///< unknown characters as pieces `<0xEF>`, where all are there
    bool ignore_merges = false;          ///< a word that is a piece is that token, whatever the merges say
    WordSpelling spelling = WordSpelling::characters;
  };
  /// With words as bytes, there is no prefix, suffix and byte fallback.
  BpeModel(Vocabulary vocabulary, MergeTable merges, Options options);

  std::unique_ptr<WordEncoder> encoder(std::size_t text_bytes) const override;

 private:
  friend class BpeEncoder;

  std::optional<std::int64_t> find_word(std::string_view word) const;

  MergeTable merges_;
  Options options_;
  std::optional<std::int64_t> unknown_;
  std::vector<std::int64_t> byte_fallback_;  // [byte], -1 where there is no piece
  std::vector<std::int32_t> character_ids_;  // [character below 0x10000 or byte], -1 where there is no piece
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>
      words_;  // by bytes, for ignore_merges
};

}  // namespace hooked
