#pragma once

#include <torch/nn/module.h>
#include <torch/torch.h>
