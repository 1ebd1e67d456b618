// expect: could not convert|cannot convert|no matching|constraints not satisfied
#include "hooked/hooks/edit.h"

namespace act = hooked::act;

const hooked::Edits one = hooked::zero(act::z(1));
const hooked::Edits several = {hooked::zero(act::z(1)), hooked::scale(act::z(0), 2.0)};

#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Edits wrong = {act::z(1), hooked::EditKind::set};
#endif
