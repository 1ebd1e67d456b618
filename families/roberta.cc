// RoBERTa (Liu et al. 2019): BERT whose positions are counted from pad_token_id + 1, as in fairseq. The
// head's activation is exact GELU, whatever hidden_act says.
#include "families/shared/roberta_layout.h"

namespace hooked::families::roberta {

extern const Family kFamily = roberta_family("roberta", "roberta.");

}  // namespace hooked::families::roberta
