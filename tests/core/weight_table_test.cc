#include "core/weight_table.h"

#include "tests/support/tiny_config.h"

namespace hooked::weight_table_test {
namespace {

ModelConfig grouped_config() {
  ModelConfig config = tiny_config({.n_layers = 2, .d_model = 8, .n_ctx = 5, .d_head = 3, .d_mlp = 16});
  config.n_kv_heads = 2;
  config.unembedding->d_vocab = 7;
  return config;
}

TEST(WeightTable, PathsAreUniqueAndBlocksHaveAPlace) {
  std::set<std::string_view> paths;
  for (const WeightRow& row : weight_table()) {
    EXPECT_TRUE(paths.insert(row.path).second) << row.path;
    EXPECT_EQ(row.in_block(), row.path.starts_with("{stack}.{layer}.")) << row.path;
    EXPECT_EQ(find_weight_row(row.local_path()), &row) << row.path;
  }
}

TEST(WeightTable, RowsAreFoundByEveryNameOfAWeight) {
  const WeightRow* keys = find_weight_row("attn.W_K");
  ASSERT_NE(keys, nullptr);
  for (const char* name :
       {"blocks.0.attn.W_K", "blocks.11.attn._W_K", "encoder.3.attn._W_K", "decoder.0.attn.W_K"}) {
    EXPECT_EQ(find_weight_row(name), keys) << name;
  }
  const WeightRow* expert = find_weight_row("mlp.experts.0.W_in.weight");
  ASSERT_NE(expert, nullptr);
  EXPECT_EQ(find_weight_row("blocks.3.mlp.experts.127.W_in.weight"), expert);
  EXPECT_NE(find_weight_row("blocks.3.mlp.W_gate"), find_weight_row("blocks.3.mlp.W_gate.weight"));
  for (const char* none : {"", "attn.W_X", "blocks.3.embed", "mlp.experts.", "mlp.experts.0", "blocks."}) {
    EXPECT_EQ(find_weight_row(none), nullptr) << none;
  }
}

TEST(WeightTable, GroupedKeysAndValuesCarryAnUnderscore) {
  EXPECT_EQ(grouped_spelling("blocks.0.attn.W_K"), "blocks.0.attn._W_K");
  EXPECT_EQ(grouped_spelling("attn.b_V"), "attn._b_V");
  EXPECT_EQ(grouped_spelling("cross_attn.W_V"), "cross_attn._W_V");
  for (const char* unchanged : {"attn._W_K", "attn.W_Q", "attn.k_norm.w", "unembed.W_U"}) {
    EXPECT_EQ(grouped_spelling(unchanged), unchanged);
  }
  ModelConfig config = grouped_config();
  const BlockPlace block{Stack::blocks, 1};
  EXPECT_EQ(weight_name(block, "attn.W_K", config), "blocks.1.attn._W_K");
  config.n_kv_heads = config.n_heads;
  EXPECT_EQ(weight_name(block, "attn.W_K", config), "blocks.1.attn.W_K");
  EXPECT_EQ(weight_name(std::nullopt, "embed.W_E", config), "embed.W_E");
}

TEST(WeightTable, ShapesGoByTheAxes) {
  const ModelConfig config = grouped_config();
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(weight_shape(*find_weight_row("embed.W_E"), config, std::nullopt), (Shape{9, 8}));
  EXPECT_EQ(weight_shape(*find_weight_row("unembed.W_U"), config, std::nullopt), (Shape{8, 7}));
  EXPECT_EQ(weight_shape(*find_weight_row("pos_embed.W_pos"), config, std::nullopt), (Shape{5, 8}));
  EXPECT_EQ(weight_shape(*find_weight_row("attn.W_K"), config, BlockPlace{Stack::blocks, 0}),
            (Shape{2, 8, 3}));
}

TEST(WeightTable, PartsAreTheBlocksInOrderAndThenTheRest) {
  ModelConfig config = grouped_config();
  config.encoder = Encoder{.n_layers = 1};
  const std::vector<WeightPart> parts = weight_parts(config);
  EXPECT_EQ(parts, (std::vector<WeightPart>{BlockPlace{Stack::encoder, 0}, BlockPlace{Stack::decoder, 0},
                                            BlockPlace{Stack::decoder, 1}, std::nullopt}));
}

}  // namespace
}  // namespace hooked::weight_table_test
