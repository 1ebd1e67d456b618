#pragma once

#include <cstdint>

#include "hooked/engine/hooked_transformer.h"
#include "toy_task.h"

namespace toy {

/// How well a model does the task: right top-1 predictions over the full vocabulary, and how many there were.
struct Figures {
  std::int64_t sentences = 0;        ///< held-out sentences asked
  std::int64_t right = 0;            ///< of them with the right name on top
  std::int64_t first_sentences = 0;  ///< of the sentences, those whose answer was mentioned first
  std::int64_t first_right = 0;
  std::int64_t repeated_tokens = 0;  ///< tokens asked: from the second repeated one on
  std::int64_t repeated_right = 0;

  double sentence_accuracy() const { return ratio(right, sentences); }
  /// Of the sentences whose answer was mentioned first ("A and B ... B gave it to" A) and second.
  double first_accuracy() const { return ratio(first_right, first_sentences); }
  double second_accuracy() const { return ratio(right - first_right, sentences - first_sentences); }
  double repeat_accuracy() const { return ratio(repeated_right, repeated_tokens); }

 private:
  static double ratio(std::int64_t part, std::int64_t whole) {
    return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  }
};

struct FigureOptions {
  std::int64_t sentences = 4000;
  std::int64_t repeats_per_half = 50;  ///< rows of each length of the repeated part
  std::uint64_t seed = 20;
};

/// Asks `model` sentences with held-out pairs of names, and repeats whose repeated part is 4 to 31 words
/// long.
Figures measure(const hooked::HookedTransformer& model, const FigureOptions& options = {});

}  // namespace toy
