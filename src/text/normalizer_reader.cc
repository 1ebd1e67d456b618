#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "text/normalizers.h"
#include "text/pattern_reader.h"
#include "text/precompiled_normalizer.h"

namespace hooked {
namespace {

using Reader = std::unique_ptr<const Normalizer> (*)(const JsonNode&);

template <NormalizationForm form>
std::unique_ptr<const Normalizer> read_form(const JsonNode&) {
  return std::make_unique<UnicodeFormNormalizer>(form);
}

template <class Plain>
std::unique_ptr<const Normalizer> read_plain(const JsonNode&) {
  return std::make_unique<Plain>();
}

std::unique_ptr<const Normalizer> read_bert(const JsonNode& node) {
  const bool lowercase = node.member("lowercase").boolean();
  return std::make_unique<BertNormalizer>(
      BertNormalizer::Options{.clean_text = node.member("clean_text").boolean(),
                              .handle_chinese_chars = node.member("handle_chinese_chars").boolean(),
                              .strip_accents = node.member("strip_accents").boolean_or(lowercase),
                              .lowercase = lowercase});
}

std::unique_ptr<const Normalizer> read_replace(const JsonNode& node) {
  return std::make_unique<ReplaceNormalizer>(read_pattern(node.member("pattern")),
                                             node.member("content").text());
}

std::unique_ptr<const Normalizer> read_prepend(const JsonNode& node) {
  return std::make_unique<PrependNormalizer>(node.member("prepend").text());
}

std::unique_ptr<const Normalizer> read_strip(const JsonNode& node) {
  return std::make_unique<StripNormalizer>(StripNormalizer::Options{
      .left = node.member("strip_left").boolean(), .right = node.member("strip_right").boolean()});
}

std::unique_ptr<const Normalizer> read_precompiled(const JsonNode& node) {
  const auto charsmap = node.member("precompiled_charsmap");
  const auto bytes = decode_base64(charsmap.text());
  if (!bytes) charsmap.refuse("is not base64; expected the bytes of a charsmap in base64");
  try {
    return std::make_unique<PrecompiledNormalizer>(*bytes);
  } catch (const std::invalid_argument& reason) {
    charsmap.refuse(reason.what());
  }
}

std::unique_ptr<const Normalizer> read_sequence(const JsonNode& node) {
  std::vector<std::unique_ptr<const Normalizer>> steps;
  for (const auto& item : node.member("normalizers").items()) {
    item.require_object();
    steps.push_back(read_normalizer(item));
  }
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(const JsonNode& node) {
  static constexpr std::array<std::string_view, 14> kTypes = {
      "NFC",     "NFD",     "NFKC",  "NFKD", "Lowercase",   "StripAccents", "BertNormalizer",
      "Replace", "Prepend", "Strip", "Nmt",  "Precompiled", "ByteLevel",    "Sequence"};
  static constexpr std::array<Reader, kTypes.size()> kReaders = {read_form<NormalizationForm::nfc>,
                                                                 read_form<NormalizationForm::nfd>,
                                                                 read_form<NormalizationForm::nfkc>,
                                                                 read_form<NormalizationForm::nfkd>,
                                                                 read_plain<LowercaseNormalizer>,
                                                                 read_plain<StripAccentsNormalizer>,
                                                                 read_bert,
                                                                 read_replace,
                                                                 read_prepend,
                                                                 read_strip,
                                                                 read_plain<NmtNormalizer>,
                                                                 read_precompiled,
                                                                 read_plain<ByteLevelNormalizer>,
                                                                 read_sequence};
  if (node.is_null()) return nullptr;
  node.type(kTypes);
  return kReaders[node.member("type").choice(kTypes)](node);
}

}  // namespace hooked
