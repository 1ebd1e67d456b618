#include <algorithm>

#include "tests/combinations/combination.h"
#include "tests/combinations/oracle.h"
#include "tests/combinations/points.h"

namespace hooked::combinations {
namespace {

class Shrinking {
 public:
  explicit Shrinking(const Combination& from) : from_(from) {}

  std::vector<Combination> simpler() {
    options();
    less();
    changes();
    rows();
    reads();
    sweep();
    return std::move(simpler_);
  }

 private:
  /// The number of heads that every layer of a Where has; many if it has none.
  static std::int64_t heads_of(const Where& where, const ModelConfig& config) {
    std::int64_t least = 1000;
    for (const std::int64_t layer : layers_of(where, config)) {
      const Site site = name_in(where, layer).site;
      if (const auto dim = dimension_of(site, Index::head))
        least = std::min(least, size_of(row(site).axes[*dim], config, layer));
    }
    return least;
  }

  /// Whether the parts fit each other as they do when they are drawn.
  static bool consistent(const Combination& c) {
    const auto fits = [](const Places& places, std::int64_t size) {
      const auto inside = [size](std::int64_t number) { return number >= -size && number < size; };
      return std::ranges::all_of(places.numbers, inside) &&
             (places.form != Places::Form::range || !resolved(places, size).empty());
    };
    const ModelConfig config = config_of(c);
    const bool grows = c.consumer == Consumer::generation;
    const auto where_fits = [&](const Where& where, std::int64_t columns) {
      return fits(where.head, heads_of(where, config)) && fits(where.row, c.rows()) &&
             fits(where.pos, columns) && fits(where.key, columns);
    };
    const auto change_fits = [&](const Change& change) {
      return where_fits(change.where, c.columns()) && fits(change.kept, c.columns());
    };
    const auto read_fits = [&](const Where& read) {
      return where_fits(read, c.columns() + (grows ? c.generation.tokens : 0));
    };
    const auto& data = c.sweep.source.data_lengths;
    const bool needs_a_read = c.consumer == Consumer::gradients || c.consumer == Consumer::attribution ||
                              c.consumer == Consumer::lens || c.consumer == Consumer::head_scores;
    return !(needs_a_read && c.reads.empty()) && (data.empty() || std::ranges::max(data) == c.columns()) &&
           (grows || fits(c.less.kept, c.columns())) && std::ranges::all_of(c.reads, read_fits) &&
           std::ranges::all_of(c.changes, change_fits);
  }

  template <class F>
  void with(F change) {
    Combination made = from_;
    change(made);
    if (made == from_ || !consistent(made)) return;
    simpler_.push_back(std::move(made));
  }

  void options() {
    with([](Combination& c) { c.options.clear(); });
    for (const auto& [option, value] : from_.options) {
      with([option = option](Combination& c) { c.options.erase(option); });
    }
    with([](Combination& c) { c.processed = false; });
  }

  void less() {
    with([](Combination& c) { c.less = {}; });
    with([](Combination& c) {
      c.less.split = Split::none;
      c.less.first_columns.clear();
      c.less.at = 0;
    });
    with([](Combination& c) { c.less.start.reset(); });
    with([](Combination& c) { c.less.stop.reset(); });
    with([](Combination& c) { c.less.kept = {}; });
    with([](Combination& c) { c.less.asked = {}; });
    with([](Combination& c) { c.less.kept_on_device = false; });
  }

  static void simpler_where(Where& where, int step) {
    if (step == 0) where.row = {};
    if (step == 1) where.pos = {};
    if (step == 2) where.head = {};
    if (step == 3) where.key = {};
    if (step == 4 && where.in_block && !where.layer) where.layer = 0;
  }

  template <class List>
  void fewer_changes(List list) {
    for (std::size_t i = 0; i < list(const_cast<Combination&>(from_)).size(); ++i) {
      with([&](Combination& c) { list(c).erase(list(c).begin() + static_cast<std::ptrdiff_t>(i)); });
      for (int step = 0; step < 5; ++step) {
        with([&](Combination& c) { simpler_where(list(c)[i].where, step); });
      }
      with([&](Combination& c) { list(c)[i].kept = {}; });
    }
  }

  void changes() {
    fewer_changes([](Combination & c) -> auto& { return c.changes; });
    fewer_changes([](Combination & c) -> auto& { return c.generation.prompt_changes; });
    fewer_changes([](Combination & c) -> auto& { return c.generation.new_token_changes; });
  }

  void rows() {
    for (std::size_t row = 0; from_.lengths.size() > 1 && row < from_.lengths.size(); ++row) {
      with([&](Combination& c) {
        c.lengths.erase(c.lengths.begin() + static_cast<std::ptrdiff_t>(row));
        if (!c.less.first_columns.empty())
          c.less.first_columns.erase(c.less.first_columns.begin() + static_cast<std::ptrdiff_t>(row));
      });
    }
    with([](Combination& c) { std::ranges::fill(c.lengths, c.columns()); });
    with([](Combination& c) { c.same_clean = false; });
    with([](Combination& c) { c.generation.tokens = 1; });
  }

  void reads() {
    for (std::size_t i = 0; i < from_.reads.size(); ++i) {
      with([&](Combination& c) { c.reads.erase(c.reads.begin() + static_cast<std::ptrdiff_t>(i)); });
      for (int step = 0; step < 5; ++step) {
        with([&](Combination& c) { simpler_where(c.reads[i], step); });
      }
    }
  }

  void sweep() {
    for (std::size_t axis = 0; axis < from_.sweep.over.size(); ++axis) {
      with([&](Combination& c) {
        if (c.sweep.over[axis].axis != "layer")
          c.sweep.over.erase(c.sweep.over.begin() + static_cast<std::ptrdiff_t>(axis));
      });
      with([&](Combination& c) { c.sweep.over[axis].from.clear(); });
      with([&](Combination& c) { c.sweep.over[axis].named_from.reset(); });
      with([&](Combination& c) { c.sweep.over[axis] = {.axis = c.sweep.over[axis].axis}; });
    }
    if (!from_.sweep.path.ends_with("hook_scale")) {
      with([](Combination& c) { c.sweep.source = {.kind = Source::Kind::zero}; });
    }
    with([](Combination& c) { c.sweep.source.share_of_zero.reset(); });
    with([](Combination& c) { c.sweep.score = {}; });
    with([](Combination& c) { c.sweep.score.by_row = false; });
    with([](Combination& c) { c.sweep.tokens_per_run = 1024; });
    with([](Combination& c) { c.sweep.resumed_after.reset(); });
    with([](Combination& c) { c.sweep.estimate.query_key = false; });
    with([](Combination& c) { c.sweep.estimate.drop_layers = false; });
    with([](Combination& c) { c.sweep.estimate.steps = 0; });
  }

  const Combination& from_;
  std::vector<Combination> simpler_;
};

}  // namespace

std::vector<Combination> shrunk(const Combination& combination) { return Shrinking(combination).simpler(); }

}  // namespace hooked::combinations
