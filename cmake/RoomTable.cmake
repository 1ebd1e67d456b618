# The rooms of docs/architecture.md, lowest first, and which rooms each may include. Read twice: by Rooms.cmake, which
# makes one library per room that links exactly its row, and by tests/architecture, which checks every #include.
set(HOOKED_ROOMS core io hooks weights text models families loading engine analysis options cli)
set(HOOKED_ROOM_core_MAY_INCLUDE "")
set(HOOKED_ROOM_io_MAY_INCLUDE core)
set(HOOKED_ROOM_hooks_MAY_INCLUDE core io)
set(HOOKED_ROOM_weights_MAY_INCLUDE core io)
set(HOOKED_ROOM_text_MAY_INCLUDE core io)
set(HOOKED_ROOM_models_MAY_INCLUDE core hooks)
set(HOOKED_ROOM_families_MAY_INCLUDE core)
set(HOOKED_ROOM_loading_MAY_INCLUDE core io hooks weights text models families)
set(HOOKED_ROOM_engine_MAY_INCLUDE core hooks models weights io text loading)
set(HOOKED_ROOM_analysis_MAY_INCLUDE core hooks io text engine)
set(HOOKED_ROOM_options_MAY_INCLUDE core io)
set(HOOKED_ROOM_cli_MAY_INCLUDE options core hooks weights io text loading engine analysis)

# The folder of a room's sources: hooks, models and families lie at the root, the others under src.
function(hooked_room_folder room result)
  if(room MATCHES "^(hooks|models|families)$")
    set(${result} ${room} PARENT_SCOPE)
  else()
    set(${result} src/${room} PARENT_SCOPE)
  endif()
endfunction()
