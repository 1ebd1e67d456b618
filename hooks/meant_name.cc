// What a wrong name was meant to be: `hook_z` without its path, `z.1`, `blocks.0.z`, a slip of the pen.
#include "hooks/meant_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "core/nearest.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "hooked/hooks/activation_name.h"

namespace hooked {
namespace {

/// A text that was to be a name, in its parts.
struct Parts {
  std::string word;                   ///< without `hook_`, and without a layer after it
  std::string type;                   ///< the module that stands before it: `ln1`, `attn`
  std::optional<std::int32_t> layer;  ///< wherever it stands
};

bool in_words(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::optional<std::int32_t> as_layer(std::string_view digits) {
  const auto number = digits.size() > 6 ? std::nullopt : parse_integer(digits);
  return number ? std::optional(static_cast<std::int32_t>(*number)) : std::nullopt;
}

Parts parts_of(std::string_view text) {
  Parts parts;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    std::string word;
    for (; i < text.size() && in_words(text[i]); ++i)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
    if (word.empty()) {
      ++i;
    } else if (const auto layer = as_layer(word)) {
      parts.layer = layer;
    } else if (word != "blocks" && word != "encoder" && word != "decoder") {
      words.push_back(std::move(word));
    }
  }
  if (words.empty()) return parts;
  parts.word = words.back();
  if (words.size() > 1) parts.type = words[words.size() - 2];
  if (parts.word.starts_with("hook_")) parts.word.erase(0, 5);
  const auto digits = parts.word.find_last_not_of("0123456789") + 1;
  if (const auto layer = as_layer(std::string_view(parts.word).substr(digits))) {
    parts.layer = layer;
    parts.word.resize(digits);
    while (parts.word.ends_with('_')) parts.word.pop_back();
  }
  return parts;
}

/// The site of a word, in blocks or, if no layer is given, outside them.
const SiteRow* site_of(const Parts& parts) {
  if (!parts.layer) {
    if (const SiteRow* outside = site_of_shorthand(parts.word, false, parts.type)) return outside;
  }
  if (const SiteRow* found = site_of_shorthand(parts.word, true, parts.type)) return found;
  return site_of_shorthand(parts.word, true, {});
}

std::string suggested(const SiteRow& site, std::optional<std::int32_t> layer) {
  const bool in_block = site.scope == SiteScope::block, of_experts = per_expert(site);
  const std::string full =
      ActivationName{site.site, Stack::none, in_block ? layer.value_or(0) : -1, of_experts ? 0 : -1}
          .to_string();
  if (!in_block || of_experts) return fmt::format("; did you mean '{}'?", full);
  const std::string one = fmt::format("'{}{}' ({})", site.word, layer.value_or(0), full);
  return layer ? fmt::format("; did you mean {}?", one)
               : fmt::format("; did you mean {}, or '{}' for every layer?", one, site.word);
}

std::string of_words(const Parts& parts) {
  std::vector<std::string> words;
  for (const SiteRow& row : site_table()) words.emplace_back(row.word);
  const std::string word = nearest_text("{}", parts.word, words);
  const auto row = std::ranges::find(words, word);
  return row == words.end()
             ? std::string()
             : suggested(site_table()[static_cast<std::size_t>(row - words.begin())], parts.layer);
}

// Says so if a glob asks for a block that the model does not have.
std::string layer_out_of_range(std::string_view text, const PointIndex& points) {
  const auto dot = text.find('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view rest = text.substr(dot + 1);
  const auto layer = as_layer(rest.substr(0, rest.find('.')));
  std::int32_t layers = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ActivationName& name = points.name(i);
    if (stack_name(name.stack) == text.substr(0, dot)) layers = std::max(layers, name.layer + 1);
  }
  if (!layer || layers == 0 || *layer < layers) return {};
  return fmt::format("; its layers are 0 to {}", layers - 1);
}

std::string meant(std::string_view text, Parts parts, const std::vector<std::string>& names) {
  if (const SiteRow* site = site_of(parts)) return suggested(*site, parts.layer);
  const bool dotted = text.find('.') != std::string_view::npos;
  std::string found = dotted ? nearest_text("; did you mean '{}'?", text, names) : std::string();
  return found.empty() ? of_words(parts) : found;
}

}  // namespace

std::string name_meant_by(std::string_view text, std::optional<std::int32_t> layer) {
  Parts parts = parts_of(text);
  if (layer) parts.layer = layer;
  std::vector<std::string> names;
  for (const SiteRow& row : site_table()) {
    const std::int32_t in = row.scope == SiteScope::block ? parts.layer.value_or(0) : -1;
    names.push_back(ActivationName{row.site, Stack::none, in, per_expert(row) ? 0 : -1}.to_string());
  }
  return meant(text, std::move(parts), names);
}

std::string name_meant_by(std::string_view text, const PointIndex& points) {
  if (std::string range = layer_out_of_range(text, points); !range.empty()) return range;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < points.size(); ++i) names.push_back(points.name(i).to_string());
  return meant(text, parts_of(text), names);
}

std::string with_advice(const std::string& meant, std::string_view advice) {
  if (!meant.ends_with('?')) return fmt::format("{}; {}", meant, advice);
  std::string sentence(advice);
  sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
  return fmt::format("{} {}", meant, sentence);
}

void require_no_indices(std::string_view text) {
  const auto bracket = text.find('[');
  if (bracket == std::string_view::npos) return;
  throw HookError(text,
                  fmt::format("the name of a whole activation takes no indices; expected '{}'; index the "
                              "tensor itself",
                              text.substr(0, bracket)));
}

}  // namespace hooked
