// data2vec for text (Baevski et al. 2022): RoBERTa trained on its own representations.
#include "families/shared/roberta_layout.h"

namespace hooked::families::data2vec_text {

extern const Family kFamily = roberta_family("data2vec-text", "data2vec_text.");

}  // namespace hooked::families::data2vec_text
