// ERNIE 1 to 3 (Sun et al. 2019): BERT, whose tokens may have a task in addition to their type. All tokens
// are treated as tokens of task 0, as in transformers if it is given none.
#include <ATen/TensorOperators.h>

#include <string>
#include <string_view>

#include "families/shared/bert_layout.h"

namespace hooked::families::ernie {
namespace {

bool has_tasks(const HfConfig& hf) { return hf.json().boolean_or("use_task_id", false); }

std::int64_t tasks(const HfConfig& hf) {
  constexpr std::string_view kTasks = "task_type_vocab_size";
  return hf.json().has(kTasks) ? hf.count(kTasks) : 3;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  constexpr std::string_view kPositions = "embeddings.position_embeddings.weight";
  add_bert_embeddings(r, [&] {
    if (!has_tasks(hf)) return r.positions(kPositions);
    r.make("pos_embed.W_pos", {std::string(kPositions), "embeddings.task_type_embeddings.weight"},
           [tasks = tasks(hf)](const auto& theirs) -> at::Tensor {
             return theirs[0] + theirs[1].unflatten(0, {1, tasks}).select(0, 0).select(0, 0);
           });
  });
  add_bert_blocks(r);
  add_bert_head(r);
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  c.unembedding->mlm_head = c.activation;
  if (has_tasks(hf)) {
    tasks(hf);  // refused here if it is not a number
    hf.note("each token is taken for one of task 0, whose embedding is added to those of positions");
  }
  hf.json().ignore({"task_type_vocab_size"});
  return c;
}

}  // namespace

extern const Family kFamily = bert_family("ernie", "ernie.", read, recipes);

}  // namespace hooked::families::ernie
