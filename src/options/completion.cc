// The options of `hooked completion`, and the script that it prints: the parser's own tables as shell code,
// and functions that read them. bash uses it directly, zsh through its bashcompinit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/version.h"
#include "options/command.h"
#include "options/edit_text.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

// bash splits words at = : and @, and replaces only the text after the last of them.
constexpr std::string_view kFunctions = R"sh(
# Adds those lines of stdin that begin with $1, after $2.
_hooked_add() {
  local line
  while IFS= read -r line; do
    if [[ $line && $line == "$1"* ]]; then COMPREPLY+=("$2$line"); fi
  done
}

# Folders, and files whose names are those of weights, that begin with $1.
_hooked_models() {
  local line
  while IFS= read -r line; do
    case $line in
      *.gguf|*.safetensors|*.bin|*.pt|*.pth|*.ckpt|*/sha256-*|sha256-*) printf '%s\n' "$line" ;;
      *) if [[ -d ${line/#\~/$HOME} ]]; then printf '%s\n' "$line"; fi ;;
    esac
  done < <(compgen -f -- "$1")
}

# The activations of the model in the command line, and those of its first layer as globs for all layers. $1 is how the program was called.
_hooked_activations() {
  local name rest
  while read -r name rest; do
    printf '%s\n' "$name"
    if [[ $name == *.0.* ]]; then printf '%s\n' "${name/.0./.*.}"; fi
  done < <("$1" names "$model" 2>/dev/null | tail -n +2)
}

# An edit, ADDRESS OP VALUE, in quotes ($3): its address, then its operation.
_hooked_edit() {
  local address= choice
  case $1 in
    *' '*' '*) return ;;
    *' '*) address=${1% *} ;;
    *)
      _hooked_add "$1" '' < <(_hooked_activations "$2")
      if [[ $3 && ${#COMPREPLY[@]} == 1 ]]; then address=${COMPREPLY[0]} COMPREPLY=(); fi ;;
  esac
  if [[ $address ]]; then
    # Several offers, so that the shell does not close the quotes.
    choice=${1:${#address}}
    _hooked_add "${choice# }" "$address " <<<"$choices"
  fi
}

# $1 is what there is of the word, $2 how the program was called, $3 the quote before the word; kind, choices and model say what it can become.
_hooked_complete() {
  local before=
  case $kind in
    list|names) if [[ $1 == *,* ]]; then before=${1%,*},; fi ;;
  esac
  case $kind in
    words|list) _hooked_add "${1#"$before"}" "$before" <<<"$choices" ;;
    names) _hooked_add "${1#"$before"}" "$before" < <(_hooked_activations "$2") ;;
    edit) _hooked_edit "$1" "$2" "$3" ;;
    folder) _hooked_add "$1" '' < <(compgen -d -- "$1") ;;
    file) _hooked_add "$1" '' < <(compgen -f -- "$1") ;;
    model)
      _hooked_add "$1" '' < <("$2" list --quiet 2>/dev/null)
      _hooked_add "$1" '' < <(_hooked_models "$1") ;;
  esac
  if ! type compopt >/dev/null 2>&1; then return; fi
  case $kind in
    edit) compopt -o nospace 2>/dev/null ;;
    folder|file|model)
      # As names of files bash would write : = and @ with a backslash, and then not cut the word there.
      if [[ "${COMPREPLY[*]}" == *[:=@]* ]]; then
        local -i i
        for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do printf -v "COMPREPLY[i]" %q "${COMPREPLY[i]}"; done
      else
        compopt -o filenames 2>/dev/null
      fi ;;
  esac
}

_hooked() {
  local word option= glued= kind= choices= model= quote=
  local -a args=()
  local -i count=0 place=0
  COMPREPLY=()
  # The arguments as the program will get them.
  for word in "${COMP_WORDS[@]:0:$((COMP_CWORD + 1))}"; do
    case $word in
      [=:@]*) args[count-1]+=$word; glued=1 ;;
      *) if [[ $glued ]]; then args[count-1]+=$word; else args[count]=$word; count+=1; fi; glued= ;;
    esac
  done
  local command="${args[1]}" whole="${args[count-1]}" head=
  local cur="$whole" typed="${COMP_WORDS[COMP_CWORD]}"
  case $typed in
    [=:@]*) typed= ;;
  esac
  local cut="${whole%"$typed"}"  # what the shell keeps as it stands
  if ((count == 2)); then command=; fi
  # An option that waits for its value, and how many arguments stand before.
  for word in "${args[@]:2:$((count < 3 ? 0 : count - 3))}"; do
    if [[ $option ]]; then
      option=
    elif [[ $word == -?* ]]; then
      _hooked_value "$command $word"
      if [[ $kind ]]; then option=$word; fi
    else
      _hooked_value "$command $place"
      if [[ $kind == model ]]; then model=${word//\\/}; fi
      place+=1
    fi
  done
  if [[ -z $option && $cur == --*=* ]]; then
    option=${cur%%=*} head=${cur%%=*}= cur=${cur#*=}
  fi
  kind=
  if [[ $option ]]; then
    _hooked_value "$command $option"
  elif [[ $cur != -* ]]; then
    _hooked_value "$command $place"
  fi
  if [[ -z $kind && -z $option ]]; then
    kind=words
    _hooked_options "$command"
  fi
  cur=${cur//\\/}  # backslashes that the shell or the user wrote
  model=${model/#\~/$HOME}
  case $kind in
    names|edit) if [[ $cur == [\"\']* ]]; then quote=${cur:0:1} cur=${cur:1}; fi ;;
  esac
  _hooked_complete "$cur" "${args[0]/#\~/$HOME}" "$quote"
  if ((${#COMPREPLY[@]})); then
    COMPREPLY=("${COMPREPLY[@]/#/$head}")
    COMPREPLY=("${COMPREPLY[@]#"$cut"}")
  fi
}

)sh";

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The set that a check of the option allows, as CLI11 writes sets: {a,b}.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto begin = type.find('{');
  const auto end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

// The kind of an option's value, as the functions above read it; empty if it has none.
std::string_view kind_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  if (!choices_of(option).empty()) return option.get_delimiter() == ',' ? "list" : "words";
  const auto name = option.get_positional() ? option.get_name() : option.get_option_text();
  if (name == kNamesWord) return "names";
  if (name == kEditWord) return "edit";
  if (name == kModelWord) return "model";
  if (name == kFileWord || name == kFileArgument) return "file";
  if (name == kFolderWord || name == kDictionaryWord) return "folder";
  return "other";
}

// Lines of words, as a shell text.
std::string lines_of(const std::vector<std::string>& words) {
  return fmt::format("$'{}'", fmt::join(words, "\\n"));
}

// Every option and argument with a value: by `COMMAND --option` or `COMMAND place`.
std::string value_table(const CLI::App& app) {
  std::map<std::string, std::vector<std::string>> rows;  // many options of several commands are the same
  for (const auto* command : commands_of(app)) {
    std::size_t place = 0;
    for (const auto* option : command->get_options()) {
      const auto kind = kind_of(*option);
      if (kind.empty()) continue;
      const auto choices = kind == "edit" ? edit_operations() : choices_of(*option);
      auto& patterns = rows[fmt::format("kind={} choices={}", kind, lines_of(choices))];
      const auto add = [&](const std::string& word) {
        patterns.push_back(fmt::format("'{} {}'", command->get_name(), word));
      };
      if (option->get_positional()) add(std::to_string(place++));
      for (const auto& name : option->get_lnames()) add("--" + name);
    }
  }
  std::string text = "_hooked_value() {\n  case $1 in\n";
  for (const auto& [action, patterns] : rows)
    text += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"), action);
  return text + "    *) kind= choices= ;;\n  esac\n}\n";
}

// The options of each command, and the commands of the program.
std::string option_table(const CLI::App& app) {
  std::vector<std::string> first;
  std::string text = "_hooked_options() {\n  case $1 in\n";
  for (const auto* command : commands_of(app)) {
    first.push_back(command->get_name());
    text += fmt::format("    {}) choices={} ;;\n", command->get_name(), lines_of(option_names(*command)));
  }
  for (auto& name : option_names(app)) first.push_back(std::move(name));
  return text + fmt::format("    '') choices={} ;;\n    *) choices= ;;\n  esac\n}}\n", lines_of(first));
}

// zsh has the functions of bash's completion in bashcompinit; it must be told that words may be files. As a
// file
// `_hooked` of its search path the script is itself the function that zsh calls at the first Tab.
std::string completion_script(const CLI::App& app, bool zsh) {
  return fmt::format(
      "{}# Completion of hooked {}, made from the program's own tables:\n"
      "#   source <(hooked completion {})\n\n{}{}\n{}{}complete{} -F _hooked hooked\n{}",
      zsh ? "#compdef hooked\n" : "", version(), zsh ? "zsh" : "bash",
      zsh ? "type compdef >/dev/null || { autoload -U +X compinit && compinit; }\n"
            "autoload -U +X bashcompinit && bashcompinit\n\n"
          : "",
      value_table(app), option_table(app), kFunctions, zsh ? " -o filenames" : "",
      zsh ? "if [[ ${funcstack[1]} == _hooked ]]; then _bash_complete -o filenames -F _hooked; fi\n" : "");
}

}  // namespace

Reader define_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  add_options(app, {{"SHELL", *shell, "the shell", required, one_of({"bash", "zsh"})}});
  return [&app, shell]() -> Request { return completion_script(*app.get_parent(), *shell == "zsh"); };
}

}  // namespace hooked::cli
