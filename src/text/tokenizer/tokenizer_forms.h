#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/files/side_files.h"
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

// The forms other than tokenizer.json, each in its own source.

/// Mistral's tekken.json: ranked byte strings, special tokens before them, and the pattern of words. Throws
/// TokenizerError.
Tokenizer::Rules read_tekken(std::string_view json, std::string_view name, const SideFiles& beside);

/// A file of the package tiktoken: on each line a byte string in base64 and its rank. The pattern of words
/// and the special tokens are those of a family, given by the class in `beside` or, if that says nothing, by
/// the file's name. Throws TokenizerError.
Tokenizer::Rules read_tiktoken(std::string_view lines, std::string_view name, const SideFiles& beside);

/// Whether a file begins like a tiktoken file.
bool looks_like_tiktoken(std::string_view bytes) noexcept;

/// BERT's vocab.txt: a piece on each line, with the line's number as its id. Options, special tokens and what
/// is put around a text come from the class in `beside`. Throws TokenizerError.
Tokenizer::Rules read_word_list(std::string_view vocab, std::string_view name, const SideFiles& beside);

/// GPT-2's pair: a vocabulary as a JSON object, and ranked merges, one a line. Throws TokenizerError.
Tokenizer::Rules read_vocabulary_and_merges(std::string_view vocab, std::string_view merges,
                                            std::string_view name, const SideFiles& beside);

/// The tokenizer of a SentencePiece file's bytes, used as the class in `beside` uses it: that decides the ids
/// of its pieces, the special tokens, and what is put around a text. If `beside` is empty, it is used as the
/// package `sentencepiece` uses it, and its control pieces are special tokens. Throws TokenizerError, also
/// for a class that numbers the pieces in another, unknown way.
Tokenizer::Rules read_sentencepiece(std::string_view bytes, std::string_view where, const SideFiles& beside);

}  // namespace hooked::text
