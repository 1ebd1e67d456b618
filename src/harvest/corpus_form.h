#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace hooked {

/// How a file holds its documents.
enum class CorpusForm : std::uint8_t { lines, objects, whole, ids };

/// By a file's ending; nothing if documents are not read from such a file.
std::optional<CorpusForm> form_of(const std::filesystem::path& path);

/// The endings that have a form, for messages.
std::string corpus_endings();

/// Whether the file holds documents in a form that is not read here, such as Parquet.
bool has_other_form(const std::filesystem::path& path);

/// Throws CheckpointError saying what to do with a file of another form.
[[noreturn]] void refuse_form(const std::filesystem::path& path);

}  // namespace hooked
