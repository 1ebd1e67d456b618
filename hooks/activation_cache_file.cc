// A cache as a safetensors file (docs/cache-files.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/saved_activation.h"
#include "hooks/held_columns.h"
#include "io/files/replaceable.h"
#include "io/safetensors/provenance_keys.h"

namespace hooked {
namespace {

constexpr std::string_view kLayersKey = "n_layers";
constexpr std::string_view kEncoderLayersKey = "n_encoder_layers";  // only of encoder-decoders
constexpr std::string_view kOrderKey = "order";  // names in firing order: files order their data by dtype
// The columns that the run computed: `first,end`.
constexpr std::string_view kColumnsKey = "columns";
constexpr std::string_view kEncoderColumnsKey = "encoder_columns";
// Metadata, followed by the name; or, without the keys' prefix, a tensor with each row's own positions.
constexpr std::string_view kPositionsPrefix = "positions.";

std::string metadata_key(std::string_view key) { return fmt::format("{}{}", kCacheKeyPrefix, key); }

// The tensor that says which columns are real tokens, named as inputs have it (`--tokens-file`).
constexpr std::string_view mask_name(const Stacks& stacks, Stack of) {
  return of == Stack::none && stacks.n_encoder_layers > 0 ? "decoder_attention_mask" : "attention_mask";
}

// The tensor that says the same about the prefix's columns.
constexpr std::string_view kPrefixMask = "prefix_attention_mask";

// The tensor that holds their ids, named likewise.
constexpr std::string_view ids_name(const Stacks& stacks, Stack of) {
  return of == Stack::none && stacks.n_encoder_layers > 0 ? "decoder_tokens" : "tokens";
}

// The ids of a file that has them; a tensor of that name with other contents is the user's own.
at::Tensor ids_in(const SafetensorsFile& file, std::string_view name, const TokenColumns& columns) {
  const auto* stored = file.find(name);
  if (stored == nullptr || stored->shape.size() != 2 ||
      static_cast<std::int64_t>(stored->shape[1]) != columns.end - columns.first)
    return {};
  at::Tensor ids = file.read(name);
  return ids.scalar_type() == at::kLong ? ids : at::Tensor();
}

// The same of the prefix's mask.
at::Tensor prefix_mask_in(const SafetensorsFile& file, const TokenColumns& columns) {
  const auto* stored = file.find(kPrefixMask);
  if (stored == nullptr || stored->shape.size() != 2 ||
      static_cast<std::int64_t>(stored->shape[1]) > columns.first)
    return {};
  const at::Tensor mask = file.read(kPrefixMask);
  return mask.scalar_type() == at::kBool ? mask : at::Tensor();
}

std::vector<std::string> names_of(const AxisList& axes) {
  std::vector<std::string> names;
  for (const Axis axis : axes) names.emplace_back(axis_name(axis));
  return names;
}

std::int64_t parse_count(std::string_view text, std::string_view where) {
  if (const auto count = parse_integer(text)) return *count;
  throw CheckpointError(where, fmt::format("the metadata holds '{}'; expected an integer", text));
}

// The parts of a comma-separated list.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return parts;
}

std::vector<std::int64_t> parse_positions(std::string_view text, std::string_view where) {
  std::vector<std::int64_t> positions;
  for (const std::string_view part : split_list(text)) positions.push_back(parse_count(part, where));
  return positions;
}

/// What to write.
struct Contents {
  void add(std::string name, const at::Tensor& value, const AxisList& of) {
    // An inserted value may have another form.
    if (of.size() > 0 && static_cast<std::int64_t>(of.size()) == value.dim()) axes[name] = names_of(of);
    tensors.emplace_back(std::move(name), value);
  }
  bool holds(std::string_view name) const {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const auto& tensor) { return tensor.first == name; });
  }

  std::vector<std::pair<std::string, at::Tensor>> tensors;
  TensorAxes axes;
};

// Whether ActivationCache::save or the program wrote the file.
bool is_saved_cache(const SafetensorsFile& file) { return file.metadata().contains(metadata_key(kOrderKey)); }

bool is_own_cache(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  return !read_provenance(file).hooked_version.empty() && is_saved_cache(file);
}

// These activations of a saved cache, with what the file says about columns.
ActivationCache load_activations(const SafetensorsFile& saved, const std::vector<std::string>& names) {
  const std::string file = saved.path().string();
  const auto entry = [&](std::string_view key) -> const std::string* {
    const auto found = saved.metadata().find(metadata_key(key));
    return found == saved.metadata().end() ? nullptr : &found->second;
  };
  const std::string* layers = entry(kLayersKey);
  if (layers == nullptr || !is_saved_cache(saved)) {
    throw CheckpointError(
        file, fmt::format("this is not a saved cache; expected metadata '{}' and '{}'; use a file "
                          "of `hooked cache` or of a cache's save()",
                          metadata_key(kLayersKey), metadata_key(kOrderKey)));
  }
  Stacks stacks{.n_layers = parse_count(*layers, file)};
  if (const std::string* count = entry(kEncoderLayersKey))
    stacks.n_encoder_layers = parse_count(*count, file);
  ActivationCache cache(stacks);
  const auto read_columns = [&](Stack of, std::string_view key) {
    const std::string* written = entry(key);
    if (written == nullptr) return;
    const std::vector<std::int64_t> ends = parse_positions(*written, file);
    if (ends.size() != 2 || ends[0] < 0 || ends[1] < ends[0]) {
      throw CheckpointError(file, fmt::format("the metadata '{}' holds '{}'; expected two positions",
                                              metadata_key(key), *written));
    }
    TokenColumns columns{.first = ends[0], .end = ends[1]};
    const std::string_view mask = mask_name(stacks, of);
    if (saved.find(mask) != nullptr) {
      columns.mask = saved.read(mask).to(at::kBool);
      if (columns.mask.dim() != 2 || columns.mask.size(1) != columns.end - columns.first) {
        throw CheckpointError(file, fmt::format("'{}' does not fit the metadata; expected [batch, {}]", mask,
                                                columns.end - columns.first));
      }
    }
    columns.ids = ids_in(saved, ids_name(stacks, of), columns);
    if (of == Stack::none) columns.prefix_mask = prefix_mask_in(saved, columns);
    cache.set_tokens(std::move(columns), of);
  };
  const Provenance provenance = read_provenance(saved);
  if (!provenance.fingerprint.empty()) {
    cache.set_model(std::make_shared<const ModelIdentity>(
        ModelIdentity{.name = provenance.model, .fingerprint = provenance.fingerprint}));
  }
  read_columns(Stack::none, kColumnsKey);
  read_columns(Stack::encoder, kEncoderColumnsKey);
  for (const std::string& name : names) {
    const std::string key = fmt::format("{}{}", kPositionsPrefix, name);
    const std::string* positions = entry(key);
    cache.insert({ActivationName::parse(name), saved.read(name),
                  positions == nullptr ? std::vector<std::int64_t>() : parse_positions(*positions, file),
                  saved.find(key) != nullptr ? saved.read(key) : at::Tensor()});
  }
  return cache;
}

}  // namespace

void ActivationCache::require_can_save(const std::filesystem::path& file, Overwrite overwrite) {
  require_replaceable(file,
                      {.name = "a file of activations", .endings = {".safetensors"}, .is_ours = is_own_cache},
                      overwrite);
}

void ActivationCache::save(const std::filesystem::path& file, const SaveCacheOptions& options) const {
  require_can_save(file, options.overwrite);
  Contents contents;
  for (const TensorBeside& one : options.beside) contents.add(one.name, one.value, one.axes);
  std::map<std::string, std::string> own{{metadata_key(kLayersKey), std::to_string(stacks_.n_layers)}};
  if (stacks_.n_encoder_layers > 0)
    own[metadata_key(kEncoderLayersKey)] = std::to_string(stacks_.n_encoder_layers);
  std::vector<std::string> order;
  for (const Entry& e : entries_) {
    order.push_back(e.name.to_string());
    contents.add(order.back(), e.value(), hooked::row(e.name.site).axes);
    const std::string positions = fmt::format("{}{}", kPositionsPrefix, order.back());
    if (e.row_positions.defined()) contents.add(positions, e.row_positions, {Axis::batch, Axis::pos});
    if (!e.positions.empty()) own[metadata_key(positions)] = fmt::format("{}", fmt::join(e.positions, ","));
  }
  own[metadata_key(kOrderKey)] = fmt::format("{}", fmt::join(order, ","));
  const auto add_columns = [&](Stack of, std::string_view key) {
    const std::optional<TokenColumns>& columns = tokens(of);
    if (!columns) return;
    own[metadata_key(key)] = fmt::format("{},{}", columns->first, columns->end);
    const std::string_view mask = mask_name(stacks_, of);
    if (columns->mask.defined() && !contents.holds(mask))
      contents.add(std::string(mask), columns->mask, {Axis::batch, Axis::pos});
    if (columns->prefix_mask.defined() && !contents.holds(kPrefixMask))
      contents.add(std::string(kPrefixMask), columns->prefix_mask, {Axis::batch, Axis::pos});
  };
  add_columns(Stack::none, kColumnsKey);
  add_columns(Stack::encoder, kEncoderColumnsKey);
  Provenance provenance = options.provenance;
  if (model_ && provenance.fingerprint.empty()) {
    provenance.fingerprint = model_->fingerprint;
    if (provenance.model.empty()) provenance.model = model_->name;
  }
  auto metadata = to_metadata(provenance, contents.axes);
  metadata.merge(own);
  save_safetensors(file, contents.tensors, {.metadata = std::move(metadata), .progress = options.progress});
}

ActivationCache ActivationCache::load(const std::filesystem::path& file) {
  const SafetensorsFile saved = SafetensorsFile::open(file);
  std::vector<std::string> names;
  if (is_saved_cache(saved)) {
    for (const std::string_view part : split_list(saved.metadata().at(metadata_key(kOrderKey))))
      names.emplace_back(part);
  }
  return load_activations(saved, names);
}

std::optional<ActivationCache> saved_activation(const SafetensorsFile& file, const std::string& key) {
  if (!is_saved_cache(file) || !ActivationName::try_parse(key)) return std::nullopt;
  return load_activations(file, {key});
}

at::Tensor block_of(const ActivationCache& one, const ActivationName& name, const AxisIndices& places,
                    const at::Tensor& last) {
  ActivationCache::Entry entry = *one.begin();
  entry.name = name;
  return HeldColumns(one, entry).block(places, last).clone();
}

}  // namespace hooked
