// Folder or state dict to model: a pipe of values (docs/architecture.md).
#include "loading/load/load.h"

#include <c10/core/ScalarType.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "core/out_of_memory.h"
#include "core/parallel.h"
#include "families/family.h"
#include "families/shared/hf_config.h"
#include "families/shared/native_config.h"
#include "families/shared/native_layout.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/model_folder.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/model_files.h"
#include "io/checkpoint/source_tensor.h"
#include "io/files/path_text.h"
#include "loading/adapter/adapter.h"
#include "loading/adapter/merge_adapter.h"
#include "loading/config/tokenizer_files.h"
#include "loading/fill/device.h"
#include "loading/fill/initialise.h"
#include "loading/fill/packed_file.h"
#include "loading/fill/place_layers.h"
#include "loading/fill/recipe_reader.h"
#include "loading/fill/streamed_model.h"
#include "loading/gguf/gguf_source.h"
#include "loading/gguf/gguf_tokenizer.h"
#include "loading/load/codes_to_keep.h"
#include "loading/load/described_files.h"
#include "loading/load/identify.h"
#include "loading/load/read_from.h"
#include "loading/plan/plan_weights.h"
#include "loading/storage/quantised_source.h"
#include "weights/processor.h"

namespace hooked {
namespace {

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// The largest weight whose numbers a description reads.
constexpr std::int64_t kMostNumbersToDescribe = std::int64_t{1} << 26;

/// What a plan that compares tensors reads.
enum class Numbers : std::uint8_t { read, zeros };

void read_as_zeros(SourceTensors& source) {
  for (auto& [name, tensor] : source) {
    tensor.read_elements = [](std::int64_t, const at::Tensor& into) { into.zero_(); };
  }
}

// The GGUF file or the folder that has a model's tokenizer. An adapter may rely on that of its base model.
std::filesystem::path place_of_tokenizer(const std::filesystem::path& located) {
  const bool own = !is_adapter(located) || !Tokenizer::files_in(located).empty();
  const auto place = own ? located : base_of(located);
  return is_gguf_file(place) ? place : folder_of_model(place);
}

/// A checkpoint on disk and all that is known of its model before its numbers are read.
struct PlannedModel {
  PlannedModel(std::string_view id, const LoadOptions& options, Numbers numbers = Numbers::read,
               MissingShards missing = MissingShards::refused)
      : given(locate_model(id)),
        adapter(read_adapter(given)),
        place(adapter ? adapter->base_place : given),
        identified(identify(place, missing)),
        reader(open_checkpoint(place, missing)) {
    FamilyConfig& read = identified.read;
    if (is_packed(reader)) mapped = map_packed(reader, config_of_packed(identified));
    read.config.dtype = options.dtype.value_or(read.config.dtype);
    // A model that was saved with a record of its processing is loaded as it was saved.
    const auto usual =
        read.processing_recorded ? WeightProcessing::none() : WeightProcessing::all_that_apply();
    processing = options.processing.value_or(usual);
    for (const ProcessingStep step : options.without) processing = processing.without(step);
    source = mapped ? source_tensors(mapped, place) : source_tensors(reader);
    if (!whole()) {
      plan.config = read.config;
      plan.notes = {fmt::format(
          "{} are missing: what this says of the model is what {} says, and its tensors were not compared "
          "with it",
          reader.gguf() != nullptr ? "files" : "shards",
          reader.gguf() != nullptr ? "the metadata of those that are there" : "config.json")};
      if (options.weights == WeightStorage::stored)
        plan.notes.emplace_back("how many matrices stay in codes is known when all files are there");
      if (has_codes(source) && keeps_codes(source, options, processing))
        left_out = std::exchange(processing, WeightProcessing::none());
      return;
    }
    if (reader.gguf() != nullptr) {
      source_notes = read_gguf_tensors(source, gguf_architecture(reader), read.config);
    } else if (!mapped) {
      read_storage_file(folder_of_model(place), source, identified);
    }
    if (read.storage) source_notes = read_quantised(source, *read.storage, identified.family);
    if (adapter) append(source_notes, merge_adapter(source, *adapter, identified.family, read));
    if (keeps_codes(source, options, processing))
      left_out = std::exchange(processing, WeightProcessing::none());
    if (numbers == Numbers::zeros) read_as_zeros(source);
    try {
      plan = plan_weights(source, identified.family, read, {.absent = reader.misplaced()});
    } catch (const CheckpointError& error) {
      if (missing == MissingShards::refused || reader.gguf() != nullptr) throw;
      plan.config = read.config;
      plan.notes = {fmt::format("the model does not load: {}", error.what())};
    }
    if (reader.gguf() != nullptr) check_all_are_read(source, plan.recipes, plan.config, identified.family);
  }
  PlannedModel(const PlannedModel&) = delete;  // `source` refers to `reader`
  PlannedModel& operator=(const PlannedModel&) = delete;

  /// Whether all of its files exist.
  bool whole() const { return reader.missing_shards().empty(); }

  /// Why a packed file cannot be mapped as the model: something else was requested. Empty if it can be
  /// mapped.
  std::string reason_to_unpack(const LoadOptions& options) const {
    if (!open_devices(options.device).front().is_cpu()) return "another device was asked for";
    if (plan.config.dtype != mapped->config.dtype) return "another dtype was asked for";
    const auto steps = plan_processing(plan.config, processing);
    const bool changes =
        std::ranges::any_of(steps, [](const StepReport& step) { return step.outcome == "applied"; });
    if (changes) return "processing was asked for";
    return mapped->storage == fastest_storage(mapped->config.dtype)
               ? ""
               : "this processor multiplies by another layout";
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> all = identified.read.notes;
    for (const auto& more : {identified.generation.notes, reader.notes(), source_notes, plan.notes})
      append(all, more);
    if (has_adapter_beside(given)) {
      all.push_back(
          fmt::format("[{}] has an adapter next to the model's weights, which was not merged into them; a "
                      "folder with the adapter alone loads as its base model with it",
                      path_text(given)));
    }
    return all;
  }

  /// Its tokenizer: in a GGUF file, or next to the weights.
  TokenizerFiles text() const {
    const auto from = place_of_tokenizer(given);
    return is_gguf_file(from)
               ? read_gguf_tokenizer(*reader.gguf(), plan.config, path_text(reader.gguf_file()))
               : read_tokenizer_files(from, plan.config);
  }

  ReadFrom read_from() const { return model_read_from(place, reader, adapter ? &*adapter : nullptr); }

  /// Those that the model can generate: a token outside the vocabulary cannot end anything.
  std::vector<std::int64_t> stop_tokens(const TokenizerFiles& text) const {
    std::vector<std::int64_t> tokens = reader.gguf() != nullptr
                                           ? gguf_stop_tokens(*reader.gguf())
                                           : stop_tokens_of(identified.generation, identified.config, text);
    std::erase_if(tokens, [&](std::int64_t id) { return id < 0 || id >= plan.config.d_vocab; });
    return tokens;
  }

  const std::filesystem::path given;     ///< what the id names
  const std::optional<Adapter> adapter;  ///< if that is an adapter
  const std::filesystem::path place;     ///< of the model
  IdentifiedModel identified;
  const CheckpointReader reader;
  std::shared_ptr<LoadedModel> mapped;  ///< a packed file's model, mapped from the file, else null
  SourceTensors source;
  std::vector<std::string> source_notes;  ///< about quantised storage and the adapter
  WeightPlan plan;
  WeightProcessing processing;
  std::optional<WeightProcessing> left_out;  ///< what would be done if the weights did not stay in codes
};

// How the files store their tensors.
std::vector<StoredTensors> storage_of(const PlannedModel& planned) {
  SourceTensors source = source_tensors(planned.reader);
  const auto& storage = planned.identified.read.storage;
  if (storage && planned.whole()) read_quantised(source, *storage, planned.identified.family);
  return stored_tensors(planned.reader, source, storage ? std::string_view(storage->name) : "");
}

// The processing, packing and placing that all ways of loading share.
std::shared_ptr<LoadedModel> build_model(SourceTensors source, const WeightPlan& plan,
                                         const LoadOptions& options, const WeightProcessing& processing,
                                         Storage storage = Storage::fastest) {
  RecipeReader reader(std::move(source), plan.recipes);
  const std::vector<c10::Device> devices = open_devices(options.device);
  return with_memory(memory_of_weights("load", devices), [&] {
    return streamed_model(reader, plan.config, devices, processing, storage, options.progress);
  });
}

// A packed file's model, mapped from the file, or a new one with its weights.
std::shared_ptr<LoadedModel> mapped_model(PlannedModel& planned, const LoadOptions& options) {
  const std::string reason = planned.reason_to_unpack(options);
  if (!reason.empty()) {
    auto model = build_model(std::move(planned.source), planned.plan, options, planned.processing);
    model->notes.push_back(fmt::format("[{}] the packed weights were unpacked into memory, not mapped: {}",
                                       path_text(planned.place), reason));
    return model;
  }
  planned.mapped->processing = plan_processing(planned.mapped->config, planned.processing);
  if (options.progress) {
    std::uint64_t total = 0;
    for (const WeightSlot& slot : planned.mapped->slots()) total += slot.view.nbytes();
    options.progress(total, total);
  }
  return planned.mapped;
}

}  // namespace

MemoryUse memory_of_weights(std::string_view door, const std::vector<c10::Device>& devices) {
  return {.where = door, .cure = "take a smaller dtype, or another device", .devices = devices};
}

std::shared_ptr<LoadedModel> load_model(std::string_view id, const LoadOptions& options) {
  const ThreadLimit limit(options.threads);
  PlannedModel planned(id, options);
  const auto model = planned.mapped
                         ? mapped_model(planned, options)
                         : build_model(std::move(planned.source), planned.plan, options, planned.processing,
                                       planned.left_out ? Storage::codes : Storage::fastest);
  if (planned.left_out) report_kept_codes(model->processing, *planned.left_out);
  model->id = id;
  model->revision = revision_of_model(planned.given);
  model->read_from = planned.read_from();
  model->family = planned.identified.family.model_type;
  const auto notes = planned.notes();
  model->notes.insert(model->notes.begin(), notes.begin(), notes.end());
  model->ignored_keys = std::move(planned.identified.read.ignored_keys);
  TokenizerFiles text = planned.text();
  model->stop_tokens = planned.stop_tokens(text);
  model->rules = planned.identified.generation.rules;
  model->padding_token = planned.identified.read.padding_token;
  model->tokenizer = std::move(text.tokenizer);
  model->tokenizer_problem = std::move(text.problem);
  model->tokenizer_files = std::move(text.files);
  model->notes.insert(model->notes.end(), text.notes.begin(), text.notes.end());
  return model;
}

std::shared_ptr<LoadedModel> load_state_dict(StateDict weights, const ModelConfig& config,
                                             const LoadOptions& options) {
  const ThreadLimit limit(options.threads);
  ModelConfig chosen = config;
  chosen.dtype = options.dtype.value_or(config.dtype);
  chosen.validate();
  SourceTensors source = source_tensors(std::move(weights));
  keeps_codes(source, options, {});  // throws: a state dict has none
  WeightPlan plan =
      plan_weights(source, native_family(), {.config = std::move(chosen), .recipes = native_recipes});
  const auto model = build_model(std::move(source), plan, options,
                                 options.processing.value_or(WeightProcessing::all_that_apply()));
  model->notes.insert(model->notes.begin(), plan.notes.begin(), plan.notes.end());
  return model;
}

std::shared_ptr<LoadedModel> create_model(const ModelConfig& config, const CreateOptions& options,
                                          Storage storage) {
  ModelConfig chosen = config;
  chosen.dtype = options.dtype.value_or(config.dtype);
  chosen.validate();
  const std::vector<c10::Device> devices = open_devices(options.device);
  return with_memory(memory_of_weights("create", devices), [&] {
    auto model = std::make_shared<LoadedModel>(chosen, place_layers(chosen, devices), storage);
    initialise(*model, options);
    model->processing = plan_processing(model->config, WeightProcessing::none());
    return model;
  });
}

ModelDescription describe(std::string_view id, const LoadOptions& options) {
  PlannedModel planned(id, options, Numbers::read, MissingShards::left_out);
  const ModelConfig& config = planned.plan.config;
  const std::int64_t parameters = config.parameter_count();
  TokenizerFiles text = planned.text();
  std::vector<std::string> notes = planned.notes();
  append(notes, text.notes);
  RecipeReader numbers(std::move(planned.source), planned.plan.recipes);
  // A description must not wait for the largest matrices: the config decides about those.
  const weights::StoredWeights stored = [&](const std::string& name) {
    auto found = numbers.find(name);
    return found && c10::multiply_integers(found->shape) <= kMostNumbersToDescribe ? found : std::nullopt;
  };
  const bool readable = planned.whole() && !planned.plan.recipes.empty();
  const weights::Processor processor(config, planned.processing, readable ? stored : nullptr);
  if (options.device.names_several())
    notes.push_back(place_layers(processor.after(), open_devices(options.device)).text());
  const CheckpointReader& reader = planned.reader;
  std::int64_t bytes = parameters * static_cast<std::int64_t>(c10::elementSize(config.dtype));
  if (planned.left_out && !readable) {
    bytes = static_cast<std::int64_t>(reader.stated_bytes().value_or(reader.bytes()));
  } else if (planned.left_out) {
    const MatricesInCodes kept =
        matrices_in_codes(LoadedModel(config, c10::Device(at::kCPU), Storage::codes), numbers);
    bytes = static_cast<std::int64_t>(kept.bytes);
    notes.push_back(kept.text());
  }
  ModelDescription made{
      .family = std::string(planned.identified.family.model_type),
      .config = config,
      .parameters = parameters,
      .bytes = bytes,
      .weights = planned.left_out ? WeightStorage::stored : WeightStorage::expanded,
      .processing = processor.report(),
      .notes = std::move(notes),
      .ignored_keys = std::move(planned.identified.read.ignored_keys),
      .tokenizer_pieces =
          text.tokenizer ? std::optional<std::int64_t>(text.tokenizer->vocab_size()) : std::nullopt,
      .tokenizer_form = !text.tokenizer     ? std::string()
                        : text.form.empty() ? text.tokenizer->form()
                                            : text.form,
      .tokenizer_kind = text.tokenizer ? std::string(text.tokenizer->kind()) : std::string(),
      .tokenizer = text.tokenizer,
      .tokens_around = text.tokenizer ? std::optional(tokens_around(*text.tokenizer, config)) : std::nullopt,
      .chat_template = text.tokenizer ? text.tokenizer->chat_template() : std::nullopt,
      .tokenizer_problem = text.why_no_tokenizer(),
      .context = config.n_ctx < kUnlimitedContext ? std::optional(config.n_ctx) : std::nullopt,
      .storage = storage_of(planned),
      .stored_bytes = static_cast<std::int64_t>(reader.bytes()),
      .stated_bytes = std::nullopt,
      .missing_files = reader.missing_shards(),
      .fetch = reader.fetch(),
      .unread_parts = unread_parts(reader, planned.identified.family),
      .ignored_files = {},
      .adapter = std::nullopt};
  if (planned.left_out) report_kept_codes(made.processing, *planned.left_out);
  if (!planned.whole()) {
    if (const auto bytes = reader.stated_bytes()) made.stated_bytes = static_cast<std::int64_t>(*bytes);
  }
  std::vector<std::filesystem::path> read = reader.files();
  if (planned.adapter) {
    const CheckpointReader& own = planned.adapter->reader;
    made.adapter = {.base = planned.adapter->base,
                    .base_folder = planned.place.native(),
                    .tensors = static_cast<std::int64_t>(own.names().size()),
                    .bytes = static_cast<std::int64_t>(own.bytes())};
    for (const auto& file : own.files()) read.push_back(file);
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(planned.given, ignored))
    made.ignored_files = ignored_files(planned.given, read);
  return made;
}

ModelOutline outline(std::string_view id) {
  const PlannedModel planned(id, {}, Numbers::zeros);
  return {.family = std::string(planned.identified.family.model_type),
          .parameters = planned.plan.config.parameter_count()};
}

Tokenizer load_tokenizer(std::string_view id) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(id, ignored) && !format_of(id)) return tokenizer_in_file(id);
  const auto from = place_of_tokenizer(locate_model(id));
  if (!is_gguf_file(from)) return Tokenizer::load(from);
  const CheckpointReader reader = open_checkpoint(from, MissingShards::left_out);
  return gguf_tokenizer(*reader.gguf(), path_text(reader.gguf_file()));
}

std::string config_json(const ModelConfig& config) { return write_native_config(config); }

std::string config_json_of(const LoadedModel& model) {
  return write_native_config(model.config, model.padding_token);
}

}  // namespace hooked
