// hooked info of a dictionary: what it computes, where it belongs, and what its files leave open.
#include "cli/dictionary_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json_output.h"
#include "cli/output.h"
#include "core/json.h"
#include "core/size_text.h"
#include "hooked/core/tensor_text.h"
#include "hooked/dictionaries/dictionary_set.h"

namespace hooked::cli {
namespace {

std::string_view norm_name(InputNorm norm) {
  switch (norm) {
    case InputNorm::layer_norm:
      return "layer_norm";
    case InputNorm::constant_norm:
      return "constant_norm";
    case InputNorm::expected_average:
      return "expected_average";
    case InputNorm::whitening:
      return "whitening";
    case InputNorm::none:
      break;
  }
  return "none";
}

std::string_view decoder_norms_name(DecoderNorms norms) {
  switch (norms) {
    case DecoderNorms::chosen:
      return "chosen";
    case DecoderNorms::scaled:
      return "scaled";
    case DecoderNorms::ignored:
      break;
  }
  return "ignored";
}

std::string basis_text(const DictionaryBasis& basis) {
  std::vector<std::string_view> steps;
  if (basis.folded_norms) steps.emplace_back("weights of norms folded");
  if (basis.centred_writes) steps.emplace_back("what is written to the stream centred");
  if (basis.centred_unembedding) steps.emplace_back("unembedding centred");
  if (basis.folded_value_biases) steps.emplace_back("value biases folded");
  return steps.empty() ? "the model's weights as stored" : fmt::format("{}", fmt::join(steps, ", "));
}

std::string excluded_text(const ExcludedTokens& excluded) {
  if (excluded.special) return "special tokens";
  return excluded.ids.empty() ? "none" : fmt::format("ids {}", fmt::join(excluded.ids, ", "));
}

std::string input_text(const DictionaryConfig& c) {
  const bool normed = c.input_norm == InputNorm::layer_norm || c.input_norm == InputNorm::constant_norm;
  std::string text = normed ? fmt::format("after {}", norm_name(c.input_norm)) : "as it is";
  if (c.subtracts_decoder_bias) text += ", minus b_dec";
  if (c.flattens_heads) text += ", heads side by side";
  return text;
}

std::string site_text(const DictionaryConfig& c) {
  if (c.input.empty()) return "not known";
  return c.output == c.input ? c.input : fmt::format("{} to {}", c.input, c.output);
}

void print_one(const DictionaryConfig& c) {
  std::vector<Field> fields = {
      {"architecture", architecture_text(c)},
      {"features", grouped(c.features)},
      {"width",
       c.d_out == c.d_in ? grouped(c.d_in) : fmt::format("{} to {}", grouped(c.d_in), grouped(c.d_out))},
      {"computes in", std::string(dtype_text(c.dtype))},
      {"site", site_text(c)},
      {"input", input_text(c)},
      {"fitted on", c.model_name.empty() ? "a model that is not named" : c.model_name},
      {"weights", basis_text(c.basis)},
      {"left out", excluded_text(c.excluded)}};
  if (c.decoder_norms != DecoderNorms::ignored) {
    fields.push_back({"decoder norms", c.decoder_norms == DecoderNorms::scaled
                                           ? "codes are multiplied by them"
                                           : "features are chosen by code times norm"});
  }
  if (c.head) fields.push_back({"head", std::to_string(*c.head)});
  print_fields(fields);
}

void print_lines(std::string_view title, std::vector<std::string> lines) {
  std::vector<std::string> once;
  for (std::string& line : lines) {
    if (std::ranges::find(once, line) == once.end()) once.push_back(std::move(line));
  }
  if (once.empty()) return;
  fmt::print("\n{}\n", title);
  for (const std::string& line : once) fmt::print("  {}\n", line);
}

void print_members(const std::vector<DictionaryConfig>& members) {
  Table table({{"layer", Align::right}, {"site"}, {"features", Align::right}, {"architecture"}});
  for (const DictionaryConfig& c : members)
    table.add(
        {c.layer ? std::to_string(*c.layer) : "?", site_text(c), grouped(c.features), architecture_text(c)});
  fmt::print("\n");
  table.print("  ");
}

Json member_json(const DictionaryConfig& c) {
  return {{"architecture", architecture_text(c)},
          {"activation", code_activation_name(c.activation)},
          {"transcodes", c.transcodes},
          {"skips", c.skips},
          {"crosses_layers", c.crosses_layers},
          {"rectified", c.rectified},
          {"k", c.k > 0 ? Json(c.k) : Json(nullptr)},
          {"decoder_norms", decoder_norms_name(c.decoder_norms)},
          {"d_in", c.d_in},
          {"d_out", c.d_out},
          {"features", c.features},
          {"dtype", dtype_text(c.dtype)},
          {"input", or_null(c.input)},
          {"output", or_null(c.output)},
          {"layer", or_null(c.layer)},
          {"head", or_null(c.head)},
          {"input_norm", norm_name(c.input_norm)},
          {"subtracts_decoder_bias", c.subtracts_decoder_bias},
          {"flattens_heads", c.flattens_heads},
          {"model_name", or_null(c.model_name)},
          {"basis",
           {{"folded_norms", c.basis.folded_norms},
            {"centred_writes", c.basis.centred_writes},
            {"centred_unembedding", c.basis.centred_unembedding},
            {"folded_value_biases", c.basis.folded_value_biases}}},
          {"excluded", {{"special", c.excluded.special}, {"ids", c.excluded.ids}}},
          {"notes", c.notes},
          {"ignored_keys", c.ignored_keys},
          {"metadata", parse_json(c.metadata, {})}};
}

}  // namespace

void print_dictionary_info(const std::string& path, bool json) {
  const DictionaryDescription described = describe_dictionary(path);
  const auto& members = described.members;
  if (json) {
    Json all = Json::array();
    for (const DictionaryConfig& member : members) all.push_back(member_json(member));
    print_json({{"dictionary", path},
                {"format", members.front().format},
                {"parameters", described.parameters},
                {"stored_bytes", described.stored_bytes},
                {"scan", or_null(described.scan)},
                {"notes", described.notes},
                {"members", std::move(all)}});
    return;
  }
  fmt::print(
      "{}: {}, format {}, {} parameters, {} in the files\n\n", path,
      members.size() == 1 ? std::string("a dictionary") : fmt::format("{} dictionaries", members.size()),
      members.front().format, grouped(described.parameters), size_text(described.stored_bytes));
  if (members.size() > 1) fmt::print("the first of them\n");
  print_one(members.front());
  if (members.size() > 1) print_members(members);
  std::vector<std::string> notes = described.notes, ignored;
  for (const DictionaryConfig& member : members) {
    notes.insert(notes.end(), member.notes.begin(), member.notes.end());
    ignored.insert(ignored.end(), member.ignored_keys.begin(), member.ignored_keys.end());
  }
  print_lines("notes", std::move(notes));
  print_lines("config keys that nothing reads", std::move(ignored));
}

}  // namespace hooked::cli
