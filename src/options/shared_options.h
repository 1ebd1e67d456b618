#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "options/command_options.h"
#include "options/help.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace hooked::cli {

// Names in help for values that a shell can complete.
inline constexpr const char* kModelWord = "MODEL";
inline constexpr const char* kFileWord = "F";
inline constexpr const char* kFileArgument = "FILE";  // without an option's name before it
inline constexpr const char* kFolderWord = "DIR";

/// In help, the group of options that give a command's input; one is required.
inline constexpr const char* kInputGroup = "Input, one of";

/// Adds MODEL.
CLI::Option* add_model(CLI::App& app, std::string& model);

/// Adds MODEL, --device, --dtype, --threads, --process and --no-processing.
void add_model_options(CLI::App& app, ModelOptions& options);

/// Adds --chat, --system, --prepend-bos, --token-types, --decoder-tokens and the inputs --text, --tokens and
/// --tokens-file, which are returned.
OneOf add_input_options(CLI::App& app, InputOptions& options);

/// Adds --chat and --system; --chat excludes `others`, which are not texts or say what is put around a
/// text.
void add_chat_options(CLI::App& app, ChatTextOptions& options, const std::vector<CLI::Option*>& others);

/// Adds --edit, which may be given several times.
void add_edit_option(CLI::App& app, EditOptions& edits);

/// Adds another option for edits, with its description.
void add_edit_option(CLI::App& app, std::vector<std::string>& edits, const std::string& name,
                     const std::string& text);

/// Adds --NAME and --NAME-token: tokens by their texts or their ids.
void add_token_choice(CLI::App& app, const std::string& name, TokenChoice& choice, const std::string& text);

/// A check that accepts all values, with some that a shell offers.
CLI::Validator offering(const std::vector<std::string>& values);
/// Adds --list: every tensor of a file.
CLI::Option* add_list_option(CLI::App& app, bool& list);

/// Adds --json.
CLI::Option* add_json_option(CLI::App& app, bool& json);

/// Adds --force, for the files of `outs`.
CLI::Option* add_force_option(CLI::App& app, bool& force, const std::vector<CLI::Option*>& outs);

/// Throws UsageError unless --out is empty or a kind of file that grids can be written to.
void require_grid_file(std::string_view out);

/// Throws UsageError unless the option's file is empty or has this ending, which determines the format.
void require_ending(std::string_view option, std::string_view file, std::string_view ending);

/// The ending of files of tensors.
inline constexpr std::string_view kTensorEnding = ".safetensors";

/// An option's check: an integer of at least 1.
CLI::Validator at_least_one();

/// Adds an option of integers such as 1,2,-3. Anything else is a UsageError.
CLI::Option* add_integers(CLI::App& app, const std::string& name, IntegerList& integers,
                          const std::string& text);

/// The same for an option that may be given several times.
CLI::Option* add_integer_rows(CLI::App& app, const std::string& name, std::vector<IntegerList>& rows,
                              const std::string& text);

}  // namespace hooked::cli
