# Generated pages: docs/generators/<name>.cc is a program that prints docs/<name>.md (with - for _), given the repository's
# folder. The target `docs` rewrites the pages; a test per page fails when the committed one is out of date.
file(GLOB generators CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/generators/*.cc)
add_custom_target(docs)
foreach(source ${generators})
  get_filename_component(name ${source} NAME_WE)
  hooked_add_program(docs_${name} SOURCES ${source} LINKS hooked_analysis)
  set_target_properties(docs_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
  string(REPLACE "_" "-" page ${name})
  set(page ${PROJECT_SOURCE_DIR}/docs/${page}.md)
  add_custom_target(docs_page_${name} COMMAND docs_${name} ${PROJECT_SOURCE_DIR} > ${page} VERBATIM)
  add_dependencies(docs docs_page_${name})
  add_test(NAME docs_${name} COMMAND sh -c "$<TARGET_FILE:docs_${name}> ${PROJECT_SOURCE_DIR} | diff -u ${page} -")
endforeach()
