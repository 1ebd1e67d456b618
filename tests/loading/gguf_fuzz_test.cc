// The fuzz targets' properties over the golden GGUF files, with bytes, values and tensors changed: an Error
// or a model.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "hooked/engine/hooked_transformer.h"
#include "io/gguf/gguf_header.h"
#include "tests/fuzz/gguf_model_property.h"
#include "tests/fuzz/gguf_tokenizer_property.h"
#include "tests/io/file_bytes.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace hooked::gguf_fuzz_test {
namespace {

const std::filesystem::path kGoldens = HOOKED_SOURCE_DIR "/tests/golden/gguf";

/// A file whose parts can be changed one by one.
struct TakenApart {
  std::vector<std::pair<std::string, std::string>> entries;  ///< key, and type with value
  GgufBytes rest;
};

GgufType type_of(const GgufValue& value) {
  for (std::uint32_t number = 0; number <= static_cast<std::uint32_t>(GgufType::float64); ++number) {
    const auto type = static_cast<GgufType>(number);
    const std::string name(gguf_type_name(type));
    if (value.type_text() == (value.is_array() ? "array of " + name : name)) return type;
  }
  throw std::logic_error("a type that is none");
}

// Its type and value as stored in a file.
std::string value_bytes(const GgufValue& value) {
  const GgufType type = type_of(value);
  std::string bytes = value.is_array() ? gguf_type(GgufType::array) : "";
  bytes += gguf_type(type);
  if (value.is_array()) bytes += little(value.size(), 8);
  const auto width = static_cast<int>(gguf_type_bytes(type));
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (const auto text = value.text(i)) {
      bytes += gguf_text(*text);
    } else if (const auto flag = value.boolean(i)) {
      bytes += little(*flag ? 1 : 0, width);
    } else if (const auto whole = value.integer(i)) {
      bytes += little(static_cast<std::uint64_t>(*whole), width);
    } else if (type == GgufType::float32) {
      bytes += little(std::bit_cast<std::uint32_t>(static_cast<float>(value.real(i).value())), width);
    } else {
      bytes += little(std::bit_cast<std::uint64_t>(value.real(i).value()), width);
    }
  }
  return bytes;
}

TakenApart taken_apart(const std::string& bytes) {
  const GgufHeader header = gguf_header_of(bytes, "m.gguf");
  TakenApart parts;
  for (const auto& [key, value] : header.metadata) parts.entries.emplace_back(key, value_bytes(value));
  for (const GgufTensor& tensor : header.tensors) {
    std::vector<std::uint64_t> sizes(tensor.info.shape.rbegin(), tensor.info.shape.rend());
    parts.rest.data.resize((parts.rest.data.size() + 31) / 32 * 32);
    parts.rest.tensor(tensor.info.name, sizes, tensor.type->number, parts.rest.data.size());
    parts.rest.data += bytes.substr(tensor.info.begin, tensor.info.bytes());
  }
  return parts;
}

std::string together(const TakenApart& parts) {
  GgufBytes file = parts.rest;
  for (const auto& [key, value] : parts.entries) file.entries.push_back(gguf_text(key) + value);
  return file.bytes();
}

std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.path().extension() == ".gguf" && entry.path().stem() != "blocks")
      files.push_back(entry.path().filename().native());
  }
  std::ranges::sort(files);
  return files;
}

// A value of any type, small and large, valid and not.
std::string any_value(std::mt19937& random) {
  const std::uint64_t numbers[] = {0, 1, 2, 3, 7, 8, 1U << 24U, 0x7FFFFFFF, 0xFFFFFFFF, ~std::uint64_t{0}};
  const double reals[] = {0.0,
                          -1.0,
                          1e-5,
                          1.0,
                          3.5,
                          1e30,
                          std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
  const char* texts[] = {"", "a", "yarn", "longrope", "linear", "gpt2", "llama", "default", "\xFF", "\u2581"};
  switch (random() % 6) {
    case 0:
      return gguf_type(GgufType::uint32) + little(numbers[random() % std::size(numbers)], 4);
    case 1:
      return gguf_type(GgufType::int64) + little(numbers[random() % std::size(numbers)], 8);
    case 2:
      return gguf_type(GgufType::float32) +
             little(std::bit_cast<std::uint32_t>(static_cast<float>(reals[random() % std::size(reals)])), 4);
    case 3:
      return gguf_type(GgufType::boolean) + little(random() % 2, 1);
    case 4:
      return gguf_type(GgufType::text) + gguf_text(texts[random() % std::size(texts)]);
    default: {
      const auto count = random() % 4;
      std::string bytes = gguf_type(GgufType::array) + gguf_type(GgufType::int32) + little(count, 8);
      for (std::uint64_t i = 0; i < count; ++i) bytes += little(numbers[random() % std::size(numbers)], 4);
      return bytes;
    }
  }
}

// One or two values or tensors of a file changed.
void change(TakenApart& parts, std::mt19937& random) {
  for (auto changes = random() % 2 + 1; changes > 0; --changes) {
    auto& [key, value] = parts.entries[random() % parts.entries.size()];
    auto& tensors = parts.rest.tensors;
    switch (random() % 8) {
      case 0:
        parts.entries.erase(parts.entries.begin() +
                            static_cast<std::ptrdiff_t>(random() % parts.entries.size()));
        break;
      case 1:
        key = parts.entries[random() % parts.entries.size()].first;  // occurs twice, if another
        break;
      case 2:
        if (value.size() > 12) value[12 + random() % (value.size() - 12)] = static_cast<char>(random());
        break;
      case 3:
        if (!tensors.empty()) std::swap(tensors[random() % tensors.size()], tensors.back());
        break;
      case 4:
        if (!tensors.empty()) {
          std::string& tensor = tensors[random() % tensors.size()];
          tensor[8 + random() % (tensor.size() - 8)] = static_cast<char>(random());
        }
        break;
      default:
        value = any_value(random);
    }
  }
}

/// Loads and runs what the property accepts; returns whether there was a model.
bool loads_or_is_refused(const std::filesystem::path& file, const std::string& bytes) {
  if (!gguf_model_property(file, bytes)) return false;
  try {
    const auto model = HookedTransformer::load(file.string(), {.processing = WeightProcessing::none()});
    (void)model.run(at::arange(2).view({1, 2}));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(GgufModelFuzz, TakingApartAndPuttingTogetherIsTheSameModel) {
  const TempFolder folder;
  for (const std::string& name : golden_files()) {
    if (name == "sentencepiece.gguf") continue;  // a tokenizer without a model
    EXPECT_TRUE(loads_or_is_refused(folder / "m.gguf", together(taken_apart(file_bytes(kGoldens / name)))))
        << name;
  }
}

TEST(GgufModelFuzz, ValuesAndTensorsChanged) {
  const TempFolder folder;
  std::mt19937 random(5);
  std::vector<TakenApart> corpus;
  for (const std::string& name : golden_files()) {
    if (name != "sentencepiece.gguf") corpus.push_back(taken_apart(file_bytes(kGoldens / name)));
  }
  std::size_t accepted = 0;
  constexpr int kRuns = 1500;
  for (int run = 0; run < kRuns; ++run) {
    TakenApart parts = corpus[random() % corpus.size()];
    change(parts, random);
    ASSERT_NO_THROW(accepted += loads_or_is_refused(folder / "m.gguf", together(parts)) ? 1 : 0)
        << "run " << run;
  }
  EXPECT_GT(accepted, static_cast<std::size_t>(kRuns) / 20);
  EXPECT_LT(accepted, static_cast<std::size_t>(kRuns));
}

TEST(GgufModelFuzz, BytesOfTheHeaderChanged) {
  const TempFolder folder;
  std::mt19937 random(6);
  const std::vector<std::string> names = golden_files();
  for (int run = 0; run < 1500; ++run) {
    std::string bytes = file_bytes(kGoldens / names[random() % names.size()]);
    for (auto edits = random() % 3 + 1; edits > 0; --edits)
      bytes[random() % std::min<std::size_t>(bytes.size(), 3000)] = static_cast<char>(random());
    ASSERT_NO_THROW(gguf_model_property(folder / "m.gguf", bytes)) << "run " << run;
  }
}

/// A file of the tokenizer `gpt2`, small enough to change it everywhere.
TakenApart byte_level_tokenizer() {
  const std::vector<std::string> pieces = {"a", "b", "ab", "<s>", "</s>", "\u0120", "abab"};
  TakenApart parts;
  GgufBytes file;
  std::string texts, types;
  for (const std::string& piece : pieces) {
    texts += gguf_text(piece);
    types += little(piece.starts_with('<') ? 3 : 1, 4);
  }
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  file.array("tokenizer.ggml.tokens", GgufType::text, pieces.size(), texts);
  file.array("tokenizer.ggml.token_type", GgufType::int32, pieces.size(), types);
  file.array("tokenizer.ggml.merges", GgufType::text, 2, gguf_text("a b") + gguf_text("ab ab"));
  file.uint32("tokenizer.ggml.bos_token_id", 3).uint32("tokenizer.ggml.eos_token_id", 4);
  file.boolean("tokenizer.ggml.add_bos_token", 1).text("tokenizer.chat_template", "{{ messages }}");
  return taken_apart(file.bytes());
}

TEST(GgufTokenizerFuzz, TheCorpusIsAccepted) {
  EXPECT_TRUE(gguf_tokenizer_property(together(byte_level_tokenizer())));
  EXPECT_TRUE(gguf_tokenizer_property(file_bytes(kGoldens / "sentencepiece.gguf")));
}

TEST(GgufTokenizerFuzz, EveryByteChangedToAFewOthers) {
  const std::string good = together(byte_level_tokenizer());
  std::size_t accepted = 0, tried = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char value : {'\0', '\1', ' ', 'a', '<', '\x7F', '\xC3', '\xFF'}) {
      std::string changed = good;
      changed[i] = value;
      ASSERT_NO_THROW(accepted += gguf_tokenizer_property(changed) ? 1 : 0) << i;
      ++tried;
    }
  }
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, tried);
}

TEST(GgufTokenizerFuzz, ValuesChanged) {
  std::mt19937 random(7);
  const TakenApart corpus[] = {byte_level_tokenizer(),
                               taken_apart(file_bytes(kGoldens / "sentencepiece.gguf"))};
  std::size_t accepted = 0;
  constexpr int kRuns = 600;
  for (int run = 0; run < kRuns; ++run) {
    TakenApart parts = corpus[random() % 2];
    change(parts, random);
    ASSERT_NO_THROW(accepted += gguf_tokenizer_property(together(parts)) ? 1 : 0) << "run " << run;
  }
  EXPECT_GT(accepted, static_cast<std::size_t>(kRuns) / 20);
  EXPECT_LT(accepted, static_cast<std::size_t>(kRuns));
}

}  // namespace
}  // namespace hooked::gguf_fuzz_test
