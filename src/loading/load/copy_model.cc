#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "loading/load/codes_to_keep.h"
#include "loading/load/load.h"

namespace hooked {

std::shared_ptr<LoadedModel> copy_model(const LoadedModel& model, Storage storage) {
  return copy_model(model, model.placement, storage);
}

std::shared_ptr<LoadedModel> copy_model(const LoadedModel& model, const Placement& placement,
                                        Storage storage) {
  auto copy = std::make_shared<LoadedModel>(model.config, placement, storage);
  copy->family = model.family;
  copy->read_from = model.read_from;
  // The copy already has a note about the place of its own layers, and its weights are numbers.
  std::copy_if(
      model.notes.begin(), model.notes.end(), std::back_inserter(copy->notes),
      [&](const std::string& note) { return note != model.placement.text() && note != model.note_of_codes; });
  copy->processing = model.processing;
  report_expanded(copy->processing);
  copy->padding_token = model.padding_token;
  copy->tokenizer = model.tokenizer;
  copy->tokenizer_files = model.tokenizer_files;
  // Tensor by tensor: the host never holds a second model.
  const at::NoGradGuard no_grad;
  const WeightSlots from = model.slots(), into = copy->slots();
  for (std::size_t i = 0; i < into.size(); ++i) into[i].view.write(from[i].view.read());
  return copy;
}

}  // namespace hooked
