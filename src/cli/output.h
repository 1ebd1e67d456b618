#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/engine/run_result.h"
#include "hooked/io/overwrite.h"
#include "hooked/weights/processing.h"
#include "options/command_options.h"

namespace hooked::cli {

enum class Align : std::uint8_t { left, right };

/// Lines of cells, printed in aligned columns.
class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  /// Columns without any title do not print a title line.
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Writes the table to stdout, each line after `indent`. A first cell that would make its row longer than
  /// `columns` gets a line of its own.
  void print(std::string_view indent = "", std::size_t columns = std::string_view::npos) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A label and its text.
struct Field {
  std::string label;
  std::string text;
};

/// Writes each field to stdout: labels in a column, wrapped texts to the right.
void print_fields(const std::vector<Field>& fields);

/// Writes a line for each step of weight processing: its name and outcome.
void print_steps(const std::vector<StepReport>& steps);

/// Whether loading changed the weights, and so their number: it removes some (of norms) and adds others
/// (biases).
bool is_processed(const std::vector<StepReport>& steps);

/// Writes notes about the results to stderr, one line each: that numbers are not finite, or, on a device that
/// replays recorded runs, why this one is not recorded.
void print_notes(const std::vector<std::string>& notes);

/// A run's notes. For a run on a device other than the CPU, the numbers are checked here, where they are read
/// on the host anyway.
std::vector<std::string> notes_of(const RunResult& run);

/// Writes a sentence to stdout that says that logits are centred, and so not the checkpoint's.
void print_logits_centred();

/// `' Mary'`, or the id if there is no tokenizer.
std::string quoted_piece(const HookedTransformer& model, std::int64_t id);

/// `124,439,808`
std::string grouped(std::int64_t number);

/// An axis whose places are counted: 0, 1, ….
GridAxis counted_axis(std::string name, std::int64_t places);

/// A grid without the places at the end of an axis that have no numbers because Ctrl-C ended the run.
Grid without_missing(const Grid& grid, std::string_view axis);

/// The text of a value that prints itself: a grid's tables or a lens's rows.
template <typename Printed>
std::string printed_text(const Printed& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

/// Writes it to stdout.
template <typename Printed>
void print_printed(const Printed& value) {
  fmt::print("{}", printed_text(value));
}

/// Writes the tables of a grid to stdout with nothing in the cells that are NaN, and in those of `blank`,
/// which may be undefined.
void print_blanked(const Grid& grid, const at::Tensor& blank);

/// The cells of a grid [.., query, key] after the query if all of them are 0, as in a causal model's
/// attention; undefined if the grid has no such cells or has numbers that are NaN.
at::Tensor later_keys(const Grid& grid);

/// The files that a command reads, and so must not overwrite.
class CommandReads {
 public:
  explicit CommandReads(const ModelOptions& model);
  explicit CommandReads(const InputCommandOptions& options);
  explicit CommandReads(const ScoredPairOptions& options);

  /// Adds the files that edits take values from.
  CommandReads& add(const std::vector<std::string>& edits);
  /// Adds a file, or all files of a folder; nothing for an empty name.
  CommandReads& add_path(const std::string& path);

  /// Throws IoError if `file` is one of them, or one of the model's.
  void require_not_among(const std::filesystem::path& file) const;

 private:
  std::string model_;
  std::vector<std::filesystem::path> files_;  // all but the model's
};

/// Throws what writing a file would throw about it: `Grid::require_can_save`.
using FileCheck = void (*)(const std::filesystem::path& file, Overwrite overwrite);

/// The meaning of --force.
Overwrite overwrite_of(bool force);

/// Throws IoError unless a command may write that file: what `check` throws, and for a file that it reads,
/// whatever --force says. For no file, an empty name, it does nothing. Called before anything is loaded, so
/// that no work is lost.
void require_can_write(const std::string& file, FileCheck check, const CommandReads& reads, bool force);

/// The file of one of several results: if there are several, the result's name comes before the ending.
/// Characters that are awkward in file names become `-`.
std::string file_of(const std::string& file, std::string name, bool several);

}  // namespace hooked::cli
