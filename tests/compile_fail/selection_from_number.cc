// expect: conversion from|no viable conversion
#include "hooked/hooks/selection.h"

namespace act = hooked::act;

const hooked::Selection layer_five = act::resid_post(5);

#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Selection five = 5;
#endif
