// A probe as a file: writing it and reading it back.
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

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
  if (found == origin.more.end() || opened.find(kWeightTensor) == nullptr ||
      opened.find(kInterceptTensor) == nullptr)
    refuse(file, "the file holds no probe");
  Probe probe;
  try {
    const Json record = parse_json(found->second, {});
    probe.place = Address::parse(record.at("place").get<std::string>());
    probe.position = record.at("position").get<std::string>();
    probe.classes = record.at("classes").get<std::vector<std::string>>();
    probe.facts = {.method = record.at("method").get<std::string>(),
                   .penalty = record.at("penalty").get<double>(),
                   .rows = record.at("rows").get<std::int64_t>(),
                   .held_out_rows = record.at("held_out_rows").get<std::int64_t>(),
                   .held_out_accuracy = record.at("held_out_accuracy").get<double>(),
                   .seed = record.at("seed").get<std::uint64_t>(),
                   .converged = record.at("converged").get<bool>()};
    probe.fit.iterations = record.at("iterations").get<std::int64_t>();
  } catch (const std::invalid_argument& problem) {
    refuse(file, problem.what());
  } catch (const Json::exception& problem) {
    refuse(file, fmt::format("the record of the probe is damaged ({})", printable(problem.what())));
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
