// What becomes of a model whose file is changed while it is in use (S23). A plain folder is read and needs
// its file no longer. A packed folder is mapped: then it is an error, or, in the middle of a run, may be the
// end of the process (SIGBUS), but never numbers of what is no longer there.
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"
#include "tests/support/tiny_model.h"

namespace hooked::mapped_model_test {
namespace {

namespace fs = std::filesystem;

/// Large enough that its matrices take several pages.
ModelConfig mapped_config() {
  ModelConfig config = small_config();
  config.d_model = 64;
  config.d_head = 16;
  config.d_mlp = 256;
  config.dtype = at::kFloat;
  return config;
}

class MappedModel : public testing::Test {
 protected:
  MappedModel() { random_model(mapped_config()).save(folder / "model", {.packed = true}); }

  fs::path file() const { return folder / "model/packed.safetensors"; }
  HookedTransformer load() const { return HookedTransformer::load((folder / "model").string()); }
  std::string bytes() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const TempFolder folder;
  const at::Tensor tokens = random_tokens(mapped_config(), {2, 6});
};

/// What a child does with `work`: `numbers` if it returns, `error` for an IoError, `SIGBUS`, or something
/// else.
std::string in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    int status = 0;
    try {
      work();
    } catch (const IoError&) {
      status = 1;
    } catch (...) {
      status = 2;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGBUS ? "SIGBUS" : "another signal";
  return WEXITSTATUS(status) == 0 ? "numbers" : WEXITSTATUS(status) == 1 ? "error" : "another error";
}

TEST_F(MappedModel, S23CutBetweenTwoRunsIsAnError) {
  const auto whole = fs::file_size(file());
  for (const std::uintmax_t left :
       {whole - 1, whole - 100, whole / 2, std::uintmax_t{4096}, std::uintmax_t{0}}) {
    SCOPED_TRACE(left);
    const std::string before = bytes();
    const HookedTransformer model = load();
    EXPECT_EQ(model.run(tokens).logits().size(0), 2);
    fs::resize_file(file(), left);
    const std::string run = text_thrown_by<IoError>([&] { model.run(tokens); });
    EXPECT_NE(run.find("packed.safetensors"), std::string::npos) << run;
    EXPECT_NE(run.find("was changed while in use"), std::string::npos) << run;
    EXPECT_THROW(model.generate(tokens, {.max_new_tokens = 2}), IoError);
    std::ofstream(file(), std::ios::binary) << before;
    EXPECT_THROW(model.run(tokens), IoError) << "nobody knows that it is the same again";
    EXPECT_NO_THROW(load().run(tokens));
  }
}

TEST_F(MappedModel, S23CutInTheMiddleOfARunGivesNoNumbers) {
  at::set_num_threads(1);
  const auto whole = fs::file_size(file());
  const std::string before = bytes();
  for (const std::uintmax_t left :
       {whole - 1, whole - 100, whole / 2, std::uintmax_t{4096}, std::uintmax_t{0}}) {
    SCOPED_TRACE(left);
    const HookedTransformer model = load();
    const auto cut = [&](const at::Tensor&) { fs::resize_file(file(), left); };
    const std::string became = in_child([&] { model.run(tokens, {.hooks = {{act::resid_pre(1), cut}}}); });
    EXPECT_TRUE(became == "error" || became == "SIGBUS") << became;
    std::ofstream(file(), std::ios::binary) << before;
  }
}

TEST_F(MappedModel, S23ReplacedByNameKeepsItsBytes) {
  const HookedTransformer model = load();
  const at::Tensor logits = model.run(tokens).logits();
  ModelConfig other = mapped_config();
  model_of(random_weights(other, 8), other).save(folder / "other", {.packed = true});
  fs::rename(folder / "other/packed.safetensors", file());
  EXPECT_TRUE(at::equal(model.run(tokens).logits(), logits));
  EXPECT_FALSE(at::equal(load().run(tokens).logits(), logits));
  fs::remove(file());
  EXPECT_TRUE(at::equal(model.run(tokens).logits(), logits));
}

TEST_F(MappedModel, S23APlainFolderNeedsItsFileNoLonger) {
  random_model(mapped_config()).save(folder / "plain");
  const auto model = HookedTransformer::load((folder / "plain").string());
  const at::Tensor logits = model.run(tokens).logits();
  fs::resize_file(folder / "plain/model.safetensors", 100);
  EXPECT_TRUE(at::equal(model.run(tokens).logits(), logits));
}

}  // namespace
}  // namespace hooked::mapped_model_test
