# Run by cpack on the files of a package before it is made: takes out the folder of the LibTorch that hooked was built
# with, which the package carries. No file may be added or removed here.

# file_of(<path in the prefix> <result>): where the file is here, in a folder of its component (.tar.gz) or of all (.deb).
function(file_of path result)
  file(GLOB found ${CPACK_TEMPORARY_DIRECTORY}/*/${path} ${CPACK_TEMPORARY_DIRECTORY}/*/*/${path})
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "[package] expected one ${path} in ${CPACK_TEMPORARY_DIRECTORY}, got ${count}")
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

file_of(${CPACK_HOOKED_BUILT_WITH} built_with)
file(WRITE ${built_with} "# LibTorch's libraries lie in this package; -DTORCH_ROOT= names a folder with its headers.\n")

file(STRINGS ${CPACK_HOOKED_STANDALONE} lines)
foreach(line IN LISTS lines)
  string(REPLACE "|" ";" line "${line}")
  list(GET line 0 file)
  list(GET line 1 carried)
  if(NOT file MATCHES "\\.a$")
    file_of(${file} path)
    file(RPATH_CHANGE FILE ${path} OLD_RPATH "${carried}:${CPACK_HOOKED_TORCH_LIBRARIES}" NEW_RPATH "${carried}")
  endif()
endforeach()
