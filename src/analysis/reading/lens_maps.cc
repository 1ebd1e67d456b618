#include "hooked/analysis/lens_maps.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/config_reader.h"
#include "core/json.h"
#include "core/name_list.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/file.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/model_files.h"
#include "io/files/hub_name.h"

namespace hooked {
namespace {

constexpr std::uint64_t kConfigBytes = std::uint64_t{1} << 20;
constexpr std::int64_t kLayers = 100'000;

/// The only file of tensors of a folder, or the path itself.
std::filesystem::path lens_file(const std::filesystem::path& path) {
  if (!is_folder(path)) return path;
  const auto names = tensor_files(path);
  if (names.size() == 1) return path / names.front();
  throw CheckpointError(
      path.string(),
      names.empty() ? "the folder has no lens; expected one file of tensors such as params.pt or lens.pt"
                    : fmt::format("the folder has {} files of tensors: {}; expected one; give the path of "
                                  "the lens instead of the folder",
                                  names.size(), name_list(names)));
}

/// What the file holds in addition to tensors.
Json plain_values(const CheckpointReader& reader, const std::filesystem::path& path) {
  try {
    return parse_json(reader.values(), {.bytes = std::size_t{32} << 20, .depth = 80});
  } catch (const std::invalid_argument& problem) {
    throw CheckpointError(path.string(), problem.what());
  }
}

/// Whether a number of a file can be that of a layer.
bool is_layer(std::int64_t number) { return number >= 0 && number < 1 << 20; }

class LensFile {
 public:
  explicit LensFile(const std::filesystem::path& path)
      : of_folder_(is_folder(path)),
        path_(lens_file(path)),
        reader_(CheckpointReader::open_file(path_, MissingShards::refused, PickledNames::paths)),
        values_(plain_values(reader_, path_)) {}

  LensMaps maps() {
    for (const auto& name : reader_.names()) add(name);
    if (maps_.by_depth.empty()) refuse("the file holds no map");
    check_shapes();
    if (is_tuned()) {
      read_config();
    } else {
      check_values();
    }
    return std::move(maps_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw CheckpointError(path_.string(),
                          what +
                              "; expected a tuned lens ('0.weight', '0.bias', ...) or a Jacobian lens ('J' "
                              "of several layers, as 'J.0', ... or with 'source_layers')");
  }
  [[noreturn]] void disagree(std::string_view what, std::string_view said, std::string_view there) const {
    throw CheckpointError(path_.string(), fmt::format("{} of the lens is not what the file says of it; "
                                                      "expected {}, got {}; fetch or save it again",
                                                      what, said, there));
  }

  bool is_tuned() const { return maps_.by_depth.begin()->second.adds; }

  void add(const std::string& name) {
    const auto dot = name.find('.');
    const auto before = std::string_view(name).substr(0, dot);
    const auto after = dot == std::string::npos ? std::string_view() : std::string_view(name).substr(dot + 1);
    if (const auto depth = parse_integer(before); depth && is_layer(*depth) && after == "weight") {
      put(*depth, true).matrix = reader_.read(name);
    } else if (depth && is_layer(*depth) && after == "bias") {
      put(*depth, true).bias = reader_.read(name);
    } else if (const auto layer = parse_integer(after); before == "J" && layer && is_layer(*layer)) {
      put(*layer + 1, false).matrix = reader_.read(name);
    } else if (name == "J") {
      add_all();
    } else if (before == "jacobian_sum") {
      refuse(
          fmt::format("'{}' is from a fit that has not ended; its sums are not a lens yet", printable(name)));
    } else if (name != "source_layers" && name != "n_prompts" && name != "d_model") {
      refuse(fmt::format("'{}' is not a map", printable(name)));
    }
  }

  LensMaps::Map& put(std::int64_t depth, bool adds) {
    if (!maps_.by_depth.empty() && is_tuned() != adds) refuse("the file holds maps of two kinds");
    auto& map = maps_.by_depth[depth];
    map.adds = adds;
    return map;
  }

  /// Matrices of several layers in one tensor.
  void add_all() {
    const auto all = reader_.read("J");
    const auto layers = source_layers();
    if (!layers) refuse("'J' comes without 'source_layers'");
    if (all.dim() != 3 || static_cast<std::int64_t>(layers->size()) != all.size(0))
      refuse(fmt::format("'J' {} and the {} 'source_layers' do not fit", shape_text(all.sizes()),
                         layers->size()));
    for (std::size_t i = 0; i < layers->size(); ++i) {
      const auto layer = (*layers)[i];
      if (!is_layer(layer) || maps_.by_depth.contains(layer + 1))
        refuse(fmt::format("'source_layers' has {}, which is not a layer or occurs twice", layer));
      put(layer + 1, false).matrix = all[static_cast<std::int64_t>(i)];
    }
  }

  /// As a tensor or, in a pickle, as a list.
  std::optional<std::vector<std::int64_t>> source_layers() const {
    std::vector<std::int64_t> layers;
    if (reader_.contains("source_layers")) {
      const auto stored = reader_.read("source_layers");
      if (stored.dim() != 1 || !at::isIntegralType(stored.scalar_type(), /*includeBool=*/false))
        refuse(fmt::format("'source_layers' is {} {}, which is not a list of integers",
                           dtype_text(stored.scalar_type()), shape_text(stored.sizes())));
      const auto numbers = stored.to(at::kLong);
      for (std::int64_t i = 0; i < numbers.size(0); ++i) layers.push_back(numbers[i].item<std::int64_t>());
      return layers;
    }
    const auto listed = values_.find("source_layers");
    if (listed == values_.end() || !listed->is_array()) return std::nullopt;
    for (const Json& layer : *listed) {
      if (!layer.is_number_integer())
        refuse(fmt::format("'source_layers' has {}, which is not a layer", json_kind(layer)));
      layers.push_back(layer.get<std::int64_t>());
    }
    return layers;
  }

  void check_shapes() const {
    const auto& first = *maps_.by_depth.begin();
    for (const auto& [depth, map] : maps_.by_depth) {
      if (!map.matrix.defined()) refuse(fmt::format("'{0}.bias' comes without '{0}.weight'", depth));
      for (const at::Tensor& stored : {map.matrix, map.bias}) {
        if (stored.defined() && !at::isFloatingType(stored.scalar_type()))
          refuse(fmt::format("a map holds {}, which are not floating-point numbers",
                             dtype_text(stored.scalar_type())));
      }
      if (map.matrix.dim() != 2 || map.matrix.size(0) != map.matrix.size(1))
        refuse(fmt::format("a map has the shape {}, which is not square", shape_text(map.matrix.sizes())));
      if (map.matrix.sizes() != first.second.matrix.sizes())
        refuse(fmt::format("maps have the shapes {} and {}, which are not those of one model",
                           shape_text(first.second.matrix.sizes()), shape_text(map.matrix.sizes())));
      if (map.bias.defined() && map.bias.sizes() != map.matrix.sizes().slice(1))
        refuse(fmt::format("'{}.bias' has the shape {}, which is not that of its matrix {}", depth,
                           shape_text(map.bias.sizes()), shape_text(map.matrix.sizes())));
    }
  }

  std::int64_t width() const { return maps_.by_depth.begin()->second.matrix.size(0); }

  /// What a Jacobian lens has in addition to its matrices.
  void check_values() {
    if (const auto stated = values_.find("d_model"); stated != values_.end()) {
      const bool whole = stated->is_number_integer();
      if (!whole || *stated != width())
        disagree("d_model", whole ? stated->dump() : "an integer", std::to_string(width()));
    }
    if (const auto layers = source_layers()) {
      const std::set<std::int64_t> said(layers->begin(), layers->end());
      std::set<std::int64_t> there;
      for (const auto& [depth, map] : maps_.by_depth) there.insert(depth - 1);
      if (said != there)
        disagree("source_layers", fmt::format("{}", fmt::join(said, ", ")),
                 fmt::format("matrices of {}", fmt::join(there, ", ")));
    }
    const Json metadata = values_.value("metadata", Json::object());
    const Json& holder = values_.contains("target_layer") ? values_ : metadata;
    const auto target = holder.find("target_layer");
    if (target == holder.end() || target->is_null()) return;
    if (!target->is_number_integer()) disagree("target_layer", "an integer", json_kind(*target));
    const auto layer = target->get<std::int64_t>();
    if (!is_layer(layer)) disagree("target_layer", "the number of a layer", target->dump());
    maps_.target_depth = layer + 1;
  }

  /// What the config.json in a tuned lens's folder says about it. (The user has to know which model it was
  /// made for.)
  void read_config() {
    const auto file = path_.parent_path() / "config.json";
    if (!of_folder_ || !is_there(file)) return;
    const ConfigReader config(read_text_file(file, kConfigBytes), file.string());
    const auto type = config.text_or("lens_type", "linear_tuned_lens");
    if (type != "linear_tuned_lens") {
      throw ConfigError(config.where("lens_type"),
                        fmt::format("'{}' is a lens of another kind; expected 'linear_tuned_lens'", type));
    }
    if (const auto stated = config.integer_or("d_model", width()); stated != width())
      disagree("d_model", std::to_string(stated), std::to_string(width()));
    const bool biases = config.boolean_or("bias", true);
    const auto last = maps_.by_depth.rbegin()->first;
    const auto layers =
        config.has("num_hidden_layers") ? config.count("num_hidden_layers", kLayers) : last + 1;
    std::vector<std::string> wrong;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto map = maps_.by_depth.find(layer);
      if (map == maps_.by_depth.end()) {
        wrong.push_back(fmt::format("'{}.weight' is missing", layer));
      } else if (map->second.bias.defined() != biases) {
        wrong.push_back(fmt::format("'{}.bias' is {}", layer, biases ? "missing" : "there"));
      }
    }
    if (last >= layers) wrong.push_back(fmt::format("'{}.weight' is there", last));
    if (!wrong.empty()) {
      throw CheckpointError(
          path_.string(),
          fmt::format("the lens is not what {} says; expected maps of {} layers {} biases, but {}; fetch or "
                      "save it again",
                      file.string(), layers, biases ? "with" : "without", name_list(wrong)));
    }
    maps_.target_depth = layers;
  }

  bool of_folder_;  // and not the file alone
  std::filesystem::path path_;
  CheckpointReader reader_;
  Json values_;  // that are stored with the tensors
  LensMaps maps_;
};

}  // namespace

at::Tensor LensMaps::Map::operator()(const at::Tensor& x) const {
  auto mapped = x.matmul(matrix.to(at::kDouble).t());
  if (bias.defined()) mapped = mapped + bias.to(at::kDouble);
  return adds ? x + mapped : mapped;
}

LensMaps LensMaps::load(const std::filesystem::path& file_or_folder) {
  return LensFile(file_or_folder).maps();
}

}  // namespace hooked
