# The LibTorch of a wheel that pip builds: that of the environment's torch, and no other. An isolated build does not see the environment's
# packages, but its interpreter still knows where they are.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
if(NOT TORCH_ROOT)
  set(TORCH_ROOT "$ENV{TORCH_ROOT}")
endif()
if(NOT TORCH_ROOT)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "
import importlib.util, pathlib, sysconfig
spec = importlib.util.find_spec('torch')
places = [*(spec.submodule_search_locations if spec else []), *(sysconfig.get_path(p) + '/torch' for p in ('purelib', 'platlib'))]
print(next((p for p in places if pathlib.Path(p, 'lib/libtorch_cpu.so').exists()), ''), end='')"
                  OUTPUT_VARIABLE TORCH_ROOT COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT TORCH_ROOT)
  message(FATAL_ERROR "[hooked] no torch was found in the environment of ${Python_EXECUTABLE}; the engine is built against the torch \
that it will run in. Install torch first, or set TORCH_ROOT to its folder; with a tool that builds in an environment of its own (uv, \
build), turn that off: --no-build-isolation")
endif()
