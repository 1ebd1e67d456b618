#include "hooked/report/page.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/figures/svg.h"
#include "analysis/graphs/graph_targets.h"
#include "core/json.h"
#include "core/json_number.h"
#include "core/replaced.h"
#include "hooked/analysis/bar_plot.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/files/file_start.h"
#include "io/files/replaceable.h"
#include "report/page_content.h"
#include "report/page_files.h"

namespace hooked {
namespace {

constexpr std::string_view kStart = "<!doctype html>\n<!-- a page of hooked -->\n";

/// The words of the head about a model: `2 layers of 4 heads`, `float32`.
Json words_of(const HookedTransformer& model) {
  const ModelConfig& config = model.config();
  Json words = Json::array();
  words.push_back(fmt::format("{} layers of {} heads", config.n_layers, config.n_heads));
  words.push_back(fmt::format("width {}", config.d_model));
  const Provenance provenance = model.provenance();
  if (!provenance.dtype.empty()) words.push_back(provenance.dtype);
  std::string steps;
  for (const auto& [step, outcome] : provenance.processing) {
    if (outcome == "applied") steps += (steps.empty() ? "" : ", ") + step;
  }
  words.push_back(steps.empty() ? "weights as in the checkpoint" : "weights processed: " + steps);
  return words;
}

/// A JSON text as the content of a script element, which no text in it can end.
std::string in_script(std::string_view text) { return replaced(text, {{'<', "\\u003c"}}); }

std::string in_html(std::string_view text) { return replaced(text, {{'<', "&lt;"}, {'&', "&amp;"}}); }

bool is_own_page(const std::filesystem::path& file) { return file_starts_with(file, kStart); }

}  // namespace

Page::Content::Content(const HookedTransformer& of, const ActivationCache& cache, const PageOptions& options)
    : model(of), title(options.title) {
  if (!cache.tokens() || !cache.tokens()->ids.defined() || cache.tokens()->first != 0)
    throw HookError(
        kPage, "this cache does not know its tokens; expected that of a run of tokens from their beginning");
  const TokenColumns& tokens = *cache.tokens();
  const at::Tensor all = tokens.ids.to(at::kCPU);
  if (all.size(0) != 1)
    throw ShapeError(
        kPage, fmt::format("the run has {} rows; expected one, which is what a page is about", all.size(0)));
  for (std::int64_t column = 0; column < tokens.end; ++column) {
    if (tokens.is_padding(0, column)) continue;
    columns.push_back(column);
    ids.push_back(all[0][column].item<std::int64_t>());
    name_token(ids.back());
  }
  const auto identity = of.identity();
  std::string name = options.model_name.empty() ? identity->name : options.model_name;
  if (name.empty()) name = "model " + identity->fingerprint.substr(0, 8);
  if (title.empty()) title = name;
  about_model = {{"name", name}, {"fingerprint", identity->fingerprint}, {"words", words_of(of)}};
}

void Page::Content::name_token(std::int64_t id) {
  const std::string key = std::to_string(id);
  if (pieces.contains(key)) return;
  pieces[key] = token_texts(model, at::tensor({id}, at::kLong)).front();
}

Json Page::Content::predictions(const at::Tensor& ids_found, const at::Tensor& probabilities) {
  Json list = Json::array();
  for (std::int64_t k = 0; k < ids_found.size(0); ++k) {
    const auto id = ids_found[k].item<std::int64_t>();
    name_token(id);
    list.push_back({id, rounded(probabilities[k].item<double>())});
  }
  return list;
}

Json& Page::Content::parts() {
  if (sections.empty()) sections.push_back({{"id", "section-0"}, {"title", title}, {"parts", Json::array()}});
  return sections.back()["parts"];
}

Json rounded(double value) {
  // Five digits are more than one can see; the files that hold the numbers have all of them.
  if (!std::isfinite(value)) return number_json(value);
  return Json(std::stod(fmt::format("{:.5g}", value)));
}

Page::Page(const HookedTransformer& model, const ActivationCache& cache, const PageOptions& options)
    : content_(std::make_shared<Content>(model, cache, options)) {}

void Page::begin(const PageSection& section) {
  Json code = Json::object();
  for (const auto& [key, text] :
       {std::pair{"shell", section.code.shell}, {"cpp", section.code.cpp}, {"python", section.code.python}}) {
    if (!text.empty()) code[key] = text;
  }
  content_->sections.push_back({{"id", fmt::format("section-{}", content_->sections.size())},
                                {"title", section.title},
                                {"about", section.about},
                                {"code", code},
                                {"parts", Json::array()}});
}

void Page::add_note(const std::string& note) { content_->notes.push_back(note); }

void Page::add_text(const std::string& text) {
  content_->parts().push_back({{"kind", "text"}, {"text", text}});
}

void Page::add_picture(const std::string& svg) {
  if (!svg.starts_with(kPictureStart))
    throw ConfigError(kPage, "this is not a picture that hooked made; expected the text of a *_svg function");
  content_->parts().push_back({{"kind", "svg"}, {"svg", svg}});
}

void Page::add_bars(const Grid& grid) { add_picture(bar_plot_svg(grid)); }

std::vector<std::string> Page::sections() const {
  std::vector<std::string> titles;
  for (const Json& section : content_->sections) titles.push_back(section["title"].get<std::string>());
  return titles;
}

std::string Page::html() const {
  Json data{{"format", "hooked report 1"},
            {"title", content_->title},
            {"model", content_->about_model},
            {"notes", content_->notes},
            {"pieces", content_->pieces},
            {"tokens", content_->ids},
            {"first_column", content_->columns.empty() ? 0 : content_->columns.front()},
            {"sections", content_->sections}};
  std::string page(kStart);
  page +=
      "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  page += in_html(content_->title) + "</title>\n<style>\n";
  page += page_style();
  page +=
      "</style></head>\n<body>\n<noscript>The figures of this page are drawn by the script in it; allow it "
      "to "
      "run.</noscript>\n<main id=\"page\"></main>\n<script type=\"application/json\" id=\"data\">";
  page += in_script(json_text(data)) + "</script>\n<script>\n";
  page += page_script();
  page += "</script>\n</body></html>\n";
  return page;
}

void Page::require_can_save(const std::filesystem::path& file, Overwrite overwrite) {
  require_replaceable(file, {.name = "a page", .endings = {".html"}, .is_ours = is_own_page}, overwrite);
}

void Page::save(const std::filesystem::path& file, Overwrite overwrite) const {
  require_can_save(file, overwrite);
  write_file(file, html());
}

}  // namespace hooked
