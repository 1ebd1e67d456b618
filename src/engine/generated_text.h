#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer/text_stream.h"

namespace hooked {

/// The text of one row's continuation, which ends before the first stop string.
class GeneratedText {
 public:
  /// `prompt` are the row's tokens so far. The stop strings must outlive this.
  GeneratedText(Tokenizer tokenizer, std::vector<std::int64_t> prompt,
                const std::vector<std::string>& stop_strings);

  /// Adds a token. Returns the text that is now certain: no later token can change it and it is not the
  /// beginning of a stop string.
  std::string add(std::int64_t id);
  /// Ends the row; returns the text that was held back.
  std::string finish();

  /// Whether a stop string occurred.
  bool stopped() const noexcept { return stopped_; }
  /// All text that was returned.
  const std::string& text() const noexcept { return text_; }

 private:
  std::string hand_out(std::size_t bytes);
  /// Ends the text before a stop string, if there is one.
  void look_for_stop();

  text::TextStream stream_;
  const std::vector<std::string>& stop_strings_;
  std::string text_;
  std::string held_;  // certain, but perhaps the beginning of a stop string
  bool stopped_ = false;
};

}  // namespace hooked
