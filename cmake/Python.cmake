# The Python package's module `hooked._hooked`, over the LibTorch of the `torch` that it will be imported next to
# (docs/python.md). scripts/python.sh builds it with the wheel; -DHOOKED_BUILD_PYTHON=ON builds it here.
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.26)
  set(stable_abi OPTIONAL_COMPONENTS Development.SABIModule)  # one build for Python 3.12 and all that follow
endif()
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module ${stable_abi})
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE problem)
if(problem)
  message(FATAL_ERROR "nanobind is missing in ${Python_EXECUTABLE}; run scripts/python.sh, or pip install nanobind")
endif()
find_package(nanobind CONFIG REQUIRED)

# What the public headers declare: docstrings, and the members of structs.
file(GLOB hooked_public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/hooked/*/*.h)
set(declared ${PROJECT_BINARY_DIR}/declared/python)
add_custom_command(OUTPUT ${declared}/fields.inc ${declared}/documentation.inc
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/generate.py ${PROJECT_SOURCE_DIR}/include ${declared}
  COMMAND ${CMAKE_COMMAND} -E touch ${declared}/fields.inc ${declared}/documentation.inc
  DEPENDS ${PROJECT_SOURCE_DIR}/python/generate.py ${PROJECT_SOURCE_DIR}/python/headers.py ${hooked_public_headers}
  VERBATIM)
add_custom_target(hooked_declared DEPENDS ${declared}/fields.inc ${declared}/documentation.inc)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cc)
nanobind_add_module(hooked_python STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE ${sources} ${declared}/fields.inc ${declared}/documentation.inc)
set_target_properties(hooked_python PROPERTIES OUTPUT_NAME _hooked LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python)
target_compile_features(hooked_python PRIVATE cxx_std_20)
# The seam has no loops of its own. GCC 12 sees writes beyond short strings that it made itself.
target_compile_options(hooked_python PRIVATE -O1 -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
target_include_directories(hooked_python PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/declared)
add_library(hooked_torch_python SHARED IMPORTED)
set_target_properties(hooked_torch_python PROPERTIES IMPORTED_LOCATION ${hooked_torch_libraries}/libtorch_python.so)
target_link_libraries(hooked_python PRIVATE hooked hooked_torch_python hooked_build_flags hooked_link_flags fmt::fmt)
target_precompile_headers(hooked_python PRIVATE ${PROJECT_SOURCE_DIR}/python/src/bind.h)
hooked_compile_together(hooked_python 8)
# torch brings LibTorch; libhooked_cuda.so lies next to the module.
set_target_properties(hooked_python PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" hooked_torch_minor ${hooked_torch_found})
set(folder hooked/torch-${hooked_torch_minor})
install(TARGETS hooked_python LIBRARY DESTINATION ${folder} COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET hooked_cuda)
  add_dependencies(hooked_python hooked_cuda)
  install(TARGETS hooked_cuda LIBRARY DESTINATION ${folder} COMPONENT python EXCLUDE_FROM_ALL)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES.md DESTINATION hooked/licenses
        COMPONENT python EXCLUDE_FROM_ALL)

# What type checkers and editors know of the module.
add_custom_command(TARGET hooked_python POST_BUILD
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/stubs.py $<TARGET_FILE:hooked_python> ${PROJECT_BINARY_DIR}/python/stubs
          ${hooked_torch_root}/..
  VERBATIM)
install(DIRECTORY ${PROJECT_BINARY_DIR}/python/stubs/_hooked DESTINATION hooked COMPONENT python EXCLUDE_FROM_ALL)
