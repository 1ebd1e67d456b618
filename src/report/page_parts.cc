// The figures of pages, as their JSON has them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/json_number.h"
#include "hooked/analysis/features.h"
#include "hooked/core/error.h"
#include "report/attention_bytes.h"
#include "report/page_content.h"

namespace hooked {
namespace {

Json list_of(const at::Tensor& numbers) {
  Json list = Json::array();
  const at::Tensor held = numbers.to(at::kCPU, at::kDouble).contiguous();
  for (std::int64_t i = 0; i < held.numel(); ++i) list.push_back(rounded(held.const_data_ptr<double>()[i]));
  return list;
}

Json nested(const at::Tensor& numbers) {
  if (numbers.dim() <= 1) return numbers.dim() == 0 ? rounded(numbers.item<double>()) : list_of(numbers);
  Json list = Json::array();
  for (std::int64_t i = 0; i < numbers.size(0); ++i) list.push_back(nested(numbers[i]));
  return list;
}

/// Keys after each query of a causal pattern, which have no value.
bool leaves_out_later_keys(const Grid& grid) {
  const std::size_t n = grid.axes().size();
  if (n < 2 || grid.axes()[n - 2].name != "query" || grid.axes()[n - 1].name != "key") return false;
  const at::Tensor later = grid.values().triu(1);
  return grid.values().size(-1) > 1 && later.eq(0).logical_or(later.isinf()).all().item<bool>();
}

/// The patterns that a page shows: of the stack that predicts.
std::vector<ActivationName> patterns_of(const HookedTransformer& model) {
  std::vector<ActivationName> names;
  for (const ActivationName& name : model.names()) {
    if (!name.host && name.site == Site::pattern && name.stack == model.config().main_stack())
      names.push_back(name);
  }
  return names;
}

/// The attention of a page's tokens, [head, query, key].
at::Tensor pattern_of(const ActivationCache& cache, const ActivationName& name,
                      const std::vector<std::int64_t>& columns) {
  const ActivationCache::Entry& entry = cache.entry(name);
  if (!entry.positions.empty())
    throw HookError(kPage, fmt::format("{} was kept at some positions only; expected all", name.to_string()));
  const at::Tensor all = entry.value().to(at::kCPU, at::kDouble).select(0, 0);
  if (all.size(-1) == std::ssize(columns)) return all;
  const at::Tensor real = at::tensor(columns, at::kLong);
  return all.index_select(-1, real).index_select(-2, real);
}

AttentionBytes bytes_for(const std::vector<ActivationName>& names, const ModelConfig& config,
                         std::int64_t length) {
  if (names.empty())
    throw HookError(kPage,
                    "there is no attention pattern; expected a model with attention, and a run with "
                    "patterns");
  return {std::ssize(names) * config.n_heads, length, !config.bidirectional(config.main_stack())};
}

/// What the runs of a model record of the dictionary at `place`: its place, fingerprint and error.
std::string dictionary_in(const Provenance& provenance, const std::string& place) {
  const auto all = provenance.more.find("dictionaries");
  if (all == provenance.more.end()) return "";
  const std::string text = ", " + all->second + ",";
  const std::size_t begin = text.find(", " + place + " (");
  return begin == std::string::npos ? "" : text.substr(begin + 2, text.find(',', begin + 2) - begin - 2);
}

}  // namespace

void require_examples_of(const HookedTransformer& model, const ActivationName& codes,
                         const FeatureExamples& examples) {
  const std::string place = codes.place().to_string();
  const Provenance& from = examples.provenance;
  const auto identity = model.identity();
  if (!from.fingerprint.empty() && from.fingerprint != identity->fingerprint) {
    throw HookError(codes.to_string(),
                    fmt::format("these examples are of another model; expected those of {}, got {}; harvest "
                                "them with this model, processed alike",
                                identity->text(), ModelIdentity{from.model, from.fingerprint}.text()));
  }
  const std::string here = dictionary_in(model.provenance(), place), there = dictionary_in(from, place);
  if (!there.empty() && here != there) {
    throw HookError(codes.to_string(), fmt::format("these examples are of another dictionary; expected those "
                                                   "of {}, got {}; harvest them with this one",
                                                   here, there));
  }
}

void Page::add_tokens(const Grid& values) {
  const std::size_t n = values.axes().size();
  const std::int64_t length = content_->length();
  if (n < 1 || n > 2 || std::ssize(values.axes().back().labels) != length)
    throw ShapeError(kPage, fmt::format("'{}' does not have a number for each of the {} tokens; expected the "
                                        "axes [pos] or [row, pos]",
                                        values.title(), length));
  Json rows = Json::array();
  const at::Tensor numbers = n == 1 ? values.values().unsqueeze(0) : values.values();
  for (std::int64_t row = 0; row < numbers.size(0); ++row) {
    rows.push_back(
        {{"label", n == 1 ? values.title() : values.axes()[0].labels[static_cast<std::size_t>(row)]},
         {"values", list_of(numbers[row])}});
  }
  content_->parts().push_back({{"kind", "tokens"}, {"unit", values.unit()}, {"rows", rows}});
}

void Page::add_next(const at::Tensor& logits, std::int64_t top_k) {
  const std::int64_t end = content_->columns.empty() ? 0 : content_->columns.back() + 1;
  if (logits.dim() != 3 || logits.size(0) != 1 || logits.size(1) < end)
    throw ShapeError(kPage, fmt::format("these logits are not of all tokens; expected [1, {}, vocab]", end));
  Json top = Json::array();
  for (const std::int64_t column : content_->columns) {
    const at::Tensor probabilities = logits[0][column].to(at::kCPU, at::kDouble).softmax(-1);
    const auto [largest, ids] = at::topk(probabilities, std::min(top_k, probabilities.size(0)));
    top.push_back(content_->predictions(ids, largest));
  }
  content_->parts().push_back({{"kind", "next"}, {"top", top}});
}

void Page::add_lens(const LogitLens& lens) {
  std::vector<std::string> points;
  std::vector<std::int64_t> columns;
  const auto place = [](auto& list, const auto& value) {
    const auto found = std::ranges::find(list, value);
    if (found != list.end()) return found - list.begin();
    list.push_back(value);
    return std::ssize(list) - 1;
  };
  const auto point_of = [](const LogitLensRow& row) {
    return row.part.empty() ? row.name.to_string() : row.part;
  };
  for (const LogitLensRow& row : lens.top) {
    place(points, point_of(row));
    const auto found = std::ranges::find(content_->columns, row.column);
    if (found == content_->columns.end())
      throw ShapeError(kPage, fmt::format("the lens reads column {}, which is none of the page's tokens; "
                                          "expected a lens of the same run",
                                          row.column));
    place(columns, found - content_->columns.begin());
  }
  Json top = Json::array();
  for (std::size_t point = 0; point < points.size(); ++point)
    top.push_back(std::vector<Json>(columns.size(), Json::array()));
  for (const LogitLensRow& row : lens.top) {
    Json& cell = top[static_cast<std::size_t>(place(points, point_of(row)))][static_cast<std::size_t>(
        place(columns, std::ranges::find(content_->columns, row.column) - content_->columns.begin()))];
    for (const auto& guess : row.predictions) {
      content_->name_token(guess.token);
      cell.push_back({guess.token, rounded(guess.probability)});
    }
  }
  content_->parts().push_back({{"kind", "lens"}, {"points", points}, {"columns", columns}, {"top", top}});
}

void Page::add_attention(const ActivationCache& cache) {
  std::vector<ActivationName> names = patterns_of(content_->model);
  std::erase_if(names, [&](const ActivationName& name) { return !cache.contains(name); });
  AttentionBytes bytes = bytes_for(names, content_->model.config(), content_->length());
  for (const ActivationName& name : names) bytes.add(name, pattern_of(cache, name, content_->columns));
  content_->parts().push_back(bytes.part());
}

void Page::add_attention(const Input& input) {
  const HookedTransformer& model = content_->model;
  const std::vector<ActivationName> names = patterns_of(model);
  AttentionBytes bytes = bytes_for(names, content_->model.config(), content_->length());
  // Runs are cheap, and the patterns of all layers may not fit into memory.
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  const std::int64_t length = content_->length();
  const std::int64_t each = std::max<std::int64_t>(model.config().n_heads * length * length * 8, 1);
  const auto at_once = static_cast<std::size_t>(std::max<std::int64_t>(kBytes / each, 1));
  for (std::size_t begin = 0; begin < names.size(); begin += at_once) {
    const std::size_t end = std::min(names.size(), begin + at_once);
    Selection some;
    for (std::size_t i = begin; i < end; ++i) some = some | names[i];
    const auto run = model.run_with_cache(input, some, {.output = Output::none});
    for (std::size_t i = begin; i < end; ++i)
      bytes.add(names[i], pattern_of(run.cache, names[i], content_->columns));
  }
  content_->parts().push_back(bytes.part());
}

void Page::add_heat_map(const Grid& grid) {
  if (grid.axes().empty()) return add_text(fmt::format("{}: {} {}", grid.title(), grid.at({}), grid.unit()));
  Json axes = Json::array();
  for (const GridAxis& axis : grid.axes()) axes.push_back({{"name", axis.name}, {"labels", axis.labels}});
  at::Tensor values = grid.values();
  if (leaves_out_later_keys(grid)) {
    const at::Tensor later = at::ones({values.size(-2), values.size(-1)}, at::kBool).triu(1);
    values = values.masked_fill(later, std::nan(""));
  }
  content_->parts().push_back({{"kind", "grid"},
                               {"title", grid.title()},
                               {"unit", grid.unit()},
                               {"axes", axes},
                               {"values", nested(values)}});
}

Json Page::Content::examples_of(const FeatureExamples& examples, std::int64_t feature) {
  if (feature >= examples.values.size(0))
    throw ShapeError(kPage, fmt::format("the examples are of {} features; expected one for feature {}",
                                        examples.values.size(0), feature));
  Json list = Json::array();
  const at::Tensor values = examples.values[feature].to(at::kDouble);
  for (std::int64_t i = 0; i < values.size(0) && values[i].item<double>() != 0; ++i) {
    const at::Tensor window = examples.tokens[feature][i].to(at::kLong).contiguous();
    Json example{{"ids", Json::array()}, {"value", rounded(values[i].item<double>())}, {"at", 0}};
    for (std::int64_t place = 0; place < window.numel(); ++place) {
      const std::int64_t id = window.const_data_ptr<std::int64_t>()[place];
      if (place == examples.before) example["at"] = example["ids"].size();
      if (id < 0) continue;  // outside the context
      name_token(id);
      example["ids"].push_back(id);
    }
    list.push_back(std::move(example));
  }
  return list;
}

void Page::add_features(const ActivationCache& cache, const Address& features, const FiringOptions& which,
                        std::int64_t top_k, const FeatureExamples& examples) {
  const bool harvested = examples.values.defined();
  if (harvested)
    require_examples_of(content_->model, content_->model.points().resolve(features.name()), examples);
  const std::vector<FiringFeature> firing = firing_features(cache, features, which);
  std::vector<std::int64_t> numbers;
  for (const FiringFeature& each : firing) numbers.push_back(each.feature);
  const at::Tensor codes =
      cache[features].to(at::kCPU)[0].index_select(0, at::tensor(content_->columns, at::kLong));
  // Dictionaries that do not write to the stream say nothing about logits.
  at::Tensor logits;
  try {
    if (!numbers.empty()) logits = feature_logits(content_->model, features, numbers);
  } catch (const HookError&) {
  }
  Json list = Json::array();
  for (std::size_t i = 0; i < firing.size(); ++i) {
    Json feature{{"name", std::to_string(firing[i].feature)},
                 {"values", list_of(codes.select(1, firing[i].feature))},
                 {"raises", Json::array()},
                 {"lowers", Json::array()}};
    if (harvested) {
      feature["fired"] = examples.fired[firing[i].feature].item<std::int64_t>();
      feature["examples"] = content_->examples_of(examples, firing[i].feature);
    }
    if (logits.defined()) {
      const at::Tensor row = logits[static_cast<std::int64_t>(i)];
      for (const auto& [key, largest] : {std::pair{"raises", true}, {"lowers", false}}) {
        const auto [sizes, ids] = at::topk(row, std::min(top_k, row.size(0)), -1, largest);
        feature[key] = content_->predictions(ids, sizes);
      }
    }
    list.push_back(std::move(feature));
  }
  if (list.empty())
    return add_text(fmt::format("No feature of {} fires on this text.", features.to_string()));
  Json part{{"kind", "features"}, {"title", features.to_string()}, {"features", list}};
  if (harvested) part["rows"] = examples.rows;
  content_->parts().push_back(std::move(part));
}

}  // namespace hooked
