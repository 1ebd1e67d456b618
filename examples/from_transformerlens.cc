// Runs what docs/from-transformerlens.md shows: every call of its second column is here. If we have no
// call yet, the page says what to write instead, and this program checks that it gives the same numbers.
#include <hooked/hooked.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/indirect_object/indirect_object.h"

using namespace hooked;  // NOLINT: the page leaves out `hooked::`

namespace {

const std::string text = "When John and Mary went to the shop, John gave a bag to";
const std::string other_text = "When John and Mary went to the shop, Mary gave a bag to";

void require_same(const std::string& what, const at::Tensor& a, const at::Tensor& b) {
  if (!at::allclose(a, b, 1e-4, 1e-4)) throw std::runtime_error(what + " differs");
  std::cout << "  the same: " << what << '\n';
}

void loading(const std::string& name, const std::filesystem::path& folder) {
  std::cout << "Loading\n";
  const auto model = HookedTransformer::load(name);
  const auto raw = HookedTransformer::load(name, {.processing = WeightProcessing::none()});
  const auto folded =
      HookedTransformer::load(name, {.processing = WeightProcessing::only({ProcessingStep::fold_ln})});
  const auto wide = HookedTransformer::load(name, {.device = "cpu", .dtype = at::kDouble});
  const auto tokens = model.to_tokens(text);
  require_same("log-probabilities of raw and of processed weights", model(tokens).log_softmax(-1),
               raw(tokens).log_softmax(-1));
  std::cout << "  " << model.config().n_heads << " heads, " << model.config().parameter_count()
            << " parameters, on " << model.device() << ", " << dtype_text(wide.dtype()) << '\n';

  auto config = model.config();
  config.n_layers = 1;
  const auto fresh = HookedTransformer::create(config, {.seed = 1});
  const auto same = HookedTransformer::from_state_dict(model.state_dict(), model.config());
  model.save(folder / "saved");
  require_same("a model that was saved", model(tokens),
               HookedTransformer::load((folder / "saved").string())(tokens));

  auto trainable = TrainableTransformer::create(config, {.seed = 1});
  const auto loss = trainable.loss(tokens);  // with gradients, for an optimizer over trainable.parameters()
  const auto trained = trainable.freeze();
}

void texts(const HookedTransformer& model) {
  std::cout << "Text\n";
  const auto tokens = model.to_tokens(text);  // [1, pos]
  const auto without_bos = model.to_tokens(text, {.prepend_bos = PrependBos::no});
  const auto batch = model.to_token_batch({text, "Then Mary"}, {.padding_side = PaddingSide::left});
  const auto mary = model.to_token(" Mary");
  std::cout << "  " << model.to_string(tokens) << ": " << model.to_str_tokens(tokens).size() << " tokens, "
            << without_bos.size(1) << " without BOS, one is '" << model.tokenizer().printable_piece(mary)
            << "' at " << (tokens[0] == mary).nonzero()[0].item<std::int64_t>() << "; a batch of "
            << batch.tokens.sizes() << '\n';
  if (model.tokenizer().chat_template()) {  // of an instruct model
    const auto prompt = model.to_chat_tokens({{"user", text}}, {.add_generation_prompt = true});
    std::cout << "  as what a user says " << prompt.size(1) << " tokens\n";
  }
}

void running(const HookedTransformer& model) {
  std::cout << "Running\n";
  const auto tokens = model.to_tokens(text);
  const auto logits = model(tokens);
  require_same("logits of a text", model(text), logits);
  const auto loss = model.run(tokens, {.output = Output::loss}).loss();
  const auto losses =
      model.run(tokens, {.output = Output::loss, .loss = {.reduction = LossReduction::per_token}}).loss();
  require_same("the mean of the losses", losses.mean(), loss);
  require_same("the loss of the logits", next_token_loss(logits, tokens), loss);
  const auto run = model.run(tokens, {.capture = "resid_post0", .output = Output::none});
  const auto residual = model.run(tokens, {.stop_at_layer = 1}).residual();
  require_same("the stream after layer 0", run.cache["resid_post0"], residual);
  require_same("logits from a residual", model(Input::start_at_layer(1, residual)), logits);
  const auto mask = at::ones_like(tokens);
  require_same("logits with a mask of ones", model({tokens, {.attention_mask = mask}}), logits);
  const auto first = tokens.slice(1, 0, 8), rest = tokens.slice(1, 8);
  const auto prefix = model.run(first, {.keep_prefix = true}).prefix;
  require_same("logits after a prefix", model({rest, {.prefix = prefix}}), logits.slice(1, 8));
  const auto last = model.run(tokens, {.logit_positions = {{-1}}}).logits();
  require_same("logits of one position", last[0][0], logits[0][-1]);
  const std::vector<std::int64_t> ids{7, 3};
  const auto of_tokens = model.run(tokens, {.logit_tokens = ids}).logits();
  require_same("logits of two tokens", of_tokens.select(2, 1), logits.select(2, 3));
}

void caches(const HookedTransformer& model, const std::filesystem::path& folder) {
  std::cout << "Caches\n";
  const auto tokens = model.to_tokens(text);
  const auto [logits, cache] = model.run_with_cache(tokens);
  const auto few = model.run_with_cache(tokens, act::pattern(0) | act::resid_post(1)).cache;
  const auto as_text = model.run_with_cache(tokens, "pattern0, blocks.*.hook_resid_post").cache;
  const auto of_layer = Selection::matching([](const ActivationName& name) { return name.layer == 1; });
  const auto matched = model.run_with_cache(tokens, of_layer).cache;
  std::cout << "  " << cache.size() << " activations, " << few.size() << ", " << as_text.size() << ", "
            << matched.size() << '\n';
  require_same("a pattern by three names", cache["blocks.0.attn.hook_pattern"], cache[act::pattern(0)]);
  require_same("a pattern by its shorthand", cache["pattern0"], cache[act::pattern(0)]);
  const auto row_of_head = cache[act::pattern(0).row(0).head(3).query(-1)];  // [key]
  require_same("the last layer", cache[act::resid_post(-1)], cache["resid_post1"]);

  const auto one_position = model.run(tokens, {.capture = act::resid_post, .keep = {.positions = -1}});
  const auto on_cpu = model.run(tokens, {.capture = act::resid_post, .keep = {.device = "cpu"}});
  const auto batch = model.run_with_cache(model.to_token_batch({text, "Then Mary"}));
  const auto lasts = batch.cache["resid_post1[pos=last]"];  // [batch, d_model], of real tokens
  require_same("the last token of a padded row", lasts[0], one_position.cache["resid_post1"][0][0]);
  const auto first_row = batch.cache.row(0);
  const auto zs = cache.stack(act::z);  // [layer, batch, pos, head, d_head]
  for (const auto& entry : few) {
    std::cout << "  " << entry.name << ' ' << at::IntArrayRef(entry.held.sizes()) << '\n';
  }
  const auto copy = cache.to(at::kCPU);
  cache.save(folder / "cache.safetensors");
  const auto loaded = ActivationCache::load(folder / "cache.safetensors");
  require_same("a cache that was saved", loaded.stack(act::z), zs);

  const auto metric = logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  const auto graded =
      model.run(tokens, {.gradients = GradientRequest{.of = act::resid_pre, .metric = metric}});
  std::cout << "  a gradient of " << graded.gradients["resid_pre0"].norm().item<double>() << '\n';
}

void hooks(HookedTransformer model) {
  std::cout << "Hooks\n";
  const auto tokens = model.to_tokens(text);
  const auto half = [](const at::Tensor& z) { return z * 0.5; };
  const auto print = [](const at::Tensor& z, const ActivationName& name) {
    std::cout << "  " << name << ' ' << z.sizes() << '\n';
  };
  const auto halved =
      model.run_with_hooks(tokens, {{act::z(1), half}, {"blocks.1.attn.hook_z", print}}).logits();
  {
    const auto handle = model.hook(act::z(1), half);
    require_same("a hook until the end of its scope", model(tokens), halved);
  }
  auto handle = model.hook("z1", half);
  handle.remove();
  const auto edited = model.run(tokens, {.edits = {scale(act::z(1), 0.5)}}).logits();
  require_same("the same as an edit", edited, halved);
  const auto ablated = model.run(tokens, {.edits = {zero(act::z(1).head(3))}}).logits();

  const auto metric = logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  const Hook stop(
      act::resid_pre(1), [](const at::Tensor& g) { return g * 0.0; }, HookDirection::backward);
  const auto stopped = model.run(
      tokens, {.hooks = {stop}, .gradients = GradientRequest{.of = act::resid_pre, .metric = metric}});
  require_same("no gradient past a hook", stopped.gradients["resid_pre0"].norm(), at::zeros({}));
  std::cout << "  " << from_shorthand("z", 1) << " is " << act::z(1) << '\n';

  const auto results = model.run_with_cache(tokens, act::result).cache;
  const auto z = model.run_with_cache(tokens, act::z(1)).cache[act::z(1)];
  require_same("the results of the heads", results[act::result(1)],
               at::einsum("bphd,hdm->bphm", {z, model.weights().W_O(1)}));
}

void weights(const HookedTransformer& model) {
  std::cout << "Weights\n";
  const auto w = model.weights();
  require_same("a weight by its name", w["blocks.1.attn.W_Q"], w.W_Q(1));
  require_same("a weight of one head", w.W_Q()[1][3], w.W_Q(1, 3));
  const auto tokens = model.to_tokens(text);
  const auto directions = w.W_U().t().index({tokens});  // [1, pos, d_model]
  const auto direction = w.W_U().select(1, model.to_token(" Mary"));
  std::cout << "  W_E " << w.W_E().sizes() << ", directions " << directions.sizes() << " and "
            << direction.sizes() << '\n';
  const auto circuit = ov_circuits(model)[0][3];  // [d_model, d_model]
  const auto ov =
      FactoredMatrix(w.W_V(0, 3), w.W_O(0, 3));  // the same without the norm that the head reads through
  const auto qk = qk_circuits(model, {.norms = false})[1][3].AB();
  const auto [U, S, V] = ov.svd();
  std::cout << "  eigenvalues " << ov.eigenvalues().sizes() << ", " << ov.collapse_l().sizes() << '\n';
  require_same("the norm of a circuit", ov.norm(), S.norm());
  require_same("a circuit and a vector", ov.mv(direction), ov.AB().mv(direction));
  const auto full = matmul(matmul(w.W_E(), ov), w.W_U());  // [vocab, vocab] of rank d_head
  std::cout << "  the full circuit " << at::IntArrayRef(full.sizes()) << " of "
            << circuit.norm().item<double>() << '\n';
  const auto composition = composition_scores(model, HeadInput::key, {.circuits = {.norms = false}});
  require_same("composition by hand",
               (ov.AB().matmul(qk.t()).norm() / (ov.norm() * qk.norm())).to(at::kDouble),
               composition.scores.values()[0][3][1][3]);
  const auto bias = w.b_O().sum(0) + w.b_out().sum(0);  // [d_model]
}

void attributing(const HookedTransformer& model) {
  std::cout << "Attributing\n";
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");
  const auto [logits, cache] = model.run_with_cache(text, act::everything);
  const auto w = model.weights();

  const auto streams = accumulated_residual(model, cache);  // [row, point, pos, d_model]
  const auto lens = logit_lens(model, cache, {.positions = {}, .tokens = {mary, john}});
  std::cout << lens.probabilities.slice("row", 0).slice("token", "Mary");

  const auto parts = residual_parts(model, cache);  // [row, part, pos, d_model]
  const auto whole = streams.slice("point", -1).values().to(at::kFloat);
  require_same("the sum of the parts", parts.values().sum(1).to(at::kFloat), whole);
  const auto heads = residual_parts(model, cache, {.grain = Grain::head});
  require_same("the sum of the heads", heads.values().sum(1).to(at::kFloat), whole);
  const auto neurons = residual_parts(model, cache, {.of = act::mlp_out(1), .grain = Grain::neuron});
  require_same("the sum of the neurons", neurons.values().sum(1)[0].to(at::kFloat),
               cache[act::mlp_out(1)][0].slice(0, -1));
  const auto scaled = normed_stack(model, cache, parts, {.norm = {act::ln_final_scale}});
  require_same("the parts through the final norm", scaled.values().sum(1)[0].to(at::kFloat),
               cache[act::ln_final_normalized][0].slice(0, -1));
  const auto difference = logits.select(-1, mary) - logits.select(-1, john);  // [batch, pos]

  const AttributionOptions options = {.answer = mary, .against = john, .grain = Grain::head};
  const auto by_head = direct_logit_attribution(model, cache, options);  // [row, part, pos]
  require_same("the sum of direct_logit_attribution", by_head.values().sum().to(at::kFloat),
               difference[0][-1]);
  const auto of_stack = direct_logit_attribution(model, cache, heads, options);  // the same without biases
  require_same("a custom stack", of_stack.slice("part", "head 1.3").values().to(at::kFloat),
               by_head.slice("part", "head 1.3").values().to(at::kFloat));
}

void patching(const HookedTransformer& model, const std::filesystem::path& folder) {
  std::cout << "Patching\n";
  const auto corrupted = model.to_tokens(other_text);
  const auto clean = model.run_with_cache(text).cache;
  const auto metric = logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  for (const auto site : {act::resid_pre, act::resid_mid, act::attn_out, act::mlp_out}) {
    const auto map = sweep(
        model,
        {.site = site, .over = {Axis::layer, Axis::pos}, .from = clean, .into = corrupted, .metric = metric});
    std::cout << "  " << map.title() << ": at most " << map.values().max().item<double>() << '\n';
  }
  const auto every = sweep(model, patching_preset("attn_head_all_pos_every"),
                           {.from = clean, .into = corrupted, .metric = metric});
  const auto heads = every.slice("site", "z");
  heads.save(folder / "heads.svg");
  std::cout << path_patching(model, {.senders = {act::z(0).head(1)},
                                     .receivers = {act::q(1).head(3)},
                                     .sweep = {.from = clean, .into = corrupted, .metric = metric}});
  const auto table = sweep(model, {.table = {{act::z(0).head(1), act::z(1).head(3)}, {act::mlp_out(1)}},
                                   .from = clean,
                                   .into = corrupted,
                                   .metric = metric});
  const auto paths = direct_path(
      model, {.source = HeadPlace{0, 1}, .sweep = {.from = clean, .into = corrupted, .metric = metric}});
  std::cout << table << paths;

  const auto patched = model.run(corrupted, {.edits = {replace(act::z(1).head(3), clean)}});
  require_same("a patched run by hand", metric(patched.logits().slice(1, -1)),
               heads.values()[1][3].to(at::kFloat).unsqueeze(0));
  const auto tokens = model.to_tokens(text);
  const auto mary = model.to_token(" Mary");
  const auto share = probability(mary).score(model, corrupted);
  const Metric own([=](const at::Tensor& logits) { return logits.select(-1, mary).squeeze(1); });
  std::cout << "  the corrupted run gives Mary " << share.item<double>() << '\n';
  attention_grid(model, clean, act::pattern(1)).save(folder / "attention.svg");
  std::cout << head_scores(clean, HeadScore::induction, {.tokens = tokens})
            << head_scores(clean, HeadScore::duplicate_token, {.tokens = tokens, .measure = HeadMeasure::mul})
            << head_scores(clean, HeadScore::previous_token,
                           {.exclude_bos = true, .exclude_current_token = true});
  const auto to_first =
      at::zeros({tokens.size(1), tokens.size(1)}).index_fill(1, at::tensor({0}, at::kLong), 1.0);
  std::cout << head_scores(clean, to_first, {.measure = HeadMeasure::abs});
  std::cout << singular_directions(model, {.layer = 1, .index = 3}).values << '\n';
  const auto said_twice = repetition_scores(model);
  std::cout << said_twice.loss.mean("row") << said_twice.accuracy.mean("row");
  const auto pairs = ioi::indirect_object_pairs(model, {.count = 4, .seed = 1});
  std::cout << "  " << std::get<std::string>(pairs.pairs().front().clean) << '\n';
}

void generating(const HookedTransformer& model) {
  std::cout << "Generating\n";
  const auto tokens = model.to_tokens(text);
  const auto made = model.generate(tokens, {.max_new_tokens = 4});
  const auto greedy = model.generate(text, {.max_new_tokens = 4, .sampling = {.greedy = true}});
  const auto drawn = model.generate(
      text, {.max_new_tokens = 4,
             .sampling = {.temperature = 0.7, .top_k = 10, .frequency_penalty = 0.5, .seed = 1}});
  const auto endless =
      model.generate(text, {.max_new_tokens = 4, .stop = {.tokens = std::vector<std::int64_t>{}}});
  const auto print = [](std::string_view piece) {
    std::cout << piece << std::flush;
    return true;  // go on
  };
  std::cout << "  " << text;
  model.generate(text, {.max_new_tokens = 4, .sampling = {.greedy = true}, .on_text = print});
  std::cout << '\n' << "  " << greedy.texts[0] << ", " << made.tokens.sizes() << '\n';
  const auto watched = model.generate(text, {.max_new_tokens = 4,
                                             .sampling = {.greedy = true},
                                             .edits = {zero(act::z(1).head(3))},
                                             .capture = act::resid_post});
  std::cout << "  watched " << watched.cache["resid_post1"].sizes() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "examples/toy_model";
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  loading(name, folder);
  const auto model = HookedTransformer::load(name);
  texts(model);
  running(model);
  caches(model, folder);
  hooks(model);
  weights(model);
  attributing(model);
  patching(model, folder);
  generating(model);
}
