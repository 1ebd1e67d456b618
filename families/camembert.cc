// CamemBERT (Martin et al. 2020): RoBERTa for French.
#include "families/shared/roberta_layout.h"

namespace hooked::families::camembert {

extern const Family kFamily = roberta_family("camembert", "roberta.");

}  // namespace hooked::families::camembert
