#include "analysis/patching/partial_scores.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/runs/source_reader.h"
#include "analysis/values/fingerprint.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

constexpr const char* kRecord = "sweep";

std::string text_of(const Edit& edit, const PointIndex& points) {
  std::vector<std::string> names;
  for (const std::size_t point : edit.target.where.resolve(points, Reach::everything(points)))
    names.push_back(points.name(point).to_string());
  const auto* value = std::get_if<at::Tensor>(&edit.value);
  return fmt::format(
      "{}{} {} {}", fmt::join(names, ","), edit.target.indices.to_string(), static_cast<int>(edit.kind),
      value != nullptr ? fingerprint(*value) : fmt::format("{}", std::get<double>(edit.value)));
}

/// A metric's name, places and answers; the computation of a callable has no text.
std::string text_of(const Metric& metric, std::int64_t rows) {
  std::vector<std::string> parts{metric.name()};
  for (const Position& position : metric.definition().positions) parts.push_back(position.label());
  for (const Answers& answers : metric.definition().answers) {
    for (std::int64_t row = 0; row < std::max<std::int64_t>(1, answers.rows()) && row < rows; ++row)
      parts.push_back(fmt::format("{}", fmt::join(answers.of_row(row), "+")));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

bool is_own_partial(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  const auto provenance = read_provenance(file);
  return !provenance.hooked_version.empty() && provenance.more.contains(kRecord);
}

}  // namespace

double size_of(const std::vector<Patch>& patches) {
  double sum = 0, weight = 1;
  for (const Patch& patch : patches) {
    for (const PatchedBlock& block : patch) {
      sum += weight * block.value.to(at::kDouble).square().sum().item<double>();
      weight = weight < 2 ? weight + 0.01 : 1;
    }
  }
  return std::sqrt(sum);
}

SweepRecord record_of(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                      const CellPlan& plan, const std::vector<std::int64_t>& rows) {
  const Provenance provenance = model.provenance();
  const PointIndex points(model.config());
  std::vector<std::string> processing, metrics, edits;
  for (const auto& [step, outcome] : provenance.processing) processing.push_back(step + ": " + outcome);
  for (const Metric& metric : options.metric.all()) metrics.push_back(text_of(metric, into.rows()));
  for (const Edit& edit : options.edits) edits.push_back(text_of(edit, points));
  const Input& input = into.all();
  return {
      {"config", provenance.config_sha1},
      {"dtype", provenance.dtype},
      {"processing", fmt::format("{}", fmt::join(processing, ", "))},
      {"places", plan.record},
      {"rows", fmt::format("{}", fmt::join(rows, ", "))},
      {"tokens", fmt::format("{} {} {} {} {}", fingerprint(input.tokens), fingerprint(input.attention_mask),
                             fingerprint(input.token_types), fingerprint(input.decoder.tokens),
                             fingerprint(input.decoder.attention_mask))},
      {"source", SourceReader::record(options.from, plan.patched)},
      {"metrics", fmt::format("{}", fmt::join(metrics, ", "))},
      {"hooks", fmt::format("{}", options.hooks.size() + model.hooks().size())},
      {"edits", fmt::format("{}", fmt::join(edits, "; "))},
      {"tokens_per_run", std::to_string(options.tokens_per_run)}};
}

void require_can_keep(const std::filesystem::path& partial) {
  require_replaceable(
      partial,
      {.name = "the partial file of a sweep", .endings = {".safetensors"}, .is_ours = is_own_partial},
      Overwrite::ours);
}

PartialScores::PartialScores(std::filesystem::path file, SweepRecord record)
    : file_(std::move(file)), record_(std::move(record)) {
  require_can_keep(file_);
}

std::optional<CellScores> PartialScores::load() const {
  if (!std::filesystem::exists(file_)) return std::nullopt;
  const auto file = SafetensorsFile::open(file_);
  Json record;
  try {
    record = parse_json(file.metadata().at(kRecord), {.bytes = std::size_t{1} << 28});
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(file_.string(), fmt::format("the record of the sweep is damaged ({}); expected the "
                                                      "file as the sweep wrote it",
                                                      error.what()));
  }
  for (const auto& [key, value] : record_) {
    const auto there = record.is_object() ? record.find(key) : record.end();
    if (record.is_object() && there != record.end() && there->is_string() &&
        there->get<std::string>() == value)
      continue;
    const std::string other = record.is_object() && there != record.end() && there->is_string()
                                  ? printable(there->get<std::string>())
                                  : "nothing";
    throw CheckpointError(file_.string(),
                          fmt::format("this is the partial file of another sweep: its {} differ; expected "
                                      "'{}', got '{}'; remove the file or name another",
                                      key, printable(value), other));
  }
  CellScores scores;
  scores.scores = file.read("scores");
  scores.done = file.read("done").to(at::kBool);
  scores.unpatched = file.read("unpatched");
  scores.sizes = file.read("sizes");
  return scores;
}

void PartialScores::require_same(double in_file, double now, std::string_view what) const {
  if (std::isnan(in_file) || in_file == now) return;
  const double rounding = std::max(1e-7, 1e-4 * std::max(std::abs(in_file), std::abs(now)));
  if (std::abs(in_file - now) <= rounding) return;
  throw CheckpointError(file_.string(),
                        fmt::format("{} was {} when the file was written and is {} now; expected "
                                    "the same model, source, hooks and metrics; remove the file "
                                    "or name another",
                                    what, in_file, now));
}

void PartialScores::save(const CellScores& scores) const {
  require_can_keep(file_);
  Json record = Json::object();
  for (const auto& [key, value] : record_) record[key] = value;
  save_safetensors(file_,
                   {{"scores", scores.scores},
                    {"done", scores.done.to(at::kByte)},
                    {"unpatched", scores.unpatched},
                    {"sizes", scores.sizes}},
                   {.metadata = to_metadata({.more = {{kRecord, json_text(record)}}}, {})});
}

}  // namespace hooked
