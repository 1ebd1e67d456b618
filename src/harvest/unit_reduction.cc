#include "harvest/unit_reduction.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hooked/core/error.h"
#include "hooked/harvest/reductions.h"
#include "hooked/io/safetensors.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

bool is_codes(const HarvestedName& name) { return name.name.site == Site::sae_acts_post; }

std::int64_t places_of(const HarvestedName& name) {
  std::int64_t places = 1;
  for (const std::int64_t size : name.shape) places *= size;
  return places;
}

// The largest values of each feature among those so far and new ones, and what belongs to them.
void keep_largest(std::int64_t count, std::vector<at::Tensor*> kept, const std::vector<at::Tensor>& added) {
  const at::Tensor values = at::cat({*kept[0], added[0]}, 1);
  const auto [largest, places] = at::topk(values, std::min(count, values.size(1)), 1);
  for (std::size_t i = 1; i < kept.size(); ++i) {
    const at::Tensor all = at::cat({*kept[i], added[i]}, 1);
    *kept[i] = all.dim() == 3 ? all.gather(1, places.unsqueeze(-1).expand({-1, -1, all.size(2)}))
                              : all.gather(1, places);
  }
  *kept[0] = largest;
}

at::Tensor for_each_feature(const at::Tensor& column, std::int64_t features) {
  return column.to(at::kLong).unsqueeze(0).expand({features, -1});
}

}  // namespace

void require_reducible(const std::vector<HarvestedName>& names, const ReductionOptions& options) {
  if (options.examples < 0 || options.example_before < 0 || options.example_after < 0)
    throw ConfigError("reduce",
                      "examples and the tokens around them are counted from 0; expected no negative number");
  const bool codes = std::ranges::any_of(names, is_codes), others = !std::ranges::all_of(names, is_codes);
  if (options.examples > 0 && !codes)
    throw ConfigError("reduce",
                      "examples are of a dictionary's features, and no name is that of its codes; expected a "
                      "dictionary and a name such as 'blocks.1.hook_resid_post.hook_sae_acts_post'");
  if (options.moments && !others)
    throw ConfigError(
        "reduce", "moments are of activations other than a dictionary's codes; expected one among the names");
  if ((codes && options.examples == 0) || (others && !options.moments))
    throw ConfigError("reduce",
                      fmt::format("nothing is computed of '{}'; expected names of what is reduced alone",
                                  std::ranges::find_if(names, [&](const HarvestedName& name) {
                                    return is_codes(name) ? options.examples == 0 : !options.moments;
                                  })->name.to_string()));
}

UnitReduction::UnitReduction(const std::vector<HarvestedName>& names, const Contexts& contexts,
                             const ReductionOptions& options)
    : contexts_(contexts), options_(options) {
  for (const HarvestedName& name : names) {
    const std::int64_t places = places_of(name);
    if (is_codes(name)) {
      const at::Tensor none = at::empty({places, 0}, at::kLong);
      examples_.push_back({name.name.to_string(), at::empty({places, 0}, name.dtype), none, none, none, none,
                           at::zeros({places}, at::kLong)});
    } else {
      moments_.push_back({name.name.to_string(), at::zeros({places}, at::kDouble),
                          at::zeros({places, places}, at::kDouble)});
    }
  }
}

void UnitReduction::add(const ActivationRows& rows) {
  rows_ += rows.rows();
  for (Moments& moments : moments_) {
    const at::Tensor x = rows.activations.at(moments.name).flatten(1).to(at::kDouble);
    moments.sum += x.sum(0);
    moments.second_moment.addmm_(x.t(), x);
  }
  for (Examples& examples : examples_) {
    const at::Tensor codes = rows.activations.at(examples.name).flatten(1).t();
    examples.fired += codes.ne(0).sum(1);
    const std::int64_t features = codes.size(0);
    // A feature's largest rows of this run come first: few are compared with those before.
    const auto [values, places] = at::topk(codes, std::min(options_.examples, codes.size(1)), 1);
    const auto of = [&, &places = places](const at::Tensor& column) {
      return for_each_feature(column, features).gather(1, places);
    };
    keep_largest(
        options_.examples,
        {&examples.values, &examples.documents, &examples.offsets, &examples.contexts, &examples.positions},
        {values, of(rows.documents), of(rows.offsets), of(rows.contexts), of(rows.positions)});
  }
}

at::Tensor UnitReduction::windows(const Examples& examples) const {
  const std::int64_t before = options_.example_before, width = before + 1 + options_.example_after;
  at::Tensor windows = at::full({examples.values.size(0), examples.values.size(1), width}, -1, at::kInt);
  const at::Tensor contexts = examples.contexts.contiguous(), positions = examples.positions.contiguous();
  const auto* context = contexts.const_data_ptr<std::int64_t>();
  const auto* position = positions.const_data_ptr<std::int64_t>();
  auto* window = windows.mutable_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < contexts.numel(); ++i, window += width) {
    const auto begin = static_cast<std::int64_t>(contexts_.begin(static_cast<std::size_t>(context[i])));
    const auto length = static_cast<std::int64_t>(contexts_.length(static_cast<std::size_t>(context[i])));
    for (std::int64_t place = 0; place < width; ++place) {
      const std::int64_t column = position[i] - before + place;
      if (column >= 0 && column < length)
        window[place] = static_cast<std::int32_t>(contexts_.tokens[static_cast<std::size_t>(begin + column)]);
    }
  }
  return windows;
}

std::vector<std::pair<std::string, at::Tensor>> UnitReduction::tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  const at::Tensor rows = at::tensor({rows_}, at::kLong);
  for (const Moments& moments : moments_) {
    all.emplace_back(moments.name + ".rows", rows);
    all.emplace_back(moments.name + ".sum", moments.sum);
    all.emplace_back(moments.name + ".second_moment", moments.second_moment);
  }
  for (const Examples& examples : examples_) {
    const at::Tensor none = examples.values.le(0);
    all.emplace_back(examples.name + ".rows", rows);
    all.emplace_back(examples.name + ".values", examples.values.masked_fill(none, 0));
    all.emplace_back(examples.name + ".documents", examples.documents.masked_fill(none, -1));
    all.emplace_back(examples.name + ".offsets", examples.offsets.masked_fill(none, -1));
    all.emplace_back(examples.name + ".tokens", windows(examples).masked_fill(none.unsqueeze(-1), -1));
    all.emplace_back(examples.name + ".fired", examples.fired);
  }
  return all;
}

void join_reductions(const std::filesystem::path& folder, const Manifest& manifest,
                     const std::vector<UnitRecord>& units) {
  const auto count = manifest.head.at("reduce").at("examples").get<std::int64_t>();
  Tensors joined;
  std::map<std::string, std::string> metadata;
  for (const UnitRecord& unit : units) {
    for (const ShardRecord& shard : unit.shards) {
      const auto file = SafetensorsFile::open(folder / shard.file);
      metadata = file.metadata();
      Tensors read;
      for (const TensorInfo& tensor : file.tensors()) read[tensor.name] = file.read(tensor.name);
      for (auto& [key, tensor] : read) {
        const bool summed = key.ends_with(".rows") || key.ends_with(".sum") ||
                            key.ends_with(".second_moment") || key.ends_with(".fired");
        if (!joined.contains(key)) {
          joined[key] = tensor;
        } else if (summed) {
          joined[key] += tensor;
        } else if (key.ends_with(".values")) {
          const std::string name = key.substr(0, key.size() - std::string(".values").size());
          std::vector<at::Tensor*> kept;
          std::vector<at::Tensor> added;
          for (const char* part : {".values", ".documents", ".offsets", ".tokens"}) {
            kept.push_back(&joined.at(name + part));
            added.push_back(read.at(name + part));
          }
          keep_largest(count, kept, added);
        }
      }
    }
  }
  const auto write = [&](const char* file, bool examples) {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (const auto& [key, tensor] : joined) {
      const std::string name = key.substr(0, key.rfind('.'));
      if (joined.contains(name + ".values") == examples) tensors.emplace_back(key, tensor);
    }
    if (!tensors.empty()) save_safetensors(folder / file, tensors, {.metadata = metadata});
  };
  write(kMomentsFile, false);
  write(kExamplesFile, true);
}

namespace {

// The tensors of a file by activations' names, and its provenance.
std::map<std::string, Tensors> by_names(const SafetensorsFile& file) {
  std::map<std::string, Tensors> names;
  for (const TensorInfo& tensor : file.tensors()) {
    const auto dot = tensor.name.rfind('.');
    names[tensor.name.substr(0, dot)][tensor.name.substr(dot + 1)] = file.read(tensor.name);
  }
  return names;
}

const at::Tensor& part_of(const Tensors& tensors, const char* part, const std::filesystem::path& file) {
  const auto found = tensors.find(part);
  if (found == tensors.end())
    throw CheckpointError(path_text(file),
                          fmt::format("the file lacks a tensor '….{}'; expected what a harvest wrote", part));
  return found->second;
}

SafetensorsFile open_reduction(const std::filesystem::path& folder, const char* name,
                               std::string_view option) {
  std::error_code error;
  if (!std::filesystem::exists(folder / name, error)) {
    throw IoError(
        path_text(folder / name),
        fmt::format("the file is missing; expected the folder of a finished harvest with {}", option));
  }
  return SafetensorsFile::open(folder / name);
}

}  // namespace

at::Tensor ActivationMoments::mean() const { return (sum / static_cast<double>(rows)).reshape(shape); }

at::Tensor ActivationMoments::covariance() const {
  const at::Tensor mean = sum / static_cast<double>(rows);
  return second_moment / static_cast<double>(rows) - mean.unsqueeze(1) * mean.unsqueeze(0);
}

std::map<std::string, ActivationMoments> ActivationMoments::load(const std::filesystem::path& folder) {
  const auto file = open_reduction(folder, kMomentsFile, "--moments");
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& activation : Manifest::read(folder).activations(folder))
    shapes[activation.name] = activation.shape;
  std::map<std::string, ActivationMoments> all;
  for (const auto& [name, tensors] : by_names(file)) {
    all[name] = {.rows = part_of(tensors, "rows", file.path()).item<std::int64_t>(),
                 .sum = part_of(tensors, "sum", file.path()),
                 .second_moment = part_of(tensors, "second_moment", file.path()),
                 .shape = shapes[name]};
  }
  return all;
}

std::map<std::string, FeatureExamples> FeatureExamples::load(const std::filesystem::path& folder) {
  const auto file = open_reduction(folder, kExamplesFile, "--examples");
  const Manifest manifest = Manifest::read(folder);
  const Provenance provenance = read_provenance(file);
  std::map<std::string, FeatureExamples> all;
  for (const auto& [name, tensors] : by_names(file)) {
    all[name] = {.values = part_of(tensors, "values", file.path()),
                 .documents = part_of(tensors, "documents", file.path()),
                 .offsets = part_of(tensors, "offsets", file.path()),
                 .tokens = part_of(tensors, "tokens", file.path()),
                 .before = manifest.head.at("reduce").at("example_before"),
                 .fired = part_of(tensors, "fired", file.path()),
                 .rows = part_of(tensors, "rows", file.path()).item<std::int64_t>(),
                 .provenance = provenance};
  }
  return all;
}

}  // namespace hooked
