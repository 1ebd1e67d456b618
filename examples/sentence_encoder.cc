// Sentence embeddings with a BERT-type encoder: the last stream of each sentence, averaged over its real
// tokens and scaled to length 1, as the library sentence-transformers does; then how alike the sentences are.
//
//     sentence_encoder MODEL-FOLDER [SENTENCE ...] [--vectors]

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <hooked/hooked.h>

#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace {

/// One vector of length 1 per sentence, [batch, d_model].
at::Tensor embed(const hooked::HookedTransformer& model, const std::vector<std::string>& sentences) {
  const auto batch = model.to_token_batch(sentences);  // with [CLS] and [SEP], padded on the right
  const at::Tensor stream = model.run(batch, {.output = hooked::Output::residual}).residual();
  const at::Tensor weight = batch.attention_mask.unsqueeze(-1).to(stream.scalar_type());  // [batch, pos, 1]
  const at::Tensor mean = (stream * weight).sum(1) / weight.sum(1);
  return mean / mean.norm(2, -1, /*keepdim=*/true);
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> sentences;
  bool vectors = false;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--vectors") == 0) {
      vectors = true;
    } else {
      sentences.emplace_back(argv[i]);
    }
  }
  if (argc < 2) {
    fmt::print(stderr, "usage: sentence_encoder MODEL-FOLDER [SENTENCE ...] [--vectors]\n");
    return 2;
  }
  if (sentences.empty())
    sentences = {"A cat sits on the mat.", "The kitten rests on a rug.", "Stocks fell sharply."};

  const auto model = hooked::HookedTransformer::load(argv[1]);
  const at::Tensor embeddings = embed(model, sentences).to(at::kCPU, at::kDouble);
  const at::Tensor cosines = embeddings.matmul(embeddings.t());  // [batch, batch]
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    for (std::size_t j = i + 1; j < sentences.size(); ++j) {
      const double cosine =
          cosines[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(j)].item<double>();
      fmt::print("{:8.5f}  {}  |  {}\n", cosine, sentences[i], sentences[j]);
    }
  }
  if (!vectors) return 0;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    fmt::print("vector {}:", i);
    for (std::int64_t k = 0; k < embeddings.size(1); ++k) {
      fmt::print(" {:.9g}", embeddings[static_cast<std::int64_t>(i)][k].item<double>());
    }
    fmt::print("\n");
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
