#include <array>
#include <limits>

#include "text/decoders.h"
#include "text/pattern_reader.h"

namespace hooked {
namespace {

using Reader = std::unique_ptr<const Decoder> (*)(const JsonNode&);

constexpr std::size_t kAny = std::numeric_limits<std::int32_t>::max();

template <class Plain>
std::unique_ptr<const Decoder> read_plain(const JsonNode&) {
  return std::make_unique<Plain>();
}

std::unique_ptr<const Decoder> read_word_piece(const JsonNode& node) {
  return std::make_unique<WordPieceDecoder>(WordPieceDecoder::Options{
      .prefix = node.member("prefix").text(), .cleanup = node.member("cleanup").boolean()});
}

std::unique_ptr<const Decoder> read_metaspace(const JsonNode& node) {
  static constexpr std::array<std::string_view, 3> kSchemes = {"always", "first", "never"};
  const auto scheme = node.member("prepend_scheme");
  const bool never = !scheme.is_null() && scheme.choice(kSchemes) == 2;
  return std::make_unique<MetaspaceDecoder>(
      MetaspaceDecoder::Options{.replacement = node.member("replacement").character(),
                                .prepended = !never && node.member("add_prefix_space").boolean_or(true)});
}

std::unique_ptr<const Decoder> read_strip(const JsonNode& node) {
  return std::make_unique<StripDecoder>(StripDecoder::Options{.content = node.member("content").character(),
                                                              .start = node.member("start").count(kAny),
                                                              .stop = node.member("stop").count(kAny)});
}

std::unique_ptr<const Decoder> read_replace(const JsonNode& node) {
  return std::make_unique<ReplaceDecoder>(read_pattern(node.member("pattern")),
                                          node.member("content").text());
}

std::unique_ptr<const Decoder> read_bpe(const JsonNode& node) {
  return std::make_unique<BpeDecoder>(node.member("suffix").text());
}

std::unique_ptr<const Decoder> read_ctc(const JsonNode& node) {
  return std::make_unique<CtcDecoder>(
      CtcDecoder::Options{.pad_token = node.member("pad_token").text(),
                          .word_delimiter_token = node.member("word_delimiter_token").text(),
                          .cleanup = node.member("cleanup").boolean()});
}

std::unique_ptr<const Decoder> read_sequence(const JsonNode& node) {
  std::vector<std::unique_ptr<const Decoder>> steps;
  for (const auto& item : node.member("decoders").items()) {
    item.require_object();
    steps.push_back(read_decoder(item));
  }
  return std::make_unique<DecoderSequence>(std::move(steps));
}

}  // namespace

std::unique_ptr<const Decoder> read_decoder(const JsonNode& node) {
  static constexpr std::array<std::string_view, 10> kTypes = {
      "ByteLevel", "WordPiece",    "Metaspace",  "Fuse", "Strip",
      "Replace",   "ByteFallback", "BPEDecoder", "CTC",  "Sequence"};
  static constexpr std::array<Reader, kTypes.size()> kReaders = {read_plain<ByteLevelDecoder>,
                                                                 read_word_piece,
                                                                 read_metaspace,
                                                                 read_plain<FuseDecoder>,
                                                                 read_strip,
                                                                 read_replace,
                                                                 read_plain<ByteFallbackDecoder>,
                                                                 read_bpe,
                                                                 read_ctc,
                                                                 read_sequence};
  if (node.is_null()) return nullptr;
  node.type(kTypes);
  return kReaders[node.member("type").choice(kTypes)](node);
}

}  // namespace hooked
