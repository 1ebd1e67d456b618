#include <array>
#include <iterator>

#include "text/pattern_reader.h"
#include "text/pre_tokenizers.h"
#include "text/unicode.h"

namespace hooked {
namespace {

using Reader = PreTokenizers (*)(const JsonNode&);

// GPT-2's own expression.
constexpr std::string_view kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

template <class Step, class... Arguments>
PreTokenizers one(Arguments&&... arguments) {
  PreTokenizers steps;
  steps.push_back(std::make_unique<Step>(std::forward<Arguments>(arguments)...));
  return steps;
}

DelimiterBehavior read_behavior(const JsonNode& node) {
  static constexpr std::array<std::string_view, 5> kNames = {"Removed", "Isolated", "MergedWithPrevious",
                                                             "MergedWithNext", "Contiguous"};
  static constexpr std::array<DelimiterBehavior, 5> kBehaviors = {
      DelimiterBehavior::removed, DelimiterBehavior::isolated, DelimiterBehavior::merged_with_previous,
      DelimiterBehavior::merged_with_next, DelimiterBehavior::contiguous};
  return kBehaviors[node.choice(kNames)];
}

PreTokenizers read_byte_level(const JsonNode& node) {
  PreTokenizers steps;
  if (node.member("add_prefix_space").boolean()) steps.push_back(std::make_unique<PrefixBlank>());
  if (node.member("use_regex").boolean_or(true)) {
    steps.push_back(
        std::make_unique<SplitAtPattern>(Pattern::regex(kByteLevelWords), SplitAtPattern::Options{}));
  }
  steps.push_back(std::make_unique<ByteSpelling>());
  return steps;
}

PreTokenizers read_split(const JsonNode& node) {
  return one<SplitAtPattern>(read_pattern(node.member("pattern")),
                             SplitAtPattern::Options{.behavior = read_behavior(node.member("behavior")),
                                                     .invert = node.member("invert").boolean()});
}

PreTokenizers read_digits(const JsonNode& node) {
  return one<SplitAtCharacters>(is_number, node.member("individual_digits").boolean()
                                               ? DelimiterBehavior::isolated
                                               : DelimiterBehavior::contiguous);
}

PreTokenizers read_whitespace(const JsonNode&) { return one<WhitespacePreTokenizer>(); }

PreTokenizers read_whitespace_split(const JsonNode&) {
  return one<SplitAtCharacters>(is_space, DelimiterBehavior::removed);
}

PreTokenizers read_punctuation(const JsonNode& node) {
  const auto behavior = node.member("behavior");
  return one<SplitAtCharacters>(is_punctuation,
                                behavior.is_null() ? DelimiterBehavior::isolated : read_behavior(behavior));
}

PreTokenizers read_metaspace(const JsonNode& node) {
  static constexpr std::array<std::string_view, 3> kSchemes = {"always", "first", "never"};
  Metaspace::Options options{.replacement = node.member("replacement").character(),
                             .split = node.member("split").boolean_or(true)};
  const auto scheme = node.member("prepend_scheme");
  if (!scheme.is_null()) options.prepend = static_cast<Metaspace::Prepend>(scheme.choice(kSchemes));
  // Files from before prepend_scheme say only whether there is a prefix.
  if (!node.member("add_prefix_space").boolean_or(true)) {
    if (!scheme.is_null() && options.prepend != Metaspace::Prepend::never) {
      scheme.refuse("contradicts add_prefix_space, which is false; expected never");
    }
    options.prepend = Metaspace::Prepend::never;
  }
  return one<Metaspace>(options);
}

PreTokenizers read_bert(const JsonNode&) {
  PreTokenizers steps = one<SplitAtCharacters>(is_space, DelimiterBehavior::removed);
  steps.push_back(std::make_unique<SplitAtCharacters>(is_punctuation, DelimiterBehavior::isolated));
  return steps;
}

PreTokenizers read_char_delimiter(const JsonNode& node) {
  return one<SplitAtCharacter>(node.member("delimiter").character());
}

PreTokenizers read_fixed_length(const JsonNode& node) {
  const auto length = node.member("length");
  const auto characters = length.is_null() ? 5 : length.count(std::size_t{1} << 30);
  if (characters == 0) length.refuse("is 0; expected a number of characters");
  return one<FixedLength>(characters);
}

PreTokenizers read_sequence(const JsonNode& node) {
  PreTokenizers steps;
  for (const auto& item : node.member("pretokenizers").items()) {
    item.require_object();
    auto more = read_pre_tokenizer(item);
    steps.insert(steps.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return steps;
}

}  // namespace

PreTokenizers read_pre_tokenizer(const JsonNode& node) {
  static constexpr std::array<std::string_view, 11> kTypes = {
      "ByteLevel",   "Split",     "Digits",           "Whitespace",  "WhitespaceSplit",
      "Punctuation", "Metaspace", "BertPreTokenizer", "FixedLength", "CharDelimiterSplit",
      "Sequence"};
  static constexpr std::array<Reader, kTypes.size()> kReaders = {
      read_byte_level,       read_split,          read_digits,    read_whitespace,
      read_whitespace_split, read_punctuation,    read_metaspace, read_bert,
      read_fixed_length,     read_char_delimiter, read_sequence};
  if (node.is_null()) return {};
  node.type(kTypes);
  return kReaders[node.member("type").choice(kTypes)](node);
}

}  // namespace hooked
