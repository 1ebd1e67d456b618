// Tokenizers, chat templates and texts.
#include "python/src/text.h"

#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

std::string as_json(nb::handle value) {
  return nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(value));
}

void bind_encodings(nb::module_& module) {
  bind_struct<TextSpan>(module).def(
      "__iter__", [](const TextSpan& self) { return nb::iter(nb::make_tuple(self.begin, self.end)); },
      nb::sig("def __iter__(self) -> collections.abc.Iterator[int]"));
  bind_result<Encoding>(module);
  bind_enum<AddedTokensInText>(module);
  bind_struct<EncodeOptions>(module);
  bind_struct<DecodeOptions>(module);
  bind_struct<BatchOptions>(module);
  bind_struct<TokensAround>(module);
  bind_enum<PaddingSide>(module);
  bind_enum<PrependBos>(module);
  bind_struct<TextOptions>(module);
  bind_result<TextPiece>(module);
  bind_struct<ChatMessage>(module);
  bind_struct<ChatOptions>(module);
}

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer> tokenizer(module, "Tokenizer", documentation("Tokenizer"));
  const auto plain = [&](const char* name, auto function, const auto&... named) {
    tokenizer.def(name, function, named..., ReleaseGil(), documentation(std::string("Tokenizer::") + name));
  };
  const auto value = [&](const char* name, auto function) {
    tokenizer.def_prop_ro(name, function, documentation(std::string("Tokenizer::") + name));
  };
  tokenizer
      .def_static("load", &Tokenizer::load, nb::arg("path"), ReleaseGil(), documentation("Tokenizer::load"))
      .def_static("files_in", &Tokenizer::files_in, nb::arg("folder"), documentation("Tokenizer::files_in"))
      .def_static("read_files", &Tokenizer::read_files, nb::arg("folder"),
                  documentation("Tokenizer::read_files"))
      .def_static(
          "file_names",
          [] {
            return std::vector<std::string>(Tokenizer::file_names().begin(), Tokenizer::file_names().end());
          },
          documentation("Tokenizer::file_names"))
      .def_static("parse", &Tokenizer::parse, nb::arg("json"), nb::arg("name") = "tokenizer.json",
                  nb::arg("config") = "", documentation("Tokenizer::parse"));
  define(
      tokenizer, "encode", "Tokenizer::encode",
      [](const Tokenizer& self, const std::string& text, EncodeOptions options) {
        return self.encode(text, options);
      },
      nb::arg("text"));
  define(
      tokenizer, "encode_batch", "Tokenizer::encode_batch",
      [](const Tokenizer& self, const std::vector<std::string>& texts, BatchOptions options) {
        return self.encode_batch(texts, options);
      },
      nb::arg("texts"));
  define(
      tokenizer, "decode", "Tokenizer::decode",
      [](const Tokenizer& self, const std::vector<std::int64_t>& ids, DecodeOptions options) {
        return self.decode(ids, options);
      },
      nb::arg("ids"));
  plain("for_vocabulary", &Tokenizer::for_vocabulary, nb::arg("d_vocab"));
  plain("to_token", &Tokenizer::to_token, nb::arg("text"));
  plain("special_id", &Tokenizer::special_id, nb::arg("key"));
  plain("piece", &Tokenizer::piece, nb::arg("id"));
  tokenizer.def(
      "decoded_piece",
      [](const Tokenizer& self, std::int64_t id) {
        const std::string piece = self.decoded_piece(id);
        return nb::bytes(piece.data(), piece.size());
      },
      nb::arg("id"), documentation("Tokenizer::decoded_piece"));
  plain("printable_piece", &Tokenizer::printable_piece, nb::arg("id"));
  plain("find", &Tokenizer::find, nb::arg("piece"));
  plain("with_chat_template", &Tokenizer::with_chat_template, nb::arg("jinja"),
        nb::arg("name") = "chat template");
  value("vocab_size", &Tokenizer::vocab_size);
  value("bos_id", &Tokenizer::bos_id);
  value("eos_id", &Tokenizer::eos_id);
  value("around", [](const Tokenizer& self) { return self.around(); });
  value("notes", [](const Tokenizer& self) { return self.notes(); });
  value("form", [](const Tokenizer& self) { return self.form(); });
  value("kind", [](const Tokenizer& self) { return std::string(self.kind()); });
  value("chat_template", &Tokenizer::chat_template);
  define_chat(tokenizer, "chat_text", "Tokenizer::chat_text", &Tokenizer::chat_text);
  define_chat(tokenizer, "to_chat_tokens", "Tokenizer::to_chat_tokens", &Tokenizer::to_chat_tokens);
}

}  // namespace

std::vector<ChatMessage> chat_messages(nb::handle given) {
  std::vector<ChatMessage> messages;
  for (nb::handle one : nb::iter(given)) {
    if (!nb::isinstance<nb::dict>(one)) {
      if (!nb::isinstance<ChatMessage>(one)) refuse_type("messages", "message", "ChatMessage | dict", one);
      messages.push_back(nb::cast<ChatMessage>(one));
      continue;
    }
    // The template sees members that are not texts as they are.
    ChatMessage message;
    nb::dict more;
    for (const auto& [key, value] : nb::borrow<nb::dict>(one)) {
      const auto name = nb::cast<std::string>(key);
      if (name == "role" && nb::isinstance<nb::str>(value))
        message.role = nb::cast<std::string>(value);
      else if (name == "content" && nb::isinstance<nb::str>(value))
        message.content = nb::cast<std::string>(value);
      else
        more[key] = value;
    }
    if (nb::len(more) > 0) message.members = as_json(more);
    messages.push_back(std::move(message));
  }
  return messages;
}

ChatOptions chat_options(nb::handle given, const char* of) {
  nb::dict texts;
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    const auto name = nb::cast<std::string>(key);
    const bool json = (name == "tools" || name == "documents") && !nb::isinstance<nb::str>(value);
    if (json && !value.is_none()) {
      texts[key] = as_json(value);
    } else if (name == "variables" && nb::isinstance<nb::dict>(value)) {
      nb::list pairs;
      for (const auto& [variable, content] : nb::borrow<nb::dict>(value))
        pairs.append(nb::make_tuple(variable, as_json(content)));
      texts[key] = pairs;
    } else {
      texts[key] = value;
    }
  }
  return options_from<ChatOptions>(texts, of);
}

void bind_text(nb::module_& module) {
  bind_encodings(module);
  bind_tokenizer(module);
}

}  // namespace hooked::python
