#include "harvest/contexts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <variant>

#include "hooked/core/error.h"
#include "text/tokenizer/special_ids.h"

namespace hooked {
namespace {

constexpr std::int64_t kNone = ContextOptions::kNone;

/// A document's ids, and their places in it.
struct Ids {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> offsets;
};

class ContextMaker {
 public:
  ContextMaker(const ContextRules& rules, Contexts& made) : rules_(rules), made_(made) {}

  /// A document that follows the one before, as SAELens packs them.
  void pack(const Ids& document, std::int64_t number) {
    std::size_t done = 0;
    bool starts = true;
    while (done < document.ids.size()) {
      std::deque<std::int64_t> before;
      std::int64_t first = document.ids[done];
      const auto put = [&](std::int64_t token) {
        if (token == kNone || token == first) return false;
        before.push_front(token);
        first = token;
        return true;
      };
      const bool opens_document = starts && put(rules_.begin_document);
      put(size() == 0 ? rules_.begin_context : rules_.separator);
      const std::size_t put_there = std::min(before.size(), room());
      for (std::size_t i = 0; i < put_there; ++i) add(before[i], number, -1);
      done += take(document, number, done);
      starts = opens_document && before.size() > put_there;
      if (room() == 0) close();
    }
  }

  /// A document in contexts of its own.
  void place(const Ids& document, std::int64_t number) {
    std::size_t done = 0;
    while (done < document.ids.size()) {
      std::int64_t first = document.ids[done];
      if (done == 0 && rules_.begin_document != kNone && rules_.begin_document != first)
        first = rules_.begin_document;
      if (rules_.begin_context != kNone && rules_.begin_context != first)
        add(rules_.begin_context, number, -1);
      if (first != document.ids[done] && room() > 0) add(first, number, -1);
      done += take(document, number, done);
      close();
    }
  }

  /// Drops a context that is not complete.
  void drop() {
    made_.tokens.resize(begin_);
    made_.documents.resize(begin_);
    made_.offsets.resize(begin_);
  }

 private:
  std::size_t size() const { return made_.tokens.size() - begin_; }
  std::size_t room() const { return static_cast<std::size_t>(rules_.length) - size(); }

  void add(std::int64_t token, std::int64_t document, std::int64_t offset) {
    made_.tokens.push_back(token);
    made_.documents.push_back(document);
    made_.offsets.push_back(offset);
  }

  std::size_t take(const Ids& document, std::int64_t number, std::size_t from) {
    const std::size_t count = std::min(room(), document.ids.size() - from);
    for (std::size_t i = from; i < from + count; ++i) add(document.ids[i], number, document.offsets[i]);
    return count;
  }

  void close() {
    made_.ends.push_back(made_.tokens.size());
    begin_ = made_.tokens.size();
  }

  const ContextRules& rules_;
  Contexts& made_;
  std::size_t begin_ = 0;  // of the context that is being made
};

Ids ids_of(const CorpusDocument& document, const ContextRules& rules) {
  Ids made;
  const auto put = [&](const std::vector<std::int64_t>& ids, bool own) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      made.ids.push_back(ids[i]);
      made.offsets.push_back(own ? document.first_offset + static_cast<std::int64_t>(i) : -1);
    }
  };
  if (const auto* ids = std::get_if<std::vector<std::int64_t>>(&document.content)) {
    put(*ids, true);
    return made;
  }
  const auto& text = std::get<std::string>(document.content);
  if (text.empty()) return made;
  if (!rules.tokenizer) {
    throw CheckpointError(fmt::format("document {}", document.number),
                          "it is a text in a corpus of token ids; expected ids, as in the first document");
  }
  Encoding encoding;
  try {
    encoding = rules.tokenizer->encode(text, rules.encode);
  } catch (const TokenizerError& error) {
    throw TokenizerError(fmt::format("document {}", document.number), error.what());
  }
  if (encoding.ids.empty()) return made;
  if (!rules.packed) put(rules.around.before, false);
  put(encoding.ids, true);
  if (!rules.packed) put(rules.around.after, false);
  return made;
}

void require_token(std::int64_t token, std::string_view name, std::int64_t vocabulary) {
  if (token >= kNone && token < vocabulary) return;
  throw ConfigError(
      name, fmt::format("the token is {}; expected 0 to {}, or {} for none", token, vocabulary - 1, kNone));
}

/// A number that is drawn for a token: splitmix64 (Steele, Lea and Flood 2014) over what names the token.
std::uint64_t drawn(std::initializer_list<std::uint64_t> of) {
  std::uint64_t state = 0;
  for (const std::uint64_t part : of) {
    state += part + 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    state = mixed ^ (mixed >> 31);
  }
  return state;
}

}  // namespace

ContextRules ContextRules::of(const HookedTransformer& model, const Corpus& corpus,
                              const ContextOptions& options) {
  const ModelConfig& config = model.config();
  if (options.length < 1 || options.length > config.n_ctx) {
    throw ConfigError("context length", fmt::format("{} tokens; expected 1 to {}, the model's context",
                                                    options.length, config.n_ctx));
  }
  const bool ids = corpus.holds_ids();
  ContextRules rules{
      .length = options.length,
      .packed = options.packing == Packing::packed || (options.packing == Packing::by_default && !ids),
      .begin_context = kNone,
      .begin_document = options.begin_document.value_or(kNone),
      .separator = kNone,
      .tokenizer = std::nullopt,
      .encode = {.add_special_tokens = false, .added_tokens = options.text.added_tokens},
      .around = {}};
  if (!ids) {
    rules.tokenizer = model.tokenizer();
    rules.around = model.tokens_around(options.text);
    if (!rules.around.before.empty()) rules.begin_context = rules.around.before.front();
  }
  rules.begin_context = options.begin_context.value_or(rules.begin_context);
  rules.separator = options.separator.value_or(rules.begin_context);
  require_token(rules.begin_context, "begin_context", config.d_vocab);
  require_token(rules.begin_document, "begin_document", config.d_vocab);
  require_token(rules.separator, "separator", config.d_vocab);
  const auto put = (rules.begin_context != kNone ? 1 : 0) + (rules.begin_document != kNone ? 1 : 0);
  if (rules.length <= put) {
    throw ConfigError(
        "context length",
        fmt::format("{} tokens leave no room for documents after the {} put before them; expected {} or more",
                    rules.length, put, put + 1));
  }
  return rules;
}

Contexts contexts_of(const std::vector<CorpusDocument>& documents, const ContextRules& rules) {
  Contexts made;
  ContextMaker maker(rules, made);
  for (const CorpusDocument& document : documents) {
    const Ids ids = ids_of(document, rules);
    if (rules.packed) {
      maker.pack(ids, document.number);
    } else {
      maker.place(ids, document.number);
    }
  }
  maker.drop();
  return made;
}

RowRules::RowRules(const HookedTransformer& model, const RowOptions& options, std::int64_t context_length)
    : options_(options), excluded_(options.exclude_tokens) {
  if (options.skip_first < 0 || options.skip_first >= context_length) {
    throw ConfigError("skip_first", fmt::format("{} tokens of each context; expected 0 to {}",
                                                options.skip_first, context_length - 1));
  }
  if (!(options.share > 0 && options.share <= 1))
    throw ConfigError("share", fmt::format("{}; expected a number above 0 and at most 1", options.share));
  if (options.exclude_special_tokens) {
    const auto special = special_ids(model.tokenizer());
    excluded_.insert(excluded_.end(), special.begin(), special.end());
  }
  std::ranges::sort(excluded_);
  below_ = static_cast<std::uint64_t>(std::ldexp(options.share, 63));
}

bool RowRules::keeps(std::int64_t token, std::int64_t document, std::int64_t offset) const {
  if (std::ranges::binary_search(excluded_, token)) return false;
  if (options_.share == 1) return true;
  return drawn({options_.seed, static_cast<std::uint64_t>(document), static_cast<std::uint64_t>(offset)}) >>
         1 < below_;
}

std::vector<std::int64_t> RowRules::kept(const Contexts& contexts) const {
  std::vector<std::int64_t> kept;
  for (std::size_t context = 0; context < contexts.ends.size(); ++context) {
    const std::size_t begin = contexts.begin(context);
    for (std::size_t i = begin + static_cast<std::size_t>(options_.skip_first); i < contexts.ends[context];
         ++i) {
      if (keeps(contexts.tokens[i], contexts.documents[i], contexts.offsets[i]))
        kept.push_back(static_cast<std::int64_t>(i));
    }
  }
  return kept;
}

}  // namespace hooked
