#pragma once

// Everything a user needs, by room.

#include "hooked/core/axis.h"
#include "hooked/core/error.h"
#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"
#include "hooked/core/version.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/engine/load_options.h"
#include "hooked/engine/run_options.h"
#include "hooked/engine/trainable_transformer.h"
#include "hooked/engine/weight_view.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/hook.h"
#include "hooked/hooks/selection.h"
#include "hooked/hooks/site.h"
#include "hooked/weights/processing.h"
