// hooked list: the models and dictionaries in the hub cache, and which of them load.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/json.h"
#include "core/size_text.h"
#include "hooked/core/error.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/io/hub_cache.h"
#include "hooked/loading/describe.h"
#include "options/help.h"

namespace hooked::cli {
namespace {

constexpr std::size_t kCommitLetters = 7;  // as git and the hub shorten commits

/// What is known about a revision's files without reading weights.
struct Outline {
  std::string type;
  std::optional<std::int64_t> parameters;
  std::uint64_t bytes = 0;
  std::string problem;       ///< why it cannot be loaded, in full; empty: it can be
  std::string short_reason;  ///< the same, without the remedy
};

// An error's first clause, with its place below the folder: the rest of the folder's name is known.
std::string short_reason(const Error& error, const std::filesystem::path& folder) {
  std::string_view place = error.where();
  const auto size = folder.native().size() + 1;
  if (place.starts_with(folder.native())) place.remove_prefix(std::min(size, place.size()));
  const auto what = error.message().substr(0, error.message().find("; "));
  return place.empty() ? std::string(what) : fmt::format("{}: {}", place, what);
}

Outline examine(const CachedModel& model) {
  Outline outline{
      .type = named_model_type(model.path().native()), .parameters = {}, .problem = {}, .short_reason = {}};
  outline.bytes = stored_bytes(model);
  const auto refuse = [&](std::string_view problem, std::string_view reason) {
    outline.problem = problem;
    outline.short_reason = reason;
  };
  if (!model.problem.empty()) {
    refuse(model.problem, model.problem);
    return outline;
  }
  try {
    const auto known = hooked::outline(model.path().native());
    outline.type = known.family;
    outline.parameters = known.parameters;
  } catch (const Error& error) {
    refuse(error.what(), short_reason(error, model.folder));
  } catch (const c10::Error& error) {
    refuse(error.what_without_backtrace(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    refuse(error.what(), error.what());
  }
  return outline;
}

Outline examine_dictionary(const std::filesystem::path& folder, const std::filesystem::path& of) {
  Outline outline{.type = "dictionary", .parameters = {}, .problem = {}, .short_reason = {}};
  try {
    const auto described = describe_dictionary(folder.native());
    outline.parameters = described.parameters;
    outline.bytes = described.stored_bytes;
  } catch (const Error& error) {
    outline.problem = error.what();
    outline.short_reason = short_reason(error, of);
  }
  return outline;
}

// 466 K, 124 M, 1.56 B: three digits.
std::string count_text(std::int64_t count) {
  static constexpr std::array<std::string_view, 4> kUnits = {"K", "M", "B", "T"};
  if (count < 1000) return std::to_string(count);
  auto value = static_cast<double>(count) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

struct Listed {
  CachedModel model;
  Outline outline;
};

/// Lists the dictionaries in a folder of a revision: the folder itself, if it is one or a set that can be
/// read, else those in the folders below it.
void list_dictionaries(const CachedModel& model, const std::filesystem::path& below, std::vector<Listed>& all,
                       int depth = 0) {
  constexpr int kDeepest = 8;
  CachedModel named = model;
  if (!below.empty()) {
    named.id += ":" + below.native();
    named.folder /= below;
  }
  std::optional<Outline> own;
  if (is_dictionary(named.folder.native())) own = examine_dictionary(named.folder, model.folder);
  if (own && own->problem.empty()) return all.push_back({std::move(named), *own});
  if (depth == kDeepest) return;
  std::vector<std::filesystem::path> folders;
  std::error_code stopped;
  for (std::filesystem::directory_iterator at(named.folder, stopped), end; !stopped && at != end;
       at.increment(stopped)) {
    if (std::error_code ignored; at->is_directory(ignored)) folders.push_back(below / at->path().filename());
  }
  std::ranges::sort(folders);
  const std::size_t before = all.size();
  for (const auto& each : folders) list_dictionaries(model, each, all, depth + 1);
  if (own && all.size() == before) all.push_back({std::move(named), *own});
}

/// Lists the model, or the dictionaries that are there instead.
void list(const CachedModel& model, const Outline& outline, std::vector<Listed>& all) {
  const std::size_t before = all.size();
  const bool may_have_dictionaries = !outline.problem.empty() && model.problem.empty() && model.file.empty();
  if (may_have_dictionaries) list_dictionaries(model, {}, all);
  if (all.size() == before) all.push_back({model, outline});
}

void print_table(const std::vector<Listed>& all) {
  Table table(
      {{"model"}, {"revision"}, {"type"}, {"params", Align::right}, {"size", Align::right}, {"loads"}});
  for (const auto& [model, outline] : all) {
    const bool loads = outline.problem.empty();
    table.add({model.id, model.commit.substr(0, kCommitLetters), outline.type,
               outline.parameters ? count_text(*outline.parameters) : "", size_text(outline.bytes),
               loads ? "yes" : "no"});
  }
  table.print("", kColumns);
}

void print_problems(const std::vector<Listed>& all) {
  const auto refused = [](const Listed& listed) { return !listed.outline.problem.empty(); };
  if (std::ranges::none_of(all, refused)) return;
  fmt::print("\nwhy not\n");
  for (const auto& [model, outline] : all) {
    if (outline.problem.empty()) continue;
    fmt::print("  {}\n", model.id);
    std::istringstream lines(wrapped(outline.short_reason, kColumns - 4));
    for (std::string line; std::getline(lines, line);) fmt::print("    {}\n", line);
  }
}

Json entry_json(const Listed& listed) {
  const auto& [model, outline] = listed;
  return {{"model", model.id},
          {"commit", or_null(model.commit)},
          {"folder", model.folder.native()},
          {"model_type", or_null(outline.type)},
          {"parameters", or_null(outline.parameters)},
          {"bytes", outline.bytes},
          {"loads", outline.problem.empty()},
          {"problem", or_null(outline.problem)}};
}

}  // namespace

void perform(const ListOptions& options) {
  const auto cache = hub_cache();
  const auto models = cached_models(cache);
  std::map<std::filesystem::path, Outline> known;  // branches and tags may name the same commit
  std::vector<Listed> all;
  for (const auto& model : models) {
    // A problem of an entry belongs to it alone; problems of a folder are shared.
    const auto [outline, fresh] =
        known.try_emplace(model.problem.empty() ? model.path() : std::filesystem::path(model.id));
    if (fresh) outline->second = examine(model);
    list(model, outline->second, all);
  }
  const auto& place = cache.path.native();
  if (options.json) {
    auto list = Json::array();
    for (const auto& listed : all) list.push_back(entry_json(listed));
    return print_json({{"cache", place}, {"chosen_by", cache.chosen_by}, {"models", list}});
  }
  if (all.empty()) {
    fmt::print("No models in the hub cache {} (of {}); `hf download ORG/NAME` puts one there.\n", place,
               cache.chosen_by);
    return;
  }
  fmt::print("{} (hub cache of {})\n\n", place, cache.chosen_by);
  print_table(all);
  print_problems(all);
}

}  // namespace hooked::cli
