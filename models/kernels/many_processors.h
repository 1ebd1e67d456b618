#pragma once

/// Before a function: it is compiled for several kinds of processors, of which the program takes its own when
/// it starts. So nobody needs -march, and one build serves all machines. The loop must stand in an
/// always_inline function that this one calls, or it is compiled once, for the oldest. (The kinds are levels
/// of instruction sets; names of processors would leave out other makers'.)
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && __GNUC__ >= 12 && \
    !defined(__clang__)
#define HOOKED_MANY_PROCESSORS __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define HOOKED_MANY_PROCESSORS
#endif
