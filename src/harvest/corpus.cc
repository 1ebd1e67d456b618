#include "hooked/harvest/corpus.h"

#include <c10/util/hash.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harvest/corpus_source.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

using Content = std::variant<std::string, std::vector<std::int64_t>>;

std::string content_fingerprint(const std::vector<Content>& documents) {
  std::string all;
  for (const Content& document : documents) {
    if (const auto* text = std::get_if<std::string>(&document)) {
      all += "text " + std::to_string(text->size()) + " " + *text;
    } else {
      const auto& ids = std::get<std::vector<std::int64_t>>(document);
      all += "ids " + std::to_string(ids.size());
      for (const std::int64_t id : ids) all += " " + std::to_string(id);
    }
    all = c10::sha1(all).str();
  }
  return all;
}

// Documents that a function gives, some at a time.
class GivenDocuments final : public Corpus::Source {
 public:
  GivenDocuments(Corpus::Reader read, std::int64_t documents, std::string fingerprint)
      : read_(std::move(read)), documents_(documents), fingerprint_(std::move(fingerprint)) {
    if (!read_ || documents < 0)
      throw ConfigError("corpus",
                        "a corpus needs a function that reads it, and a number of documents of 0 or more");
    if (documents_ > 0) {
      const auto first = documents_of(0, 1);
      holds_ids_ = first.front().content.index() == 1;
    }
  }

  std::string fingerprint() const override { return fingerprint_; }
  bool holds_ids() const override { return holds_ids_; }

  std::vector<CorpusUnit> units(std::uint64_t unit_tokens, const Progress& progress) const override {
    // How long the documents are is known only after reading them all, which may take hours.
    constexpr std::uint64_t kDocumentTokens = 512;
    const auto step = static_cast<std::int64_t>(std::max<std::uint64_t>(1, unit_tokens / kDocumentTokens));
    std::vector<CorpusUnit> units;
    for (std::int64_t begin = 0; begin < documents_; begin += step) {
      const std::int64_t end = std::min(documents_, begin + step);
      units.push_back({.begin = static_cast<std::uint64_t>(begin),
                       .end = static_cast<std::uint64_t>(end),
                       .first_document = begin});
    }
    if (progress) progress(static_cast<std::uint64_t>(documents_), static_cast<std::uint64_t>(documents_));
    return units;
  }

  std::vector<CorpusDocument> read(const CorpusUnit& unit) const override {
    return documents_of(static_cast<std::int64_t>(unit.begin), static_cast<std::int64_t>(unit.end));
  }

 private:
  std::vector<CorpusDocument> documents_of(std::int64_t begin, std::int64_t end) const {
    auto documents = read_(begin, end);
    if (static_cast<std::int64_t>(documents.size()) != end - begin) {
      throw ShapeError("corpus", "the function that reads the documents " + std::to_string(begin) + " to " +
                                     std::to_string(end - 1) + " gave " + std::to_string(documents.size()) +
                                     "; expected one for each");
    }
    for (auto& document : documents) document.number = begin++;
    return documents;
  }

  Corpus::Reader read_;
  std::int64_t documents_;
  std::string fingerprint_;
  bool holds_ids_ = false;
};

}  // namespace

Corpus::Corpus(std::shared_ptr<const Source> source) : source_(std::move(source), "corpus") {}

Corpus Corpus::open(const std::filesystem::path& path, const CorpusOptions& options) {
  return Corpus(file_corpus(path, options));
}

Corpus Corpus::of(std::vector<std::variant<std::string, std::vector<std::int64_t>>> documents) {
  const auto count = static_cast<std::int64_t>(documents.size());
  std::string fingerprint = content_fingerprint(documents);
  const auto held = std::make_shared<const std::vector<Content>>(std::move(documents));
  const auto read = [held](std::int64_t begin, std::int64_t end) {
    std::vector<CorpusDocument> some;
    for (std::int64_t i = begin; i < end; ++i)
      some.push_back({.number = i, .content = (*held)[static_cast<std::size_t>(i)]});
    return some;
  };
  return of(read, count, std::move(fingerprint));
}

Corpus Corpus::of(Reader read, std::int64_t documents, std::string fingerprint) {
  return Corpus(std::make_shared<const GivenDocuments>(std::move(read), documents, std::move(fingerprint)));
}

std::filesystem::path Corpus::path() const { return source_->path(); }
std::vector<CorpusFile> Corpus::files() const { return source_->files(); }
std::string Corpus::fingerprint() const { return source_->fingerprint(); }
bool Corpus::holds_ids() const { return source_->holds_ids(); }
std::vector<std::string> Corpus::ignored() const { return source_->ignored(); }

std::vector<CorpusUnit> Corpus::units(std::uint64_t unit_tokens, const Progress& progress) const {
  if (unit_tokens == 0) throw ConfigError("unit_tokens", "a unit has no tokens; expected 1 or more");
  return source_->units(unit_tokens, progress);
}

std::vector<CorpusDocument> Corpus::read(const CorpusUnit& unit) const { return source_->read(unit); }

}  // namespace hooked
