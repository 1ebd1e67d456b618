#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base64.h"
#include "hooked/core/error.h"
#include "text/pipeline/charsmap.h"
#include "text/pipeline/normalizer.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

// Clusters of this many bytes or more are looked up character by character only.
constexpr std::size_t kLongCluster = 6;

void append_replacement(std::vector<Change>& changes, std::string_view old_part, std::string_view new_part) {
  const auto begin = changes.size();
  for_each_character(new_part, [&](char32_t c, std::string_view) { changes.push_back({c, 0}); });
  const auto removed = static_cast<std::ptrdiff_t>(count_characters(old_part));
  const auto added = static_cast<std::ptrdiff_t>(changes.size() - begin);
  // If there are more characters than before, the last ones are new. If there are fewer, the last one, even
  // if it is unchanged, replaces those that are gone.
  for (std::ptrdiff_t i = 0; i < added - removed; ++i)
    changes[changes.size() - 1 - static_cast<std::size_t>(i)].change = 1;
  if (added < removed && !changes.empty())
    changes.back().change += static_cast<std::int32_t>(added - removed);
}

// Applies the shortest rule that matches the beginning of a cluster or a character: so does the tokenizers
// package, with which vocabularies in use were made.
class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(Charsmap rules) : rules_(std::move(rules)) {}

  void apply(NormalizedString& text) const override {
    std::vector<Change> changes;
    changes.reserve(text.text().size());
    bool changed = false;
    for (const auto cluster : graphemes(text.text())) {
      if (cluster.size() < kLongCluster) {
        if (const auto whole = rules_.shortest(cluster)) {
          append_replacement(changes, cluster, whole->replacement);
          changed = true;
          continue;
        }
      }
      for_each_character(cluster, [&](char32_t c, std::string_view bytes) {
        if (const auto single = rules_.shortest(bytes)) {
          append_replacement(changes, bytes, single->replacement);
          changed = true;
        } else {
          changes.push_back({c, 0});
        }
      });
    }
    if (changed) text.transform(changes);
  }

 private:
  Charsmap rules_;
};

}  // namespace

std::unique_ptr<const Normalizer> read_precompiled_normalizer(const ConfigReader& json) {
  constexpr std::string_view kKey = "precompiled_charsmap";
  const auto bytes = decode_base64(json.text(kKey));
  if (!bytes) json.refuse(kKey, "is not base64; expected the bytes of a charsmap in base64");
  try {
    return std::make_unique<PrecompiledNormalizer>(Charsmap(*bytes));
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(json.where(kKey), reason.what());
  }
}

}  // namespace hooked::text
