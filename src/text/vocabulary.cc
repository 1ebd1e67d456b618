#include "text/vocabulary.h"

#include <fmt/format.h>

#include "core/json.h"

namespace hooked {

std::optional<std::string> Vocabulary::add(std::string_view piece, std::int64_t id) {
  if (id < 0 || id >= kIds) return fmt::format("has the id {}; expected 0 to {}", id, kIds - 1);
  if (const auto known = find(piece)) {
    if (*known == id) return std::nullopt;
    return fmt::format("has the ids {} and {}; expected one", *known, id);
  }
  if (const auto* other = this->piece(id)) {
    return fmt::format("has the id {}, which is that of \"{}\" already; expected an id of its own", id,
                       printable(*other));
  }
  if (id >= size()) pieces_.resize(static_cast<std::size_t>(id) + 1, nullptr);
  pieces_[static_cast<std::size_t>(id)] = &ids_.emplace(piece, id).first->first;
  return std::nullopt;
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

}  // namespace hooked
