#include "harvest/corpus_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

struct CorpusEnding {
  std::string_view ending;
  CorpusForm form;
};
constexpr std::array kCorpusEndings = {
    CorpusEnding{".txt", CorpusForm::lines},      CorpusEnding{".text", CorpusForm::lines},
    CorpusEnding{".md", CorpusForm::lines},       CorpusEnding{".jsonl", CorpusForm::objects},
    CorpusEnding{".ndjson", CorpusForm::objects}, CorpusEnding{".safetensors", CorpusForm::ids}};

/// What a file that cannot be read needs.
struct OtherEnding {
  std::string_view ending, cure;
};
constexpr std::array kOtherEndings = {
    OtherEnding{".parquet", "the Python package reads it: hooked.harvest(model, FILE, …)"},
    OtherEnding{".arrow", "the Python package reads the folder: hooked.harvest(model, FOLDER, …)"},
    OtherEnding{".json", "write an object on each line, as JSONL"},
    OtherEnding{".gz", "decompress it: gunzip FILE"},
    OtherEnding{".zst", "decompress it: unzstd FILE"},
    OtherEnding{".bz2", "decompress it: bunzip2 FILE"},
    OtherEnding{".xz", "decompress it: unxz FILE"},
    OtherEnding{".zip", "unpack it"}};

std::string in_lower_letters(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::optional<CorpusForm> form_of(const std::filesystem::path& path) {
  const std::string ending = in_lower_letters(path.extension().string());
  for (const auto& row : kCorpusEndings) {
    if (row.ending == ending) return row.form;
  }
  return std::nullopt;
}

std::string corpus_endings() {
  std::vector<std::string_view> endings;
  for (const auto& row : kCorpusEndings) endings.push_back(row.ending);
  return fmt::format("{}", fmt::join(endings, ", "));
}

void refuse_form(const std::filesystem::path& path) {
  const std::string ending = in_lower_letters(path.extension().string());
  const auto other = std::ranges::find(kOtherEndings, ending, &OtherEnding::ending);
  throw CheckpointError(
      path_text(path),
      fmt::format("documents are not read from such a file; expected the ending {}, got '{}'{}",
                  corpus_endings(), printable(ending),
                  other == kOtherEndings.end() ? "" : fmt::format("; {}", other->cure)));
}

bool has_other_form(const std::filesystem::path& path) {
  const std::string ending = in_lower_letters(path.extension().string());
  return std::ranges::find(kOtherEndings, ending, &OtherEnding::ending) != kOtherEndings.end();
}

}  // namespace hooked
