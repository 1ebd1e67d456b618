// The interpreter of chat templates against Jinja in transformers' environment, one construct at a time
// (tests/golden/makers/chat_snippets.py), and what it refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "tests/support/processor_time.h"
#include "tests/text/golden_time.h"
#include "text/jinja/template.h"

namespace hooked::text::jinja_test {
namespace {

using Variables = std::vector<std::pair<std::string, Json>>;

std::string render(std::string_view text, const Variables& variables = {}, const jinja::Limits& limits = {}) {
  return jinja::Template(text, "t", limits).render(variables, golden_time());
}

// The message of the error that rendering throws; empty if it throws none.
std::string refusal(std::string_view text, const Variables& variables = {},
                    const jinja::Limits& limits = {}) {
  try {
    render(text, variables, limits);
  } catch (const TokenizerError& error) {
    return error.what();
  }
  return {};
}

Json golden() {
  const auto file = std::string(HOOKED_SOURCE_DIR) + "/tests/text/chat/snippets.json";
  return parse_json(read_text_file(file, 1 << 24), {.bytes = 1 << 24});
}

// Templates that Jinja renders and we refuse as unsupported.
const std::set<std::string> kNotRead = {
    "{{ users[0] | attr('name') }}",
    "{{ lipsum() }}",
    "{{ namespace() }}",
    "{{ range }}",
    "{{ text.upper }}",
    "{{ dict.items }}",
    "{{ self }}",
    "{{ '%c' % 'x' }}",
};

// Expected: Python.
TEST(Jinja, AStretchOfARangeIsARange) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"range(0)[:]", "range(0, 0)"},
      {"range(10)[2:5]", "range(2, 5)"},
      {"range(10)[::-1]", "range(9, -1, -1)"},
      {"range(2, 20, 3)[1:4:2]", "range(5, 14, 6)"},
      {"range(3)[::100]", "range(0, 3, 100)"},
      {"range(5)[7:]", "range(5, 5)"},
      {"range(5, 0, -1)[1:-1]", "range(4, 1, -1)"},
      {"range(2, 20, 3)[1:4:2] | list", "[5, 11]"},
      {"[1, 2, 3][::100]", "[1]"}};
  for (const auto& [expression, expected] : cases)
    EXPECT_EQ(render("{{ " + expression + " }}"), expected) << expression;
  EXPECT_NE(refusal("{{ range(0, 9, 4)[::4611686018427387904] }}").find("beyond 64 bits"), std::string::npos);
}

TEST(Jinja, GivesWhatJinjaGives) {
  const auto document = golden();
  Variables variables;
  for (const auto& [name, value] : document["variables"].items()) variables.emplace_back(name, value);
  std::set<std::string> not_read;
  std::size_t compared = 0;
  for (const auto& snippet : document["snippets"]) {
    const auto text = snippet["template"].get<std::string>();
    std::string rendered, message;
    try {
      rendered = render(text, variables);
    } catch (const TokenizerError& error) {
      message = error.what();
    }
    if (snippet.contains("text")) {
      if (message.find("is not read here") != std::string::npos) {
        not_read.insert(text);
        continue;
      }
      EXPECT_EQ(message, "") << text;
      EXPECT_EQ(rendered, snippet["text"].get<std::string>()) << text;
      ++compared;
    } else {
      EXPECT_NE(message, "") << text << " gives " << rendered << " and fails in Jinja: " << snippet.dump();
      const auto raised = snippet.value("raised", std::string());
      EXPECT_NE(message.find(raised), std::string::npos) << message;
    }
  }
  EXPECT_EQ(not_read, kNotRead);
  EXPECT_GT(compared, 400U);
}

// What no published template uses is refused by its name, not taken for something unknown.
TEST(Jinja, WhatTemplatesDoNotUseIsRefused) {
  std::vector<std::pair<std::string, std::string>> refused;
  const auto add = [&](const std::string& form, const std::vector<std::string>& names) {
    for (const auto& name : names) refused.emplace_back(fmt::format(fmt::runtime(form), name), name);
  };
  add("{{{{ 'a' | {} }}}}",
      {"abs", "batch(2)", "center", "max", "min", "round", "slice(2)", "sum", "truncate", "wordcount"});
  add("{{{{ 'a' is {} }}}}", {"divisibleby", "filter", "lower", "sameas", "test", "upper"});
  add("{{{{ 'a'.{}() }}}}", {"center",    "count",      "find",         "index",        "isalnum", "isalpha",
                             "isdecimal", "isdigit",    "islower",      "isnumeric",    "isspace", "isupper",
                             "ljust",     "partition",  "removeprefix", "removesuffix", "rfind",   "rindex",
                             "rjust",     "rpartition", "swapcase",     "zfill"});
  add("{{{{ [1].{}() }}}}", {"copy", "count", "index"});
  add("{{% for x in [1] %}}{{{{ loop.{} }}}}{{% endfor %}}", {"changed(x)", "cycle(1)", "depth", "depth0"});
  add("{{% {} 1 %}}", {"print", "with"});
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"{% for x in [1] recursive %}{% endfor %}", "a recursive for"},
           {"{{ 2 ** 3 }}", "the operator '**'"},
           {"{{ '%5.1f' % 2.5 }}", "'%5' in a format"},
           {"{{ '%(a)s' % {'a': 1} }}", "'%(' in a format"},
           {"{{ '%s' | format(a=1) }}", "format with values by name"},
           {"{{ '{:>5}'.format(1) }}", "this layout of a format"},
           {"{{ '{a.b}'.format(a=1) }}", "this place of a format"},
           {"{{ 'a b'.rsplit() }}", "rsplit without a separator"},
           {"{{ [{'a': 1}] | sort(attribute='a,b') }}", "sort by several attributes"},
           {"{{ 'ab'.startswith('b', 1) }}", "startswith and endswith with bounds"},
           {"{{ 'a'.splitlines(true) }}", "splitlines that keeps the ends"},
           {"{{ '\\101' }}", "this escape in a text"}}) {
    refused.emplace_back(text, what);
  }
  for (const auto& [text, what] : refused) {
    const auto message = refusal(text);
    EXPECT_NE(message.find("is not read here"), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find(what.substr(0, what.find('('))), std::string::npos) << text << ": " << message;
  }
}

TEST(Jinja, ErrorsSayLineAndColumn) {
  EXPECT_EQ(refusal("ab\n{{ 1 }} {% include 'x' %}").substr(0, 37), "[t:2:12] the statement 'include' is n");
  EXPECT_NE(refusal("\u00e9\u00e9 {{ raise_exception('no') }}")
                .find("[t:1:7] the chat template refuses these messages: no"),
            std::string::npos)
      << refusal("\u00e9\u00e9 {{ raise_exception('no') }}");
  EXPECT_EQ(refusal("a\r\nb\r{{ x.y }}").substr(0, 8), "[t:3:6] ") << refusal("a\r\nb\r{{ x.y }}");
  EXPECT_EQ(refusal("{{ 'a' | urlencode }}").substr(0, 32), "[t:1:10] the filter 'urlencode' ");
  EXPECT_NE(refusal("{{ x.y }}").find("'x' is undefined"), std::string::npos);
  EXPECT_NE(refusal("{% if a %}").find("expected {% elif %}"), std::string::npos) << refusal("{% if a %}");
  EXPECT_EQ(refusal("{{ 'a' | urlencode if false else 1 }}"), "");  // only what is reached is refused
}

TEST(Jinja, TextsThatAreNotUtf8AreRefused) {
  EXPECT_NE(refusal("a\xff").find("not UTF-8 at byte 1"), std::string::npos);
  EXPECT_NE(refusal("{{ '\\ud800' }}").find("not a character"), std::string::npos);
}

// Each of these would take all available time or memory.
struct Hostile {
  const char* what;
  std::string text;
  const char* message;
};

std::string times(int count, const std::string& text) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::vector<Hostile> hostile_templates() {
  const std::string loop = "{% for a in range(100000) %}";
  return {
      {"endless range", "{% for i in range(1000000000000) %}x{% endfor %}", "expected at most 100000"},
      {"range around the integers", "{{ range(-9223372036854775807, 9223372036854775807) }}",
       "expected at most 100000"},
      {"nested loops", times(3, loop) + times(3, "{% endfor %}"), "too many steps"},
      {"endless recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deep"},
      {"recursion in an argument", "{% macro m(x=m()) %}{% endmacro %}{{ m() }}", "nested too deep"},
      {"caller of itself", "{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}",
       "nested too deep"},
      {"long text", "{{ ('a' * 1000000000000)|length }}", "too many values"},
      {"long list", "{{ ([0] * 1000000000000)|length }}", "too many values"},
      {"doubling text",
       "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(64) %}{% set n.x = n.x + n.x %}{% endfor %}",
       "too many values"},
      {"doubling list",
       "{% set n = namespace(x=[1]) %}{% for i in range(64) %}{% set n.x = n.x + n.x %}{% endfor %}",
       "too many values"},
      {"doubling replacement",
       "{% set n = namespace(x='aa') %}{% for i in range(64) %}{% set n.x = n.x|replace('a', 'aa') %}{% "
       "endfor %}",
       "too many values"},
      {"doubling format",
       "{% set n = namespace(x='a') %}{% for i in range(64) %}{% set n.x = '%s%s' % (n.x, n.x) %}{% endfor "
       "%}",
       "too many values"},
      {"wide format", "{{ '%1000000000d' % 1 }}", "is not read here"},
      {"wide brace format", "{{ '{:>1000000000}'.format(1) }}", "is not read here"},
      {"wide indent", "{{ 'a\nb'|indent(1000000000000) }}", "too many values"},
      {"large product", "{{ 9223372036854775807 * 2 }}", "too large"},
      {"large literal", "{{ 99999999999999999999 }}", "out of range"},
      {"much text", "{% set x = 'a' * 1000000 %}{% for i in range(1000) %}{{ x }}{% endfor %}",
       "writes too much"},
      {"much text in macros",
       "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}aaaaaaaa{% endmacro %}{{ m(40) }}",
       "too m"},
      {"deep list",
       "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
       "nested too deep"},
      {"deep dict",
       "{% set n = namespace(x={}) %}{% for i in range(100000) %}{% set n.x = {'a': n.x} %}{% endfor %}{{ "
       "n.x }}",
       "nested too deep"},
      {"deep dict of methods",
       "{% set n = namespace(x={}) %}{% for i in range(100000) %}{% set n.x = {'a': n.x}.get %}{% endfor %}",
       "nested too deep"},
      {"deep brackets", "{{ " + times(5000, "(") + "1" + times(5000, ")") + " }}", "nested too deep"},
      {"deep lists", "{{ " + times(5000, "[") + times(5000, "]") + " }}", "nested too deep"},
      {"deep signs", "{{ " + times(5000, "-") + "1 }}", "nested too deep"},
      {"deep nots", "{{ " + times(5000, "not ") + "1 }}", "nested too deep"},
      {"long sum", "{{ 1" + times(5000, " + 1") + " }}", "nested too deep"},
      {"long chain of filters", "{{ 1" + times(5000, "|string") + " }}", "nested too deep"},
      {"long chain of members", "{{ a" + times(5000, ".a") + " }}", "nested too deep"},
      {"long chain of conditions", "{{ 1" + times(5000, " if 1") + " }}", "at most 50 conditions"},
      {"deep conditions", "{{ " + times(5000, "1 if 1 else ") + "1 }}", "nested too deep"},
      {"deep tags", times(5000, "{% if 1 %}") + times(5000, "{% endif %}"), "nested too deep"},
      {"deep targets", "{% set " + times(5000, "(") + "a" + times(5000, ")") + " = 1 %}", "nested too deep"},
      {"many keys",
       "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = n.x + [(i, i)] %}{% endfor "
       "%}{{ dict(n.x) }}",
       "too many"},
      {"a namespace in itself", "{% set n = namespace() %}{% set n.n = n %}{{ n }}", "printing a namespace"},
      {"a date without end", "{{ strftime_now('%1000000c') }}", "bytes"},
      {"a date of dates", "{{ strftime_now('%c' * 100000) }}", "bytes"},
      {"search",
       "{% set x = 'a' * 1000000 %}{% set y = 'a' * 500000 + 'b' %}{% for i in range(100000) %}{{ y in x "
       "}}{% endfor %}",
       "too many"},
      {"search from the right", "{{ ('a' * 1000000).rsplit('b' + 'a' * 500000) }}", "too many steps"},
      {"unique", "{{ range(100000)|unique|list|length }}", "too many steps"},
  };
}

TEST(Jinja, HostileTemplatesEndSoonWithASentence) {
  // A tenth of the usual work: the messages are the same.
  const jinja::Limits limits{.steps = 2'000'000, .bytes = 64 << 20, .output = 16 << 20};
  for (const auto& [what, text, message] : hostile_templates()) {
    const auto refused = refusal(text, {}, limits);
    EXPECT_NE(refused.find(message), std::string::npos) << what << ": " << refused;
  }
  EXPECT_EQ(render("{{ 1 + 1 }}"), "2");
}

TEST(Jinja, TheUsualLimitsAreReachedSoon) {
  const double begin = processor_seconds();
  EXPECT_NE(refusal("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}")
                .find("too many steps"),
            std::string::npos);
  EXPECT_NE(
      refusal("{% set n = namespace(x='a') %}{% for i in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}")
          .find("too many values"),
      std::string::npos);
  EXPECT_LT(processor_seconds() - begin, 120.0);
}

TEST(Jinja, LimitsAreThoseThatAreGiven) {
  EXPECT_NE(refusal("{% for i in range(100) %}{% endfor %}", {}, {.steps = 100}).find("at most 100;"),
            std::string::npos);
  EXPECT_NE(refusal("aaaa", {}, {.output = 3}).find("at most 3 bytes"), std::string::npos);
  EXPECT_NE(refusal("aaaa", {}, {.template_bytes = 3}).find("expected at most 3"), std::string::npos);
  EXPECT_NE(refusal("{{ a }}", {{"a", std::string(1000, 'x')}}, {.bytes = 1000}).find("too many values"),
            std::string::npos);
}

// S4: what is accepted at each limit is refused one above.
TEST(Jinja, LimitsAreExact) {
  const std::string letters(1000, 'a');
  EXPECT_EQ(render(letters, {}, {.template_bytes = 1000}), letters);
  EXPECT_NE(
      refusal(letters + "a", {}, {.template_bytes = 1000}).find("has 1001 bytes; expected at most 1000"),
      std::string::npos);
  EXPECT_EQ(render(letters, {}, {.output = 1000}), letters);
  EXPECT_NE(refusal(letters + "a", {}, {.output = 1000}).find("at most 1000 bytes"), std::string::npos);
  EXPECT_EQ(render("{{ range(1000)|length }}", {}, {.range = 1000}), "1000");
  EXPECT_NE(refusal("{{ range(1001)|length }}", {}, {.range = 1000}).find("range has 1001 items"),
            std::string::npos);
  const auto nested = [](std::size_t levels) {
    return "{{ " + std::string(levels, '[') + std::string(levels, ']') + " }}";
  };
  EXPECT_EQ(refusal(nested(20), {}, {.value_depth = 20}), "");
  EXPECT_NE(refusal(nested(21), {}, {.value_depth = 20}).find("nested too deep; expected at most 20 levels"),
            std::string::npos);
  const auto in_brackets = [](std::size_t levels) {
    return "{{ " + std::string(levels, '(') + "1" + std::string(levels, ')') + " }}";
  };
  // The last that is accepted, by a limit that counts them: one level more is refused.
  const auto most = [](const auto& accepted) {
    std::int64_t count = 1;
    while (accepted(count)) ++count;
    return count - 1;
  };
  const auto syntax = [&](int limit) {
    return most([&](std::int64_t levels) {
      return refusal(in_brackets(static_cast<std::size_t>(levels)), {}, {.syntax_depth = limit}).empty();
    });
  };
  EXPECT_EQ(syntax(31), syntax(30) + 1);
  // A template passes with limits equal to its steps and bytes; with one less it does not.
  const std::string work = "{% for i in range(50) %}{{ i ~ 'x' }}{% endfor %}";
  const auto least = [&](const auto& with) {
    std::uint64_t limit = 1;
    while (!refusal(work, {}, with(limit)).empty()) ++limit;
    return limit;
  };
  const auto steps = least([](std::uint64_t limit) { return jinja::Limits{.steps = limit}; });
  EXPECT_GE(steps, 50U);
  EXPECT_NE(refusal(work, {}, {.steps = steps - 1}).find("too many steps"), std::string::npos);
  const auto bytes = least([](std::uint64_t limit) { return jinja::Limits{.bytes = limit}; });
  EXPECT_GE(bytes, 100U);
  EXPECT_NE(refusal(work, {}, {.bytes = bytes - 1}).find("too many values"), std::string::npos);
  const auto depth = [&](int limit) {
    return most([&](std::int64_t levels) {
      const std::string calls = "{% macro m(n) %}{% if n > 1 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(" +
                                std::to_string(levels) + ") }}";
      return refusal(calls, {}, {.depth = limit}).empty();
    });
  };
  EXPECT_GT(depth(100), depth(50));
}

// The default limits at their edges.
TEST(Jinja, TheUsualLimitsAreExact) {
  const jinja::Limits usual;
  EXPECT_EQ(render(std::string(usual.template_bytes, 'a')).size(), usual.template_bytes);
  EXPECT_NE(refusal(std::string(usual.template_bytes + 1, 'a')).find("expected at most 1048576"),
            std::string::npos);
  const std::string megabyte(std::size_t{1} << 20U, 'x');
  const Variables variables = {{"a", megabyte}};
  const auto times = [](int count) {
    return "{% for i in range(" + std::to_string(count) + ") %}{{ a }}{% endfor %}";
  };
  EXPECT_EQ(render(times(64), variables).size(), usual.output);
  EXPECT_NE(refusal(times(64) + "b", variables).find("at most 67108864 bytes"), std::string::npos);
  EXPECT_EQ(render("{{ range(100000)|length }}"), "100000");
  EXPECT_NE(refusal("{{ range(100001)|length }}").find("range has 100001 items"), std::string::npos);
}

}  // namespace
}  // namespace hooked::text::jinja_test
