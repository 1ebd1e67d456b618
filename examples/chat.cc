// A conversation as the text and the tokens that an instruct model was trained on, and its answer.
#include <ATen/ops/tensor.h>
#include <hooked/hooked.h>

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  // A model that was trained on conversations brings its template along. The toy model was not.
  const auto tokenizer =
      model.tokenizer().chat_template()
          ? model.tokenizer()
          : model.tokenizer().with_chat_template("{% for m in messages %}{{ m.content }} {% endfor %}");

  const std::vector<hooked::ChatMessage> messages = {{"system", "When John and Mary went to the shop,"},
                                                     {"user", "John gave a bag to"}};
  const hooked::ChatOptions options{.add_generation_prompt = true};
  std::cout << tokenizer.chat_text(messages, options) << '\n';
  const auto prompt = tokenizer.to_chat_tokens(messages, options);  // ids, pieces, offsets in that text

  const auto answer = model.generate(at::tensor(prompt.ids).unsqueeze(0),
                                     {.max_new_tokens = 1, .sampling = {.greedy = true}});
  std::cout << answer.texts[0] << '\n';
}
