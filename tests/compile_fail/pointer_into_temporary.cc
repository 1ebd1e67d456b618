// expect: cannot convert|no viable conversion
#include "hooked/loading/describe.h"

double base(const char* model) { return hooked::read_model_config(model).rotary()->base; }

#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::RotaryPositions* rotary(const char* model) { return hooked::read_model_config(model).rotary(); }
#endif
