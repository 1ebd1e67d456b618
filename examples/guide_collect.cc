// Activations of 500 prompts in one file, for numpy.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path file =
      std::filesystem::path(argc > 2 ? argv[2] : ".") / "collected.safetensors";
  std::vector<std::string> prompts;
  for (int i = 0; i < 500; ++i)
    prompts.push_back(i % 2 == 0 ? "When John and Mary went to the shop, John gave a bag to" : "Then Mary");

  // In batches, so that only what is kept stays in memory: one vector a prompt, not all positions.
  constexpr std::size_t kBatch = 50;
  std::vector<at::Tensor> streams;
  for (std::size_t first = 0; first < prompts.size(); first += kBatch) {
    const auto begin = prompts.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<std::string> batch(begin, begin + kBatch);
    const auto run = model.run(model.to_token_batch(batch), {.capture = "resid_post1",
                                                             .keep = {.positions = hooked::AxisIndex::Last{}},
                                                             .output = hooked::Output::none});
    streams.push_back(run.cache["resid_post1"].squeeze(1));  // [batch, d_model]
  }
  const auto all = at::cat(streams);
  hooked::save_safetensors(file, {{"resid_post1", all}},
                           {.metadata = {{"prompts", "each row is a prompt's last token"}}});
  std::cout << "wrote " << all.sizes() << " to " << file << '\n';

  // Read again, as another program would.
  const auto rows = hooked::load_safetensors(file).at("resid_post1");
  const auto farther = (rows[0] - rows[1]).norm() > (rows[0] - rows[2]).norm();
  std::cout << "rows 0 and 1 differ" << (farther.item<bool>() ? " more" : " less")
            << " than rows 0 and 2, which are of the same prompt\n";
}
