#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "text/post_processor.h"

namespace hooked {

/// Takes white space at their ends out of the tokens' offsets. Ids stay.
class OffsetTrimmer : public PostProcessor {
 public:
  /// Whether the first token may begin with a blank that is not in the text.
  enum class PrefixBlank : std::uint8_t { no, yes };

  explicit OffsetTrimmer(PrefixBlank prefix) : prefix_(prefix) {}
  void apply(TokenList& tokens, SpecialTokens special, const Spelling& spelling) const override;
  bool trims_offsets() const noexcept override { return true; }

 private:
  PrefixBlank prefix_;
};

/// Puts special tokens around the text.
class SpecialTokenAdder : public PostProcessor {
 public:
  SpecialTokenAdder(std::vector<std::int64_t> before, std::vector<std::int64_t> behind)
      : before_(std::move(before)), behind_(std::move(behind)) {}
  void apply(TokenList& tokens, SpecialTokens special, const Spelling& spelling) const override;
  std::vector<std::int64_t> special_ids() const override;

 private:
  std::vector<std::int64_t> before_;
  std::vector<std::int64_t> behind_;
};

/// Several, one after the other.
class PostProcessorSequence : public PostProcessor {
 public:
  explicit PostProcessorSequence(std::vector<std::unique_ptr<const PostProcessor>> steps)
      : steps_(std::move(steps)) {}
  void apply(TokenList& tokens, SpecialTokens special, const Spelling& spelling) const override;
  bool trims_offsets() const noexcept override;
  std::vector<std::int64_t> special_ids() const override;

 private:
  std::vector<std::unique_ptr<const PostProcessor>> steps_;
};

}  // namespace hooked
