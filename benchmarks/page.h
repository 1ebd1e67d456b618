#pragma once

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "hooked/hooked.h"

/// Shared by the benchmarks that write tables of docs/speed.md.

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The processor's name, LibTorch's instruction set and threads, the dtype.
inline std::string about_machine() {
  const std::string cpu = text_of("/proc/cpuinfo");
  const auto at = cpu.find("model name");
  const auto begin = at == std::string::npos ? at : cpu.find(": ", at);
  const std::string name = begin == std::string::npos
                               ? "processor without a name"
                               : cpu.substr(begin + 2, cpu.find('\n', begin) - begin - 2);
  return fmt::format("{}; {} threads; LibTorch's kernels for {}", name, at::get_num_threads(),
                     at::get_cpu_capability());
}

/// Puts `text` between the marks `<!-- begin: written by NAME -->` and `<!-- end: ... -->` of a page.
inline void write_between_marks(const std::filesystem::path& page, const std::string& name,
                                const std::string& text) {
  const std::string begin = fmt::format("<!-- begin: written by {} -->\n", name),
                    end = fmt::format("<!-- end: written by {} -->", name), old = text_of(page);
  const auto from = old.find(begin), to = old.find(end);
  if (from == std::string::npos || to == std::string::npos)
    throw std::runtime_error(fmt::format("{} lacks the marks of {}", page.string(), name));
  hooked::write_file(page, old.substr(0, from + begin.size()) + text + old.substr(to));
}

inline double page_faults_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_minflt);
}
