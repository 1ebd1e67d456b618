#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/prompt_pairs.h"
#include "hooked/engine/dictionary_place.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/report/page.h"
#include "hooked/report/report.h"
#include "report/section_sources.h"

namespace hooked {

/// Writes the code that makes a section of a report again: as a command line, in C++ and in Python.
class CodeWriter {
 public:
  CodeWriter(const HookedTransformer& model, const Prompt& prompt, const ReportOptions& options);

  /// Of a section on the prompt. `standing` is the dictionary that it is about, if any, and `examples` the
  /// folder of a harvest with examples of it. Without `dictionaries` the command does not take those that are
  /// in the model.
  SectionCode of_prompt(const SectionSource& source, const StandingDictionary* standing = nullptr,
                        bool dictionaries = true, const std::filesystem::path& examples = {}) const;
  /// Of a section on the pair of prompts.
  SectionCode of_pair(const SectionSource& source) const;

 private:
  /// `hooked lens MODEL INPUT OPTIONS REST`
  std::string command_line(const std::string& command, const std::string& input, bool dictionaries) const;
  /// A source with the answers in it.
  std::string filled(std::string_view text, const StandingDictionary* standing = nullptr,
                     const std::filesystem::path& examples = {}) const;

  std::string model_;
  SectionCode how_;  // it was loaded
  const Prompt& prompt_;
  const ReportOptions& options_;
};

}  // namespace hooked
