// expect: deleted
#include "hooked/io/safetensors.h"

std::uint64_t size(const hooked::SafetensorsFile& file) { return file.file().size(); }

#ifdef HOOKED_MUST_NOT_COMPILE
const auto& closed_file() { return hooked::SafetensorsFile::open("model.safetensors").file(); }
#endif
