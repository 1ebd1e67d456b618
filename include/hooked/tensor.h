#pragma once

// The tensor operations that programs with hooks use most: operators, indexing, printing and some functions
// of LibTorch's `at::`, so that what the pages and error messages recommend compiles with hooked/hooked.h
// alone. Everything else is one include of LibTorch away (`#include <ATen/ops/NAME.h>`, or `<ATen/ATen.h>`
// for all).
//
// Only hooked/hooked.h includes this header: it costs seconds of compile time, which
// hooked_precompile(target) of the CMake package takes away.

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
