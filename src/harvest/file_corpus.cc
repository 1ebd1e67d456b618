// Corpora in files: lines of text, JSONL, and tensors of ids.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/name_list.h"
#include "core/text_lines.h"
#include "harvest/corpus_documents.h"
#include "harvest/corpus_form.h"
#include "harvest/corpus_source.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "io/files/checksum.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

/// A longer line is refused: a document is held in memory as a whole.
constexpr std::uint64_t kLineBytes = std::uint64_t{256} << 20;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

struct PlacedFile {
  std::filesystem::path path;
  std::string name;
  CorpusForm form;
  std::uint64_t bytes;
};

std::string bytes_of(const InputFile& file, std::uint64_t begin, std::uint64_t end) {
  std::string bytes(static_cast<std::size_t>(end - begin), '\0');
  file.read(begin, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

class FileCorpus final : public Corpus::Source {
 public:
  FileCorpus(std::filesystem::path path, CorpusOptions options)
      : path_(std::move(path)), options_(std::move(options)) {
    if (options_.max_documents && *options_.max_documents < 1)
      throw ConfigError("corpus", fmt::format("the number of documents is {}; expected 1 or more",
                                              *options_.max_documents));
    std::error_code error;
    if (std::filesystem::is_directory(path_, error)) {
      find_files();
    } else {
      const auto form = form_of(path_);
      const InputFile file = InputFile::open(path_);
      if (!form) refuse_form(path_);
      files_.push_back({path_, path_.filename().string(), *form, file.size()});
    }
    if (options_.whole_files) {
      for (auto& file : files_) {
        if (file.form == CorpusForm::lines) file.form = CorpusForm::whole;
      }
    }
    holds_ids_ = first_holds_ids();
  }

  std::filesystem::path path() const override { return path_; }
  std::string fingerprint() const override {
    return fmt::format("field={} whole_files={} max_documents={}", options_.field, options_.whole_files,
                       options_.max_documents.value_or(-1));
  }
  std::vector<std::string> ignored() const override { return ignored_; }
  bool holds_ids() const override { return holds_ids_; }

  std::vector<CorpusFile> files() const override {
    std::vector<CorpusFile> files;
    for (const auto& file : files_) files.push_back({file.name, file.bytes});
    return files;
  }

  std::vector<CorpusUnit> units(std::uint64_t unit_tokens, const Progress& progress) const override {
    Cut cut{.unit_tokens = unit_tokens, .progress = progress};
    for (const auto& file : files_) cut.total += file.bytes;
    for (std::size_t i = 0; i < files_.size() && !is_enough(cut.documents); ++i) {
      const InputFile file = open(files_[i]);
      if (files_[i].form == CorpusForm::ids) {
        cut_ids(file, static_cast<std::int64_t>(i), cut);
      } else if (files_[i].form == CorpusForm::whole) {
        cut_whole(file, static_cast<std::int64_t>(i), cut);
      } else {
        cut_lines(file, static_cast<std::int64_t>(i), cut);
      }
      cut.before += files_[i].bytes;
    }
    if (progress) progress(cut.total, cut.total);
    return cut.units;
  }

  std::vector<CorpusDocument> read(const CorpusUnit& unit) const override {
    const PlacedFile& placed = files_.at(static_cast<std::size_t>(unit.file));
    const InputFile file = open(placed);
    if (placed.form == CorpusForm::ids) return read_ids(file, unit);
    if (unit.end > file.size()) refuse_changed(placed);
    const std::string bytes = bytes_of(file, unit.begin, unit.end);
    if (crc32_of(bytes) != unit.crc32) refuse_changed(placed);
    return placed.form == CorpusForm::whole ? whole_document(placed, unit, bytes)
                                            : line_documents(placed, unit, bytes);
  }

 private:
  /// Cutting the files into units.
  struct Cut {
    std::uint64_t unit_tokens;
    const Progress& progress;
    std::vector<CorpusUnit> units = {};
    std::int64_t documents = 0;  // so far
    std::uint64_t before = 0;    // bytes of files that are done
    std::uint64_t total = 0;
  };

  bool is_enough(std::int64_t documents) const {
    return options_.max_documents && documents >= *options_.max_documents;
  }

  void find_files() {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             path_, std::filesystem::directory_options::follow_directory_symlink)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with('.') && entry.is_regular_file()) found.push_back(entry.path());
    }
    std::ranges::sort(found);
    for (const auto& file : found) {
      std::string name = file.lexically_relative(path_).generic_string();
      if (const auto form = form_of(file)) {
        files_.push_back({file, std::move(name), *form, std::filesystem::file_size(file)});
      } else {
        ignored_.push_back(std::move(name));
      }
    }
    if (!files_.empty()) return;
    for (const auto& file : found) {
      if (has_other_form(file)) refuse_form(file);
    }
    throw IoError(path_text(path_),
                  fmt::format("the folder holds no documents; expected files with the ending {}, got {}",
                              corpus_endings(), ignored_.empty() ? "none" : name_list(ignored_)));
  }

  InputFile open(const PlacedFile& placed) const {
    InputFile file = InputFile::open(placed.path);
    if (file.size() != placed.bytes) refuse_changed(placed);
    return file;
  }

  [[noreturn]] static void refuse_changed(const PlacedFile& placed) {
    throw CheckpointError(
        path_text(placed.path),
        "the file is not what it was when the corpus was cut into units; expected a corpus that "
        "stays as it is while it is harvested");
  }

  void report(const Cut& cut, std::uint64_t done) const {
    if (cut.progress) cut.progress(std::min(cut.before + done, cut.total), cut.total);
  }

  void cut_lines(const InputFile& file, std::int64_t number, Cut& cut) const {
    const std::uint64_t least = cut.unit_tokens * kTokenBytes;
    CorpusUnit unit{.file = number, .first_document = cut.documents};
    std::string piece;
    std::uint64_t line_begin = 0;
    const auto close = [&](std::uint64_t end) {
      unit.end = end;
      cut.units.push_back(unit);
      unit = {.file = number, .begin = end, .first_document = cut.documents};
    };
    for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
      piece = bytes_of(file, at, std::min<std::uint64_t>(file.size(), at + kPieceBytes));
      std::size_t taken = 0;
      while (taken < piece.size()) {
        const auto newline = piece.find('\n', taken);
        const std::size_t end = newline == std::string::npos ? piece.size() : newline + 1;
        unit.crc32 = crc32_of(std::string_view(piece).substr(taken, end - taken), unit.crc32);
        taken = end;
        if (at + end - line_begin > kLineBytes) {
          throw CheckpointError(
              path_text(file.path()),
              fmt::format("line {} is longer than {} MiB; expected a document that fits in memory",
                          cut.documents - first_of_file(cut, number, unit) + 1, kLineBytes >> 20));
        }
        const bool whole = newline != std::string::npos || at + end == file.size();
        if (!whole) break;
        line_begin = at + end;
        ++cut.documents;
        if (is_enough(cut.documents)) return close(at + end);
        if (at + end - unit.begin >= least) close(at + end);
      }
      report(cut, at + piece.size());
    }
    if (unit.begin < file.size()) close(file.size());
  }

  static std::int64_t first_of_file(const Cut& cut, std::int64_t file, const CorpusUnit& open) {
    const auto first = std::ranges::find(cut.units, file, &CorpusUnit::file);
    return first == cut.units.end() ? open.first_document : first->first_document;
  }

  void cut_whole(const InputFile& file, std::int64_t number, Cut& cut) const {
    CorpusUnit unit{.file = number, .end = file.size(), .first_document = cut.documents++};
    if (file.size() > kLineBytes) {
      throw CheckpointError(
          path_text(file.path()),
          fmt::format("the file is longer than {} MiB; expected a document that fits in memory, or a "
                      "document on each line",
                      kLineBytes >> 20));
    }
    unit.crc32 = crc32_of(bytes_of(file, 0, file.size()));
    cut.units.push_back(unit);
    report(cut, file.size());
  }

  void cut_ids(const InputFile& file, std::int64_t number, Cut& cut) const {
    const TensorInfo info = find_ids(file.path(), options_.field);
    const bool one_document = info.shape.size() == 1;
    auto rows = static_cast<std::uint64_t>(info.shape[0]);
    const std::uint64_t row_ids = one_document ? 1 : static_cast<std::uint64_t>(info.shape[1]);
    const std::uint64_t row_bytes = rows == 0 ? 0 : info.bytes() / rows;
    if (options_.max_documents && !one_document)
      rows =
          std::min<std::uint64_t>(rows, static_cast<std::uint64_t>(*options_.max_documents - cut.documents));
    const std::uint64_t step =
        std::max<std::uint64_t>(1, cut.unit_tokens / std::max<std::uint64_t>(1, row_ids));
    for (std::uint64_t begin = 0; begin < rows; begin += step) {
      CorpusUnit unit{.file = number,
                      .begin = begin,
                      .end = std::min(rows, begin + step),
                      .first_document = cut.documents};
      unit.crc32 =
          crc32_of(bytes_of(file, info.begin + unit.begin * row_bytes, info.begin + unit.end * row_bytes));
      if (!one_document) cut.documents += static_cast<std::int64_t>(unit.end - unit.begin);
      cut.units.push_back(unit);
      report(cut, unit.end * row_bytes);
    }
    if (one_document && rows > 0) ++cut.documents;
  }

  std::vector<CorpusDocument> read_ids(const InputFile& file, const CorpusUnit& unit) const {
    const PlacedFile& placed = files_[static_cast<std::size_t>(unit.file)];
    const TensorInfo info = find_ids(file.path(), options_.field);
    const bool one_document = info.shape.size() == 1;
    const auto rows = static_cast<std::uint64_t>(info.shape[0]);
    if (unit.end > rows || unit.begin >= unit.end) refuse_changed(placed);
    const std::uint64_t row_bytes = info.bytes() / rows;
    const std::string bytes =
        bytes_of(file, info.begin + unit.begin * row_bytes, info.begin + unit.end * row_bytes);
    if (crc32_of(bytes) != unit.crc32) refuse_changed(placed);
    const auto ids = ids_of_bytes(bytes, info.dtype);
    if (one_document) {
      return {{.number = unit.first_document,
               .content = ids,
               .first_offset = static_cast<std::int64_t>(unit.begin)}};
    }
    std::vector<CorpusDocument> documents;
    const std::size_t width = ids.size() / (unit.end - unit.begin);
    for (std::size_t row = 0; row < unit.end - unit.begin; ++row) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(row * width);
      documents.push_back(
          {.number = unit.first_document + static_cast<std::int64_t>(row),
           .content = std::vector<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(width))});
    }
    return documents;
  }

  static std::vector<CorpusDocument> whole_document(const PlacedFile& placed, const CorpusUnit& unit,
                                                    const std::string& bytes) {
    return {{.number = unit.first_document, .content = text_of_bytes(bytes, path_text(placed.path))}};
  }

  std::vector<CorpusDocument> line_documents(const PlacedFile& placed, const CorpusUnit& unit,
                                             const std::string& bytes) const {
    const auto documents = [&](std::int64_t first_line) {
      return documents_of_lines(bytes, {.where = path_text(placed.path),
                                        .first_line = first_line,
                                        .first_document = unit.first_document,
                                        .objects = placed.form == CorpusForm::objects,
                                        .field = options_.field});
    };
    if (unit.begin == 0) return documents(1);
    try {
      return documents(2);  // which line it is matters to errors alone
    } catch (const CheckpointError&) {
      return documents(lines_before(placed, unit.begin) + 1);
    }
  }

  std::int64_t lines_before(const PlacedFile& placed, std::uint64_t end) const {
    const InputFile file = open(placed);
    std::int64_t lines = 0;
    for (std::uint64_t at = 0; at < end; at += kPieceBytes) {
      const std::string piece = bytes_of(file, at, std::min<std::uint64_t>(end, at + kPieceBytes));
      lines += std::ranges::count(piece, '\n');
    }
    return lines;
  }

  bool first_holds_ids() const {
    const PlacedFile& first = files_.front();
    if (first.form != CorpusForm::objects) return first.form == CorpusForm::ids;
    const InputFile file = open(first);
    std::string start;
    for (std::uint64_t at = 0; at < file.size() && at < kLineBytes; at += kPieceBytes) {
      start += bytes_of(file, at, std::min<std::uint64_t>(file.size(), at + kPieceBytes));
      const auto begin = start.find_first_not_of(" \t\r\n");
      const auto end = start.find('\n', begin == std::string::npos ? start.size() : begin);
      if (begin == std::string::npos || (end == std::string::npos && start.size() < file.size())) continue;
      const std::int64_t line = std::ranges::count(std::string_view(start).substr(0, begin), '\n') + 1;
      const auto documents = documents_of_lines(std::string_view(start).substr(begin, end - begin),
                                                {.where = path_text(first.path),
                                                 .first_line = line,
                                                 .first_document = 0,
                                                 .objects = true,
                                                 .field = options_.field});
      return !documents.empty() && documents.front().content.index() == 1;
    }
    return false;
  }

  std::filesystem::path path_;
  CorpusOptions options_;
  std::vector<PlacedFile> files_;
  std::vector<std::string> ignored_;
  bool holds_ids_ = false;
};

}  // namespace

std::shared_ptr<const Corpus::Source> file_corpus(const std::filesystem::path& path,
                                                  const CorpusOptions& options) {
  return std::make_shared<const FileCorpus>(path, options);
}

}  // namespace hooked
