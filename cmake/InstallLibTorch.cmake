# Installs what a CPU program needs of LibTorch: libtorch_cpu, libc10, and those libraries of its own package that these
# load (libgomp, and the CUDA runtime and CUPTI of a CUDA build). What the distribution has is not copied.
# Lists, next to the licences, what they and the `programs` need from the system. Run by `cmake --install <build>
# --component libtorch` with torch_root, programs, and torch_folder and doc_folder relative to the prefix.

get_filename_component(package ${torch_root} DIRECTORY)
set(libraries ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
foreach(library IN LISTS libraries)
  if(NOT EXISTS ${library})
    message(FATAL_ERROR "[install] ${library} is missing: the LibTorch that hooked was built with is gone")
  endif()
endforeach()
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${libraries} RESOLVED_DEPENDENCIES_VAR found
     UNRESOLVED_DEPENDENCIES_VAR missing)
if(missing)
  message(FATAL_ERROR "[install] LibTorch needs ${missing}, which are neither in ${package} nor in this system")
endif()
foreach(library IN LISTS found)
  string(FIND ${library} ${package}/ place)
  if(place EQUAL 0)
    list(APPEND libraries ${library})
  endif()
endforeach()
list(REMOVE_DUPLICATES libraries)
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${torch_folder}/lib TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN
     FILES ${libraries})

# Their licences: next to the package in a wheel, in the package's own folder otherwise.
file(GLOB_RECURSE notices RELATIVE ${package} ${package}/torch-*.dist-info/licenses/* ${package}/nvidia_cuda_*.dist-info/licenses/*)
foreach(notice IN LISTS notices)
  get_filename_component(name ${notice} NAME)
  string(REGEX REPLACE "-.*" "" wheel ${notice})
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${doc_folder}/libtorch TYPE FILE RENAME ${wheel}-${name}
       FILES ${package}/${notice})
endforeach()
file(GLOB notices ${torch_root}/LICENSE* ${torch_root}/NOTICE*)
if(notices)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${doc_folder}/libtorch TYPE FILE FILES ${notices})
endif()

set(needed "")
set(carried "")
foreach(file IN LISTS programs libraries)
  get_filename_component(name ${file} NAME)
  list(APPEND carried ${name})
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${file} OUTPUT_VARIABLE header ERROR_QUIET)
  string(REGEX MATCHALL "(NEEDED|SONAME) +[^\n]+" entries "${header}")
  foreach(entry IN LISTS entries)
    string(REGEX REPLACE "^[A-Z]+ +" "" name ${entry})
    if(entry MATCHES "^SONAME")
      list(APPEND carried ${name})
    else()
      list(APPEND needed ${name})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES needed)
list(REMOVE_ITEM needed ${carried})
list(SORT needed)
list(JOIN needed "\n" needed)
file(WRITE $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${doc_folder}/system-libraries.txt
     "What hooked takes from the system. In Debian 12 these are of libc6, libgcc-s1, libstdc++6, libfmt9, libonig5,\n"
     "libutf8proc2 and libdeflate0.\n\n${needed}\n")
list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${CMAKE_INSTALL_PREFIX}/${doc_folder}/system-libraries.txt)
message(STATUS "Installing: ${CMAKE_INSTALL_PREFIX}/${doc_folder}/system-libraries.txt")
