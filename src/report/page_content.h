#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/report/page.h"

namespace hooked {

/// What errors of pages are about.
inline constexpr const char* kPage = "page";

/// Throws HookError unless examples of these codes are of this model and of the dictionary at that place.
void require_examples_of(const HookedTransformer& model, const ActivationName& codes,
                         const FeatureExamples& examples);

/// A number of a page: five digits.
Json rounded(double value);

/// What a page says, as its JSON has it.
struct Page::Content {
  Content(const HookedTransformer& model, const ActivationCache& cache, const PageOptions& options);

  /// Makes the text of a token known to the page.
  void name_token(std::int64_t id);
  /// [[id, probability], ...]
  Json predictions(const at::Tensor& ids, const at::Tensor& probabilities);
  /// What a harvest found of a feature: the tokens around each example, its value, and its place among them.
  Json examples_of(const FeatureExamples& examples, std::int64_t feature);
  /// The parts of the last section. (A function that takes JSON would be a symbol of the shared library that
  /// names nlohmann.)
  Json& parts();
  /// The number of the prompt's tokens.
  std::int64_t length() const { return std::ssize(ids); }

  HookedTransformer model;
  std::string title;
  Json about_model;
  std::vector<std::int64_t> columns, ids;  // of the tokens that are not padding
  Json pieces = Json::object();
  std::vector<std::string> notes;
  Json sections = Json::array();
};

}  // namespace hooked
