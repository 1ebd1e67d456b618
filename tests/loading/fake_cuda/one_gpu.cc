// Loaded before the CUDA runtime's (LD_PRELOAD), so that it sees a device that does not exist.
extern "C" __attribute__((visibility("default"))) int cudaGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}
