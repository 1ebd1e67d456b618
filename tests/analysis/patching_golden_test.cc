// Presets and direct paths against what TransformerLens's patching functions returned in float64
// (tests/golden/README.md): every recorded tensor, and for each function that crashes there or is wrong, full
// runs and the algebra of paths.
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>

#include <ostream>

#include "core/id_list.h"
#include "tests/analysis/analysis_goldens.h"
#include "tests/analysis/direct_path_by_hand.h"
#include "tests/analysis/preset_cells.h"
#include "tests/support/compare.h"
#include "tests/support/test.h"

namespace hooked::patching_golden_test {
namespace {

constexpr double kTolerance = 1e-9;   // metrics are of size 1
constexpr double kEffect = 1e-5;      // what the largest change of a metric must exceed
constexpr std::int64_t kSampled = 6;  // cells of a function that are compared with one run each

/// One of TransformerLens's 20 functions (those of direct paths by component) and its counterpart here.
struct Function {
  std::string name;                        ///< as recorded
  const PatchingPreset* preset = nullptr;  ///< null: a direct path
  HeadInput input = HeadInput::query;      ///< of a direct path
  bool all_sources = false;                ///< of a direct path: in one call
};

std::vector<Function> functions() {
  std::vector<Function> all;
  for (const PatchingPreset& preset : patching_presets())
    all.push_back({.name = "get_act_patch_" + std::string(preset.name), .preset = &preset});
  constexpr std::pair<const char*, HeadInput> kComponents[] = {
      {".q", HeadInput::query}, {".k", HeadInput::key}, {".v", HeadInput::value}};
  for (const auto& [component, input] : kComponents) {
    all.push_back({.name = std::string("get_act_patch_direct_path") + component, .input = input});
    all.push_back({.name = std::string("get_act_patch_direct_path_all_sources") + component,
                   .input = input,
                   .all_sources = true});
  }
  return all;
}

/// Functions that were not recorded, and why.
struct Exception {
  std::string model;
  std::set<std::string> files;      ///< `folded_padded`
  std::set<std::string> functions;  ///< `get_act_patch_direct_path.q`
  std::string kind;                 ///< `crash` or `wrong`
  std::string reason;               ///< in words
};

std::vector<Exception> read_exceptions() {
  std::vector<Exception> all;
  const Json index = analysis_index("patching");
  for (const Json& row : index.at("exceptions")) {
    all.push_back({row.at("model").get<std::string>(), row.at("files").get<std::set<std::string>>(),
                   row.at("functions").get<std::set<std::string>>(), row.at("kind").get<std::string>(),
                   row.at("reason").get<std::string>()});
  }
  return all;
}

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> all = read_exceptions();
  return all;
}

/// One file of a model.
struct File {
  AnalysedWeights weights;
  std::string name;

  const std::string& model() const { return weights.model.name; }
  RecordedTensors read() const { return weights.model.read(name); }
  /// Why it lacks a function, or null.
  const Exception* exception(const std::string& function) const {
    const auto found = std::ranges::find_if(exceptions(), [&](const Exception& one) {
      return one.model == model() && one.files.contains(name) && one.functions.contains(function);
    });
    return found == exceptions().end() ? nullptr : &*found;
  }
};

std::vector<File> files() {
  std::vector<File> all;
  for (const AnalysedWeights& weights : analysed_weights("patching")) {
    for (const char* inputs : {"one_pair", "padded"})
      all.push_back({weights, weights.processed + "_" + inputs});
  }
  return all;
}

void PrintTo(const File& file, std::ostream* out) { *out << file.model() << ' ' << file.name; }

/// A file, its model, and our sweeps over its prompts.
class Pairs {
 public:
  explicit Pairs(const File& file) : model(file.weights.load()), recorded(file.read()) {
    for (std::int64_t row = 0; row < rows(); ++row)
      padding_.push_back(mask().defined() ? (mask()[row] == 0).sum().item<std::int64_t>() : 0);
    options_ = {.from = model.run_with_cache(input("clean"), act::everything).cache,
                .into = input("corrupted"),
                .metric = logit_difference(Answers::by_row(id_list(recorded.at("answer").tensor())),
                                           Answers::by_row(id_list(recorded.at("against").tensor())))};
  }

  std::int64_t rows() const { return recorded.at("clean").sizes()[0]; }
  /// Columns of padding before a row.
  std::int64_t padding(std::int64_t row) const { return padding_[static_cast<std::size_t>(row)]; }
  const Metric& metric() const { return options_.metric.front(); }
  /// The scores without a patch, [row].
  at::Tensor unpatched() const { return metric().score(model, options_.into); }
  Input input(const char* prompts) const {
    return {recorded.at(prompts).tensor(), {.attention_mask = mask()}};
  }

  /// Our result, [row, ...] as recorded.
  at::Tensor swept(const Function& function) const {
    if (function.preset != nullptr) return with_rows(sweep(model, *function.preset, options_));
    DirectPathOptions paths{.input = function.input, .source = {}, .sweep = options_};
    at::Tensor& all = paths_[function.input];
    if (!all.defined()) all = with_rows(direct_path(model, paths));
    if (function.all_sources) return all;
    // One source of each layer alone; that the others give the same numbers is the test of direct paths.
    at::Tensor some = all.clone();
    const std::int64_t head = model.config().n_heads - 1;
    for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer) {
      paths.source = HeadPlace{layer, head};
      some.select(1, layer).select(1, head).copy_(with_rows(direct_path(model, paths)));
    }
    return some;
  }

  /// What TransformerLens has where ours should be NaN, elsewhere NaN: in the padding the metric without a
  /// patch, 0 where a layer does not follow its source's and for missing key/value heads.
  at::Tensor instead_of_nan(const Function& function, const at::Tensor& like) const {
    at::Tensor instead = at::full_like(like, std::numeric_limits<double>::quiet_NaN());
    if (function.preset == nullptr) {
      for (std::int64_t source = 0; source < like.size(1); ++source)
        instead.select(1, source).narrow(2, 0, source + 1).fill_(0);
      return instead;
    }
    const PatchingPreset& preset = *function.preset;
    const bool several = preset.parts.size() > 1;
    const at::Tensor corrupted = unpatched();
    for (std::size_t i = 0; i < preset.over.size(); ++i) {
      const auto dimension = static_cast<std::int64_t>(i) + (several ? 1 : 0);  // after `row`
      const Axis axis = preset.over[i];
      if (axis == Axis::pos || axis == Axis::query || axis == Axis::key) {
        for (std::int64_t row = 0; row < rows(); ++row)
          instead[row].narrow(dimension, 0, padding(row)).fill_(corrupted[row]);
      } else if (axis == Axis::head && several) {
        const std::int64_t there = model.config().n_kv_heads;
        for (std::size_t part = 0; part < preset.parts.size(); ++part) {
          if (preset.parts[part].site != Site::k && preset.parts[part].site != Site::v) continue;
          instead.select(1, static_cast<std::int64_t>(part))
              .narrow(dimension, there, model.config().n_heads - there)
              .fill_(0);
        }
      }
    }
    return instead;
  }

  /// Each pair alone, without its padding.
  std::vector<PathPair> each_alone() const {
    std::vector<PathPair> all;
    for (std::int64_t row = 0; row < rows(); ++row) all.push_back(alone(row));
    return all;
  }
  Metric metric_alone(std::int64_t row) const {
    return logit_difference(recorded.at("answer").tensor()[row].item<std::int64_t>(),
                            recorded.at("against").tensor()[row].item<std::int64_t>());
  }

 private:
  PathPair alone(std::int64_t row) const {
    const auto unpadded = [&](const char* prompts) {
      const at::Tensor tokens = recorded.at(prompts).tensor().narrow(0, row, 1);
      return tokens.narrow(1, padding(row), tokens.size(1) - padding(row));
    };
    return {unpadded("corrupted"), model.run_with_cache(unpadded("clean"), act::everything).cache,
            model.run_with_cache(unpadded("corrupted"), act::everything).cache};
  }
  const at::Tensor& mask() const {
    static const at::Tensor kNone;
    const auto found = recorded.find("attention_mask");
    return found == recorded.end() ? kNone : found->second.tensor();
  }
  at::Tensor with_rows(const Grid& grid) const {
    return rows() > 1 ? grid.values() : grid.values().unsqueeze(0);
  }

 public:
  HookedTransformer model;
  RecordedTensors recorded;

 private:
  std::vector<std::int64_t> padding_;
  SweepOptions options_;
  mutable std::map<HeadInput, at::Tensor> paths_;  // from every head
};

/// The number of one cell by one run of its pair alone: a replaced block, or the algebra of a path.
double by_one_run(const Pairs& pairs, const PathPair& alone, const Function& function,
                  std::vector<std::int64_t> cell) {
  const std::int64_t row = cell.front();
  cell.erase(cell.begin());
  if (function.preset == nullptr) {
    const DirectPathOptions options{
        .input = function.input, .source = {}, .sweep = {.metric = pairs.metric_alone(row)}};
    return path_by_hand(pairs.model, alone, options, {cell[0], cell[1]}, {cell[2], cell[3]});
  }
  const PatchingPreset& preset = *function.preset;
  const std::size_t first = preset.parts.size() > 1 ? 1 : 0;
  for (std::size_t i = 0; i < preset.over.size(); ++i) {
    if (preset.over[i] != Axis::layer && preset.over[i] != Axis::head) cell[first + i] -= pairs.padding(row);
  }
  const Edit edit = replace(patched_at(preset, cell), alone.clean);
  return pairs.metric_alone(row).score(pairs.model, alone.tokens, {.edits = {edit}})[0].item<double>();
}

class PatchingGoldenFile : public testing::TestWithParam<File> {};

TEST_P(PatchingGoldenFile, EqualsWhatTransformerLensReturns) {
  const Pairs pairs(GetParam());
  for (const char* prompts : {"clean", "corrupted"}) {
    const auto metric = pairs.recorded.find(std::string(prompts) + "_metric");
    if (metric == pairs.recorded.end()) continue;
    const at::Tensor ours = pairs.metric().score(pairs.model, pairs.input(prompts));
    EXPECT_TRUE(agrees(metric->first, ours, metric->second, {.tolerance = kTolerance}));
  }
  for (const Function& function : functions()) {
    const auto recorded = pairs.recorded.find(function.name);
    if (recorded == pairs.recorded.end()) continue;  // the index says why
    SCOPED_TRACE(function.name);
    const at::Tensor ours = pairs.swept(function);
    ASSERT_EQ(ours.sizes(), recorded->second.sizes());
    const at::Tensor instead = pairs.instead_of_nan(function, ours);
    EXPECT_TRUE(ours.isnan().equal(~instead.isnan())) << "NaN stands elsewhere";
    EXPECT_TRUE(agrees(function.name, at::where(ours.isnan(), instead, ours), recorded->second,
                       {.tolerance = kTolerance}));
  }
}

TEST_P(PatchingGoldenFile, EqualsOneRunWhereTransformerLensFails) {
  const File& file = GetParam();
  const Pairs pairs(file);
  const at::Tensor unpatched = pairs.unpatched();
  const std::vector<PathPair> each = pairs.each_alone();
  for (const Function& function : functions()) {
    const Exception* exception = file.exception(function.name);
    if (exception == nullptr) continue;
    SCOPED_TRACE(function.name + ": " + exception->reason);
    if (function.preset != nullptr && !fits(*function.preset, pairs.model)) {
      EXPECT_EQ(exception->kind, "crash");
      EXPECT_THROW(pairs.swept(function), HookError);
      continue;
    }
    const at::Tensor ours = pairs.swept(function);
    EXPECT_TRUE(ours.isnan().equal(~pairs.instead_of_nan(function, ours).isnan())) << "NaN stands elsewhere";
    const at::Tensor cells = (~ours.isnan()).nonzero();  // [cell, axis]
    ASSERT_GT(cells.size(0), 0);
    const std::int64_t step = std::max<std::int64_t>(1, cells.size(0) / kSampled);
    double effect = 0;
    for (std::int64_t i = step / 2; i < cells.size(0); i += step) {
      const std::vector<std::int64_t> cell = id_list(cells[i].contiguous());
      at::Tensor made = ours;
      for (const std::int64_t place : cell) made = made[place];
      const double alone = by_one_run(pairs, each[static_cast<std::size_t>(cell.front())], function, cell);
      EXPECT_NEAR(made.item<double>(), alone, kTolerance) << cells[i];
      effect = std::max(effect, std::abs(alone - unpatched[cell.front()].item<double>()));
    }
    EXPECT_GT(effect, kEffect) << "no patch changed anything";
  }
}

INSTANTIATE_TEST_SUITE_P(All, PatchingGoldenFile, testing::ValuesIn(files()),
                         [](const auto& info) { return info.param.model() + "_" + info.param.name; });

TEST(PatchingGoldens, EveryFunctionIsRecordedOrSaysWhyNot) {
  std::set<std::string> known;
  for (const Function& function : functions()) known.insert(function.name);
  for (const File& file : files()) {
    testing::Message where;
    where << file.model() << ' ' << file.name;
    SCOPED_TRACE(where);
    const RecordedTensors recorded = file.read();
    std::size_t absent = 0;
    for (const std::string& function : known) {
      const Exception* exception = file.exception(function);
      EXPECT_NE(recorded.contains(function), exception != nullptr) << function;
      if (exception == nullptr) continue;
      ++absent;
      EXPECT_TRUE(exception->kind == "crash" || exception->kind == "wrong") << exception->kind;
      EXPECT_FALSE(exception->reason.empty());
    }
    // The scores without patches exist unless TransformerLens has these wrong, and therefore everything.
    std::set<std::string> expected{"clean", "corrupted", "answer", "against"};
    if (file.name.ends_with("padded")) expected.insert("attention_mask");
    if (absent < known.size()) expected.merge(std::set<std::string>{"clean_metric", "corrupted_metric"});
    std::set<std::string> others;
    for (const auto& [name, tensor] : recorded) {
      if (!known.contains(name)) others.insert(name);
    }
    EXPECT_EQ(others, expected);
  }
}

TEST(PatchingGoldens, TheIndexNamesWhatIsThere) {
  std::set<std::string> known, named{"index.json"}, there;
  for (const Function& function : functions()) known.insert(function.name);
  for (const File& file : files()) named.insert(file.model() + "/" + file.name + ".safetensors");
  for (const Exception& exception : exceptions()) {
    for (const std::string& file : exception.files)
      EXPECT_TRUE(named.contains(exception.model + "/" + file + ".safetensors"))
          << exception.model << ' ' << file;
    EXPECT_TRUE(std::ranges::includes(known, exception.functions)) << exception.model;
  }
  const auto folder = analysis_folder("patching");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) there.insert(entry.path().lexically_relative(folder).generic_string());
  }
  EXPECT_EQ(there, named);
}

}  // namespace
}  // namespace hooked::patching_golden_test
