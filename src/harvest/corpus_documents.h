#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/harvest/corpus.h"
#include "hooked/io/safetensors.h"

namespace hooked {

/// Lines of a file, each a document.
struct CorpusLines {
  std::string where;            ///< the file, for errors
  std::int64_t first_line;      ///< counted from 1; a byte order mark is only in line 1
  std::int64_t first_document;  ///< the number of the first line's document
  bool objects;                 ///< JSONL, otherwise text
  std::string_view field;       ///< of the objects; empty: `text`
};

/// The documents of whole lines; a blank line of JSONL is an empty text. Throws CheckpointError with the
/// line.
std::vector<CorpusDocument> documents_of_lines(std::string_view bytes, const CorpusLines& lines);

/// The tensor of ids in a file, by CorpusOptions::field. Throws CheckpointError if it is not clear which that
/// is.
TensorInfo find_ids(const std::filesystem::path& file, std::string_view field);

/// Stored integers as ids.
std::vector<std::int64_t> ids_of_bytes(std::string_view bytes, at::ScalarType dtype);

}  // namespace hooked
