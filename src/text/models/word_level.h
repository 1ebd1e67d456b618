#pragma once

#include <optional>
#include <utility>

#include "text/model.h"

namespace hooked {

/// Every word is one token.
class WordLevelModel : public Model {
 public:
  /// `unknown` is the id of words that are not in the vocabulary; without it they are errors.
  WordLevelModel(Vocabulary vocabulary, std::optional<std::int64_t> unknown)
      : Model(std::move(vocabulary)), unknown_(unknown) {}

  std::optional<std::int64_t> unknown() const noexcept { return unknown_; }
  std::unique_ptr<WordEncoder> encoder(std::size_t text_bytes) const override;

 private:
  std::optional<std::int64_t> unknown_;
};

}  // namespace hooked
