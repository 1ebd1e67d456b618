// XLM-RoBERTa (Conneau et al. 2020): RoBERTa for a hundred languages, and many sentence models.
#include "families/shared/roberta_layout.h"

namespace hooked::families::xlm_roberta {

extern const Family kFamily = roberta_family("xlm-roberta", "roberta.");

}  // namespace hooked::families::xlm_roberta
