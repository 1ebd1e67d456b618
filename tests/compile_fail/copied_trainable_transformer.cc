// expect: deleted
#include "hooked/engine/trainable_transformer.h"

hooked::TrainableTransformer moved(hooked::TrainableTransformer&& model) { return std::move(model); }

#ifdef HOOKED_MUST_NOT_COMPILE
hooked::TrainableTransformer copied(const hooked::TrainableTransformer& model) { return model; }
#endif
