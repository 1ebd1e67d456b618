#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "io/pickle/checked_record.h"
#include "io/tensors/tensor_file.h"

namespace hooked {

class ZipDirectory;
struct PickleDocument;
struct ZipEntry;

/// The tensors of a checkpoint as torch.save writes it: strided views of records of a zip archive.
class ZipTensors final : public TensorFile {
 public:
  explicit ZipTensors(const InputFile& file, PickledNames names = PickledNames::state_dict);

  at::Tensor read(const InputFile& file, std::size_t index) const override;
  at::Tensor read_rows(const InputFile& file, std::size_t index, Rows rows) const override;
  bool in_order(std::size_t index) const override;
  /// The first read of a record goes over all of it and compares its checksum.
  void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                     const at::Tensor& into) const override;

 private:
  struct Layout {
    std::uint32_t record;
    std::vector<std::int64_t> strides;  ///< in elements
  };
  enum class Amount { kWholeRecord, kPart };

  void match_records(const InputFile& file, const PickleDocument& document, const ZipDirectory& directory,
                     std::string_view prefix);
  at::Tensor load(const InputFile& file, const TensorInfo& info, const Layout& layout, Amount amount) const;

  std::deque<CheckedRecord> records_;
  std::vector<Layout> layouts_;  // of tensors_, one each
  bool swap_bytes_ = false;
};

}  // namespace hooked
