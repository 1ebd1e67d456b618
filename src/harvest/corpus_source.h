#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hooked/harvest/corpus.h"

namespace hooked {

/// Where documents come from.
class Corpus::Source {
 public:
  virtual ~Source() = default;
  virtual std::filesystem::path path() const { return {}; }
  virtual std::vector<CorpusFile> files() const { return {}; }
  virtual std::string fingerprint() const { return {}; }
  virtual std::vector<std::string> ignored() const { return {}; }
  virtual bool holds_ids() const = 0;
  virtual std::vector<CorpusUnit> units(std::uint64_t unit_tokens, const Progress& progress) const = 0;
  virtual std::vector<CorpusDocument> read(const CorpusUnit& unit) const = 0;
};

/// The bytes that a token of text counts as.
inline constexpr std::uint64_t kTokenBytes = 4;

/// Files on disk, as Corpus::open() reads them.
std::shared_ptr<const Corpus::Source> file_corpus(const std::filesystem::path& path,
                                                  const CorpusOptions& options);

}  // namespace hooked
