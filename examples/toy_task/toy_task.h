#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// The tasks on which the toy model is trained and measured: sentences in which the indirect object must be
/// named, and random words repeated twice.
namespace toy {

/// The word-level vocabulary: `<bos>`, then every word of the sentences and lists in alphabetical order.
class Vocabulary {
 public:
  static constexpr std::int64_t kBos = 0;
  static constexpr std::int64_t kFirstWord = 1;

  Vocabulary();

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(words_.size()); }
  const std::string& word(std::int64_t id) const { return words_.at(static_cast<std::size_t>(id)); }
  /// Throws std::out_of_range for a word that is not in it.
  std::int64_t id(std::string_view word) const;

  /// The `tokenizer.json` of this vocabulary in Hugging Face's format: words and punctuation marks, no
  /// unknown token.
  std::string tokenizer_json() const;

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

/// Which pairs of names may meet in a sentence. One pair in ten is held out, whichever of the two comes
/// first.
enum class Pairs : std::uint8_t { training, held_out };

/// Sentences like "When Mary and John went to the store, John gave a drink to Mary." as rows of tokens.
struct SentenceBatch {
  at::Tensor tokens;         ///< [row, pos] int64, each row begins with `<bos>`; padded on the right
  at::Tensor mask;           ///< [row, pos] int64, 1 for real tokens
  at::Tensor answer_pos;     ///< [row] the answer's position; it is predicted one position earlier
  at::Tensor answers;        ///< [row] the answer: the one of the two names that occurs only once before it
  at::Tensor first_answers;  ///< [row] bool, whether the answer is the name that was mentioned first
};

/// Draws sentences and repeats. The same seed gives the same draws everywhere.
class Task {
 public:
  explicit Task(std::uint64_t seed) : random_(seed) {}

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

  /// `rows` sentences with both role orders, all templates and all words equally likely.
  SentenceBatch sentences(std::int64_t rows, Pairs pairs);

  /// `<bos>`, `half` different random words, and the same words again: int64 [rows, 1 + 2 * half]. The words
  /// are drawn from the first `words` of the vocabulary.
  at::Tensor repeats(std::int64_t rows, std::int64_t half, std::int64_t words);
  at::Tensor repeats(std::int64_t rows, std::int64_t half) {
    return repeats(rows, half, vocabulary_.size() - 1);
  }

  /// A whole number from `from` to `to`, both included.
  std::int64_t draw(std::int64_t from, std::int64_t to);

 private:
  std::string_view draw_word(const std::vector<std::string_view>& words);

  Vocabulary vocabulary_;
  std::mt19937_64 random_;
};

/// Whether two names (places in the list of names) may meet only in held-out sentences. Symmetric.
bool is_held_out(std::size_t name, std::size_t other) noexcept;

}  // namespace toy
