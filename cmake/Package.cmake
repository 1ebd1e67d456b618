# `cpack` in the build folder makes a .deb and a .tar.gz: program, library, and the libraries of LibTorch that they need
# (to compile against it you need your own LibTorch headers). They name no folder of the machine that made them. tests/packages.sh unpacks and tries both.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME hooked)
set(CPACK_PACKAGE_VENDOR "the hooked authors")
set(CPACK_PACKAGE_CONTACT "the hooked authors <hooked@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL program documents library libtorch)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_FILE_NAME hooked-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_VERBATIM_VARIABLES ON)
# An archive unpacks into a folder of its own.
file(WRITE ${PROJECT_BINARY_DIR}/package/kinds.cmake [[
if(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
]])
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package/kinds.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}")
# dpkg-shlibdeps finds what the program loads; what compiling against the library takes is a recommendation.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, cmake (>= 3.22), libfmt-dev, libonig-dev, libutf8proc-dev, libdeflate-dev")
# LibTorch is half a gigabyte: quick to pack.
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)

set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/Standalone.cmake)
get_property(standalone GLOBAL PROPERTY HOOKED_STANDALONE)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/package/standalone.txt CONTENT "$<JOIN:${standalone},\n>\n")
set(CPACK_HOOKED_STANDALONE ${PROJECT_BINARY_DIR}/package/standalone.txt)
set(CPACK_HOOKED_TORCH_LIBRARIES ${hooked_torch_root}/lib)
set(CPACK_HOOKED_BUILT_WITH ${hooked_package_folder}/hookedBuiltWith.cmake)
include(CPack)
