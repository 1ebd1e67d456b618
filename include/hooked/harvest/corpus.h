#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/progress.h"
#include "hooked/core/shared.h"

namespace HOOKED_EXPORT hooked {

/// How the files of a corpus are read. For designated initialisers.
struct CorpusOptions {
  /// The field of JSONL objects, or the tensor of safetensors files, that holds the documents. Empty: the
  /// field `text`, and the only tensor of ids, or that of the name `input_ids`, `tokens` or `token_ids`.
  std::string field = {};
  /// A text file is one document; otherwise each of its lines is.
  bool whole_files = false;
  /// How many documents are read, from the first one on. Absent: all.
  std::optional<std::int64_t> max_documents = std::nullopt;
};

/// A document as the corpus holds it.
struct CorpusDocument {
  /// Counted from 0 over the whole corpus. Blank lines count as well, so that it is a line's number where the
  /// corpus is one file of lines.
  std::int64_t number = 0;
  /// A text, or token ids.
  std::variant<std::string, std::vector<std::int64_t>> content = {};
  /// Of ids: the place in the document of the first one, for documents that are read in pieces.
  std::int64_t first_offset = 0;
};

/// A part of a corpus that is worked on as a whole: consecutive documents of one file.
struct CorpusUnit {
  std::int64_t file = 0;            ///< number of the file; 0 for documents that are not in files
  std::uint64_t begin = 0;          ///< first byte of lines, row or id of a tensor, or document
  std::uint64_t end = 0;            ///< one past the last
  std::int64_t first_document = 0;  ///< number of the first document
  std::uint32_t crc32 = 0;          ///< of the bytes in the file; 0 for documents that are not in files

  bool operator==(const CorpusUnit&) const = default;
};

/// A file of a corpus.
struct CorpusFile {
  std::string name;         ///< its path below the corpus's folder, or its name
  std::uint64_t bytes = 0;  ///< its size

  bool operator==(const CorpusFile&) const = default;
};

/// Documents in a fixed order: the lines of text files, the objects of JSONL files, the rows of token files,
/// or whatever a function gives.
///
/// Nothing is held in memory but the unit that is read. A cheap handle; reading is const and may happen in
/// several threads at once.
class Corpus {
 public:
  /// Gives the documents [begin, end) of a corpus that is not in files.
  using Reader = std::function<std::vector<CorpusDocument>(std::int64_t begin, std::int64_t end)>;

  /// A file, or a folder with such files, at any depth, in the order of their names:
  ///
  /// - `.txt`, `.text`, `.md`: each line is a document, or the whole file;
  /// - `.jsonl`, `.ndjson`: an object on each line, whose field is a text or a list of ids;
  /// - `.safetensors`: a tensor of ids [document, pos], or [pos] for one long document.
  ///
  /// Throws IoError, also for a folder without such files, and CheckpointError for what cannot be read, such
  /// as compressed files and Parquet (which the Python package reads).
  static Corpus open(const std::filesystem::path& path, const CorpusOptions& options = {});
  /// These texts, or lists of ids.
  static Corpus of(std::vector<std::variant<std::string, std::vector<std::int64_t>>> documents);
  /// Documents that `read` gives. `fingerprint` tells this corpus from others when a harvest continues:
  /// the same fingerprint means the same documents.
  static Corpus of(Reader read, std::int64_t documents, std::string fingerprint);

  /// What it was opened from; empty if it is not in files.
  std::filesystem::path path() const;
  /// Its files in their order.
  std::vector<CorpusFile> files() const;
  /// What tells this corpus from others, in addition to its files.
  std::string fingerprint() const;
  /// Whether its documents are token ids. A corpus of JSONL files is as its first document is.
  bool holds_ids() const;
  /// Names of files in its folder that are not read.
  std::vector<std::string> ignored() const;

  /// Cuts the corpus into units of about `unit_tokens` tokens each, a token of text counted as four bytes.
  /// The cut depends on the corpus alone. Reads all of it once; `progress` counts its bytes. A document is
  /// never cut, except one long tensor of ids. Throws IoError and CheckpointError.
  std::vector<CorpusUnit> units(std::uint64_t unit_tokens, const Progress& progress = nullptr) const;
  /// The documents of a unit. Throws CheckpointError if the file is not what units() saw, or if a document
  /// cannot be read.
  std::vector<CorpusDocument> read(const CorpusUnit& unit) const;

  class Source;

 private:
  explicit Corpus(std::shared_ptr<const Source> source);

  Shared<const Source> source_;
};

}  // namespace hooked
