# fmt::fmt: the compiled fmt of the distribution. Its headers must come before LibTorch's, which carry an fmt of their own:
# another version, and without a library, so that each object would compile all of it again (4 s instead of 0.6 s).
# Compilers search /usr/include last, so the headers are reached by a link in the build folder that is searched first.
include_guard(GLOBAL)
find_package(fmt REQUIRED)
find_path(HOOKED_FMT_INCLUDE fmt/format.h)
mark_as_advanced(HOOKED_FMT_INCLUDE)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include_first)
file(CREATE_LINK ${HOOKED_FMT_INCLUDE}/fmt ${PROJECT_BINARY_DIR}/include_first/fmt SYMBOLIC)
include_directories(BEFORE SYSTEM ${PROJECT_BINARY_DIR}/include_first)
