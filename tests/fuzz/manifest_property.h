#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "harvest/manifest.h"
#include "hooked/harvest/activation_store.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

/// What must hold for any bytes as a store's manifest, or as the record of a unit, as the first byte says:
/// they are refused with an Error, or they are the same when they are written and read again, and what the
/// store then says about itself adds up. Returns whether they were accepted; throws std::logic_error where
/// this does not hold.
inline bool manifest_property(std::string_view input) {
  const auto [number, bytes] = chosen(input, 2);
  const auto record = scratch() / record_name(0);
  if (number == 1) {
    put(record_name(0), bytes);
    return accepts([&] {
      const auto read = read_record(scratch().path(), 0);
      hold(read && read->unit == 0, "no record of this unit");
      hold(read->rows >= 0 && read->contexts >= 0 && read->tokens >= 0 && read->not_finite >= 0,
           "a negative number");
      write_record(scratch().path(), *read);
      const std::string once = bytes_of(record);
      write_record(scratch().path(), *read_record(scratch().path(), 0));
      hold(bytes_of(record) == once, "a record that changes");
    });
  }
  std::filesystem::remove(record);
  const auto file = put(kManifest, bytes);
  return accepts([&] {
    Manifest manifest = Manifest::read(scratch().path());
    for (const CorpusUnit& unit : manifest.plan)
      hold(unit.begin <= unit.end, "a unit that ends before it begins");
    const StoreStatus status = status_of(manifest, read_records(scratch().path(), manifest));
    hold(status.rows >= 0 && status.contexts >= 0 && status.tokens >= 0, "a negative number");
    manifest.activations(scratch().path());
    if (!manifest.reduces())
      hold(ActivationStore::open(scratch().path()).rows() == status.rows, "another number of rows");
    manifest.write(scratch().path());
    const std::string once = bytes_of(file);
    Manifest::read(scratch().path()).write(scratch().path());
    hold(bytes_of(file) == once, "a manifest that changes");
  });
}

}  // namespace hooked
