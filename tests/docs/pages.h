// What the tests of documents share: pages, their blocks, and what programs print.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

inline const std::filesystem::path kRoot = HOOKED_SOURCE_DIR;

inline std::string read(const std::filesystem::path& file) {
  std::ifstream stream(kRoot / file, std::ios::binary);
  EXPECT_TRUE(stream.good()) << file;
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// A fenced block of a page, and the file that the comment above it names.
struct PageBlock {
  std::string language;
  std::string source;
  std::vector<std::string> lines;
};

inline std::vector<PageBlock> blocks_of(const std::string& page) {
  std::vector<PageBlock> blocks;
  std::string above;
  bool inside = false;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) {
        const bool named = above.starts_with("<!-- ") && above.ends_with(" -->");
        blocks.push_back({line.substr(3), named ? above.substr(5, above.size() - 9) : "", {}});
      }
    } else if (inside) {
      blocks.back().lines.push_back(line);
    }
    above = line;
  }
  EXPECT_FALSE(inside) << "a fence is not closed";
  return blocks;
}

// A file without the comment at its head.
inline std::vector<std::string> program_of(const std::filesystem::path& file) {
  std::vector<std::string> lines = lines_of(read(file));
  const auto is_head = [](const std::string& line) {
    return line.empty() || line.starts_with("// ") || line.starts_with("# ");
  };
  while (!lines.empty() && is_head(lines.front())) lines.erase(lines.begin());
  return lines;
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

inline std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

/// What a program prints, run in the repository's folder; `call` names it, in quotes, and its arguments.
inline std::vector<std::string> output_of(const std::string& call) {
  const std::string command = "cd '" + kRoot.string() + "' && " + call;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot start " << command;
    return {};
  }
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  const int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
  return lines_of(text);
}

/// Word by word: the last digit of a number depends on the processor. What follows a number is a part of it.
inline void expect_same_up_to_rounding(const std::string& shown, const std::string& printed) {
  std::istringstream theirs(shown), ours(printed);
  const std::regex number("[-+]?[0-9]+\\.([0-9]+)[.;,]?");
  for (std::string a, b; theirs >> a;) {
    ASSERT_TRUE(ours >> b) << "the page shows more: " << a;
    std::smatch digits;
    if (!std::regex_match(a, digits, number) || !std::regex_match(b, number)) {
      EXPECT_EQ(a, b);
    } else {
      EXPECT_NEAR(std::stod(a), std::stod(b), 1.5 * std::pow(10.0, -static_cast<double>(digits.length(1))));
    }
  }
  std::string more;
  EXPECT_FALSE(ours >> more) << "the program prints more: " << more;
}

}  // namespace hooked
