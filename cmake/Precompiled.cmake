# Headers that are compiled once for many sources (decision 106): LibTorch's for the rooms that compute, the same with GoogleTest
# for tests, and hooked/hooked.h for programs of one source. CMAKE_DISABLE_PRECOMPILE_HEADERS turns them off, to see that each
# source includes what it uses. Only GCC is known to win by them, and other launchers than ccache may not understand them.
set(hooked_precompiles OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND (NOT CMAKE_CXX_COMPILER_LAUNCHER OR hooked_uses_ccache))
  set(hooked_precompiles ON)
endif()

# What nearly every source of a room that computes includes in the end.
set(hooked_common_headers
    <algorithm> <array> <cstdint> <filesystem> <functional> <map> <memory> <numeric> <optional> <ranges> <set> <span> <string>
    <string_view> <unordered_map> <utility> <variant> <vector> <ATen/core/Tensor.h> <ATen/TensorOperators.h> <ATen/ops/arange.h>
    <ATen/ops/cat.h> <ATen/ops/empty.h> <ATen/ops/equal.h> <ATen/ops/full.h> <ATen/ops/matmul.h> <ATen/ops/ones.h>
    <ATen/ops/stack.h> <ATen/ops/tensor.h> <ATen/ops/where.h> <ATen/ops/zeros.h> <fmt/format.h> <fmt/ranges.h>)

# hooked_add_header(<name> HEADERS <header>... [LINKS <library>...] [OPTIONS <option>...] [PROGRAM]): headers to be compiled once, with
# the flags of a library's sources or, with PROGRAM, of a program's: GCC uses them only if the flags are the same.
function(hooked_add_header name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROGRAM" "" "HEADERS;LINKS;OPTIONS")
  if(NOT hooked_precompiles)
    return()
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/src/${name}.cc CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/src/${name}.cc)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_link_libraries(${name} PRIVATE ${arg_LINKS} LibTorch::LibTorch hooked_build_flags fmt::fmt nlohmann_json::nlohmann_json)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  if(arg_PROGRAM)
    target_compile_options(${name} PRIVATE -fPIE)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
endfunction()

# hooked_precompile(<target> [<header>]): the target's sources find these headers compiled; hooked/hooked.h if none is named.
function(hooked_precompile target)
  set(header hooked_program_header)
  if(ARGC GREATER 1)
    set(header ${ARGV1})
  endif()
  if(TARGET ${header})
    target_precompile_headers(${target} REUSE_FROM ${header})
  endif()
endfunction()
