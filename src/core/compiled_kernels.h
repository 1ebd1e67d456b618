#pragma once

/// Defined where the compiler can compile functions for processors other than the one a program is built for,
/// so that one build serves them all. Without it there is only the set KernelSet::plain.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__)
#define HOOKED_COMPILES_KERNELS
#endif
