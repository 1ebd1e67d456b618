// A probe as a file: writing it and reading it back.
#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/analysis/probe.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

constexpr const char* kProbeRecord = "probe";
constexpr const char* kWeightTensor = "weight";
constexpr const char* kInterceptTensor = "intercept";

bool is_own_probe(const std::filesystem::path& file) {
  Probe::load(file);
  return true;
}

Json record_of(const Probe& probe) {
  const ProbeFacts& facts = probe.facts;
  return Json{{"place", probe.place.to_string()},
              {"position", probe.position},
              {"classes", probe.classes},
              {"method", facts.method},
              {"penalty", facts.penalty},
              {"rows", facts.rows},
              {"held_out_rows", facts.held_out_rows},
              {"held_out_accuracy", facts.held_out_accuracy},
              {"seed", facts.seed},
              {"iterations", probe.fit.iterations},
              {"converged", facts.converged}};
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw CheckpointError(file.string(), what + "; expected a file of a saved probe");
}

}  // namespace

void Probe::require_can_save(const std::filesystem::path& file, Overwrite overwrite) {
  require_replaceable(file, {.name = "a probe", .endings = {".safetensors"}, .is_ours = is_own_probe},
                      overwrite);
}

void Probe::save(const std::filesystem::path& file, Overwrite overwrite) const {
  require_can_save(file, overwrite);
  Provenance provenance = origin;
  provenance.more[kProbeRecord] = json_text(record_of(*this));
  save_safetensors(file, {{kWeightTensor, fit.weight}, {kInterceptTensor, fit.intercept}},
                   {.metadata = to_metadata(
                        provenance, {{kWeightTensor, {"output", "d"}}, {kInterceptTensor, {"output"}}})});
}

Probe Probe::load(const std::filesystem::path& file) {
  const auto opened = SafetensorsFile::open(file);
  Provenance origin = read_provenance(opened);
  const auto found = origin.more.find(kProbeRecord);
  if (origin.hooked_version.empty()) refuse(file, "the metadata 'hooked_version' is missing");
  if (found == origin.more.end() || opened.find(kWeightTensor) == nullptr ||
      opened.find(kInterceptTensor) == nullptr)
    refuse(file, "the file holds no probe");
  Probe probe;
  try {
    const ConfigReader record(parse_json(found->second, {}), fmt::format("{}: probe", file.string()),
                              make_error<CheckpointError>);
    probe.place = Address::parse(record.text("place"));
    probe.position = record.text("position");
    probe.classes = record.texts("classes");
    probe.facts = {.method = record.text("method"),
                   .penalty = record.number("penalty"),
                   .rows = record.count("rows", INT64_MAX),
                   .held_out_rows = record.count("held_out_rows", INT64_MAX),
                   .held_out_accuracy = record.number("held_out_accuracy"),
                   .seed = record.natural("seed"),
                   .converged = record.boolean("converged")};
    probe.fit.iterations = record.count("iterations", INT64_MAX);
    record.refuse_unread();
  } catch (const std::invalid_argument& problem) {
    refuse(file, problem.what());
  } catch (const HookError& problem) {
    refuse(file, problem.what());
  }
  origin.more.erase(found);
  probe.origin = std::move(origin);
  probe.fit.converged = probe.facts.converged;
  probe.fit.weight = opened.read(kWeightTensor);
  probe.fit.intercept = opened.read(kInterceptTensor);
  const at::Tensor& weight = probe.fit.weight;
  const at::Tensor& intercept = probe.fit.intercept;
  const bool fits = weight.dim() == 2 && weight.size(0) > 0 && intercept.dim() == 1 &&
                    intercept.size(0) == weight.size(0) && weight.scalar_type() == at::kDouble &&
                    intercept.scalar_type() == at::kDouble;
  if (!fits) {
    refuse(file, fmt::format("weight {} and intercept {} are not those of a probe",
                             shape_text(weight.sizes()), shape_text(intercept.sizes())));
  }
  const auto classes = static_cast<std::int64_t>(probe.classes.size());
  if (classes != 0 && weight.size(0) != (classes == 2 ? 1 : classes))
    refuse(file, fmt::format("{} classes do not fit {} outputs", classes, weight.size(0)));
  return probe;
}

}  // namespace hooked
