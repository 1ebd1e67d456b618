# What is installed: the program, the library `hooked` (hooked::hooked; one archive of all rooms' objects, or a shared
# library with BUILD_SHARED_LIBS) with its headers and CMake package, and on request LibTorch. docs/deploying.md shows it
# from the user's side. Components:
#   program           bin/hooked, the engine that it starts, its manual, shell completion, and the toy model
#   documents         README, CHANGELOG, docs/, and the sources of the examples
#   library           headers, archive, CMake package
#   libtorch          on request: the LibTorch that it was built with, as far as a CPU program needs it, so that the
#                     prefix runs without the checkout
#   cuda              on request: what records runs on a GPU (cmake/CudaLibrary.cmake)
#   libtorch_headers  on request: its headers, so that projects compile without the checkout
#   python            on request: what goes into the Python package's wheel (cmake/Python.cmake)
include(CMakePackageConfigHelpers)

# Where the components put LibTorch: a folder of hooked's own. In <prefix>/lib itself its libgomp.so.1 would replace
# the distribution's for every program of a machine.
set(hooked_torch_folder ${CMAKE_INSTALL_LIBDIR}/hooked/torch)

# The installed file finds LibTorch in the prefix, wherever that is, or else where it was built. `folder` is the
# file's own, relative to the prefix.
function(hooked_set_install_rpath target folder)
  file(RELATIVE_PATH torch /prefix/${folder} /prefix/${hooked_torch_folder}/lib)
  file(RELATIVE_PATH lib /prefix/${folder} /prefix/${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH cuda /prefix/${folder} /prefix/${hooked_cuda_folder})
  set(carried "$ORIGIN/${torch}:$ORIGIN/${cuda}")
  if(BUILD_SHARED_LIBS AND lib)
    set(carried "$ORIGIN/${lib}:${carried}")
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${carried}:${hooked_torch_root}/lib")
  # For packages, which name no folder of the machine that made them (cmake/Standalone.cmake).
  set_property(GLOBAL APPEND PROPERTY HOOKED_STANDALONE "${folder}/$<TARGET_FILE_NAME:${target}>|${carried}")
endfunction()

set(hooked_objects "")
foreach(room ${hooked_library_rooms})
  get_target_property(type hooked_${room} TYPE)
  if(type STREQUAL STATIC_LIBRARY AND NOT room MATCHES "^(cli|options)$")
    list(APPEND hooked_objects $<TARGET_OBJECTS:hooked_${room}>)
  endif()
endforeach()

add_library(hooked ${hooked_objects})
add_library(hooked::hooked ALIAS hooked)
set_target_properties(hooked PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(hooked PUBLIC cxx_std_20)
target_include_directories(hooked PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(hooked PUBLIC LibTorch::LibTorch PRIVATE fmt::fmt Oniguruma::Oniguruma utf8proc::utf8proc
                      libdeflate::libdeflate)
if(BUILD_SHARED_LIBS)
  target_link_libraries(hooked PRIVATE $<BUILD_INTERFACE:hooked_link_flags>)
  target_link_options(hooked PRIVATE LINKER:--no-undefined)
else()
  # What a user's own library takes from the archive is not exported by that library.
  target_link_options(hooked INTERFACE LINKER:--exclude-libs,libhooked.a)
endif()
hooked_set_install_rpath(hooked ${CMAKE_INSTALL_LIBDIR})

# Everything that `cmake --install` copies; scripts/demo.sh builds it together with the demo.
# The manual and the completion of the shells are what the program says of itself.
set(hooked_share ${PROJECT_BINARY_DIR}/share)
set(shell_files ${hooked_share}/hooked.bash ${hooked_share}/_hooked)
add_custom_command(OUTPUT ${hooked_share}/man/hooked.1 ${shell_files}
                   COMMAND hooked-man ${hooked_share}/man
                   COMMAND hooked-cli completion bash > ${hooked_share}/hooked.bash
                   COMMAND hooked-cli completion zsh > ${hooked_share}/_hooked
                   DEPENDS hooked-man hooked-cli VERBATIM)
add_custom_target(hooked-share ALL DEPENDS ${hooked_share}/man/hooked.1 ${shell_files})
add_custom_target(product)
add_dependencies(product hooked hooked-cli hooked-share)
set(built_files $<TARGET_FILE:hooked> $<TARGET_FILE:hooked-cli> $<TARGET_FILE:hooked-engine>)
# First of all, so that nothing is copied if something is not built yet.
install(CODE "set(hooked_built \"${built_files};${hooked_share}/_hooked\")
if(NOT CMAKE_INSTALL_COMPONENT MATCHES \"^(libtorch|python)\")
  foreach(file IN LISTS hooked_built)
    if(NOT EXISTS \${file})
      message(FATAL_ERROR \"[install] \${file} is not built; nothing was installed; run cmake --build ${PROJECT_BINARY_DIR} --target product\")
    endif()
  endforeach()
endif()" ALL_COMPONENTS)

hooked_set_install_rpath(hooked-engine ${hooked_engine_folder})
install(TARGETS hooked-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(TARGETS hooked-engine RUNTIME DESTINATION ${hooked_engine_folder} COMPONENT program)
foreach(example toy_model toy_sae toy_transcoders)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/${example} DESTINATION ${CMAKE_INSTALL_DATADIR}/hooked/examples
          COMPONENT program)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/examples/pairs.jsonl DESTINATION ${CMAKE_INSTALL_DATADIR}/hooked/examples
        COMPONENT program)
install(DIRECTORY ${hooked_share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program FILES_MATCHING PATTERN "*.1")
install(FILES ${hooked_share}/hooked.bash RENAME hooked
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
foreach(folder site-functions vendor-completions)  # zsh's own, and Debian's for packages
  install(FILES ${hooked_share}/_hooked DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder} COMPONENT program)
endforeach()

# In the folders of the checkout, so that their links lead somewhere.
foreach(page README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md tests/README.md tests/golden/README.md)
  cmake_path(GET page PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT documents)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN generators EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT documents
        FILES_MATCHING PATTERN "*.cc" PATTERN "*.h" PATTERN "*.py" PATTERN "*.ipynb" PATTERN toy_model EXCLUDE PATTERN toy_sae EXCLUDE PATTERN toy_transcoders EXCLUDE
        PATTERN toy_task EXCLUDE PATTERN model EXCLUDE PATTERN train_toy_model.cc EXCLUDE)
foreach(component program library)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES.md
          DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ${component})
endforeach()

set(hooked_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/hooked)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hookedConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/package/hookedConfig.cmake
                              INSTALL_DESTINATION ${hooked_package_folder} NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/hookedConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
# In a separate file, which packages leave out.
file(WRITE ${PROJECT_BINARY_DIR}/package/hookedBuiltWith.cmake "set(HOOKED_TORCH_FALLBACK \"${hooked_torch_root}\")\n")
install(TARGETS hooked EXPORT hookedTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
                                            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/hooked ${PROJECT_BINARY_DIR}/include/hooked
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(EXPORT hookedTargets NAMESPACE hooked:: DESTINATION ${hooked_package_folder} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/package/hookedConfig.cmake ${PROJECT_BINARY_DIR}/package/hookedConfigVersion.cmake
              ${PROJECT_BINARY_DIR}/package/hookedBuiltWith.cmake
              ${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake ${PROJECT_SOURCE_DIR}/cmake/SystemLibraries.cmake
        DESTINATION ${hooked_package_folder} COMPONENT library)

install(CODE "set(torch_root \"${hooked_torch_root}\")
set(torch_folder \"${hooked_torch_folder}\")
set(doc_folder \"${CMAKE_INSTALL_DOCDIR}\")
set(programs \"${built_files}\")" COMPONENT libtorch EXCLUDE_FROM_ALL)
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/InstallLibTorch.cmake COMPONENT libtorch EXCLUDE_FROM_ALL)
install(DIRECTORY ${hooked_torch_root}/include DESTINATION ${hooked_torch_folder} COMPONENT libtorch_headers
        EXCLUDE_FROM_ALL)

# A package names the architecture and the libraries of the machine that makes it.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CROSSCOMPILING)
  include(Package)
endif()
