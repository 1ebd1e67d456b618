#include "loading/fill/streamed_model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/parallel.h"
#include "core/size_text.h"
#include "loading/fill/place_layers.h"
#include "models/storage/matrix_parts.h"
#include "weights/processor.h"

namespace hooked {
namespace {

// `blocks.3.` for a weight of that block, empty for others.
std::string scope_of(const std::string& name) {
  for (const Stack stack : {Stack::blocks, Stack::encoder, Stack::decoder}) {
    const std::string folder = std::string(stack_name(stack)) + '.';
    if (name.starts_with(folder)) return name.substr(0, name.find('.', folder.size()) + 1);
  }
  return {};
}

// The matrix in codes; nothing if these cannot hold one of its blocks.
std::optional<CodedStrips> strips_of(const CodedRows& rows, const Workspace* memory) {
  constexpr std::int64_t kOfAStrip = kernels::kPackedColumns;
  const CodedStrips strips(rows.form, rows.out, rows.in, memory);
  const auto held = rows.hold ? rows.hold() : nullptr;
  std::atomic<bool> holds = true;
  share_among_threads((rows.out + kOfAStrip - 1) / kOfAStrip, [&](std::int64_t strip) {
    std::vector<CodedBlock> blocks(static_cast<std::size_t>(rows.in / rows.form.block));
    for (std::int64_t out = strip * kOfAStrip; out < std::min((strip + 1) * kOfAStrip, rows.out); ++out) {
      rows.read(out, blocks);
      const auto holds_it = [&](const CodedBlock& block) { return CodedStrips::holds(rows.form, block); };
      if (!std::ranges::all_of(blocks, holds_it)) holds = false;
      strips.put(out, blocks);
    }
  });
  if (!holds) return std::nullopt;
  return strips;
}

// The codes of a weight that may stay in them, if the file has it so.
std::optional<CodedRows> rows_in_codes(const WeightSlot& slot, RecipeReader& reader) {
  auto rows = reader.find_codes(
      slot.name, [&](const at::Tensor& tensor) { return slot.view.coded()->outputs_first(tensor); });
  return rows && CodedStrips::fits(rows->form, rows->in) ? std::move(rows) : std::nullopt;
}

// The bytes of its codes, if it stays in codes.
std::optional<std::uint64_t> fill_slot(const WeightSlot& slot, RecipeReader& reader,
                                       const weights::Changes& changes) {
  const auto change = changes.find(slot.name);
  const bool changed = change != changes.end() && change->second;
  SlotView view = slot.view;
  if (const CodedSlot* const coded = view.coded()) {
    if (const auto rows = changed ? std::nullopt : rows_in_codes(slot, reader)) {
      if (auto strips = strips_of(*rows, coded->matrix().parts()->memory())) {
        const std::uint64_t bytes = strips->nbytes();
        coded->fill(*std::move(strips));
        return bytes;
      }
    }
    view = coded->fill_with_numbers();
  }
  const auto write = [&](std::int64_t dimension, std::int64_t first, const at::Tensor& values) {
    view.write(dimension, first, values);
  };
  if (changed) {
    change->second->weight.write(write, change->second->dtype);
  } else if (const auto stored = reader.find(slot.name)) {
    copy_blocks(*stored, write);
  } else {
    view.pieces().zero_();  // only optional slots are absent here
  }
  return std::nullopt;
}

// Counts a weight's bytes in memory; `in_codes` of them if it stays in codes.
void count(MatricesInCodes& kept, const WeightSlot& slot, std::optional<std::uint64_t> in_codes) {
  if (slot.view.coded() != nullptr) ++kept.matrices;
  if (in_codes) ++kept.in_codes;
  kept.bytes += in_codes.value_or(slot.view.nbytes());
}

}  // namespace

std::shared_ptr<LoadedModel> streamed_model(RecipeReader& reader, const ModelConfig& config,
                                            const std::vector<c10::Device>& devices,
                                            const WeightProcessing& processing, Storage storage,
                                            const Progress& progress) {
  const at::NoGradGuard no_grad;
  const auto stored = [&](const std::string& name) { return reader.find(name); };
  const weights::Processor processor(config, processing, stored);
  auto model =
      std::make_shared<LoadedModel>(processor.after(), place_layers(processor.after(), devices), storage);
  model->processing = processor.report();
  std::map<std::string, WeightSlots> slots;
  std::uint64_t total = 0;  // bytes
  for (WeightSlot& slot : model->slots()) {
    total += slot.view.nbytes();
    slots[scope_of(slot.name)].push_back(std::move(slot));
  }
  std::atomic<std::uint64_t> done = 0;
  // Threads other than the caller's only count. The part outside the blocks comes last, on the caller's.
  MatricesInCodes kept;
  std::mutex counting;
  const auto report = [&, caller = std::this_thread::get_id()](const WeightSlot& filled,
                                                               std::optional<std::uint64_t> in_codes) {
    done += filled.view.nbytes();
    {
      const std::lock_guard lock(counting);
      count(kept, filled, in_codes);
    }
    if (progress && std::this_thread::get_id() == caller) progress(done, total);
  };
  const auto fill_part = [&](const WeightPart& part) {
    weights::Changes changes = processor.changes(stored, part);
    const auto found = slots.find(part ? part->path() + "." : "");
    if (found != slots.end()) {
      for (const WeightSlot& slot : found->second) {
        const auto in_codes = fill_slot(slot, reader, changes);
        changes.erase(slot.name);
        reader.done(slot.name);
        report(slot, in_codes);
      }
    }
    for (const auto& [name, change] : changes)
      reader.done(name);  // weights that no longer exist, such as a folded norm's
  };
  // The part outside the blocks is last, and its tensors are large enough to be split among threads.
  const std::vector<WeightPart> parts = weight_parts(config);
  const auto blocks = static_cast<std::int64_t>(parts.size()) - 1;
  const auto fill_block = [&](std::int64_t block) { fill_part(parts[static_cast<std::size_t>(block)]); };
  // Few large blocks are filled in turn, each of their tensors on several threads. So are codes: a whole
  // matrix may be held while it is read.
  if (blocks >= at::get_num_threads() && storage != Storage::codes) {
    for_each_task(blocks, fill_block);
  } else {
    for (std::int64_t block = 0; block < blocks; ++block) fill_block(block);
  }
  fill_part(parts.back());
  if (storage == Storage::codes) {
    model->note_of_codes = kept.text();
    model->notes.push_back(model->note_of_codes);
  }
  return model;
}

MatricesInCodes matrices_in_codes(const LoadedModel& empty, RecipeReader& reader) {
  MatricesInCodes kept;
  for (const WeightSlot& slot : empty.slots()) {
    const auto rows = slot.view.coded() != nullptr ? rows_in_codes(slot, reader) : std::nullopt;
    count(kept, slot,
          rows ? std::optional(CodedStrips::nbytes_of(rows->form, rows->out, rows->in)) : std::nullopt);
  }
  return kept;
}

std::string MatricesInCodes::text() const {
  const std::string all = fmt::format("{} of {} matrices stay in codes; all weights take {} in memory",
                                      in_codes, matrices, size_text(bytes));
  if (in_codes == matrices) return all;
  return all + "; the others are expanded";
}

}  // namespace hooked
