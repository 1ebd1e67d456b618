#pragma once

#include <string>
#include <string_view>

#include "hooked/analysis/probe.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

/// What must hold for any bytes as the header of a probe's file, whose data is zeros: they are refused with
/// an Error, or the probe's bytes are the same each time that it is saved and loaded. Returns whether they
/// were accepted; throws std::logic_error where this does not hold.
inline bool probe_property(std::string_view header) {
  const auto file = put("probe.safetensors", safetensors_of(header, std::string(96, '\0')));
  return accepts([&] {
    const Probe probe = Probe::load(file);
    hold(probe.facts.rows >= 0 && probe.facts.held_out_rows >= 0 && probe.fit.iterations >= 0,
         "a number below 0");
    const auto saved = scratch() / "saved_probe.safetensors";
    probe.save(saved, Overwrite::any);
    const std::string once = bytes_of(saved);
    Probe::load(saved).save(saved, Overwrite::any);
    hold(bytes_of(saved) == once, "a probe that changes");
  });
}

}  // namespace hooked
