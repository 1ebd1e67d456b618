#include "engine/generated_text.h"

#include <algorithm>
#include <utility>

namespace hooked {

GeneratedText::GeneratedText(Tokenizer tokenizer, std::vector<std::int64_t> prompt,
                             const std::vector<std::string>& stop_strings)
    : stream_(std::move(tokenizer), std::move(prompt)), stop_strings_(stop_strings) {}

std::string GeneratedText::hand_out(std::size_t bytes) {
  std::string out = held_.substr(0, bytes);
  held_.erase(0, bytes);
  text_ += out;
  return out;
}

void GeneratedText::look_for_stop() {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stop_strings_) first = std::min(first, held_.find(stop));
  if (first == std::string::npos) return;
  stopped_ = true;
  held_.resize(first);
}

std::string GeneratedText::add(std::int64_t id) {
  if (stopped_) return {};
  held_ += stream_.add(id);
  look_for_stop();
  if (stopped_) return hand_out(held_.size());
  std::size_t certain = held_.size();
  for (const std::string& stop : stop_strings_) {
    // The longest suffix of the text that is the beginning of a stop string.
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > 0; --length) {
      if (!held_.ends_with(std::string_view(stop).substr(0, length))) continue;
      certain = std::min(certain, held_.size() - length);
      break;
    }
  }
  return hand_out(certain);
}

std::string GeneratedText::finish() {
  if (stopped_) return {};
  held_ += stream_.finish();
  look_for_stop();
  return hand_out(held_.size());
}

}  // namespace hooked
