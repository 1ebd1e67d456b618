# Installs the build BUILD under SCRATCH, then configures, builds and runs the consumer project against it alone.
# Usage: cmake -DBUILD= -DCONFIG= -DSOURCE= -DSCRATCH= -DGENERATOR= -DCOMPILER= -DTORCH= -DMODEL= -DVERSION=
#              -P run_consumer.cmake
cmake_minimum_required(VERSION 3.22)
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run("install" ${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --component library --prefix ${SCRATCH}/prefix)
run("configuring the consumer" ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/build -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${CONFIG} -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
if(NOT output MATCHES "LibTorch [0-9.]+: ([^\n]+)\n" OR NOT CMAKE_MATCH_1 STREQUAL TORCH)
  message(FATAL_ERROR "the package chose LibTorch '${CMAKE_MATCH_1}'; expected the one of the build, '${TORCH}'")
endif()
run("building the consumer" ${CMAKE_COMMAND} --build ${SCRATCH}/build)
run("the consumer" ${SCRATCH}/build/consumer ${MODEL})
message("${output}")
if(NOT output MATCHES "hooked ${VERSION}, LibTorch ")
  message(FATAL_ERROR "the consumer printed another version; expected hooked ${VERSION}")
endif()
