# The library `hooked` (hooked::hooked), one archive of all rooms' objects, and its CMake package.
include(CMakePackageConfigHelpers)

set(hooked_objects "")
foreach(room ${HOOKED_ROOMS})
  get_target_property(type hooked_${room} TYPE)
  if(type STREQUAL STATIC_LIBRARY AND NOT room MATCHES "^(cli|options)$")
    list(APPEND hooked_objects $<TARGET_OBJECTS:hooked_${room}>)
  endif()
endforeach()

add_library(hooked STATIC ${hooked_objects})
add_library(hooked::hooked ALIAS hooked)
set_target_properties(hooked PROPERTIES LINKER_LANGUAGE CXX)
target_compile_features(hooked PUBLIC cxx_std_20)
target_include_directories(hooked PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(hooked PUBLIC LibTorch::LibTorch PRIVATE fmt::fmt Oniguruma::Oniguruma utf8proc::utf8proc)

set(hooked_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/hooked)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hookedConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/package/hookedConfig.cmake
                              INSTALL_DESTINATION ${hooked_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/hookedConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(TARGETS hooked EXPORT hookedTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/hooked ${PROJECT_BINARY_DIR}/include/hooked DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(EXPORT hookedTargets NAMESPACE hooked:: DESTINATION ${hooked_package_folder} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/package/hookedConfig.cmake ${PROJECT_BINARY_DIR}/package/hookedConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake ${PROJECT_SOURCE_DIR}/cmake/TextLibraries.cmake
        DESTINATION ${hooked_package_folder} COMPONENT library)
