# hooked/hooked.h precompiled once, for programs that are one source over the whole library: the examples and the
# benchmarks (decision 27). CMAKE_DISABLE_PRECOMPILE_HEADERS turns it off.
set(hooked_program_header_launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
set(hooked_precompiles ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(hooked_precompiles OFF)  # measured only with GCC
elseif(CMAKE_CXX_COMPILER_LAUNCHER)
  if(CMAKE_CXX_COMPILER_LAUNCHER STREQUAL HOOKED_CCACHE)
    # Without these two ccache does not keep objects of precompiled headers.
    set(hooked_program_header_launcher
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${HOOKED_CCACHE})
  else()
    set(hooked_precompiles OFF)  # how another launcher treats them is unknown
  endif()
endif()

if(hooked_precompiles)
  # GCC uses a precompiled header only if the flags are the program's: those of position-independent programs.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/src/program_header.cc CONTENT "")
  add_library(hooked_program_header OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/src/program_header.cc)
  target_link_libraries(hooked_program_header PRIVATE hooked::hooked hooked_build_flags fmt::fmt
                                                      nlohmann_json::nlohmann_json)
  target_compile_options(hooked_program_header PRIVATE -fPIE)
  target_precompile_headers(hooked_program_header PRIVATE <hooked/hooked.h>)
  set_target_properties(hooked_program_header PROPERTIES POSITION_INDEPENDENT_CODE OFF
                                                         CXX_COMPILER_LAUNCHER "${hooked_program_header_launcher}")
endif()

# hooked_precompile(<program>): the program's source finds hooked/hooked.h compiled.
function(hooked_precompile program)
  if(hooked_precompiles)
    target_precompile_headers(${program} REUSE_FROM hooked_program_header)
    set_target_properties(${program} PROPERTIES CXX_COMPILER_LAUNCHER "${hooked_program_header_launcher}")
  endif()
endfunction()
