#include "indirect_object.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/error.h"

using hooked::HookedTransformer;
using hooked::PromptPair;
using hooked::PromptPairOptions;
using hooked::ShapeError;
using hooked::Tokenizer;
using hooked::TokenizerError;

namespace ioi {
namespace {

constexpr std::string_view kWhere = "indirect_object_pairs";

// Each name follows a space, and the last word is the one before the answer.
constexpr std::array kSentences{
    "When {first} and {second} went to the {place}, {giver} gave a {object} to",
    "After {first} and {second} left the {place}, {giver} handed a {object} to",
    "While {first} and {second} were at the {place}, {giver} showed a {object} to",
    "Then {first} and {second} came to the {place}, and {giver} sent a {object} to",
    "Yesterday {first} met {second} at the {place}, and {giver} lent a {object} to",
};
constexpr std::array kPlaces{"park", "store", "station", "school", "garden", "library", "museum", "market"};
constexpr std::array kObjects{"book", "ring", "key", "map", "coin", "pen", "letter", "ticket"};
constexpr std::array kNames{
    "Mary",    "John",   "Anna",  "Paul",   "Sarah",   "David",  "Laura",   "Peter",  "Emma",   "James",
    "Linda",   "Robert", "Susan", "Thomas", "Karen",   "Daniel", "Lisa",    "Mark",   "Nancy",  "Kevin",
    "Rachel",  "Simon",  "Alice", "George", "Julia",   "Martin", "Diana",   "Frank",  "Helen",  "Eric",
    "Jessica", "Steven", "Amy",   "Brian",  "Michael", "Kate",   "William", "Claire", "Andrew", "Rose",
};

/// A name and the one token that it is after a space.
struct Name {
  std::string text;
  std::int64_t token;
};

struct Frame {
  std::string sentence;
  std::string before_first;  ///< the text before the first name, without the space
};

/// What is drawn for one pair, by index.
struct DrawnPair {
  std::size_t frame, place, object, first, second;
  bool second_gives;  ///< in the clean prompt
  auto operator<=>(const DrawnPair&) const = default;
};

std::string filled(std::string sentence, const std::vector<std::pair<std::string_view, std::string>>& words) {
  for (const auto& [blank, word] : words) sentence.replace(sentence.find(blank), blank.size(), word);
  return sentence;
}

/// The ids of a text, or nothing if the vocabulary has no token for one of its words.
std::optional<std::vector<std::int64_t>> ids_in(const Tokenizer& tokenizer, const std::string& text) {
  try {
    return tokenizer.encode(text).ids;
  } catch (const TokenizerError&) {
    return std::nullopt;
  }
}

/// The sentences that can be written in the vocabulary.
std::vector<Frame> frames_of(const Tokenizer& tokenizer) {
  std::vector<Frame> frames;
  for (const std::string sentence : kSentences) {
    const auto plain = filled(sentence, {{" {first}", ""},
                                         {" {second}", ""},
                                         {"{place}", kPlaces.front()},
                                         {" {giver}", ""},
                                         {"{object}", kObjects.front()}});
    if (ids_in(tokenizer, plain)) frames.push_back({sentence, sentence.substr(0, sentence.find(" {first}"))});
  }
  if (frames.empty())
    throw TokenizerError(kWhere,
                         "the vocabulary lacks words of every sentence; expected that of an English text");
  return frames;
}

/// The words of a list that can be written in the vocabulary.
template <std::size_t kCount>
std::vector<std::string> words_of(const Tokenizer& tokenizer, const std::array<const char*, kCount>& words) {
  std::vector<std::string> known;
  for (const char* word : words) {
    if (ids_in(tokenizer, word)) known.emplace_back(word);
  }
  return known;
}

/// The token that `name` is after each frame's beginning, if it is always the same one.
std::optional<std::int64_t> token_of(const Tokenizer& tokenizer, const std::vector<Frame>& frames,
                                     const std::string& name) {
  std::optional<std::int64_t> token;
  for (const Frame& frame : frames) {
    auto before = ids_in(tokenizer, frame.before_first);
    const auto with = ids_in(tokenizer, frame.before_first + " " + name);
    if (!before || !with || with->size() != before->size() + 1) return std::nullopt;
    if (token && *token != with->back()) return std::nullopt;
    token = with->back();
    before->push_back(*token);
    if (*before != *with) return std::nullopt;
  }
  return token;
}

std::vector<Name> names_of(const Tokenizer& tokenizer, const std::vector<Frame>& frames,
                           const IndirectObjectOptions& options) {
  std::vector<std::string> asked = options.names;
  if (asked.empty()) asked.assign(kNames.begin(), kNames.end());
  std::vector<Name> names;
  for (const std::string& text : asked) {
    if (const auto token = token_of(tokenizer, frames, text)) names.push_back({text, *token});
  }
  // Names that share one token are words that the vocabulary does not know.
  std::erase_if(names, [all = names](const Name& name) {
    return std::count_if(all.begin(), all.end(),
                         [&](const Name& other) { return other.token == name.token; }) > 1;
  });
  if (names.size() < 2) {
    throw TokenizerError(kWhere,
                         fmt::format("the tokenizer has {} of {} names as one token after a space; expected "
                                     "at least 2; give names that it has as IndirectObjectOptions::names",
                                     names.size(), asked.size()));
  }
  return names;
}

/// Draws numbers below a bound. Implemented here because the standard's distributions may differ between
/// libraries, and a seed should always mean the same.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

 private:
  std::mt19937_64 random_;
};

/// The columns of the three names in a prompt, in their order; nothing if they are not three tokens.
std::optional<std::vector<std::int64_t>> columns_of_names(const HookedTransformer& model,
                                                          const std::string& text,
                                                          const std::array<std::int64_t, 2>& names,
                                                          const PromptPairOptions& options) {
  std::vector<std::int64_t> columns;
  const auto pieces = model.to_pieces(text, {.prepend_bos = options.prepend_bos});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].id == names[0] || pieces[i].id == names[1]) columns.push_back(static_cast<std::int64_t>(i));
  }
  if (columns.size() != 3) return std::nullopt;
  return columns;
}

/// The pair that was drawn, or nothing if the tokenizer splits its names differently than after a space.
std::optional<PromptPair> pair_of(const HookedTransformer& model, const std::string& sentence,
                                  const std::array<const Name*, 2>& names, bool second_gives,
                                  const PromptPairOptions& options) {
  const auto prompt = [&](const Name& giver) {
    return filled(sentence,
                  {{"{first}", names[0]->text}, {"{second}", names[1]->text}, {"{giver}", giver.text}});
  };
  const Name& giver = *names[second_gives ? 1 : 0];
  const Name& other = *names[second_gives ? 0 : 1];
  const std::string clean = prompt(giver), corrupted = prompt(other);
  const std::array<std::int64_t, 2> tokens{names[0]->token, names[1]->token};
  const auto columns = columns_of_names(model, clean, tokens, options);
  if (!columns || columns != columns_of_names(model, corrupted, tokens, options)) return std::nullopt;
  PromptPair pair{.clean = clean, .corrupted = corrupted, .answers = {other.token}, .against = {giver.token}};
  constexpr std::array kPlaceNames{"first", "second", "giver"};
  for (std::size_t i = 0; i < kPlaceNames.size(); ++i)
    pair.places[kPlaceNames[i]] = {(*columns)[i], (*columns)[i]};
  return pair;
}

}  // namespace

hooked::PromptPairs indirect_object_pairs(const HookedTransformer& model,
                                          const IndirectObjectOptions& options) {
  const Tokenizer& tokenizer = model.tokenizer();
  const auto frames = frames_of(tokenizer);
  const auto names = names_of(tokenizer, frames, options);
  const auto places = words_of(tokenizer, kPlaces), objects = words_of(tokenizer, kObjects);
  const auto different =
      frames.size() * places.size() * objects.size() * names.size() * (names.size() - 1) * 2;
  if (options.count < 1 || static_cast<std::size_t>(options.count) > different) {
    throw ShapeError(
        kWhere, fmt::format("{} pairs cannot be drawn; expected 1 to {}, as many as there are of {} names",
                            options.count, different, names.size()));
  }
  // Sentences whose names the tokenizer splits differently than after a space are drawn in vain.
  const auto draws = std::min(different, static_cast<std::size_t>(options.count) * 64);
  Draw draw(options.seed);
  std::set<DrawnPair> seen;
  std::vector<PromptPair> pairs;
  while (static_cast<std::int64_t>(pairs.size()) < options.count) {
    if (seen.size() == draws) {
      throw TokenizerError(kWhere,
                           fmt::format("in {} of {} sentences the names are one token each; expected {} such "
                                       "sentences; give other names as IndirectObjectOptions::names",
                                       pairs.size(), draws, options.count));
    }
    DrawnPair drawn{draw.below(frames.size()), draw.below(places.size()),    draw.below(objects.size()),
                    draw.below(names.size()),  draw.below(names.size() - 1), draw.below(2) == 1};
    if (drawn.second >= drawn.first) ++drawn.second;  // another name than the first
    if (!seen.insert(drawn).second) continue;
    const auto sentence = filled(frames[drawn.frame].sentence,
                                 {{"{place}", places[drawn.place]}, {"{object}", objects[drawn.object]}});
    if (auto pair = pair_of(model, sentence, {&names[drawn.first], &names[drawn.second]}, drawn.second_gives,
                            options.tokens))
      pairs.push_back(std::move(*pair));
  }
  return {model, std::move(pairs), options.tokens};
}

}  // namespace ioi
