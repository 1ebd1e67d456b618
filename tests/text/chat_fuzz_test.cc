// The fuzz target's property over the templates of the golden files, cut and changed.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/io/file.h"
#include "tests/fuzz/chat_template_property.h"

namespace hooked::text::chat_fuzz_test {
namespace {

const std::filesystem::path kFiles = std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/text/chat";

std::vector<std::string> corpus() {
  std::vector<std::string> templates;
  for (const auto& entry : std::filesystem::directory_iterator(kFiles / "templates"))
    templates.push_back(read_text_file(entry.path(), 1 << 20));
  const auto snippets = parse_json(read_text_file(kFiles / "snippets.json", 1 << 24), {.bytes = 1 << 24});
  for (const auto& snippet : snippets["snippets"])
    templates.push_back(snippet["template"].get<std::string>());
  return templates;
}

TEST(ChatFuzz, TheCorpusIsRenderedOrRefused) {
  std::size_t rendered = 0;
  for (const auto& text : corpus()) {
    ASSERT_NO_THROW(rendered += chat_template_property(text) ? 1 : 0) << text;
  }
  EXPECT_GT(rendered, 200U);
}

TEST(ChatFuzz, CutAtEveryLength) {
  const auto text = read_text_file(kFiles / "templates/hermes_tools.jinja", 1 << 20);
  for (std::size_t length = 0; length < text.size(); ++length) {
    ASSERT_NO_THROW(chat_template_property(std::string_view(text).substr(0, length))) << length;
  }
}

TEST(ChatFuzz, RandomEdits) {
  std::mt19937 random(3);
  const auto templates = corpus();
  const std::vector<std::string> parts = {"{{",
                                          "}}",
                                          "{%",
                                          "%}",
                                          "{#",
                                          "#}",
                                          "-",
                                          "+",
                                          "~",
                                          "|",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          ".",
                                          ",",
                                          ":",
                                          "'",
                                          "\"",
                                          "\\",
                                          "\n",
                                          "0",
                                          "9e9",
                                          " in ",
                                          " is ",
                                          " not ",
                                          " if ",
                                          " else ",
                                          "loop",
                                          "\xE2\x82",
                                          "\u00e9",
                                          "{% endfor %}",
                                          "{% endif %}",
                                          "{% set x = messages %}",
                                          "*",
                                          "**",
                                          "%"};
  std::size_t rendered = 0;
  constexpr int kRuns = 6000;
  for (int run = 0; run < kRuns; ++run) {
    std::string text = templates[random() % templates.size()];
    for (auto edits = random() % 3 + 1; edits > 0; --edits) {
      const auto at = random() % (text.size() + 1);
      switch (random() % 3) {
        case 0:
          text.insert(at, parts[random() % parts.size()]);
          break;
        case 1:
          text.erase(at, random() % 6);
          break;
        default: {
          const auto& other = templates[random() % templates.size()];
          text.insert(at, other.substr(random() % (other.size() + 1), random() % 60));
        }
      }
    }
    ASSERT_NO_THROW(rendered += chat_template_property(text) ? 1 : 0) << text;
  }
  EXPECT_GT(rendered, static_cast<std::size_t>(kRuns) / 50);
  EXPECT_LT(rendered, static_cast<std::size_t>(kRuns));
}

}  // namespace
}  // namespace hooked::text::chat_fuzz_test
