#include "toy_task.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "hooked/analysis/repetition.h"
#include "toy_words.h"

namespace toy {
namespace {

/// Sentences with roles: {1} and {2} are the two people in order of mention, {S} the one who acts and {I} the
/// other one, {P} a place, {O} an object, {V} a giving verb and {M} a moving verb.
constexpr std::array<std::string_view, 8> kTemplates = {
    "When {1} and {2} {M} to the {P} , {S} {V} a {O} to {I} .",
    "After {1} and {2} {M} to the {P} , {S} {V} a {O} to {I} .",
    "While {1} and {2} were at the {P} , {S} {V} a {O} to {I} .",
    "Then {1} and {2} met at the {P} and {S} {V} a {O} to {I} .",
    "Yesterday {1} and {2} had lunch at the {P} . {S} {V} a {O} to {I} .",
    "Friends {1} and {2} found a {O} at the {P} . {S} {V} it to {I} .",
    "At the {P} {1} saw {2} . Later {S} {V} a {O} to {I} .",
    "Before {1} and {2} left the {P} , {S} {V} a {O} to {I} .",
};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

struct WordLists {
  std::vector<std::string_view> names = split(kNames);
  std::vector<std::string_view> places = split(kPlaces);
  std::vector<std::string_view> objects = split(kObjects);
  std::vector<std::string_view> giving = split(kGivingVerbs);
  std::vector<std::string_view> moving = split(kMovingVerbs);
};

const WordLists& lists() {
  static const WordLists kLists;
  return kLists;
}

}  // namespace

Vocabulary::Vocabulary() {
  std::set<std::string_view> words;
  for (const auto text : {kNames, kPlaces, kObjects, kGivingVerbs, kMovingVerbs, kFillers}) {
    for (const auto word : split(text)) words.insert(word);
  }
  for (const auto sentence : kTemplates) {
    for (const auto word : split(sentence)) {
      if (word.front() != '{') words.insert(word);
    }
  }
  words_.emplace_back("<bos>");
  for (const auto word : words) words_.emplace_back(word);
  for (std::size_t i = 0; i < words_.size(); ++i) ids_.emplace(words_[i], static_cast<std::int64_t>(i));
}

std::int64_t Vocabulary::id(std::string_view word) const {
  const auto found = ids_.find(std::string(word));
  if (found == ids_.end()) throw std::out_of_range(fmt::format("'{}' is not in the toy vocabulary", word));
  return found->second;
}

std::string Vocabulary::tokenizer_json() const {
  using Json = nlohmann::ordered_json;
  Json vocab = Json::object();
  for (std::size_t i = 0; i < words_.size(); ++i) vocab[words_[i]] = i;
  const Json bos = {{"id", kBos},      {"content", word(kBos)}, {"single_word", false}, {"lstrip", false},
                    {"rstrip", false}, {"normalized", false},   {"special", true}};
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({bos})},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "Whitespace"}}},
      // Each sentence was learned after this token.
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair",
         {{{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens",
         {{"<bos>", {{"id", "<bos>"}, {"ids", Json::array({kBos})}, {"tokens", Json::array({"<bos>"})}}}}}}},
      {"decoder", nullptr},
      {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}}}};
  return json.dump(1) + '\n';
}

bool is_held_out(std::size_t name, std::size_t other) noexcept {
  // splitmix64 of the pair in a fixed order: a split that neither seed nor platform changes.
  std::uint64_t h = std::min(name, other) * 1000003ULL + std::max(name, other);
  h += 0x9e3779b97f4a7c15ULL;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
  return (h ^ (h >> 31)) % 10 == 0;
}

std::int64_t Task::draw(std::int64_t from, std::int64_t to) {
  return from + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(to - from + 1));
}

std::string_view Task::draw_word(const std::vector<std::string_view>& words) {
  return words[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(words.size()) - 1))];
}

SentenceBatch Task::sentences(std::int64_t rows, Pairs pairs) {
  const auto& words = lists();
  const auto last_name = static_cast<std::int64_t>(words.names.size()) - 1;
  std::vector<std::vector<std::int64_t>> sentences;
  std::vector<std::int64_t> answer_pos, answers, first_answers;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::size_t first = 0, second = 0;
    do {
      first = static_cast<std::size_t>(draw(0, last_name));
      second = static_cast<std::size_t>(draw(0, last_name));
    } while (first == second || is_held_out(first, second) != (pairs == Pairs::held_out));
    const bool first_answers_here = draw(0, 1) == 0;
    const auto answer = words.names[first_answers_here ? first : second];

    const auto sentence = kTemplates[static_cast<std::size_t>(draw(0, kTemplates.size() - 1))];
    std::vector<std::int64_t> ids{Vocabulary::kBos};
    for (auto word : split(sentence)) {
      if (word == "{1}") word = words.names[first];
      if (word == "{2}") word = words.names[second];
      if (word == "{S}") word = words.names[first_answers_here ? second : first];
      if (word == "{P}") word = draw_word(words.places);
      if (word == "{O}") word = draw_word(words.objects);
      if (word == "{V}") word = draw_word(words.giving);
      if (word == "{M}") word = draw_word(words.moving);
      if (word == "{I}") {
        answer_pos.push_back(static_cast<std::int64_t>(ids.size()));
        word = answer;
      }
      ids.push_back(vocabulary_.id(word));
    }
    answers.push_back(vocabulary_.id(answer));
    first_answers.push_back(first_answers_here);
    sentences.push_back(std::move(ids));
  }

  std::size_t longest = 0;
  for (const auto& ids : sentences) longest = std::max(longest, ids.size());
  auto tokens = at::zeros({rows, static_cast<std::int64_t>(longest)}, at::kLong);
  auto mask = at::zeros_like(tokens);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto& ids = sentences[static_cast<std::size_t>(row)];
    const auto length = static_cast<std::int64_t>(ids.size());
    tokens[row].narrow(0, 0, length).copy_(at::tensor(ids));
    mask[row].narrow(0, 0, length).fill_(1);
  }
  return {.tokens = tokens,
          .mask = mask,
          .answer_pos = at::tensor(answer_pos),
          .answers = at::tensor(answers),
          .first_answers = at::tensor(first_answers).to(at::kBool)};
}

at::Tensor Task::repeats(std::int64_t rows, std::int64_t half, std::int64_t words) {
  return hooked::repeated_random_tokens({.rows = rows,
                                         .half = half,
                                         .vocab_begin = Vocabulary::kFirstWord,
                                         .vocab_end = Vocabulary::kFirstWord + words,
                                         .bos = Vocabulary::kBos,
                                         .seed = random_()});
}

}  // namespace toy
