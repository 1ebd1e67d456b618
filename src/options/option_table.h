#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "options/command_options.h"

namespace hooked::cli {

// A command's options are tables of rows such as
//   {"--top-k K", options.top_k, "how many next tokens of each point (default: 3)", at_least_one}
// which declare an option, document it and say which field it fills.

// Names in help for values that a shell can complete.
inline constexpr const char* kModelWord = "MODEL";
/// What a MODEL can be, for help.
inline constexpr std::string_view kModelForms =
    "a folder, a file of weights (also .gguf), a LoRA adapter, or org/name[@revision][:file.gguf] in the "
    "local Hugging Face cache";
inline constexpr const char* kFileWord = "F";
inline constexpr const char* kFileArgument = "FILE";  // without an option's name before it
inline constexpr const char* kFolderWord = "DIR";
inline constexpr const char* kDictionaryWord = "D";
inline constexpr const char* kNamesWord = "GLOB";  // names of activations
inline constexpr const char* kEditWord = "E";

/// What a row says about its option in addition to the text. The options of the same table exist already.
using Trait = std::function<void(CLI::App& app, CLI::Option& option)>;

void required(CLI::App& app, CLI::Option& option);
/// Values may be separated by commas.
void listed(CLI::App& app, CLI::Option& option);
/// An integer of at least 1.
void at_least_one(CLI::App& app, CLI::Option& option);
/// The words of an edit, as read_edit_text() reads them.
void edit_text(CLI::App& app, CLI::Option& option);
Trait check(CLI::Validator validator);
/// Each value is one of these, which help shows after the text; of a list it comes after `listed`.
Trait one_of(const std::vector<std::string>& values);
/// Accepts all values; a shell offers these.
Trait offering(const std::vector<std::string>& values);
/// This option goes only with all of those.
Trait needs(const std::vector<std::string>& others);
/// This option goes with none of those.
Trait excludes(const std::vector<std::string>& others);

/// Integers such as 1,2,-3. Anything else is a UsageError.
CLI::Option* add_field(CLI::App& app, const std::string& name, IntegerList& integers);
/// The same for an option that may be given several times.
CLI::Option* add_field(CLI::App& app, const std::string& name, std::vector<IntegerList>& rows);
/// Places such as 0,-1,2:5,1+3,last,all. Anything else is a UsageError.
CLI::Option* add_field(CLI::App& app, const std::string& name, PlaceList& places);
/// One place such as 0, -1 or last. Anything else is a UsageError.
CLI::Option* add_field(CLI::App& app, const std::string& name, std::optional<IndexText>& place);
/// Texts; the option may be given several times.
CLI::Option* add_field(CLI::App& app, const std::string& name, std::vector<std::string>& texts);
CLI::Option* add_field(CLI::App& app, const std::string& name, bool& flag);
template <typename Value>
CLI::Option* add_field(CLI::App& app, const std::string& name, Value& value) {
  return app.add_option(name, value);
}

/// One option.
class Row {
 public:
  /// `name` is `--NAME WORD`, where WORD names the value in help; a flag or an argument has no WORD. Other
  /// names of the same option follow a comma: `--NAME,--OTHER WORD`.
  template <typename Field, typename... Traits>
  Row(std::string_view name, Field& field, std::string text, Traits... traits)
      : name_(name.substr(0, name.find(' '))),
        word_(name.substr(std::min(name_.size() + 1, name.size()))),
        text_(std::move(text)),
        add_([&field](CLI::App& app, const std::string& own) { return add_field(app, own, field); }),
        traits_{traits...} {}

  CLI::Option* add(CLI::App& app) const;
  const std::vector<Trait>& traits() const& { return traits_; }
  const std::vector<Trait>& traits() const&& = delete;

 private:
  std::string name_, word_, text_;
  std::function<CLI::Option*(CLI::App& app, const std::string& name)> add_;
  std::vector<Trait> traits_;
};

/// Adds the rows' options, in help under that heading.
void add_options(CLI::App& app, const std::string& heading, const std::vector<Row>& rows);
/// The same under the usual heading.
void add_options(CLI::App& app, const std::vector<Row>& rows);

/// The headings of a command's options in the order in which help shows them: what is special about the
/// command comes before what many commands have.
std::vector<std::string> groups_in_order(const CLI::App& app);

/// The names of all options that were added: `--text`.
std::vector<std::string> option_names(const CLI::App& app);

// Rows of several commands.

Row model_row(std::string& model);
Row json_row(bool& json);
/// --list: every tensor of a file; not with --json.
Row list_row(bool& list);
/// --force, for the files of `outs`.
Row force_row(bool& force, const std::vector<std::string>& outs);

/// Adds MODEL, --device, --dtype, --threads, --process and --no-processing.
void add_model_options(CLI::App& app, ModelOptions& options);

/// Options that exclude each other; exactly one must be given.
using OneOf = std::vector<std::string>;

/// Throws UsageError naming the options if none or several of them were given.
void require_one(const CLI::App& app, const OneOf& options);

/// The options that give a command's input.
OneOf input_names();

/// Their heading in help.
inline constexpr const char* kInputHeading = "Input, one of";

/// The heading of options that many commands have. Help shows it last.
inline constexpr const char* kCommonHeading = "Common options";

/// --prepend-bos.
Row prepend_bos_row(std::string& prepend_bos);

/// Adds them, --chat, --system, --prepend-bos, --token-types and --decoder-tokens.
void add_input_options(CLI::App& app, InputOptions& options);

/// Adds --chat and --system; --chat excludes `others`, which are not texts or say what is put around a
/// text.
void add_chat_options(CLI::App& app, ChatTextOptions& options, const std::vector<std::string>& others);

/// Adds --dictionary, which may be given several times, and --with-error.
void add_dictionary_options(CLI::App& app, ModelOptions& model);

/// Adds --edit, which may be given several times, and --from-model.
void add_edit_options(CLI::App& app, EditOptions& edits);

/// --positions P: what is shown of each is said in `text`.
Row positions_row(PlaceList& positions, std::string_view text);

/// Adds the options of a model, its input and its edits.
void add_run_options(CLI::App& app, InputCommandOptions& options);

/// How many tokens an option chooses.
enum class Choose : std::uint8_t { several, one };

/// Adds --NAME and --NAME-token: tokens by their texts or their ids.
void add_token_choice(CLI::App& app, const std::string& name, TokenChoice& choice, const std::string& text,
                      Choose count = Choose::several);

/// Throws UsageError with this sentence unless `holds`.
void require(bool holds, const std::string& sentence);

/// Throws UsageError if a word occurs twice: `--score: entropy occurs twice; expected each score once`.
void require_each_once(const std::vector<std::string>& words, std::string_view option, std::string_view what);

/// Throws UsageError unless --out is empty or a kind of file that grids can be written to.
void require_grid_file(std::string_view out);

/// Throws UsageError unless the option's file is empty or has this ending, which determines the format.
void require_ending(std::string_view option, std::string_view file, std::string_view ending);

/// The ending of files of tensors.
inline constexpr std::string_view kTensorEnding = ".safetensors";

}  // namespace hooked::cli
