// hooked harvest: activations of a corpus on disk, and what a store holds.
#include "hooked/harvest/harvest.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/name_list.h"
#include "core/size_text.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "options/command.h"

namespace hooked::cli {
namespace {

HarvestOptions harvest_options(const HarvestCommandOptions& options, const HookedTransformer& model) {
  HarvestOptions harvest{.names = options.names,
                         .contexts = {.length = options.context,
                                      .text = {.prepend_bos = prepend_bos_of(options.prepend_bos)},
                                      .begin_context = options.begin_context,
                                      .begin_document = options.begin_document,
                                      .separator = options.separator},
                         .rows = {.exclude_special_tokens = options.exclude_special_tokens,
                                  .exclude_tokens = options.exclude_tokens,
                                  .skip_first = options.skip_first,
                                  .share = options.share,
                                  .seed = options.seed},
                         .batch_tokens = options.batch_tokens};
  if (options.packing == "packed") harvest.contexts.packing = Packing::packed;
  if (options.packing == "documents") harvest.contexts.packing = Packing::per_document;
  if (!options.stored_dtype.empty()) {
    harvest.dtype = parse_float_dtype(options.stored_dtype);
    if (!harvest.dtype) {
      throw UsageError(
          fmt::format("--store-dtype: '{}' is not a dtype; expected float32, float16, bfloat16 or float64",
                      options.stored_dtype));
    }
  }
  const at::Tensor context =
      at::zeros({1, options.context}, at::TensorOptions(at::kLong).device(model.device()));
  harvest.edits = read_edits(options.edits, model, context);
  return harvest;
}

StoreOptions store_options(const HarvestCommandOptions& options) {
  StoreOptions store{.unit_tokens = options.unit_tokens,
                     .shard_bytes = options.shard_mib << 20,
                     .share = {options.share_index, options.shares},
                     .mixed = options.mixed,
                     .reduce = {.moments = options.moments,
                                .examples = options.examples,
                                .example_before = options.example_before,
                                .example_after = options.example_after}};
  if (options.by_launcher) store.share = UnitShare::of_launcher();
  return store;
}

std::string time_of(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600.0) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

std::string rate_of(std::int64_t tokens, double seconds) {
  return seconds > 0 ? fmt::format("{} tokens/s",
                                   grouped(static_cast<std::int64_t>(static_cast<double>(tokens) / seconds)))
                     : std::string("nothing to do");
}

std::string missing_text(const std::vector<std::int64_t>& missing) {
  std::vector<std::string> names;
  for (const std::int64_t unit : missing) names.push_back(std::to_string(unit));
  return name_list(names);
}

std::vector<Field> status_fields(const StoreStatus& status) {
  std::vector<Field> fields = {
      {"units",
       fmt::format("{} of {}", grouped(status.units - static_cast<std::int64_t>(status.missing.size())),
                   grouped(status.units))},
      {"rows", grouped(status.rows)},
      {"tokens read", grouped(status.tokens)},
      {"files", fmt::format("{}, {}", grouped(status.shards), size_text(status.bytes))}};
  if (!status.missing.empty()) fields.push_back({"missing units", missing_text(status.missing)});
  if (status.complete() && !status.joined)
    fields.push_back({"manifest", "not joined; --join makes one of all units"});
  return fields;
}

Json status_json(const StoreStatus& status) {
  return {{"units", status.units},       {"missing", status.missing}, {"rows", status.rows},
          {"contexts", status.contexts}, {"tokens", status.tokens},   {"not_finite", status.not_finite},
          {"bytes", status.bytes},       {"files", status.shards},    {"complete", status.complete()},
          {"joined", status.joined}};
}

void show_status(const std::string& folder, const StoreStatus& status, bool json) {
  if (json) {
    Json shown{{"store", folder}};
    shown.update(status_json(status));
    return print_json(shown);
  }
  fmt::print("{}: {}\n", folder, status.complete() ? "complete" : "not complete");
  print_fields(status_fields(status));
}

void look_at_store(const HarvestCommandOptions& options) {
  if (!options.status.empty()) return show_status(options.status, store_status(options.status), options.json);
  if (!options.join.empty()) return show_status(options.join, join_store(options.join), options.json);
  StoreStatus status;
  {
    ProgressBar bar("verifying");
    status = verify_store(options.verify, bar.progress());
  }
  show_status(options.verify, status, options.json);
  if (!options.json) fmt::print("every file has the bytes that were written\n");
}

void estimate(const HarvestCommandOptions& options, const HookedTransformer& model, const Corpus& corpus) {
  const HarvestEstimate found =
      estimate_harvest(model, corpus, harvest_options(options, model), store_options(options));
  if (options.json) {
    Json json = model_json(model);
    json.update({{"units", found.units},
                 {"tokens", found.tokens},
                 {"rows", found.rows},
                 {"bytes", found.bytes},
                 {"files", found.shards},
                 {"exact", found.exact},
                 {"tokens_per_second", number_json(found.tokens_per_second)},
                 {"seconds", number_json(found.seconds)}});
    return print_json(json);
  }
  const std::string about = found.exact ? "" : "about ";
  print_fields({{"units", grouped(found.units)},
                {"tokens", about + grouped(found.tokens)},
                {"rows kept", about + grouped(found.rows)},
                {"files", fmt::format("{}{}, {}", about, grouped(found.shards), size_text(found.bytes))},
                {"time", fmt::format("about {} at {} tokens/s", time_of(found.seconds),
                                     grouped(static_cast<std::int64_t>(found.tokens_per_second)))}});
  fmt::print("nothing was written\n");
}

}  // namespace

void perform(const HarvestCommandOptions& options) {
  if (options.model.model.empty()) return look_at_store(options);
  if (!options.dry_run) require_can_harvest(options.out);
  const Corpus corpus = Corpus::open(
      options.corpus,
      {.field = options.field, .whole_files = options.whole_files, .max_documents = options.max_documents});
  const auto model = load_model(options.model);
  if (options.dry_run) return estimate(options, model, corpus);

  HarvestOptions harvesting = harvest_options(options, model);
  StoreOptions store = store_options(options);
  if (options.model.threads > 0) harvesting.threads = options.model.threads;
  const InterruptGuard guard;
  HarvestSummary summary;
  {
    std::optional<ProgressBar> planning("reading the corpus"), bar;
    store.planning = [&](std::uint64_t done, std::uint64_t total) {
      if (interrupted()) throw Interrupted("while the corpus was cut into units");
      planning->show(done, total);
    };
    harvesting.progress = [&](const HarvestProgress& progress) {
      if (!bar) {
        planning.reset();
        bar.emplace("harvest", ProgressUnit::steps);
      }
      const double rate = progress.seconds > 0 ? static_cast<double>(progress.tokens) / progress.seconds : 0;
      bar->label(fmt::format("harvest, {} tokens/s, units", grouped(static_cast<std::int64_t>(rate))));
      bar->show(static_cast<std::uint64_t>(progress.units_done),
                static_cast<std::uint64_t>(progress.units_total), progress.seconds_left);
      return !interrupted();
    };
    summary = harvest(model, corpus, options.out, harvesting, store);
  }
  print_notes(summary.notes);
  if (options.json) {
    Json json = model_json(model);
    json["store"] = options.out;
    json.update(status_json(summary.status));
    json["units_done"] = summary.units_done;
    json["tokens_done"] = summary.tokens;
    json["seconds"] = number_json(summary.seconds);
    json["ended_early"] = summary.ended_early;
    print_json(json);
  } else {
    fmt::print("{}: {} units in {}, {}\n", options.out, grouped(summary.units_done), time_of(summary.seconds),
               rate_of(summary.tokens, summary.seconds));
    print_fields(status_fields(summary.status));
  }
  if (summary.ended_early && !options.json) {
    print_ended_early(summary.status.units - static_cast<std::int64_t>(summary.status.missing.size()),
                      summary.status.units, "units");
    fmt::print("the same command continues\n");
  }
}

}  // namespace hooked::cli
