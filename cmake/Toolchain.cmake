# How our own code is compiled: C++20, warnings, sanitizers, and the fast linker and compiler cache where they exist.
# Never -fopenmp (LibTorch brings its one OpenMP runtime) and never -march (binaries stay portable).
include(CheckLinkerFlag)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# A shared library of our objects exports what public headers declare (hooked/core/export.h) and nothing else.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  # Sanitizers' code takes three times as long to compile if it is optimised, and the whole suite takes hours if it is
  # not.
  if(HOOKED_SANITIZE)
    set(HOOKED_SANITIZE_LEVEL -O0 CACHE STRING "How the sanitizers' code is optimised")
    set(CMAKE_CXX_FLAGS_DEBUG "${HOOKED_SANITIZE_LEVEL} -g1")
  else()
    set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
  endif()
endif()

# ccache stores objects built with precompiled headers only with this sloppiness. With CCACHE_DEPEND it takes the headers from the
# compiler's dependency file, so that a miss is not preprocessed separately.
find_program(HOOKED_CCACHE ccache)
set(hooked_uses_ccache OFF)
if(HOOKED_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(hooked_uses_ccache ON)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${HOOKED_CCACHE})
endif()

check_linker_flag(CXX -fuse-ld=mold HOOKED_HAVE_MOLD)
find_program(HOOKED_MOLD mold)

# The options that all our targets compile with; never exported.
add_library(hooked_build_flags INTERFACE)
target_compile_options(hooked_build_flags INTERFACE -Wall -Wextra $<$<BOOL:${HOOKED_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # An object of several sources grows to about this size (KiB) anyway; collecting garbage earlier costs a tenth of the compile time.
  target_compile_options(hooked_build_flags INTERFACE --param=ggc-min-heapsize=1048576)
endif()
# What programs link with.
add_library(hooked_link_flags INTERFACE)
if(HOOKED_HAVE_MOLD AND HOOKED_MOLD)
  # Each segment on separate pages: if code ends in the last bytes of a page, mold 1.10 otherwise lets an empty .tbss begin the read-only
  # relocations on a page that is not mapped, and the program does not start.
  target_link_options(hooked_link_flags INTERFACE -fuse-ld=mold -Wl,-z,separate-loadable-segments)
endif()
if(HOOKED_SANITIZE STREQUAL thread)
  target_compile_options(hooked_build_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(hooked_build_flags INTERFACE -fsanitize=thread)
elseif(HOOKED_SANITIZE)
  target_compile_options(hooked_build_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                                                      -fno-omit-frame-pointer)
  target_link_options(hooked_build_flags INTERFACE -fsanitize=address,undefined)
endif()
