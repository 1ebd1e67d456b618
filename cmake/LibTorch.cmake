# LibTorch::LibTorch: an imported target over libtorch_cpu.so and libc10.so. Used by our own build and, installed beside
# the package config, by the projects that find_package(hooked).
#
# The tests pass with HOOKED_TORCH_VERSION, which scripts/setup.sh installs, and with HOOKED_TORCH_NEWEST
# (scripts/test_second_torch.sh). Versions between are accepted, older ones refused, newer ones accepted with a note.
#
# Looked for in this order:
#   1. TORCH_ROOT: a `torch` package folder or an unpacked LibTorch, the folder that holds include/ and lib/;
#   2. each entry of CMAKE_PREFIX_PATH: such a folder, one that holds a `torch` folder, or `<torch>/share/cmake[/Torch]`;
#   3. HOOKED_TORCH_FALLBACK: what scripts/setup.sh installs, or what an installed hooked was built with.
#
# find_package(Torch) is not used: that of a CUDA build demands nvcc and the whole toolkit.
include_guard(GLOBAL)

set(HOOKED_TORCH_VERSION 2.11.0)
set(HOOKED_TORCH_NEWEST 2.15.0)
if(NOT HOOKED_TORCH_FALLBACK)
  set(HOOKED_TORCH_FALLBACK ${PROJECT_SOURCE_DIR}/third_party/libtorch/torch)
endif()
set(TORCH_ROOT "" CACHE PATH "LibTorch ${HOOKED_TORCH_VERSION} or newer: the folder that holds include/ and lib/")

# The version that a LibTorch folder's headers state; "" where there are none.
function(hooked_torch_version root result)
  set(version "")
  foreach(header include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h)
    if(EXISTS ${root}/${header})
      file(READ ${root}/${header} text)
      if(text MATCHES "define TORCH_VERSION_MAJOR ([0-9]+).*define TORCH_VERSION_MINOR ([0-9]+).*define TORCH_VERSION_PATCH ([0-9]+)")
        set(version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
        break()
      endif()
    endif()
  endforeach()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# The first LibTorch folder among the places listed above; "" where there is none.
function(hooked_find_torch result)
  if(TORCH_ROOT)
    set(${result} ${TORCH_ROOT} PARENT_SCOPE)
    return()
  endif()
  set(places "")
  foreach(prefix ${CMAKE_PREFIX_PATH})
    list(APPEND places ${prefix} ${prefix}/torch ${prefix}/../.. ${prefix}/../../..)
  endforeach()
  foreach(place ${places} ${HOOKED_TORCH_FALLBACK})
    get_filename_component(place ${place} ABSOLUTE)
    # /usr holds a distribution's LibTorch at best, and a prefix like /usr/share/x must not lead there.
    if(NOT place STREQUAL "/usr" AND EXISTS ${place}/include/ATen/ATen.h AND EXISTS ${place}/lib/libtorch_cpu.so)
      set(${result} ${place} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

if(NOT TARGET LibTorch::LibTorch)
  hooked_find_torch(hooked_torch_root)
  if(NOT hooked_torch_root)
    message(FATAL_ERROR "[LibTorch] not found in TORCH_ROOT, CMAKE_PREFIX_PATH or ${HOOKED_TORCH_FALLBACK}; expected "
                        "LibTorch ${HOOKED_TORCH_VERSION} to ${HOOKED_TORCH_NEWEST}; run scripts/setup.sh or give -DTORCH_ROOT=<folder that holds "
                        "include/ and lib/> (a distribution's libtorch-dev is another version and is not used).")
  endif()
  get_filename_component(hooked_torch_root ${hooked_torch_root} ABSOLUTE)
  hooked_torch_version(${hooked_torch_root} hooked_torch_found)
  if(hooked_torch_found STREQUAL "" OR hooked_torch_found VERSION_LESS HOOKED_TORCH_VERSION)
    if(hooked_torch_found STREQUAL "")
      set(hooked_torch_found "no version header")
    endif()
    message(FATAL_ERROR "[LibTorch] too old in ${hooked_torch_root}; expected ${HOOKED_TORCH_VERSION} to "
                        "${HOOKED_TORCH_NEWEST}, got ${hooked_torch_found}; run scripts/setup.sh or give -DTORCH_ROOT= of "
                        "such a version (Debian's libtorch-dev in /usr is refused).")
  elseif(hooked_torch_found VERSION_GREATER HOOKED_TORCH_NEWEST)
    message(STATUS "LibTorch ${hooked_torch_found} is newer than ${HOOKED_TORCH_NEWEST}, the newest that hooked was tested with")
  endif()
  foreach(library torch_cpu c10)
    if(NOT EXISTS ${hooked_torch_root}/lib/lib${library}.so)
      message(FATAL_ERROR "[LibTorch] incomplete: ${hooked_torch_root}/lib/lib${library}.so is missing; run "
                          "scripts/setup.sh again or give -DTORCH_ROOT= of a complete LibTorch.")
    endif()
    add_library(LibTorch::${library} SHARED IMPORTED GLOBAL)
    set_target_properties(LibTorch::${library} PROPERTIES
      IMPORTED_LOCATION ${hooked_torch_root}/lib/lib${library}.so
      INTERFACE_INCLUDE_DIRECTORIES
        "${hooked_torch_root}/include;${hooked_torch_root}/include/torch/csrc/api/include")
  endforeach()
  add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
  set_target_properties(LibTorch::LibTorch PROPERTIES INTERFACE_LINK_LIBRARIES "LibTorch::torch_cpu;LibTorch::c10")
  message(STATUS "LibTorch ${hooked_torch_found}: ${hooked_torch_root}")
endif()
