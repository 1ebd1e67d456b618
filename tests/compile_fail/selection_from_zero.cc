// expect: conversion from|no viable conversion
#include "hooked/hooks/selection.h"

const hooked::Selection patterns = "blocks.*.attn.hook_pattern";

#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Selection layer_zero = 0;
#endif
