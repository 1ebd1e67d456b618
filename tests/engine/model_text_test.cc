#include <fmt/format.h>

#include "hooked/engine/trainable_transformer.h"
#include "hooked/io/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::model_text_test {
namespace {

// A small model with a tokenizer of words: <bos> is 0, <unk> 1, then w2 to w10.
class ModelWithText : public testing::Test {
 protected:
  ModelWithText() {
    random_model().save(folder_ / "model");
    std::string vocab = R"("<bos>": 0, "<unk>": 1)";
    for (int id = 2; id < 11; ++id) vocab += fmt::format(", \"w{}\": {}", id, id);
    write_file(
        folder_ / "model" / "tokenizer.json",
        fmt::format(
            R"({{"version": "1.0", "added_tokens": [{{"id": 0, "content": "<bos>", "special": true}}], )"
            R"("pre_tokenizer": {{"type": "WhitespaceSplit"}}, )"
            R"("model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "<unk>"}}}})",
            vocab));
    write_file(folder_ / "model" / "tokenizer_config.json", R"({"bos_token": "<bos>"})");
    model_.emplace(HookedTransformer::load((folder_ / "model").string()));
  }
  static at::Tensor row(const std::vector<std::int64_t>& ids) {
    return at::tensor(ids, at::kLong).unsqueeze(0);
  }

  TempFolder folder_;
  std::optional<HookedTransformer> model_;
};

TEST_F(ModelWithText, BosComesAsTheModelWantsOrAsAskedFor) {
  EXPECT_TRUE(at::equal(model_->to_tokens("w2 w3"), row({0, 2, 3})));
  EXPECT_TRUE(at::equal(model_->to_tokens("w2 w3", {.prepend_bos = PrependBos::no}), row({2, 3})));
  EXPECT_TRUE(at::equal(model_->to_tokens("w2 w3", {.prepend_bos = PrependBos::yes}), row({0, 2, 3})));
  EXPECT_THROW(model_->to_tokens("", {.prepend_bos = PrependBos::no}), TokenizerError);
  write_file(folder_ / "model" / "tokenizer_config.json", "{}");
  const auto nameless = HookedTransformer::load((folder_ / "model").string());
  EXPECT_TRUE(at::equal(nameless.to_tokens("w2"), row({2})));
  EXPECT_THROW(nameless.to_tokens("w2", {.prepend_bos = PrependBos::yes}), TokenizerError);
}

TEST_F(ModelWithText, ATextThatBeginsWithBosGetsNoSecondOneUnlessAsked) {
  EXPECT_TRUE(at::equal(model_->to_tokens("<bos> w2"), row({0, 2})));
  EXPECT_TRUE(at::equal(model_->to_tokens("<bos> w2", {.prepend_bos = PrependBos::yes}), row({0, 0, 2})));
  EXPECT_TRUE(at::equal(model_->to_tokens("w2 <bos>"), row({0, 2, 0})));
  EXPECT_EQ(model_->to_pieces("<bos> w2").size(), 2U);
  EXPECT_TRUE(at::equal(model_->to_token_batch({"<bos> w2", "w2"}).tokens,
                        at::tensor({0, 2, 0, 2}, at::kLong).view({2, 2})));
}

// Tokens around a text, by the files and by what is asked for.
class TokensAroundText : public ModelWithText {
 protected:
  using Ids = std::vector<std::int64_t>;

  // The same model, with a template of these ids around a text; -1 marks the text.
  HookedTransformer with_template(const Ids& ids, std::string_view config = R"({"bos_token": "<bos>"})") {
    std::string single, special;
    for (const std::int64_t id : ids) {
      if (!single.empty()) single += ", ";
      single += id < 0 ? R"({"Sequence": {"id": "A", "type_id": 0}})"
                       : fmt::format(R"({{"SpecialToken": {{"id": "t{}", "type_id": 0}}}})", id);
      if (id >= 0) special += fmt::format(R"({}"t{}": {{"ids": [{}]}})", special.empty() ? "" : ", ", id, id);
    }
    return with(fmt::format(R"({{"type": "TemplateProcessing", "single": [{}], "special_tokens": {{{}}}}})",
                            single, special),
                config);
  }

  HookedTransformer with(std::string_view post_processor, std::string_view config) {
    std::string json = read_text_file((folder_ / "model" / "tokenizer.json").string(), 1 << 20);
    const auto end = json.find(R"(, "post_processor")");
    json = json.substr(0, end == std::string::npos ? json.rfind('}') : end);
    write_file(folder_ / "model" / "tokenizer.json",
               fmt::format(R"({}, "post_processor": {}}})", json, post_processor));
    write_file(folder_ / "model" / "tokenizer_config.json", std::string(config));
    return HookedTransformer::load((folder_ / "model").string());
  }

  static Ids ids_of(const HookedTransformer& model, PrependBos choice, std::string_view text = "w2") {
    const at::Tensor ids = model.to_tokens(text, {.prepend_bos = choice});
    Ids pieces;
    for (const TextPiece& piece : model.to_pieces(text, {.prepend_bos = choice})) pieces.push_back(piece.id);
    EXPECT_TRUE(at::equal(ids, row(pieces))) << "piece by piece";
    return pieces;
  }

  static bool has_note(const HookedTransformer& model, std::string_view part) {
    return std::ranges::any_of(model.notes(),
                               [&](const std::string& note) { return note.find(part) != std::string::npos; });
  }
};

TEST_F(TokensAroundText, ATemplateDecides) {
  const auto behind = with_template({-1, 10});
  EXPECT_EQ(ids_of(behind, PrependBos::by_default), (Ids{2, 10}));
  EXPECT_EQ(ids_of(behind, PrependBos::yes), (Ids{0, 2, 10}));
  EXPECT_EQ(ids_of(behind, PrependBos::no), (Ids{2, 10}));
  EXPECT_EQ(ids_of(behind, PrependBos::file), (Ids{2, 10}));
  EXPECT_EQ(ids_of(behind, PrependBos::nothing), (Ids{2}));
  EXPECT_EQ(behind.tokens_around(), (TokensAround{{}, {10}, "post_processor of tokenizer.json"}));
  const auto two = with_template({9, 8, -1});
  EXPECT_EQ(ids_of(two, PrependBos::by_default), (Ids{9, 8, 2}));
  EXPECT_EQ(ids_of(two, PrependBos::yes), (Ids{0, 9, 8, 2}));
  const auto both = with_template({0, -1, 10});
  EXPECT_EQ(ids_of(both, PrependBos::by_default), (Ids{0, 2, 10}));
  EXPECT_EQ(ids_of(both, PrependBos::yes), (Ids{0, 2, 10}));
  EXPECT_EQ(ids_of(both, PrependBos::no), (Ids{2, 10}));
  // As AutoTokenizer does it.
  EXPECT_EQ(ids_of(both, PrependBos::by_default, "<bos> w2"), (Ids{0, 0, 2, 10}));
  EXPECT_EQ(ids_of(with_template({-1}), PrependBos::by_default), (Ids{2}))
      << "an empty one says that there are none";
}

TEST_F(TokensAroundText, KeysDecideWhereThereIsNoTemplate) {
  const auto of = [&](std::string_view keys) {
    return with("null", fmt::format(R"({{"bos_token": "<bos>", "eos_token": "w10"{}}})", keys));
  };
  const auto no = of(R"(, "add_bos_token": false)");
  EXPECT_EQ(ids_of(no, PrependBos::by_default), (Ids{2}));
  EXPECT_EQ(ids_of(no, PrependBos::yes), (Ids{0, 2}));
  EXPECT_FALSE(has_note(no, "<bos>"));
  const auto both = of(R"(, "add_bos_token": true, "add_eos_token": true)");
  EXPECT_EQ(ids_of(both, PrependBos::by_default), (Ids{0, 2, 10}));
  EXPECT_EQ(ids_of(both, PrependBos::no), (Ids{2, 10}));
  EXPECT_EQ(ids_of(both, PrependBos::file), (Ids{0, 2, 10}));
  EXPECT_NE(both.tokens_around().why.find("add_bos_token"), std::string::npos) << both.tokens_around().why;
  EXPECT_TRUE(has_note(both, "AutoTokenizer"));
  // A template goes before them, and a note says that they do not agree.
  const auto other = with_template({0, -1}, R"({"bos_token": "<bos>", "add_bos_token": false})");
  EXPECT_EQ(ids_of(other, PrependBos::by_default), (Ids{0, 2}));
  EXPECT_TRUE(has_note(other, "do not agree"));
  const auto same = with_template({0, -1}, R"({"bos_token": "<bos>", "add_bos_token": true})");
  EXPECT_FALSE(has_note(same, "do not agree"));
}

TEST_F(TokensAroundText, WhereNoFileSpeaksACausalModelGetsBosAndANote) {
  for (const char* post :
       {"null", R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})"}) {
    const auto model = with(post, R"({"bos_token": "<bos>"})");
    EXPECT_EQ(ids_of(model, PrependBos::by_default), (Ids{0, 2}));
    EXPECT_EQ(ids_of(model, PrependBos::file), (Ids{2}));
    EXPECT_NE(model.tokens_around().why.find("TransformerLens"), std::string::npos);
    EXPECT_TRUE(has_note(model, "a text gets <bos> in front"));
    const auto& notes = model.run("w2").notes;
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_NE(notes[0].find("<bos>"), std::string::npos) << notes[0];
    EXPECT_TRUE(model.run(row({2})).notes.empty()) << "ids are as they are";
  }
  const auto file = folder_ / "model" / "config.json";
  std::string config = read_text_file(file.string(), 1 << 20);
  const std::string on = "\"default_prepend_bos\": true";
  ASSERT_NE(config.find(on), std::string::npos);
  write_file(file, config.replace(config.find(on), on.size(), "\"default_prepend_bos\": false"));
  const auto without = with("null", R"({"bos_token": "<bos>"})");
  EXPECT_EQ(ids_of(without, PrependBos::by_default), (Ids{2}));
  EXPECT_EQ(ids_of(without, PrependBos::yes), (Ids{0, 2}));
}

// As in most published models, the embedding has more rows than the tokenizer has pieces.
TEST_F(ModelWithText, IdsWithoutAPieceAreValidAndHaveNoText) {
  write_file(folder_ / "model" / "tokenizer.json",
             R"({"added_tokens": [{"id": 0, "content": "<bos>", "special": true}],
                 "pre_tokenizer": {"type": "WhitespaceSplit"},
                 "model": {"type": "WordLevel", "vocab": {"<bos>": 0, "<unk>": 1, "w2": 2, "w4": 4}, "unk_token": "<unk>"}})");
  const auto padded = HookedTransformer::load((folder_ / "model").string());
  const at::Tensor ids = row({2, 10, 4, 3});
  EXPECT_EQ(padded.to_string(ids), "w2 w4");
  EXPECT_EQ(padded.to_str_tokens(ids), (std::vector<std::string>{"w2", "<10>", "w4", "<3>"}));
  EXPECT_THROW(padded.to_string(row({11})), TokenizerError) << "beyond the embedding";
  EXPECT_THROW(padded.to_str_tokens(row({-1})), TokenizerError);
  // Every token of a generation is one without text; what is captured and the ids still exist.
  const auto forced = [](const at::Tensor& logits, const ActivationName&) -> std::optional<at::Tensor> {
    return at::zeros_like(logits).index_fill(-1, at::tensor({9}, at::kLong), 1.0);
  };
  std::string streamed;
  const auto made =
      padded.generate(row({2, 3}), {.max_new_tokens = 4,
                                    .sampling = {.greedy = true},
                                    .stop = {.tokens = std::vector<std::int64_t>{}},
                                    .on_text = [&](std::string_view text) { return streamed += text, true; },
                                    .hooks = {{act::unembed_out, forced}},
                                    .capture = act::resid_post(0)});
  EXPECT_TRUE(at::equal(made.tokens, row({2, 3, 9, 9, 9, 9})));
  EXPECT_EQ(made.cache[act::resid_post(0)].size(1), 6);
  EXPECT_EQ(streamed, "");
}

TEST_F(ModelWithText, ATokenizerOfAnotherFormIsNamedWithWhatToDo) {
  std::filesystem::remove(folder_ / "model" / "tokenizer.json");
  write_file(folder_ / "model" / "tokenizer.model", "a SentencePiece model");
  const auto model = HookedTransformer::load((folder_ / "model").string());
  EXPECT_FALSE(model.has_tokenizer());
  const std::string text = text_thrown_by<TokenizerError>([&] { model.to_tokens("w2"); });
  for (const char* part : {"tokenizer.model", "save_pretrained"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(model.notes().back().find(part), std::string::npos) << model.notes().back();
  }
}

TEST_F(ModelWithText, APieceThatTheTokenizerNamesTwiceIsANote) {
  write_file(folder_ / "model" / "tokenizer.json",
             R"({"added_tokens": [{"id": 0, "content": "<bos>", "special": true}],
                 "pre_tokenizer": {"type": "WhitespaceSplit"},
                 "model": {"type": "WordLevel", "vocab": {"<bos>": 0, "w2": 2, "<unk>": 1, "w2": 3}, "unk_token": "<unk>"}})");
  const auto model = HookedTransformer::load((folder_ / "model").string());
  EXPECT_TRUE(at::equal(model.to_tokens("w2", {.prepend_bos = PrependBos::no}), row({3})));
  ASSERT_EQ(model.notes().size(), model_->notes().size() + 1);
  const std::string& note = *(model.notes().end() - 2);  // before that on the BOS token
  EXPECT_NE(note.find("model.vocab names pieces more than once"), std::string::npos) << note;
  EXPECT_TRUE(note.ends_with(": w2")) << note;
}

TEST_F(ModelWithText, AddedTokensInTextAreTokensOrText) {
  EXPECT_TRUE(at::equal(model_->to_tokens("w2<bos> w4", {.prepend_bos = PrependBos::no}), row({2, 0, 4})));
  EXPECT_TRUE(at::equal(model_->to_tokens("w2<bos> w4", {.prepend_bos = PrependBos::no,
                                                         .added_tokens = AddedTokensInText::as_text}),
                        row({1, 4})));
}

TEST_F(ModelWithText, ABatchIsPaddedOnEitherSide) {
  const std::vector<std::string> texts{"w2 w3 w4", "w5"};
  for (const PaddingSide side : {PaddingSide::left, PaddingSide::right}) {
    const Input batch = model_->to_token_batch(texts, {.padding_side = side});
    ASSERT_EQ(batch.tokens.sizes(), (at::IntArrayRef{2, 4}));
    const at::Tensor logits = model_->run(batch).logits();
    for (std::size_t r = 0; r < texts.size(); ++r) {
      const at::Tensor mask = batch.attention_mask[static_cast<std::int64_t>(r)];
      const at::Tensor alone = model_->to_tokens(texts[r]);
      EXPECT_TRUE(at::equal(batch.tokens[static_cast<std::int64_t>(r)].index({mask}), alone[0]));
      EXPECT_LT(relative_difference(logits[static_cast<std::int64_t>(r)].index({mask}), (*model_)(alone)[0]),
                kDoubleTolerance);
    }
  }
  EXPECT_THROW(model_->to_token_batch({}), TokenizerError);
}

TEST_F(ModelWithText, ATextIsAnInput) {
  const at::Tensor tokens = model_->to_tokens("w2 w3 w4");
  const at::Tensor logits = (*model_)(tokens);
  EXPECT_TRUE(at::equal((*model_)("w2 w3 w4"), logits));
  EXPECT_TRUE(at::equal(model_->run(std::string("w2 w3 w4")).logits(), logits));
  EXPECT_TRUE(
      at::equal(model_->run_with_cache("w2 w3 w4").logits(), model_->run_with_cache(tokens).logits()));
  EXPECT_TRUE(at::equal(model_->run("w2 w3 w4", {.output = Output::loss}).loss(),
                        model_->run(tokens, {.output = Output::loss}).loss()));
  const GenerateOptions options{.max_new_tokens = 2, .sampling = {.greedy = true}};
  EXPECT_TRUE(
      at::equal(model_->generate("w2 w3 w4", options).tokens, model_->generate(tokens, options).tokens));
  EXPECT_TRUE(at::equal(TrainableTransformer::from(*model_).forward("w2 w3 w4"), logits));
  const Prefix prefix = model_->run("w2", {.keep_prefix = true}).prefix.value();
  EXPECT_EQ(model_->run({"w3", {.prefix = prefix}}).logits().size(1), 2) << "with its BOS";
  EXPECT_THROW(random_model()("w2"), TokenizerError);
}

TEST_F(ModelWithText, TheTokenizerIsThereOrSaysWhyNot) {
  EXPECT_EQ(model_->tokenizer().vocab_size(), 11);
  EXPECT_EQ(model_->device(), c10::Device(at::kCPU));
  EXPECT_EQ(model_->dtype(), at::kDouble);
  const std::string reason = text_thrown_by<TokenizerError>([] { random_model().tokenizer(); });
  EXPECT_NE(reason.find("no tokenizer"), std::string::npos) << reason;
}

TEST_F(ModelWithText, PiecesKnowTheirPlaceInTheText) {
  const std::vector<TextPiece> pieces = model_->to_pieces("w2  w10");
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].id, 0);
  EXPECT_EQ(pieces[0].span, TextSpan{});
  EXPECT_EQ(pieces[2].id, 10);
  EXPECT_EQ(pieces[2].text, "w10");
  EXPECT_EQ(pieces[2].span, (TextSpan{4, 7}));
  EXPECT_EQ(model_->to_str_tokens(row({0, 2, 10})), (std::vector<std::string>{"<bos>", "w2", "w10"}));
}

TEST_F(ModelWithText, GeneratedTextStreamsAndStops) {
  const at::Tensor prompt = model_->to_tokens("w2 w3");
  GenerateOptions options{.max_new_tokens = 5, .sampling = {.greedy = true}};
  std::string streamed;
  options.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  const GenerateResult result = model_->generate(prompt, options);
  ASSERT_EQ(result.texts.size(), 1u);
  EXPECT_EQ(streamed, result.texts[0]);
  const std::string whole = model_->to_string(result.tokens);
  EXPECT_EQ(model_->to_string(prompt) + result.texts[0], whole);

  // Stopping before the beginning of the third word leaves the two before it.
  std::vector<std::string> words;
  for (std::int64_t i = 3; i < 8; ++i) words.push_back(model_->to_string(result.tokens[0][i].unsqueeze(0)));
  GenerateOptions stopping{
      .max_new_tokens = 5, .sampling = {.greedy = true}, .stop = {.strings = {words[2]}}};
  const GenerateResult stopped = model_->generate(prompt, stopping);
  EXPECT_EQ(stopped.stopped, std::vector{StopReason::stop_string});
  EXPECT_EQ(stopped.texts[0], result.texts[0].substr(0, result.texts[0].find(words[2])));
  EXPECT_LE(stopped.tokens.size(1), 6);

  const GenerateOptions cut{
      .max_new_tokens = 5, .sampling = {.greedy = true}, .on_text = [](std::string_view) { return false; }};
  EXPECT_EQ(model_->generate(prompt, cut).stopped, std::vector{StopReason::callback});
  const Input two = model_->to_token_batch({"w2", "w3"});
  EXPECT_THROW(model_->generate(two.tokens, options), ShapeError) << "text of two rows";
}

TEST_F(ModelWithText, StopTokensComeFromTheFolderAndAreSavedWithIt) {
  const at::Tensor prompt = model_->to_tokens("w2 w3");
  const GenerateOptions options{.max_new_tokens = 5, .sampling = {.greedy = true}};
  const GenerateResult free = model_->generate(prompt, options);
  const auto stop = free.tokens[0][4].item<std::int64_t>();
  const auto expect_stop = [&](const std::string& model) {
    const GenerateResult result = HookedTransformer::load(model).generate(prompt, options);
    EXPECT_EQ(result.stopped, std::vector{StopReason::stop_token});
    EXPECT_LE(result.tokens.size(1), 5);
  };
  write_file(folder_ / "model" / "generation_config.json",
             fmt::format(R"({{"eos_token_id": [{}, 1]}})", stop));
  expect_stop((folder_ / "model").string());
  HookedTransformer::load((folder_ / "model").string()).save(folder_ / "saved");
  expect_stop((folder_ / "saved").string());
  write_file(folder_ / "model" / "generation_config.json", fmt::format(R"({{"eos_token_id": {}}})", stop));
  expect_stop((folder_ / "model").string());
  write_file(folder_ / "model" / "generation_config.json", R"({"eos_token_id": "x"})");
  EXPECT_THROW(HookedTransformer::load((folder_ / "model").string()), ConfigError);
}

}  // namespace
}  // namespace hooked::model_text_test
