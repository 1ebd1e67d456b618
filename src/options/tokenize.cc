// The options of `hooked tokenize`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  add_model(app, options->model)->description("a model, a folder with a tokenizer, or a tokenizer.json");
  auto* text = app.add_option("--text", options->text, "text to turn into ids");
  auto* file = app.add_option("--texts-file", options->texts_file, "JSON file with an array of texts");
  auto* decode = add_integers(app, "--decode", options->decode, "ids such as 1,2,3 to turn into text");
  text->option_text("T")->group(kInputGroup);
  file->option_text(kFileWord)->group(kInputGroup);
  decode->group(kInputGroup);
  auto* special = app.add_flag("--add-special-tokens", options->add_special_tokens,
                               "put the tokens around the text that the tokenizer's file asks for");
  add_chat_options(app, options->chat, {decode, special});
  app.add_flag("--json", options->json, "one JSON value on stdout");
  return [options, inputs = OneOf{text, file, decode}] {
    require_one(inputs);
    return *options;
  };
}

}  // namespace hooked::cli
