# libhooked_cuda.so: what the engine needs of LibTorch's CUDA half (src/cuda). Nothing links it: the engine loads it when
# a CUDA device is opened, and does without it if it is missing. Built if LibTorch has CUDA and CUDA's
# headers are available: next to LibTorch (scripts/setup.sh --cuda), or those of a toolkit.
set(hooked_cuda_folder ${CMAKE_INSTALL_LIBDIR}/hooked)

set(hooked_cuda_problem "")
foreach(library torch_cuda c10_cuda)
  if(NOT EXISTS ${hooked_torch_libraries}/lib${library}.so)
    set(hooked_cuda_problem "this LibTorch was built without CUDA")
  endif()
endforeach()
hooked_torch_version(${hooked_torch_root} version)
if(NOT version VERSION_EQUAL HOOKED_TORCH_VERSION)
  set(hooked_cuda_problem "it is written against LibTorch ${HOOKED_TORCH_VERSION}, and this is ${version}")
elseif(HOOKED_SANITIZE)
  set(hooked_cuda_problem "LibTorch's CUDA half is not run with sanitizers")
endif()
if(NOT hooked_cuda_problem)
  find_path(HOOKED_CUDA_HEADERS cuda_runtime_api.h
            HINTS ${hooked_torch_root}/../nvidia/cu13/include $ENV{CUDA_HOME}/include /usr/local/cuda/include)
  if(NOT HOOKED_CUDA_HEADERS)
    set(hooked_cuda_problem "CUDA's headers were not found; scripts/setup.sh --cuda fetches them")
  endif()
endif()
if(hooked_cuda_problem)
  message(STATUS "libhooked_cuda.so is left out: ${hooked_cuda_problem}")
  return()
endif()

add_library(hooked_cuda SHARED ${PROJECT_SOURCE_DIR}/src/cuda/groups.cc ${PROJECT_SOURCE_DIR}/src/cuda/recorder.cc)
target_compile_features(hooked_cuda PRIVATE cxx_std_20)
target_include_directories(hooked_cuda PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(hooked_cuda SYSTEM PRIVATE ${HOOKED_CUDA_HEADERS})
target_link_libraries(hooked_cuda PRIVATE hooked_build_flags LibTorch::LibTorch ${hooked_torch_libraries}/libtorch_cuda.so
                                          ${hooked_torch_libraries}/libc10_cuda.so)
# LibTorch's libraries find their own dependencies.
target_link_options(hooked_cuda PRIVATE LINKER:--allow-shlib-undefined)
# On request: a machine without a GPU does not need it.
install(TARGETS hooked_cuda LIBRARY DESTINATION ${hooked_cuda_folder} COMPONENT cuda EXCLUDE_FROM_ALL)
