#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "cli/input_options.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"
#include "tests/cli/cli_fixture.h"

namespace hooked::edit_options_test {
namespace {

// Every edit on the command line against the same edit made in C++ (float64, so that nothing is rounded
// away).
class EditOptionsTest : public CliTest {
 protected:
  HookedTransformer exact() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
  at::Tensor tokens() const { return at::tensor({1, 2, 3, 4}, at::TensorOptions(at::kLong)).unsqueeze(0); }

  at::Tensor logits(const std::vector<std::string>& edits) {
    std::vector<std::string> arguments = {
        "cache",   model(),   "--tokens",   "1,2,3,4", "--dtype",
        "float64", "--names", "hook_embed", "--out",   path("edited.safetensors")};
    for (const auto& edit : edits) {
      arguments.push_back("--edit");
      arguments.push_back(edit);
    }
    succeed(arguments);
    return SafetensorsFile::open(path("edited.safetensors")).read("logits");
  }

  void expect_same(const std::string& text, const std::vector<Edit>& edits) {
    const auto model = exact();
    const auto plain = model(tokens());
    const auto want = model.run(tokens(), {.edits = edits}).logits();
    const auto got = logits({text});
    EXPECT_LT(got.sub(want).abs().max().item<double>(), 1e-12) << text;
    EXPECT_GT(got.sub(plain).abs().max().item<double>(), 1e-6) << text << " changes nothing";
  }
};

TEST_F(EditOptionsTest, NumbersAreApplied) {
  expect_same("blocks.0.attn.hook_z[head=1] zero", {zero(act::z(0).head(1))});
  expect_same("blocks.0.attn.hook_z[head=1,pos=-1] set 0.5", {set(act::z(0).head(1).pos(-1), 0.5)});
  expect_same("blocks.1.mlp.hook_post[pos=1:3]  add  -2e-1 ",
              {add(act::post(1).pos(AxisIndex::Range{1, 3}), -0.2)});
  expect_same("blocks.1.attn.hook_pattern scale +0.25", {scale(act::pattern(1), 0.25)});
  expect_same("blocks.0.mlp.hook_post[pos=last] scale 3", {scale(act::post(0).pos(AxisIndex::Last{}), 3.0)});
}

TEST_F(EditOptionsTest, GlobsReachEveryLayer) {
  expect_same("blocks.*.attn.hook_z[head=0+2] zero", {zero(act::z(0).head(std::vector<std::int64_t>{0, 2})),
                                                      zero(act::z(1).head(std::vector<std::int64_t>{0, 2}))});
}

TEST_F(EditOptionsTest, TensorsComeFromFiles) {
  const auto direction = at::randn({12}, at::kDouble);
  save_safetensors(path("d.safetensors"), {{"direction", direction}});
  const auto value = path("d.safetensors") + "#direction";
  expect_same("blocks.1.hook_resid_pre project_out " + value, {project_out(act::resid_pre(1), direction)});
  expect_same("blocks.1.hook_resid_pre[pos=2] add " + value, {add(act::resid_pre(1).pos(2), direction)});
  expect_same("blocks.1.hook_resid_pre set " + value, {set(act::resid_pre(1), direction)});
}

TEST_F(EditOptionsTest, ReplaceTakesTheAddressedBlockOfACacheFile) {
  succeed(
      {"cache", model(), "--tokens", "5,6,7,8", "--dtype", "float64", "--out", path("other.safetensors")});
  const auto source = exact().run_with_cache(at::tensor({5, 6, 7, 8}, at::TensorOptions(at::kLong)));
  const auto address = act::z(1).head(2).pos(AxisIndex::Range{1, 3});
  expect_same(
      "blocks.1.attn.hook_z[head=2,pos=1:3] replace " + path("other.safetensors") + "#blocks.1.attn.hook_z",
      {replace(address, source.cache)});
  // A file may hold only the block.
  save_safetensors(path("block.safetensors"), {{"z", source.cache[address].contiguous()}});
  expect_same("blocks.1.attn.hook_z[head=2,pos=1:3] replace " + path("block.safetensors") + "#z",
              {replace(address, source.cache)});
}

// A position is a column of the sequence, whatever part of it a file holds and however long it is.
TEST_F(EditOptionsTest, ReplaceTakesTheAddressedColumnsOfAnyFile) {
  const auto model = exact();
  const auto longer = at::tensor({5, 6, 7, 8, 9, 3}, at::TensorOptions(at::kLong)).unsqueeze(0);
  const ActivationCache whole = model.run_with_cache(longer).cache;
  whole.save(path("longer.safetensors"), {.provenance = model.provenance()});
  model.run(longer, {.capture = act::z(1), .keep = {.positions = std::vector<std::int64_t>{5, 3, 1}}})
      .cache.save(path("some.safetensors"), {.provenance = model.provenance()});
  model.run(longer, {.capture = act::z(1), .keep = {.positions = AxisIndex::Last{}}})
      .cache.save(path("last.safetensors"), {.provenance = model.provenance()});
  const auto expect_column = [&](const std::string& index, const std::string& file, const AxisIndex& column) {
    expect_same("blocks.1.attn.hook_z[" + index + "] replace " + path(file) + "#blocks.1.attn.hook_z",
                {set(act::z(1).pos(column), whole[act::z(1).pos(column)])});
  };
  expect_column("pos=3", "longer.safetensors", 3);
  expect_column("pos=3", "some.safetensors", 3);
  expect_column("pos=-1", "longer.safetensors", 3);  // the last of the run, which has four
  expect_column("pos=-1", "some.safetensors", 3);
  expect_column("pos=1+3", "some.safetensors", std::vector<std::int64_t>{1, 3});
  expect_column("pos=last", "some.safetensors", 3);
  expect_same("blocks.1.attn.hook_z[head=1] replace " + path("longer.safetensors") + "#blocks.1.attn.hook_z",
              {set(act::z(1).head(1), whole[act::z(1).head(1).pos(AxisIndex::Range{0, 4})])});
  expect_same(
      "blocks.1.attn.hook_pattern replace " + path("longer.safetensors") + "#blocks.1.attn.hook_pattern",
      {set(act::pattern(1), whole[act::pattern(1)].narrow(2, 0, 4).narrow(3, 0, 4))});
  // A tensor without a record of its columns begins at 0.
  save_safetensors(path("plain.safetensors"), {{"z", whole[act::z(1)].contiguous()}});
  expect_same("blocks.1.attn.hook_z[pos=2] replace " + path("plain.safetensors") + "#z",
              {set(act::z(1).pos(2), whole[act::z(1).pos(2)])});
  const auto lacks = [&](const std::string& index, const std::string& file) {
    expect_failure({"run", this->model(), "--dtype", "float64", "--tokens", "1,2,3,4", "--edit",
                    "blocks.1.attn.hook_z" + index + " replace " + path(file) + "#blocks.1.attn.hook_z"},
                   1, "is not held");
  };
  lacks("[pos=2]", "some.safetensors");
  lacks("", "some.safetensors");
  lacks("[pos=3]", "last.safetensors");
}

// numpy's directions are float64, whatever the model is.
TEST_F(EditOptionsTest, TensorsOfFilesAreConverted) {
  const auto direction = at::randn({12}, at::kDouble);
  save_safetensors(path("d.safetensors"), {{"double", direction},
                                           {"half", direction.to(at::kHalf)},
                                           {"int", at::arange(12, at::kLong)},
                                           {"large", at::full({12}, 1e300, at::kDouble)},
                                           {"ids", at::tensor({3}, at::kInt)},
                                           {"no_ids", at::tensor({3.0})}});
  const auto logits_of = [&](const std::string& dtype, const std::string& edit) {
    succeed({"cache", model(), "--tokens", "1,2,3,4", "--dtype", dtype, "--names", "hook_embed", "--out",
             path("edited.safetensors"), "--force", "--edit", edit});
    return SafetensorsFile::open(path("edited.safetensors")).read("logits");
  };
  const auto file = path("d.safetensors") + "#";
  const auto expect = [&](at::ScalarType dtype, const std::string& edit, const Edit& same) {
    const auto model = HookedTransformer::load(this->model(), {.dtype = dtype});
    EXPECT_TRUE(at::equal(logits_of(std::string(dtype_text(dtype)), edit),
                          model.run(tokens(), {.edits = {same}}).logits()))
        << edit;
  };
  const auto single = direction.to(at::kFloat), narrow = direction.to(at::kBFloat16);
  expect(at::kFloat, "resid_pre1 add " + file + "double", add(act::resid_pre(1), single));
  expect(at::kFloat, "resid_pre1 project_out " + file + "double", project_out(act::resid_pre(1), single));
  expect(at::kFloat, "resid_pre1 add " + file + "int",
         add(act::resid_pre(1), at::arange(12, at::kLong).to(at::kFloat)));
  expect(at::kDouble, "resid_pre1 add " + file + "half",
         add(act::resid_pre(1), direction.to(at::kHalf).to(at::kDouble)));
  expect(at::kBFloat16, "resid_pre1 add " + file + "double", add(act::resid_pre(1), narrow));
  // In a narrow model scales are float32.
  const auto ten = at::full({1}, 10.0, at::kDouble);
  save_safetensors(path("s.safetensors"), {{"ten", ten}});
  expect(at::kBFloat16, "ln1_scale1 set " + path("s.safetensors") + "#ten",
         set(act::ln1_scale(1), ten.to(at::kFloat)));
  expect(at::kFloat, "hook_tokens[pos=1] set " + file + "ids",
         set(Address("hook_tokens").pos(1), at::tensor({3}, at::kLong)));
  const auto refused = [&](const std::string& edit, const std::string& what) {
    expect_failure({"run", model(), "--tokens", "1,2", "--edit", edit}, 1, what);
  };
  refused("resid_pre1 add " + file + "large",
          "#large\"] the tensor holds 1e+300, which is beyond the range of");
  refused("hook_tokens[pos=1] set " + file + "no_ids", "expected int64");
}

// A place of a saved cache by its address, as in an edit's target.
TEST_F(EditOptionsTest, AKeyMayBeShorthandAndAnAddress) {
  const auto model = exact();
  const auto other = at::tensor({5, 6, 7, 8, 9}, at::TensorOptions(at::kLong)).unsqueeze(0);
  const ActivationCache cache = model.run_with_cache(other).cache;
  cache.save(path("c.safetensors"), {.provenance = model.provenance()});
  const auto file = path("c.safetensors") + "#";
  const at::Tensor stream = cache[act::resid_post(0).pos(3).row(0)], z = cache[act::z(1).head(2).pos(1)];
  expect_same("resid_pre1 add " + file + "resid_post0[pos=3,batch=0]", {add(act::resid_pre(1), stream)});
  expect_same("resid_pre1 add " + file + "resid_post0[pos=3]", {add(act::resid_pre(1), stream)});
  expect_same("resid_pre1 add " + file + "blocks.0.hook_resid_post[pos=-2]",
              {add(act::resid_pre(1), stream)});
  expect_same("resid_pre1 project_out " + file + "resid_post0[pos=-2]",
              {project_out(act::resid_pre(1), stream)});
  expect_same("resid_pre1[pos=2] add " + file + "resid_post0[pos=last,batch=0]",
              {add(act::resid_pre(1).pos(2), cache[act::resid_post(0).pos(-1).row(0)])});
  expect_same("z1[head=0,pos=3] replace " + file + "z1[head=2,pos=1]", {set(act::z(1).head(0).pos(3), z)});
  expect_same("z1[pos=1:3] replace " + file + "z1",
              {set(act::z(1).pos(AxisIndex::Range{1, 3}), cache[act::z(1).pos(AxisIndex::Range{1, 3})])});
  // Only some columns are kept; the address counts those of the sequence.
  model.run(other, {.capture = act::resid_post(0), .keep = {.positions = std::vector<std::int64_t>{1, 3}}})
      .cache.save(path("some.safetensors"), {.provenance = model.provenance()});
  expect_same("resid_pre1 add " + path("some.safetensors") + "#resid_post0[pos=3]",
              {add(act::resid_pre(1), stream)});
  // Without a record of columns, and a key that looks like an address but is a tensor's name.
  save_safetensors(path("plain.safetensors"), {{"blocks.0.hook_resid_post", cache[act::resid_post(0)]},
                                               {"resid_post0[pos=3]", stream * 2.0},
                                               {"resid_post1", stream}});
  const auto plain = path("plain.safetensors") + "#";
  expect_same("resid_pre1 add " + plain + "resid_post0[pos=2,batch=0]",
              {add(act::resid_pre(1), cache[act::resid_post(0).pos(2).row(0)])});
  expect_same("resid_pre1 add " + plain + "resid_post0[pos=3]", {add(act::resid_pre(1), stream * 2.0)});
  expect_same("resid_pre1 add " + plain + "resid_post1", {add(act::resid_pre(1), stream)});
  const auto refused = [&](const std::string& value, const std::string& what) {
    expect_failure(
        {"run", this->model(), "--dtype", "float64", "--tokens", "1,2", "--edit", "resid_pre1 add " + value},
        1, what);
  };
  refused(file + "resid_post0[pos=5]", "index 5 is out of range on axis 'pos'; expected -5 to 4");
  refused(file + "resid_post0[position=3]", "it is written 'pos'");
  refused(file + "resid_post0[head=1]", "no axis 'head'");
  refused(file + "resid_psot0", "tensor 'resid_psot0' is not in this file");
  refused(file + "gradient[pos=3]", "tensor 'gradient[pos=3]' is not in this file");
  refused(file + "blocks.7.hook_resid_post[pos=3]", "tensor 'blocks.7.hook_resid_post' is not in this file");
  refused(path("some.safetensors") + "#resid_post0[pos=2]", "which is not held");
  save_safetensors(path("flat.safetensors"), {{"blocks.0.hook_resid_post", stream}});
  refused(path("flat.safetensors") + "#resid_post0[pos=3]", "expected 3 of them, got shape [12]");
}

TEST_F(EditOptionsTest, EditsAreAppliedInTheirOrder) {
  const auto model = exact();
  const auto want =
      model.run(tokens(), {.edits = {set(act::z(0), 1.0), scale(act::z(0).head(0), 0.5)}}).logits();
  const auto got = logits({"blocks.0.attn.hook_z set 1", "blocks.0.attn.hook_z[head=0] scale 0.5"});
  EXPECT_LT(got.sub(want).abs().max().item<double>(), 1e-12);
}

TEST_F(EditOptionsTest, OtherTextsAreRefused) {
  const auto refused = [&](const std::string& edit, int exit_code, const std::string& what) {
    expect_failure({"run", model(), "--tokens", "1,2", "--edit", edit}, exit_code, what);
  };
  refused("", 2, "--edit");
  refused("blocks.0.attn.hook_z", 2, "it has no operation");
  refused("blocks.0.attn.hook_z nil", 2, "there is no operation 'nil'");
  refused("blocks.0.attn.hook_z zero 3", 2, "zero takes no value");
  refused("blocks.0.attn.hook_z set", 2, "set needs a value");
  refused("blocks.0.attn.hook_z set much", 2, "'much' is neither a number nor FILE#KEY");
  refused("blocks.0.attn.hook_z replace 3", 2, "'3' is neither a number nor FILE#KEY");
  refused("blocks.7.attn.hook_z zero", 1, "blocks.7.attn.hook_z");
  refused("blocks.0.attn.hook_zz zero", 1, "blocks.0.attn.hook_z");
  refused("blocks.0.attn.hook_z[head=3] zero", 1, "3");
  refused("blocks.0.attn.hook_z[neck=3] zero", 2, "neck");
  refused("blocks.0.attn.hook_z[head=3 zero", 2, "[head=3");
  refused("blocks.0.attn.hook_z[head=x] zero", 2, "x");
  refused("blocks.0.attn.hook_z set absent.safetensors#z", 1, "absent.safetensors");
  const std::vector<std::string> half{"run", model(), "--tokens", "1,2", "--dtype", "float16", "--edit"};
  const auto refused_in_half = [&](const std::string& edit, const std::string& what) {
    std::vector<std::string> words = half;
    words.push_back(edit);
    expect_failure(words, 1, what);
  };
  refused_in_half("blocks.0.hook_resid_pre add 1e6",
                  "[blocks.0.hook_resid_pre] the edit's number is beyond the range of float16");
  save_safetensors(path("far.safetensors"), {{"far", at::full({12}, 1e6)}});
  const std::string far = "blocks.0.hook_resid_pre set " + path("far.safetensors") + "#far";
  refused_in_half(far, "[--edit \"" + far + "\"] the tensor holds 1e+06");
}

}  // namespace
}  // namespace hooked::edit_options_test
