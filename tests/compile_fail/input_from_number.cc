// expect: conversion from|no viable conversion
#include "hooked/engine/input.h"

const hooked::Input text = "a text";

#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Input number = 0;
#endif
