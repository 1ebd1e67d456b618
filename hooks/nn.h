#pragma once

// The only header that includes torch::nn. clang needs ivalue.h first in C++20. The header is expensive to
// compile, so nothing public includes it.
#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>
