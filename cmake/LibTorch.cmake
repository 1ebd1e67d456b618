# LibTorch::LibTorch: an imported target over libtorch_cpu.so and libc10.so. Used by our own build and, installed next to
# the package config, by the projects that find_package(hooked). If none can be found, hooked_torch_problem says
# why and what to do, and no target is made: our build stops with it, find_package reports it.
#
# The tests pass with HOOKED_TORCH_VERSION, which scripts/setup.sh installs, and with HOOKED_TORCH_NEWEST
# (scripts/test_second_torch.sh). Versions between are accepted, older ones refused, newer ones accepted with a note.
#
# Looked for in this order:
#   1. TORCH_ROOT: a `torch` package folder or an unpacked LibTorch, the folder that holds include/ and lib/;
#   2. each entry of CMAKE_PREFIX_PATH: such a folder, one that holds a `torch` folder, or `<torch>/share/cmake[/Torch]`;
#   3. HOOKED_TORCH_CARRIED: where the components libtorch and libtorch_headers of an installed hooked put theirs;
#   4. HOOKED_TORCH_FALLBACK: what scripts/setup.sh installs, or what an installed hooked was built with. Its libraries
#      are those of 3 if these were installed without the headers.
#
# find_package(Torch) is not used: that of a CUDA build demands nvcc and the whole toolkit.

set(HOOKED_TORCH_VERSION 2.11.0)
set(HOOKED_TORCH_NEWEST 2.15.0)
set(TORCH_ROOT "" CACHE PATH "LibTorch ${HOOKED_TORCH_VERSION} or newer: the folder that holds include/ and lib/")

# The version that a LibTorch folder's headers state; "" if it has none.
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

# The first LibTorch folder among the places listed above, and the folder of its libraries; "" if none is found.
function(hooked_find_torch root_result libraries_result)
  if(TORCH_ROOT)
    get_filename_component(root ${TORCH_ROOT} ABSOLUTE)
    set(${root_result} ${root} PARENT_SCOPE)
    set(${libraries_result} ${root}/lib PARENT_SCOPE)
    return()
  endif()
  set(places "")
  foreach(prefix ${CMAKE_PREFIX_PATH})
    list(APPEND places ${prefix} ${prefix}/torch ${prefix}/../.. ${prefix}/../../..)
  endforeach()
  set(root "")
  set(libraries "")
  foreach(place ${places} ${HOOKED_TORCH_CARRIED} ${HOOKED_TORCH_FALLBACK})
    get_filename_component(place ${place} ABSOLUTE)
    # /usr holds a distribution's LibTorch at best, and a prefix like /usr/share/x must not lead there.
    if(NOT place STREQUAL "/usr" AND EXISTS ${place}/include/ATen/ATen.h)
      set(libraries ${place}/lib)
      if(place STREQUAL "${HOOKED_TORCH_FALLBACK}" AND EXISTS "${HOOKED_TORCH_CARRIED}/lib/libtorch_cpu.so")
        set(libraries ${HOOKED_TORCH_CARRIED}/lib)
      endif()
      if(EXISTS ${libraries}/libtorch_cpu.so)
        set(root ${place})
        break()
      endif()
    endif()
  endforeach()
  set(${root_result} "${root}" PARENT_SCOPE)
  set(${libraries_result} "${libraries}" PARENT_SCOPE)
endfunction()

set(hooked_torch_problem "")
if(NOT TARGET LibTorch::LibTorch)
  hooked_find_torch(hooked_torch_root hooked_torch_libraries)
  set(hooked_torch_range "${HOOKED_TORCH_VERSION} to ${HOOKED_TORCH_NEWEST}")
  if(hooked_torch_root)
    hooked_torch_version(${hooked_torch_root} hooked_torch_found)
  endif()
  if(NOT hooked_torch_root AND EXISTS "${HOOKED_TORCH_CARRIED}/lib/libtorch_cpu.so")
    set(hooked_torch_problem "[LibTorch] ${HOOKED_TORCH_CARRIED} holds the libraries without the headers; install the \
component libtorch_headers of hooked, or give -DTORCH_ROOT=<folder that holds include/ and lib/>.")
  elseif(NOT hooked_torch_root)
    string(REPLACE ";" " or " hooked_torch_places "TORCH_ROOT;CMAKE_PREFIX_PATH;${HOOKED_TORCH_CARRIED};${HOOKED_TORCH_FALLBACK}")
    set(hooked_torch_problem "[LibTorch] not found in ${hooked_torch_places}; expected LibTorch ${hooked_torch_range}; run \
scripts/setup.sh or give -DTORCH_ROOT=<folder that holds include/ and lib/> (a distribution's libtorch-dev is another \
version and is not used).")
  elseif(hooked_torch_found STREQUAL "")
    set(hooked_torch_problem "[LibTorch] ${hooked_torch_root} has no version header; expected LibTorch \
${hooked_torch_range}; run scripts/setup.sh or give -DTORCH_ROOT=<folder that holds include/ and lib/>.")
  elseif(hooked_torch_found VERSION_LESS HOOKED_TORCH_VERSION)
    set(hooked_torch_problem "[LibTorch] too old in ${hooked_torch_root}; expected ${hooked_torch_range}, got \
${hooked_torch_found}; run scripts/setup.sh or give -DTORCH_ROOT= of such a version (Debian's libtorch-dev in /usr is \
refused).")
  else()
    foreach(library torch_cpu c10)
      if(NOT EXISTS ${hooked_torch_libraries}/lib${library}.so)
        set(hooked_torch_problem "[LibTorch] incomplete: ${hooked_torch_libraries}/lib${library}.so is missing; run \
scripts/setup.sh again or give -DTORCH_ROOT= of a complete LibTorch.")
      endif()
    endforeach()
  endif()
  if(NOT hooked_torch_problem)
    if(hooked_torch_found VERSION_GREATER HOOKED_TORCH_NEWEST AND NOT hooked_FIND_QUIETLY)
      message(STATUS "LibTorch ${hooked_torch_found} is newer than ${HOOKED_TORCH_NEWEST}, the newest that hooked was tested with")
    endif()
    foreach(library torch_cpu c10)
      add_library(LibTorch::${library} SHARED IMPORTED GLOBAL)
      set_target_properties(LibTorch::${library} PROPERTIES
        IMPORTED_LOCATION ${hooked_torch_libraries}/lib${library}.so
        INTERFACE_INCLUDE_DIRECTORIES
          "${hooked_torch_root}/include;${hooked_torch_root}/include/torch/csrc/api/include")
    endforeach()
    add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
    set_target_properties(LibTorch::LibTorch PROPERTIES INTERFACE_LINK_LIBRARIES "LibTorch::torch_cpu;LibTorch::c10")
    if(NOT hooked_FIND_QUIETLY)
      message(STATUS "LibTorch ${hooked_torch_found}: ${hooked_torch_root}")
    endif()
  endif()
endif()
