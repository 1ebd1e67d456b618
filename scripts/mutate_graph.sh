#!/usr/bin/env bash
# Shows that the golden cases find faults in the graph. Each row replaces one expression by another: all are compiled in at
# once, each of them works where the environment asks for it by name, and then the named cases must fail that pass without it. Sources are
# restored, also if this is stopped, and compiled again. It takes the compilation of the room models, twice.
# Usage: scripts/mutate_graph.sh [NAME ...]
set -euo pipefail
cd "$(dirname "$0")/.."

tests=build/release/tests/golden_tests
# name | source below models/ | expression, which occurs there once | its replacement | cases
mutations=(
  "embedding_without_scale|embed|embedded * scale_|embedded|gemma_multi_query"
  "positions_with_other_sign|transformer|entry.stream + positions|entry.stream - positions|gpt2_untied"
  "no_final_soft_cap|unembed|ops::soft_cap(logits, config_.unembedding->soft_cap)|logits|hf_gemma2"
  "no_logit_scale|unembed|logits * config_.unembedding->scale|logits|cohere_qk_norm"
  "cross_attention_to_padding|transformer|cross_attention_kind(real, queries)|cross_attention_kind(at::Tensor(), queries)|bart_padded"
  "mlp_reads_the_stream|block|mlp_norm_->forward(input, run)|input|opt"
  "no_norm_after_attention|block|ln1_post_->forward(out, run)|out|olmo2"
  "parallel_without_attention|block|ops::add(ops::add(resid, attn_out, run), mlp_out, run)|ops::add(resid, mlp_out, run)|hf_phi"
  "other_eps|norm|layout.eps.value_or(context.config.eps)|2.0 * context.config.eps|gpt2_untied"
  "no_weight_offset|norm|w_ + 1.0|w_ * 1.0|gemma"
  "rotary_the_other_way|rotary|first * angles.cosine - second * angles.sine|first * angles.cosine + second * angles.sine|hf_llama"
  "rotary_halves_swapped|rotary|at::cat({real, imaginary}, -1)|at::cat({imaginary, real}, -1)|hf_llama"
  "no_linear_scaling|rotary|f / linear->factor|f * 1.0|llama_linear"
  "llama3_ramp_reversed|rotary|(1.0 - kept) * f / s.factor + kept * f|kept * f / s.factor + (1.0 - kept) * f|llama_llama3"
  "no_yarn_magnitude|rotary|yarn->attention_factor|1.0|llama_yarn"
  "other_score_scale|attention|c.attn_scale|1.01 * c.attn_scale|gpt2_untied"
  "layer_scale_off_by_one|attention|static_cast<double>(layer_ + 1)|static_cast<double>(layer_ + 2)|gpt2_inverse_layer"
  "no_output_bias|attention|ops::linear(z.flatten(2), W_O_, b_O_, run)|ops::linear(z.flatten(2), W_O_, at::Tensor(), run)|gpt2_untied"
  "no_value_norm|attention|v_norm_->forward(heads.v, run)|heads.v|gemma4_text_layer_inputs"
  "head_norm_on_the_other_side|attention|q_norm_ && config_.qk_norm->after_rotary|q_norm_ && !config_.qk_norm->after_rotary|hunyuan_v1_dense"
  "no_clipping|attention|at::clamp(*x, -config_.qkv_clip, config_.qkv_clip)|*x|olmo_clip"
  "ungrown_queries|attention|heads.q * stack.query_growth|heads.q|ministral3"
  "gate_without_sigmoid|attention|at::sigmoid(gate)|gate|qwen3_next_long"
  "no_score_soft_cap|tiled_attention|ops::soft_cap(scores, rules.soft_cap)|scores|hf_gemma2"
  "bias_subtracted|tiled_attention|scores + here.bias|scores - here.bias|hf_bloom"
  "no_sinks|tiled_attention|here.sinks.defined()|false|gpt_oss_full"
  "other_key_heads|ops|x.reshape({x.size(0) * kv_heads, group * x.size(2), x.size(3)})|x.unflatten(1, {group, kv_heads}).transpose(1, 2).reshape({x.size(0) * kv_heads, group * x.size(2), x.size(3)})|hf_llama_reglu_grouped"
  "window_one_wider|sequence|column_of(1 - size)|column_of(-size)|mistral"
  "sees_the_next_token|sequence|own + 1|(own + 2).clamp_max(keys)|gpt2_untied"
  "alibi_towards_the_future|sequence|(-distances).clamp_min(0)|distances.clamp_min(0)|hf_bloom"
  "buckets_of_the_other_side|relative_bias|(distances > 0)|(distances < 0)|t5_gated"
  "shared_part_of_keys_first|latent_projection|at::cat({k, shared.expand({-1, -1, h, -1})}, -1)|at::cat({shared.expand({-1, -1, h, -1}), k}, -1)|deepseek_v2"
  "no_norm_of_latents|latent_projection|kv_norm_->forward(read.narrow(-1, query_width(), latent.d_kv), run)|read.narrow(-1, query_width(), latent.d_kv)|deepseek_v2"
  "gate_and_up_swapped|mlp|neurons_(pre, up, weights_, run)|neurons_(up, pre, weights_, run)|hf_llama"
  "no_mlp_bias|mlp|ops::linear(post.to(W_out_.dtype()), W_out_, b_out_, run)|ops::linear(post.to(W_out_.dtype()), W_out_, at::Tensor(), run)|gpt2_untied"
  "no_upper_limit|mlp|at::clamp_max(pre, gate_limit)|pre|gpt_oss_limits"
  "weights_of_experts_not_normed|mixture_mlp|renormalised(ranked, run)|ranked|olmoe_renormalised"
  "choice_without_bias|mixture_mlp|weights + choice_bias_|weights|deepseek_v3_published"
  "no_shared_expert|mixture_mlp|ops::add(out, through(shared_ln_post_, shared(input.normed, run), run), run)|out|deepseek_v2"
  "no_gate_of_the_shared_expert|mixture_mlp|out * hook_shared_weight_->forward(weight, run.watch)|out|qwen2_moe"
  "state_decays_less|delta_net|-A_log_.to(wide).exp() * steps|-0.5 * A_log_.to(wide).exp() * steps|qwen3_next_long"
  "state_forgets_nothing|delta_net|now(p.v) - held|now(p.v)|qwen3_next_long"
  "convolution_backwards|short_convolution|read.narrow(1, tap, length)|read.narrow(1, taps - 1 - tap, length)|lfm2_biases"
  "no_input_of_layers|layer_input|ln_->forward(mapped, run) + rows|ln_->forward(mapped, run)|gemma4_text_layer_inputs"
)

for name in "$@"; do
  [[ " ${mutations[*]%%|*} " == *" $name "* ]] || { echo "there is no mutation $name"; exit 1; }
done

saved=$(mktemp -d)
file_of() { find models -name "$1.cc"; }
restore() {
  local source file
  for source in "$saved"/*.cc; do
    [[ -e $source ]] || continue
    file=$(file_of "$(basename "$source" .cc)")
    mv "$source" "$file"
    touch "$file" # is newer than what was compiled
  done
}
trap 'restore; rm -rf "$saved"' EXIT

build() {
  cmake --build --preset release --target golden_tests >"$saved/log" 2>&1 || { cat "$saved/log"; exit 1; }
}
run() { OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" "$tests" --gtest_brief=1 --gtest_filter="Golden/RawGolden.EveryActivationAgrees/$1"; }

for mutation in "${mutations[@]}"; do
  IFS='|' read -r name source old new _ <<<"$mutation"
  file=$(file_of "$source")
  if [[ $(grep -cF -- "$old" "$file") != 1 ]]; then
    echo "$name: expected one line with '$old' in $file; correct the table in $0"
    exit 1
  fi
  [[ -e $saved/$source.cc ]] || cp "$file" "$saved/$source.cc"
  asked="std::getenv(\"HOOKED_MUTATION\") != nullptr && std::string(std::getenv(\"HOOKED_MUTATION\")) == \"$name\""
  OLD=$old NEW="($asked ? ($new) : ($old))" awk '
    (place = index($0, ENVIRON["OLD"])) {
      $0 = substr($0, 1, place - 1) ENVIRON["NEW"] substr($0, place + length(ENVIRON["OLD"]))
    }
    { print }' "$file" >"$saved/changed"
  cp "$saved/changed" "$file"
done
build

missed=0
for mutation in "${mutations[@]}"; do
  IFS='|' read -r name _ _ _ cases <<<"$mutation"
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  if ! output=$(run "$cases" 2>&1) || [[ $output != *"[  PASSED  ] 1 test"* ]]; then
    echo "$name: $cases fails without it, or is not there"
    missed=1
  elif output=$(HOOKED_MUTATION=$name run "$cases" 2>&1) || [[ $output != *" activations differ"* ]]; then
    echo "$name: NOT FOUND by $cases"
    missed=1
  else
    echo "$name: found by $cases"
  fi
done
restore
build
exit $missed
