# Libraries from the distribution's packages that ship no CMake package: Oniguruma::Oniguruma and utf8proc::utf8proc, the
# tokenizers' regular expressions and Unicode tables, and libdeflate::libdeflate, checksums and compression. Also installed,
# for the projects that find_package(hooked). hooked_library_problem says which is missing and what to install.

set(hooked_library_problem "")

function(hooked_import_library target library header package)
  if(TARGET ${target})
    return()
  endif()
  find_library(HOOKED_${library}_LIBRARY ${library})
  find_path(HOOKED_${library}_INCLUDE ${header})
  mark_as_advanced(HOOKED_${library}_LIBRARY HOOKED_${library}_INCLUDE)
  if(NOT HOOKED_${library}_LIBRARY OR NOT HOOKED_${library}_INCLUDE)
    set(hooked_library_problem "[${library}] not found; expected the library and ${header}; install ${package}." PARENT_SCOPE)
    return()
  endif()
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${HOOKED_${library}_LIBRARY}
                                             INTERFACE_INCLUDE_DIRECTORIES ${HOOKED_${library}_INCLUDE})
endfunction()

hooked_import_library(Oniguruma::Oniguruma onig oniguruma.h libonig-dev)
hooked_import_library(utf8proc::utf8proc utf8proc utf8proc.h libutf8proc-dev)
hooked_import_library(libdeflate::libdeflate deflate libdeflate.h libdeflate-dev)
