#include "text/model/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "hooked/core/error.h"

namespace hooked::text {

Vocabulary Vocabulary::read(const ConfigReader& model) {
  constexpr std::string_view kKey = "vocab";
  const auto entries = model.named_integers(kKey);
  Vocabulary vocabulary;
  vocabulary.ids_.reserve(entries.size());
  // Ids are assigned once the last one of each piece is known: an earlier one may be another piece's.
  std::vector<const decltype(ids_)::value_type*> pieces;
  pieces.reserve(entries.size());
  for (const auto& [piece, id] : entries) {
    const auto [place, is_new] = vocabulary.ids_.insert_or_assign(std::string(piece), id);
    if (!is_new) vocabulary.repeated_.emplace_back(piece);
    pieces.push_back(&*place);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [piece, last_id] = *pieces[i];
    const auto id = entries[i].second;
    if (id != last_id && id >= 0 && id < kIds) continue;
    if (const auto refusal = vocabulary.give_id(piece, id)) {
      throw TokenizerError(model.object(kKey).where(piece), *refusal);
    }
  }
  auto& repeated = vocabulary.repeated_;
  std::sort(repeated.begin(), repeated.end());
  repeated.erase(std::unique(repeated.begin(), repeated.end()), repeated.end());
  return vocabulary;
}

std::optional<std::string> Vocabulary::give_id(const std::string& piece, std::int64_t id) {
  if (id < 0 || id >= kIds) return fmt::format("has the id {}; expected 0 to {}", id, kIds - 1);
  if (const auto* other = this->piece(id); other && other != &piece) {
    return fmt::format("has the id {}, which is that of \"{}\" already; expected an id of its own", id,
                       printable(*other));
  }
  if (id >= size()) pieces_.resize(static_cast<std::size_t>(id) + 1, nullptr);
  pieces_[static_cast<std::size_t>(id)] = &piece;
  return std::nullopt;
}

std::optional<std::string> Vocabulary::add(std::string_view piece, std::int64_t id) {
  const auto [place, is_new] = ids_.try_emplace(std::string(piece), id);
  if (!is_new) {
    if (place->second == id) return std::nullopt;
    return fmt::format("has the ids {} and {}; expected one", place->second, id);
  }
  auto refusal = give_id(place->first, id);
  if (refusal) ids_.erase(place);
  return refusal;
}

void Vocabulary::append(std::string_view piece) {
  const auto [place, is_new] = ids_.try_emplace(std::string(piece), size());
  if (!is_new) place->second = size();
  pieces_.push_back(&place->first);
}

const std::string* Vocabulary::piece(std::int64_t id) const noexcept {
  return id >= 0 && id < size() ? pieces_[static_cast<std::size_t>(id)] : nullptr;
}

std::optional<std::int64_t> Vocabulary::find(std::string_view piece) const noexcept {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace hooked::text
