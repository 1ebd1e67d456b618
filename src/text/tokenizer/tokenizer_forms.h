#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer_rules.h"

namespace hooked::text {

/// The names of the files in `folder` that make up its tokenizer, by the first row of the table of forms
/// whose files all exist; empty if there is no such row.
std::vector<std::string> tokenizer_files_in(const std::filesystem::path& folder);

/// Whether only chat templates need the file `name`.
bool is_for_chats_alone(std::string_view name);

/// Every name that such a file can have.
std::span<const std::string_view> tokenizer_file_names() noexcept;

/// Reads the tokenizer of a folder, or of one file without other files: by its name if that is in the table,
/// else as a tokenizer.json. Throws TokenizerError, IoError.
Tokenizer::Rules read_tokenizer_at(const std::filesystem::path& path);

}  // namespace hooked::text
