#include <array>

#include "text/post_processors.h"

namespace hooked {
namespace {

using Reader = std::unique_ptr<const PostProcessor> (*)(const JsonNode&);

OffsetTrimmer::PrefixBlank read_prefix(const JsonNode& node) {
  return node.member("add_prefix_space").boolean() ? OffsetTrimmer::PrefixBlank::yes
                                                   : OffsetTrimmer::PrefixBlank::no;
}

std::unique_ptr<const PostProcessor> sequence_of(std::vector<std::unique_ptr<const PostProcessor>> steps) {
  return std::make_unique<PostProcessorSequence>(std::move(steps));
}

void read_template_token(const JsonNode& special_tokens, const JsonNode& piece,
                         std::vector<std::int64_t>& into) {
  for (const auto& id : special_tokens.member(piece.member("id").text()).member("ids").items()) {
    into.push_back(id.integer());
  }
}

std::unique_ptr<const PostProcessor> read_template(const JsonNode& node) {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> behind;
  bool text_seen = false;
  const auto single = node.member("single");
  for (const auto& piece : single.items()) {
    piece.require_object();
    if (const auto token = piece.member("SpecialToken"); !token.is_null()) {
      read_template_token(node.member("special_tokens"), token, text_seen ? behind : before);
    } else if (const auto text = piece.member("Sequence");
               !text.is_null() && !text_seen && text.member("id").text_or("A") == "A") {
      text_seen = true;
    } else {
      piece.refuse("cannot be understood; expected special tokens around one Sequence A");
    }
  }
  if (!text_seen) single.refuse("has no Sequence; expected special tokens around one");
  return std::make_unique<SpecialTokenAdder>(std::move(before), std::move(behind));
}

// A special token as `[spelling, id]`.
std::int64_t read_token(const JsonNode& node) {
  if (!node.json().is_array() || node.json().size() != 2) node.refuse("is no pair; expected [spelling, id]");
  return node.item(1).integer();
}

std::unique_ptr<const PostProcessor> read_bert(const JsonNode& node) {
  return std::make_unique<SpecialTokenAdder>(std::vector{read_token(node.member("cls"))},
                                             std::vector{read_token(node.member("sep"))});
}

std::unique_ptr<const PostProcessor> read_byte_level(const JsonNode& node) {
  if (!node.member("trim_offsets").boolean()) return sequence_of({});
  return std::make_unique<OffsetTrimmer>(read_prefix(node));
}

std::unique_ptr<const PostProcessor> read_roberta(const JsonNode& node) {
  std::vector<std::unique_ptr<const PostProcessor>> steps;
  const auto prefix = read_prefix(node);
  if (node.member("trim_offsets").boolean()) steps.push_back(std::make_unique<OffsetTrimmer>(prefix));
  steps.push_back(read_bert(node));
  return sequence_of(std::move(steps));
}

std::unique_ptr<const PostProcessor> read_sequence(const JsonNode& node) {
  std::vector<std::unique_ptr<const PostProcessor>> steps;
  for (const auto& item : node.member("processors").items()) {
    item.require_object();
    steps.push_back(read_post_processor(item));
  }
  return sequence_of(std::move(steps));
}

}  // namespace

std::unique_ptr<const PostProcessor> read_post_processor(const JsonNode& node) {
  static constexpr std::array<std::string_view, 5> kTypes = {"TemplateProcessing", "BertProcessing",
                                                             "RobertaProcessing", "ByteLevel", "Sequence"};
  static constexpr std::array<Reader, kTypes.size()> kReaders = {read_template, read_bert, read_roberta,
                                                                 read_byte_level, read_sequence};
  if (node.is_null()) return nullptr;
  node.type(kTypes);
  return kReaders[node.member("type").choice(kTypes)](node);
}

}  // namespace hooked
