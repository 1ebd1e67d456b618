#include "text/pipeline/post_processor.h"

#include <algorithm>
#include <utility>

#include "hooked/core/error.h"
#include "text/unicode/byte_characters.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

using PostProcessorPtr = std::unique_ptr<const PostProcessor>;

// White space at the ends of a token, in characters.
struct Blanks {
  std::size_t leading = 0;
  std::size_t trailing = 0;
};

Blanks blanks_of(std::string_view text) {
  const auto blank = byte_character(' ');
  Blanks blanks;
  bool only_blanks = true;
  for_each_character(text, [&](char32_t c, std::string_view) {
    if (c == blank || is_space(c)) {
      blanks.leading += only_blanks ? 1 : 0;
      ++blanks.trailing;
    } else {
      only_blanks = false;
      blanks.trailing = 0;
    }
  });
  return blanks;
}

bool is_character_start(std::string_view text, std::size_t byte) {
  return byte >= text.size() || !continues_character(text[byte]);
}

// Removes `characters` characters from the front of a span, or all.
void trim_front(std::string_view text, TextSpan& span, std::size_t characters) {
  for (; characters > 0 && span.begin < span.end; --characters) {
    do ++span.begin;
    while (span.begin < span.end && !is_character_start(text, span.begin));
  }
}

// Removes `characters` characters from the end of a span, or all; none if the text up to it is shorter.
void trim_back(std::string_view text, TextSpan& span, std::size_t characters) {
  if (span.end < characters) return;
  for (; characters > 0 && span.begin < span.end; --characters) {
    do --span.end;
    while (span.end > span.begin && !is_character_start(text, span.end));
  }
}

// Trims white space at tokens' ends from their offsets. Ids stay.
class OffsetTrimmer : public PostProcessor {
 public:
  explicit OffsetTrimmer(const ConfigReader& json) : prefixed_(json.boolean("add_prefix_space")) {}

  void apply(TokenList& tokens, SpecialTokens, const Spelling& spelling) const override {
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
      const auto text = tokens.texts.find(i);
      auto blanks = blanks_of(text == tokens.texts.end() ? spelling(tokens.ids[i]) : text->second);
      auto& span = tokens.offsets[i];
      if (blanks.leading > 0) {
        // A single blank at the beginning is the one that the pre-tokenizer added: it is not in the
        // text.
        const bool first = i == 0 || span.begin == 0;
        if (first && prefixed_ && blanks.leading == 1) blanks.leading = 0;
        trim_front(tokens.original, span, blanks.leading);
      }
      trim_back(tokens.original, span, blanks.trailing);
    }
  }

  bool trims_offsets() const noexcept override { return true; }

 private:
  bool prefixed_;  // the first token may begin with a blank that is not in the text
};

// Puts special tokens around the text.
class SpecialTokenAdder : public PostProcessor {
 public:
  explicit SpecialTokenAdder(TokensAround around) : around_(std::move(around)) {}

  void apply(TokenList& tokens, SpecialTokens special, const Spelling&) const override {
    if (special == SpecialTokens::add) tokens.surround(around_.before, around_.after);
  }

  std::optional<TokensAround> around() const override { return around_; }

 private:
  TokensAround around_;  // without a reason
};

// Several steps in sequence.
class PostProcessorSequence : public PostProcessor {
 public:
  explicit PostProcessorSequence(std::vector<PostProcessorPtr> steps) : steps_(std::move(steps)) {}

  static PostProcessorPtr read(const ConfigReader& json) {
    std::vector<PostProcessorPtr> steps;
    for (const auto& step : json.objects("processors")) steps.push_back(read_post_processor(step));
    return std::make_unique<PostProcessorSequence>(std::move(steps));
  }

  void apply(TokenList& tokens, SpecialTokens special, const Spelling& spelling) const override {
    for (const auto& step : steps_) step->apply(tokens, special, spelling);
  }

  bool trims_offsets() const noexcept override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->trims_offsets(); });
  }

  std::optional<TokensAround> around() const override {
    std::optional<TokensAround> all;
    for (const auto& step : steps_) {
      const auto more = step->around();
      if (!more) continue;
      if (!all) all.emplace();
      all->before.insert(all->before.begin(), more->before.begin(), more->before.end());
      all->after.insert(all->after.end(), more->after.begin(), more->after.end());
    }
    return all;
  }

 private:
  std::vector<PostProcessorPtr> steps_;
};

PostProcessorPtr read_template(const ConfigReader& json) {
  TokensAround around;
  bool text_seen = false;
  for (const auto& piece : json.objects("single")) {
    if (const auto token = piece.object_if("SpecialToken")) {
      const auto ids = json.object("special_tokens").object(token->text("id")).integers("ids");
      auto& into = text_seen ? around.after : around.before;
      into.insert(into.end(), ids.begin(), ids.end());
      continue;
    }
    const auto text = piece.object_if("Sequence");
    if (!text || text_seen || text->text_or("id", "A") != "A") {
      throw TokenizerError(piece.where(),
                           "cannot be understood; expected special tokens around one Sequence A");
    }
    text_seen = true;
  }
  if (!text_seen) json.refuse("single", "has no Sequence; expected special tokens around one");
  return std::make_unique<SpecialTokenAdder>(std::move(around));
}

// A special token, `[spelling, id]`.
std::int64_t read_special_token(const ConfigReader& json, std::string_view key) {
  const auto pair = json.array(key);
  if (pair.size() != 2) json.refuse(key, "is not a pair; expected [spelling, id]");
  return pair.integer("1");
}

PostProcessorPtr read_class_and_separator(const ConfigReader& json) {
  return std::make_unique<SpecialTokenAdder>(
      TokensAround{{read_special_token(json, "cls")}, {read_special_token(json, "sep")}, {}});
}

PostProcessorPtr read_roberta(const ConfigReader& json) {
  std::vector<PostProcessorPtr> steps;
  auto trimmer = std::make_unique<OffsetTrimmer>(json);
  if (json.boolean("trim_offsets")) steps.push_back(std::move(trimmer));
  steps.push_back(read_class_and_separator(json));
  return std::make_unique<PostProcessorSequence>(std::move(steps));
}

PostProcessorPtr read_byte_level_trimmer(const ConfigReader& json) {
  if (json.boolean("trim_offsets")) return std::make_unique<OffsetTrimmer>(json);
  return std::make_unique<PostProcessorSequence>(std::vector<PostProcessorPtr>{});
}

constexpr Named<PostProcessorPtr (*)(const ConfigReader&)> kPostProcessors[] = {
    {"TemplateProcessing", read_template},     {"BertProcessing", read_class_and_separator},
    {"RobertaProcessing", read_roberta},       {"ByteLevel", read_byte_level_trimmer},
    {"Sequence", PostProcessorSequence::read},
};

}  // namespace

void TokenList::surround(const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after) {
  ids.insert(ids.begin(), before.begin(), before.end());
  offsets.insert(offsets.begin(), before.size(), {});
  ids.insert(ids.end(), after.begin(), after.end());
  offsets.insert(offsets.end(), after.size(), {});
  if (before.empty()) return;
  std::unordered_map<std::size_t, std::string> moved;
  for (auto& [place, text] : texts) moved.emplace(place + before.size(), std::move(text));
  texts = std::move(moved);
}

std::unique_ptr<const PostProcessor> read_post_processor(const ConfigReader& json) {
  return json.one_of("type", kPostProcessors)(json);
}

std::unique_ptr<const PostProcessor> with_tokens_around(std::unique_ptr<const PostProcessor> first,
                                                        const TokensAround& around) {
  std::vector<PostProcessorPtr> steps;
  if (first) steps.push_back(std::move(first));
  steps.push_back(std::make_unique<SpecialTokenAdder>(TokensAround{around.before, around.after, {}}));
  return std::make_unique<PostProcessorSequence>(std::move(steps));
}

}  // namespace hooked::text
