// hooked tokenize: text to ids and pieces, or ids to text.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "core/text_lines.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/loading/describe.h"
#include "hooked/text/tokenizer.h"

namespace hooked::cli {
namespace {

constexpr std::uint64_t kTextsBytes = std::uint64_t{1} << 30;

std::vector<std::string> read_texts(const std::string& file) {
  try {
    const auto json =
        parse_json(text_of_bytes(read_text_file(file, kTextsBytes), file), {.bytes = kTextsBytes});
    std::vector<std::string> texts;
    if (!json.is_array()) throw std::invalid_argument(fmt::format("is {}", json_kind(json)));
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (!json[i].is_string())
        throw std::invalid_argument(fmt::format("item {} is {}", i, json_kind(json[i])));
      texts.push_back(json[i].get<std::string>());
    }
    return texts;
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(printable(file), fmt::format("{}; expected a JSON array of strings", reason.what()));
  }
}

Json encoding_json(const Encoding& encoding) {
  auto offsets = Json::array();
  for (const auto& span : encoding.offsets) offsets.push_back({span.begin, span.end});
  return {{"ids", encoding.ids}, {"pieces", encoding.pieces}, {"offsets", offsets}};
}

void print_encoding(const Encoding& encoding) {
  Table table({{"id", Align::right}, {"piece"}, {"bytes"}});
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    table.add({std::to_string(encoding.ids[i]), printable(encoding.pieces[i]),
               fmt::format("{}-{}", encoding.offsets[i].begin, encoding.offsets[i].end)});
  }
  table.print();
}

}  // namespace

void perform(const TokenizeOptions& options) {
  const auto tokenizer = load_tokenizer(options.model);
  if (!options.decode.empty()) {
    const auto text = tokenizer.decode(options.decode);
    if (options.json) return print_json({{"text", text}});
    fmt::print("{}\n", text);
    return;
  }
  const EncodeOptions encode{.add_special_tokens = options.add_special_tokens};
  if (options.text) {
    const std::string text = chat_texts({*options.text}, options.chat, tokenizer).front();
    const auto encoding = tokenizer.encode(text, encode);
    if (!options.json) return print_encoding(encoding);
    Json json = encoding_json(encoding);
    if (options.chat.chat) json["text"] = text;  // the text that offsets refer to
    return print_json(json);
  }
  auto list = Json::array();
  const auto texts = chat_texts(read_texts(*options.texts_file), options.chat, tokenizer);
  const auto encodings = tokenizer.encode_batch(texts, {.encode = encode});
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (options.json) {
      list.push_back(encoding_json(encodings[i]));
      if (options.chat.chat) list.back()["text"] = texts[i];
    } else {
      fmt::print("\"{}\"\n", printable(texts[i]));
      print_encoding(encodings[i]);
      fmt::print("\n");
    }
  }
  if (options.json) print_json(list);
}

}  // namespace hooked::cli
