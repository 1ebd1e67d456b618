#pragma once

#include <string>

#include "cli/input_options.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/prompt_pairs.h"
#include "options/command_options.h"

namespace hooked::cli {

/// What a picture says about where its numbers come from.
struct Caption {
  std::string model;  ///< as it was given
  std::string of;     ///< prompts and answers; empty: numbers of the weights alone
};

/// A prompt's text in quotes, or its ids; of a long one the beginning.
std::string prompt_words(const Prompt& prompt);
/// The same of an input: `“When John and Mary”`, `3 texts`, `2 rows of 5 tokens`.
std::string prompt_words(const GivenInput& given);
/// `“ Mary” or “ Anna”`.
std::string any_of_words(const std::vector<PromptToken>& tokens);
/// `, “ Mary” against “ John”` as it follows prompts; empty without answers.
std::string answer_words(const std::vector<PromptToken>& answers, const std::vector<PromptToken>& against);
/// Tokens as the command line gives them.
std::vector<PromptToken> tokens_of(const TokenChoice& choice);

/// The same grid, with the caption in its title and its unit.
Grid captioned(const Grid& grid, const Caption& caption);

}  // namespace hooked::cli
