#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace hooked {

/// A word that is not in the vocabulary of a model without unknown token. The tokenizer, which knows where
/// the word stands, makes a TokenizerError of it.
class UnknownWord : public std::exception {
 public:
  explicit UnknownWord(std::string_view word) : word_(word) {}
  const std::string& word() const noexcept { return word_; }
  const char* what() const noexcept override { return "a word is not in the vocabulary"; }

 private:
  std::string word_;
};

}  // namespace hooked
