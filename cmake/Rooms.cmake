# One library hooked_<room> (hooked::<room>) per room of RoomTable.cmake, and how programs over them are made.
include(RoomTable)

# hooked/version.h, the only generated header.
configure_file(${PROJECT_SOURCE_DIR}/include/hooked/version.h.in ${PROJECT_BINARY_DIR}/include/hooked/version.h @ONLY)

# LibTorch's headers name themselves in the messages of their checks: by the path after include/, not by a folder of the
# machine that compiled them.
target_compile_options(hooked_build_flags INTERFACE -fmacro-prefix-map=${hooked_torch_root}/include/=)

# Third-party libraries that a room's sources use in addition to LibTorch and fmt.
set(HOOKED_ROOM_io_THIRD_PARTY libdeflate::libdeflate)
set(HOOKED_ROOM_text_THIRD_PARTY Oniguruma::Oniguruma utf8proc::utf8proc)
set(HOOKED_ROOM_options_THIRD_PARTY CLI11::CLI11)

# What bin/hooked reads its command line and the hub cache's names with.
set(HOOKED_ROOM_core_WITHOUT_TORCH error.cc index_text.cc json.cc json_cursor.cc kernel_set.cc nearest.cc parse_integer.cc utf8.cc)
set(HOOKED_ROOM_io_WITHOUT_TORCH files/file.cc files/foreign_kind.cc files/hub_cache.cc files/hub_name.cc files/path_text.cc
    files/weight_files.cc)

# How many sources of a room are compiled as one object. LibTorch's headers take most of the time of an object, so that
# few large ones cost a fraction of many small ones; each room still makes at least two, for two processors.
set(HOOKED_SOURCES_PER_OBJECT 16)
set(HOOKED_ROOM_families_SOURCES_PER_OBJECT 28)

# Rooms whose sources begin with LibTorch's headers, which are compiled once for them. For the others loading the compiled
# headers costs more than it saves.
set(hooked_rooms_with_header hooks dictionaries weights models engine loading analysis harvest report cli)
hooked_add_header(hooked_room_header HEADERS ${hooked_common_headers})

# hooked_compile_together(<target> [<sources per object>]): several of the target's sources are one object, unless
# HOOKED_UNITY is off.
function(hooked_compile_together target)
  set(count ${HOOKED_SOURCES_PER_OBJECT})
  if(ARGC GREATER 1)
    set(count ${ARGV1})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HOOKED_UNITY} UNITY_BUILD_BATCH_SIZE ${count})
endfunction()

# Makes target hooked_<room>, an archive of the room's objects; INTERFACE while the room has no sources.
function(hooked_add_room room)
  set(target hooked_${room})
  hooked_room_folder(${room} folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(room STREQUAL core)
    configure_file(${PROJECT_SOURCE_DIR}/src/core/version.cc.in ${PROJECT_BINARY_DIR}/src/core/version.cc @ONLY)
    list(APPEND sources ${PROJECT_BINARY_DIR}/src/core/version.cc)
  endif()
  if(room STREQUAL report)
    # The script and the style sheet of pages are texts in the library.
    file(GLOB scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/page/*.js)
    set(style ${PROJECT_SOURCE_DIR}/${folder}/page/page.css)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts} ${style})
    file(READ ${style} page_style)
    set(page_script "(() => {\n'use strict';\n")
    foreach(script ${scripts})
      file(READ ${script} text)
      string(APPEND page_script "${text}")
    endforeach()
    string(APPEND page_script "})();\n")
    configure_file(${PROJECT_SOURCE_DIR}/src/report/page_files.cc.in ${PROJECT_BINARY_DIR}/src/report/page_files.cc @ONLY)
    list(APPEND sources ${PROJECT_BINARY_DIR}/src/report/page_files.cc)
  endif()

  # Separate objects, because bin/hooked uses them without LibTorch.
  set(alone ${HOOKED_ROOM_${room}_WITHOUT_TORCH})
  if(alone)
    list(TRANSFORM alone PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
    set_source_files_properties(${alone} ${PROJECT_BINARY_DIR}/src/core/version.cc
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()

  # Our own loops: without -O3 the compiler does not vectorise them, and with traps it may not. Under the sanitizers each vector
  # operation is instrumented, and -O3 takes five times as long to compile as -O1.
  set(loops $<IF:$<BOOL:${HOOKED_SANITIZE}>,-O1,-O3>)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/kernels/*.cc
                                              ${PROJECT_SOURCE_DIR}/${folder}/*/kernels/*.cc)
  if(kernels)
    set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
                                                      COMPILE_OPTIONS "${loops};-fno-math-errno;-fno-trapping-math")
  endif()

  list(TRANSFORM HOOKED_ROOM_${room}_MAY_INCLUDE PREPEND hooked_ OUTPUT_VARIABLE rooms)
  set(links ${rooms} ${HOOKED_ROOM_${room}_THIRD_PARTY})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:hooked_build_flags> fmt::fmt nlohmann_json::nlohmann_json)
    hooked_compile_together(${target} ${HOOKED_ROOM_${room}_SOURCES_PER_OBJECT})
    if(room IN_LIST hooked_rooms_with_header)
      hooked_precompile(${target} hooked_room_header)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(hooked::${room} ALIAS ${target})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
  target_link_libraries(${target} ${scope} ${links} LibTorch::LibTorch)
endfunction()

# hooked_add_program(<name> SOURCES <file>... LINKS <library>...): a program of ours in <build>/bin.
function(hooked_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${arg_LINKS} hooked_build_flags hooked_link_flags fmt::fmt
                                        nlohmann_json::nlohmann_json)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

set(hooked_library_rooms ${HOOKED_ROOMS})
list(REMOVE_ITEM hooked_library_rooms ${HOOKED_ROOMS_APART})
foreach(room ${hooked_library_rooms})
  hooked_add_room(${room})
endforeach()

# For programs that are one source over the whole library: the examples, the benchmarks and the generators of pages.
hooked_add_header(hooked_program_header HEADERS <hooked/hooked.h> LINKS hooked::hooked PROGRAM)
