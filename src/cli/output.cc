#include "cli/output.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/loading/describe.h"
#include "options/edit_text.h"
#include "options/help.h"

namespace hooked::cli {
namespace {

// Approximate columns on a terminal: characters, not bytes.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                 const std::vector<Table::Column>& columns) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string blanks(widths[i] - width(cells[i]), ' ');
    if (i > 0) text += "  ";
    text += columns[i].align == Align::right ? blanks + cells[i] : cells[i] + blanks;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// The tables of a grid with blanks for cells that are `nan`.
std::string without_nan(const std::string& tables) {
  constexpr std::string_view kCell = "  nan";  // two blanks separate columns; a label has one at most
  std::istringstream lines(tables);
  std::string blanked;
  for (std::string line; std::getline(lines, line);) {
    for (auto at = line.find(kCell); at != std::string::npos; at = line.find(kCell, at + kCell.size())) {
      const auto rest = std::string_view(line).substr(at + kCell.size());
      if (rest.empty() || rest.starts_with("  ")) line.replace(at, kCell.size(), kCell.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    blanked += line + '\n';
  }
  return blanked;
}

}  // namespace

void Table::print(std::string_view indent, std::size_t columns) const {
  std::vector<std::string> titles;
  for (const auto& column : columns_) titles.push_back(column.title);
  std::vector<std::size_t> widths;
  for (const auto& title : titles) widths.push_back(width(title));
  std::size_t others = indent.size();
  for (std::size_t i = 1; i < titles.size(); ++i) {
    for (const auto& cells : rows_) widths[i] = std::max(widths[i], width(cells[i]));
    others += 2 + widths[i];
  }
  const std::size_t room = std::max(widths[0], columns - std::min(columns, others));
  const auto fits = [&](const std::vector<std::string>& cells) { return width(cells[0]) <= room; };
  for (const auto& cells : rows_) {
    if (fits(cells)) widths[0] = std::max(widths[0], width(cells[0]));
  }
  const bool titled =
      std::any_of(titles.begin(), titles.end(), [](const auto& title) { return !title.empty(); });
  if (titled) fmt::print("{}{}\n", indent, line(titles, widths, columns_));
  for (auto cells : rows_) {
    if (!fits(cells)) fmt::print("{}{}\n", indent, std::exchange(cells[0], {}));
    fmt::print("{}{}\n", indent, line(cells, widths, columns_));
  }
}

void print_fields(const std::vector<Field>& fields) {
  constexpr std::size_t kIndent = 2, kGap = 2;
  std::size_t widest = 0;
  for (const auto& field : fields) widest = std::max(widest, width(field.label));
  const std::string margin(kIndent + widest + kGap, ' ');
  for (const auto& [label, text] : fields) {
    std::string lines = wrapped(text, kColumns - margin.size());
    for (auto at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 1))
      lines.insert(at + 1, margin);
    fmt::print("{}{}{}{}\n", std::string(kIndent, ' '), label, std::string(widest - width(label) + kGap, ' '),
               lines);
  }
}

void print_steps(const std::vector<StepReport>& steps) {
  Table table({{}, {}});
  for (const StepReport& step : steps) {
    const bool is_reason = !step.outcome.ends_with("applied") && step.outcome != "not requested";
    table.add({std::string(processing_step_name(step.step)), (is_reason ? "left out: " : "") + step.outcome});
  }
  table.print("  ");
}

bool is_processed(const std::vector<StepReport>& steps) {
  return std::ranges::any_of(steps, [](const StepReport& step) { return step.outcome == "applied"; });
}

void print_logits_centred() {
  fmt::print(
      "\nLogits are centred: center_unembed took the mean over the vocabulary from them, which changes no "
      "probability;\n--no-processing leaves that out, unless the files were saved so\n");
}

std::string quoted_piece(const HookedTransformer& model, std::int64_t id) {
  if (!model.has_tokenizer()) return std::to_string(id);
  return fmt::format("'{}'", model.tokenizer().printable_piece(id));
}

std::string grouped(std::int64_t number) {
  auto text = std::to_string(number);
  const std::size_t first = text.front() == '-' ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > static_cast<std::ptrdiff_t>(first);
       at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
}

std::vector<std::string> notes_of(const RunResult& run) {
  std::vector<std::string> notes = run.notes;
  const auto known = [](const std::string& note) { return note.starts_with(kNotFinite); };
  if (std::none_of(notes.begin(), notes.end(), known)) {
    if (const auto found = run.not_finite()) notes.push_back(found->text());
  }
  return notes;
}

GridAxis counted_axis(std::string name, std::int64_t places) {
  GridAxis axis{.name = std::move(name), .labels = {}};
  for (std::int64_t i = 0; i < places; ++i) axis.labels.push_back(std::to_string(i));
  return axis;
}

Grid without_missing(const Grid& grid, std::string_view axis) {
  auto axes = grid.axes();
  const auto own = std::find_if(axes.begin(), axes.end(), [&](const GridAxis& a) { return a.name == axis; });
  const auto dimension = own - axes.begin();
  const auto places = grid.values().size(dimension);
  // [place, all others]
  const auto missing = grid.values().movedim(dimension, 0).reshape({places, -1}).isnan().all(1);
  std::int64_t end = places;
  while (end > 0 && missing[end - 1].item<bool>()) --end;
  own->labels.resize(static_cast<std::size_t>(end));
  if (!own->places.empty()) own->places.resize(static_cast<std::size_t>(end));
  return Grid(grid.values().narrow(dimension, 0, end), std::move(axes),
              {.title = grid.title(), .unit = grid.unit()});
}

void print_blanked(const Grid& grid, const at::Tensor& blank) {
  const Grid shown = blank.defined() ? Grid(grid.values().masked_fill(blank, std::nan("")), grid.axes(),
                                            {.title = grid.title(), .unit = grid.unit()})
                                     : grid;
  fmt::print("{}", without_nan(printed_text(shown)));
}

at::Tensor later_keys(const Grid& grid) {
  const auto& axes = grid.axes();
  const at::Tensor values = grid.values();
  if (axes.size() < 2 || axes[axes.size() - 2].name != "query" || axes.back().name != "key" ||
      values.isnan().any().item<bool>())
    return {};
  const at::Tensor later = at::ones(values.sizes(), at::kBool).triu(values.size(-1) - values.size(-2) + 1);
  const bool causal = values.eq(0).logical_or(later.logical_not()).all().item<bool>();
  return causal ? later : at::Tensor();
}

CommandReads::CommandReads(const ModelOptions& model) : model_(model.model) {
  // What comes after an `@` may be an activation, and not a part of the folder's name.
  for (const std::string& dictionary : model.dictionaries)
    add_path(dictionary).add_path(dictionary.substr(0, dictionary.rfind('@')));
}

CommandReads::CommandReads(const InputCommandOptions& options) : CommandReads(options.model) {
  add_path(options.input.text_file).add_path(options.input.tokens_file).add(options.edits.texts);
}

CommandReads::CommandReads(const ScoredPairOptions& options) : CommandReads(options.model) {
  add_path(options.pairs).add(options.edits.texts);
}

CommandReads& CommandReads::add(const std::vector<std::string>& edits) {
  for (const auto& edit : edits) {
    const auto value = read_edit_text(edit).value;
    if (const auto hash = value.rfind('#'); hash != std::string_view::npos)
      add_path(std::string(value.substr(0, hash)));
  }
  return *this;
}

CommandReads& CommandReads::add_path(const std::string& path) {
  if (path.empty()) return *this;
  std::error_code stopped;
  for (std::filesystem::directory_iterator at(path, stopped), end; !stopped && at != end;
       at.increment(stopped))
    files_.push_back(at->path());
  files_.emplace_back(path);
  return *this;
}

void CommandReads::require_not_among(const std::filesystem::path& file) const {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;  // then the model need not be located
  require_not_read(file, files_);
  require_not_read(file, files_read(model_));
}

Overwrite overwrite_of(bool force) { return force ? Overwrite::any : Overwrite::ours; }

void require_can_write(const std::string& file, FileCheck check, const CommandReads& reads, bool force) {
  if (file.empty()) return;
  reads.require_not_among(file);
  check(file, overwrite_of(force));
}

std::string file_of(const std::string& file, std::string name, bool several) {
  if (file.empty() || !several) return file;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == ','; }, '-');
  const std::filesystem::path path(file);
  return (path.parent_path() / (path.stem().string() + '.' + name + path.extension().string())).string();
}

}  // namespace hooked::cli
