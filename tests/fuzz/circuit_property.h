#pragma once

#include <string_view>

#include "hooked/analysis/circuit.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/small_model.h"

namespace hooked {

/// What must hold for any bytes as the file of a circuit: they are refused with an Error, or the circuit is
/// one of the model, and is the same after it was saved and loaded. Returns whether they were accepted;
/// throws std::logic_error where this does not hold.
inline bool circuit_property(std::string_view bytes) {
  const auto file = put("circuit.json", bytes);
  return accepts([&] {
    const HookedTransformer& model = small_model();
    const Circuit circuit = Circuit::load(model, file);
    hold(circuit.size() <= 100, "more parts than the model has");
    circuit.save(scratch() / "saved.json", Overwrite::any);
    hold(Circuit::load(model, scratch() / "saved.json") == circuit, "a circuit that changes");
  });
}

}  // namespace hooked
