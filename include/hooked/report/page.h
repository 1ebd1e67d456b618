#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/features.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/engine/input.h"
#include "hooked/harvest/reductions.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/address.h"
#include "hooked/io/overwrite.h"

namespace HOOKED_EXPORT hooked {

/// How the numbers of a section are made again. Each may be empty.
struct SectionCode {
  std::string shell = {};   ///< a command line
  std::string cpp = {};     ///< C++
  std::string python = {};  ///< Python
};

/// A heading of a page and what it says.
struct PageSection {
  std::string title;       ///< the heading
  std::string about = {};  ///< a sentence or two under it
  SectionCode code = {};   ///< shown on request
};

/// What a page is called. For designated initialisers.
struct PageOptions {
  std::string title = {};       ///< empty: the name of the model
  std::string model_name = {};  ///< what the model is called; empty: as it was given to load()
};

/// A page about one prompt that opens from disk: one HTML file that loads nothing, with figures that answer
/// to pointer and keyboard, light and dark, and with its numbers as JSON inside.
///
///     Page page(model, run.cache, {.title = "Heads"});
///     page.begin({.title = "Attention"});
///     page.add_attention(run.cache);
///     page.save("heads.html");
///
/// Figures belong to the section that began last. The run has one row; its padding is left out.
class Page {
 public:
  /// A page about a run, whose cache need not hold any activation. Throws HookError for a cache that does not
  /// know its tokens (of a run from a residual, or after a prefix), ShapeError for several rows.
  Page(const HookedTransformer& model, const ActivationCache& cache, const PageOptions& options = {});
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  Page(Page&&) noexcept = default;
  Page& operator=(Page&&) noexcept = default;
  ~Page() = default;

  /// Begins a section.
  void begin(const PageSection& section);
  /// A sentence in the page's head, of what a reader should know.
  void add_note(const std::string& note);

  /// A sentence.
  void add_text(const std::string& text);
  /// Tokens coloured by numbers: `values` [pos], or [row, pos] where the reader chooses the row. Throws
  /// ShapeError for another number of positions.
  void add_tokens(const Grid& values);
  /// What comes next after each token: the `top_k` likeliest, from logits [1, pos, vocab] of all positions.
  /// Throws ShapeError for others.
  void add_next(const at::Tensor& logits, std::int64_t top_k = 10);
  /// A lens: the likeliest tokens by point and position, and by part if it is one of parts.
  void add_lens(const LogitLens& lens);
  /// Attention of all heads whose patterns the cache has. Prompts of more than 256 tokens keep the strongest
  /// 32 keys of each query (fewer if the file would be larger than 40 MB), and means of blocks. Throws
  /// HookError for a cache without patterns.
  void add_attention(const ActivationCache& cache);
  /// The same of runs of their own, of a few layers at a time, so that all patterns of a long prompt need not
  /// fit into memory. `input` is what the page is about.
  void add_attention(const Input& input);
  /// A grid as a heat map that shows the number of each cell.
  void add_heat_map(const Grid& grid);
  /// A grid of one or two axes as bars (bar_plot_svg).
  void add_bars(const Grid& grid);
  /// A picture: SVG that hooked made, such as node_link_svg(). Throws ConfigError for other texts.
  void add_picture(const std::string& svg);
  /// Features of a dictionary of the model: the prompt coloured by each, and the `top_k` tokens that it
  /// raises and lowers most. `features` is the point act::sae_acts_post, which the cache must have. With
  /// `examples`, what a harvest found of each. Throws as firing_features() and feature_logits(), and
  /// HookError for examples of another model or dictionary.
  void add_features(const ActivationCache& cache, const Address& features, const FiringOptions& which = {},
                    std::int64_t top_k = 5, const FeatureExamples& examples = {});

  /// The headings of its sections.
  std::vector<std::string> sections() const;
  /// The whole HTML document.
  std::string html() const;
  /// Writes `file`, a name ending in `.html`, all of it or nothing. Throws IoError, also for an existing file
  /// that `overwrite` does not allow to replace.
  void save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours) const;
  /// Throws what saving a page as `file` would throw about the file: for a check before long work.
  static void require_can_save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours);

 private:
  struct Content;

  std::shared_ptr<Content> content_;
};

}  // namespace hooked
