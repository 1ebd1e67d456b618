#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "text/tokenizer_rules.h"

namespace hooked {
namespace {

constexpr std::uint64_t kTokenizerBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kConfigBytes = std::uint64_t{16} << 20;

// A JSON value that knows where it stands, for errors.
class Node {
 public:
  Node(const Json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const Json& json() const noexcept { return *value_; }
  bool is_null() const noexcept { return value_->is_null(); }

  [[noreturn]] void refuse(std::string_view what) const {
    throw TokenizerError(path_.empty() ? file_ : fmt::format("{}: {}", file_, path_), what);
  }

  Node member(std::string_view key) const {
    if (const auto* found = lookup(key)) return at(*found, key);
    static const Json absent;
    return at(absent, key);
  }

  Node item(std::size_t i) const { return {value_->at(i), file_, fmt::format("{}[{}]", path_, i)}; }

  /// The members of an object as nodes, by key.
  template <class F>
  void for_each_member(F&& visit) const {
    require_object();
    for (const auto& [key, value] : value_->get_ref<const Json::object_t&>())
      visit(key, at(value, printable(key)));
  }

  void require_object() const {
    if (!value_->is_object()) refuse_type("an object");
  }
  void require_array() const {
    if (!value_->is_array()) refuse_type("an array");
  }
  std::string text() const {
    if (!value_->is_string()) refuse_type("a string");
    return value_->get<std::string>();
  }
  std::int64_t integer() const {
    if (!value_->is_number_integer()) refuse_type("an integer");
    if (value_->is_number_unsigned() &&
        value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
      refuse(fmt::format("is {}; expected an id below {}", value_->get<std::uint64_t>(), Vocabulary::kIds));
    }
    return value_->get<std::int64_t>();
  }
  bool boolean_or(bool fallback) const {
    if (is_null()) return fallback;
    if (!value_->is_boolean()) refuse_type("true or false");
    return value_->get<bool>();
  }

  /// The object's `type`, which must be one of `supported`.
  std::string type(std::span<const std::string_view> supported) const {
    require_object();
    const auto name = member("type").text();
    for (const auto known : supported) {
      if (name == known) return name;
    }
    member("type").refuse(fmt::format("is \"{}\", which is not supported; expected {}", printable(name),
                                      fmt::join(supported, " or ")));
  }

 private:
  [[noreturn]] void refuse_type(std::string_view wanted) const {
    refuse(is_null() ? fmt::format("is missing; expected {}", wanted)
                     : fmt::format("is {}; expected {}", json_kind(*value_), wanted));
  }

  const Json* lookup(std::string_view key) const {
    if (!value_->is_object()) return nullptr;
    const auto found = value_->find(std::string(key));
    return found == value_->end() ? nullptr : &*found;
  }

  Node at(const Json& value, std::string_view key) const {
    return {value, file_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
  }

  const Json* value_;
  std::string file_;
  std::string path_;
};

Json parse_file(const std::filesystem::path& file, std::uint64_t limit) {
  try {
    return parse_json(read_text_file(file, limit), {.bytes = limit});
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(printable(file.native()), reason.what());
  } catch (const CheckpointError& too_large) {
    throw TokenizerError(printable(file.native()), too_large.what());
  }
}

void add_piece(Vocabulary& vocabulary, std::string_view piece, std::int64_t id, const Node& where) {
  if (const auto refusal = vocabulary.add(piece, id)) where.refuse(*refusal);
}

void read_model(const Node& model, Tokenizer::Rules& rules) {
  static constexpr std::array<std::string_view, 1> kModels = {"WordLevel"};
  model.type(kModels);
  const auto vocab = model.member("vocab");
  vocab.for_each_member(
      [&](std::string_view piece, const Node& id) { add_piece(rules.vocabulary, piece, id.integer(), id); });
  if (const auto unknown = model.member("unk_token"); !unknown.is_null()) {
    // A file may name an unknown token that it does not have; then a word outside the vocabulary is an error.
    rules.unknown = rules.vocabulary.find(unknown.text());
  }
}

void read_pre_tokenizer(const Node& node, Tokenizer::Rules& rules) {
  static constexpr std::array<std::string_view, 2> kPreTokenizers = {"Whitespace", "WhitespaceSplit"};
  if (node.is_null()) return;
  rules.pre_tokenizer = node.type(kPreTokenizers) == "Whitespace" ? PreTokenizerKind::whitespace
                                                                  : PreTokenizerKind::whitespace_split;
}

void read_added_tokens(const Node& list, Tokenizer::Rules& rules) {
  if (list.is_null()) return;
  list.require_array();
  for (std::size_t i = 0; i < list.json().size(); ++i) {
    const auto token = list.item(i);
    token.require_object();
    for (const auto* flag : {"single_word", "lstrip", "rstrip"}) {
      if (token.member(flag).boolean_or(false)) {
        token.member(flag).refuse("is true, which is not supported; expected false");
      }
    }
    const auto content = token.member("content");
    const auto id = token.member("id");
    if (content.text().empty()) content.refuse("is empty; expected the token's spelling");
    add_piece(rules.vocabulary, content.text(), id.integer(), token);
    const bool special = token.member("special").boolean_or(false);
    rules.added.add({.id = id.integer(),
                     .content = content.text(),
                     .special = special,
                     .normalized = token.member("normalized").boolean_or(!special)});
  }
}

void read_template_token(const Node& special_tokens, const Node& piece, std::vector<std::int64_t>& into) {
  const auto name = piece.member("id").text();
  const auto ids = special_tokens.member(name).member("ids");
  ids.require_array();
  for (std::size_t i = 0; i < ids.json().size(); ++i) into.push_back(ids.item(i).integer());
}

void read_post_processor(const Node& node, Tokenizer::Rules& rules) {
  static constexpr std::array<std::string_view, 1> kPostProcessors = {"TemplateProcessing"};
  if (node.is_null()) return;
  node.type(kPostProcessors);
  const auto single = node.member("single");
  single.require_array();
  bool text_seen = false;
  for (std::size_t i = 0; i < single.json().size(); ++i) {
    const auto piece = single.item(i);
    piece.require_object();
    if (const auto token = piece.member("SpecialToken"); !token.is_null()) {
      read_template_token(node.member("special_tokens"), token, text_seen ? rules.suffix : rules.prefix);
    } else if (!piece.member("Sequence").is_null() && !text_seen) {
      text_seen = true;
    } else {
      piece.refuse("cannot be understood; expected special tokens around one Sequence");
    }
  }
  if (!text_seen) single.refuse("has no Sequence; expected special tokens around one");
}

void refuse_unless_null(const Node& node) {
  if (node.is_null()) return;
  node.require_object();
  node.member("type").refuse(
      fmt::format("is \"{}\", which is not supported; expected null", printable(node.member("type").text())));
}

// The id of a token that tokenizer_config.json names, as a string or as an object with its `content`.
std::optional<std::int64_t> named_token(const Node& node, const Vocabulary& vocabulary) {
  if (node.is_null()) return std::nullopt;
  const auto spelling = node.json().is_object() ? node.member("content") : node;
  const auto id = vocabulary.find(spelling.text());
  if (!id) {
    spelling.refuse(fmt::format("is \"{}\"; expected a piece of tokenizer.json's vocabulary",
                                printable(spelling.text())));
  }
  return id;
}

}  // namespace

Tokenizer::Rules read_tokenizer_file(const std::filesystem::path& file) {
  const Json document = parse_file(file, kTokenizerBytes);
  const Node root(document, printable(file.native()), "");
  root.require_object();
  Tokenizer::Rules rules;
  read_model(root.member("model"), rules);
  refuse_unless_null(root.member("normalizer"));
  read_pre_tokenizer(root.member("pre_tokenizer"), rules);
  refuse_unless_null(root.member("decoder"));
  read_added_tokens(root.member("added_tokens"), rules);
  read_post_processor(root.member("post_processor"), rules);
  return rules;
}

void read_tokenizer_config(const std::filesystem::path& folder, Tokenizer::Rules& rules) {
  const auto file = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return;
  const Json document = parse_file(file, kConfigBytes);
  const Node root(document, printable(file.native()), "");
  root.require_object();
  rules.bos = named_token(root.member("bos_token"), rules.vocabulary);
  rules.eos = named_token(root.member("eos_token"), rules.vocabulary);
}

}  // namespace hooked
