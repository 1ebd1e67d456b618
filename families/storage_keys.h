#pragma once

#include "families/storage.h"

namespace hooked {

// Readers of config.json's group for each method of quantisation. Each key is honoured or refused; keys about
// how the quantisation was done are ignored. Throw ConfigError.

void read_awq_keys(const ConfigReader& group, QuantisedStorage& storage);
void read_bitsandbytes_keys(const ConfigReader& group, QuantisedStorage& storage);
void read_compressed_keys(const ConfigReader& group, QuantisedStorage& storage);
void read_fbgemm_keys(const ConfigReader& group, QuantisedStorage& storage);
void read_fp8_keys(const ConfigReader& group, QuantisedStorage& storage);
void read_gptq_keys(const ConfigReader& group, QuantisedStorage& storage);
void read_mxfp4_keys(const ConfigReader& group, QuantisedStorage& storage);

}  // namespace hooked
