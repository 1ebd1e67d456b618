"""Goldens from TransformerLens's HookedTransformer: every hook of it, raw and processed."""

import dataclasses
import importlib.metadata

import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig

from .case_files import Golden, Maker, random_tokens
from .drawn import draw
from .float64 import float64

kOracle = "TransformerLens " + importlib.metadata.version("transformer-lens")
kSteps = ("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases")
kPreserved = 1e-10  # nats: what processing may change in log-probabilities

# Points that TransformerLens computes only when a flag is set; with the flags, ln1 fires with a head axis, so the other
# points come from a run without them.
kWideFlags = {"use_attn_result": True, "use_split_qkv_input": True, "use_hook_tokens": True}
kWideNames = ("hook_tokens", "hook_attn_in", "hook_q_input", "hook_k_input", "hook_v_input", "hook_mlp_in",
              "hook_result")

kSizes = dict(n_layers=2, d_model=7, n_ctx=8, n_heads=3, d_head=4, d_mlp=11, d_vocab=13)

kRotary = dict(positional_embedding_type="rotary")
kRms = dict(normalization_type="RMS")
kGated = dict(gated_mlp=True, act_fn="silu")
kGrouped = dict(n_heads=4, n_key_value_heads=2)
kWindow = dict(use_local_attn=True, window_size=3, attn_types=["local", "global"])
kLlama3 = dict(d_head=8, rotary_base=100, use_NTK_by_parts_rope=True, NTK_by_parts_low_freq_factor=1.0,
               NTK_by_parts_high_freq_factor=4.0, NTK_by_parts_factor=8.0, NTK_original_ctx_len=64)
kYarn = dict(d_head=8, rotary_base=100, use_yarn_rope=True, yarn_factor=4.0, yarn_attention_factor=1.25,
             yarn_beta_fast=4.0, yarn_beta_slow=0.5, yarn_original_max_position_embeddings=64)
kWhole = dict(n_heads=3, d_head=4, d_model=12)  # TransformerLens wants heads that fill d_model here

kLeft = [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
kRight = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
kBothSides = [[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]]
kInside = [[1, 1, 0, 1, 1], [1, 1, 1, 1, 1]]


@dataclasses.dataclass
class Row:
    """One case: the config fields that differ from TransformerLens's defaults, beside kSizes."""

    case: str
    fields: dict
    mask: list | None = None
    length: int = 5
    gradients: bool = False
    full_config: bool = False  # config.json holds every field, as TransformerLens's own dump of a config does


# The one table. A row's fields say what it covers beyond the
# defaults (LN, plain relu MLP, learned positions, multi-head, causal).
kRows = (
    # Norms, activations, gates.
    Row("tl_ln_relu", dict(d_vocab_out=17), gradients=True),
    Row("tl_full_config", dict(act_fn="gelu_new"), full_config=True),
    Row("tl_equal_sizes", dict(act_fn="gelu", d_mlp=7, d_vocab=7)),
    Row("tl_equal_sizes_rms", dict(kRotary, **kRms, d_mlp=7, d_vocab=7)),
    Row("tl_ln_folded", dict(normalization_type="LNPre", act_fn="gelu_new")),
    Row("tl_rms_gated_grouped", dict(kRotary, **kRms, **kGated, **kGrouped), gradients=True),
    Row("tl_rms_folded_multi_query", dict(kRotary, normalization_type="RMSPre", gated_mlp=True,
                                          act_fn="gelu_pytorch_tanh", n_key_value_heads=1)),
    Row("tl_no_norm", dict(normalization_type=None, act_fn="gelu_fast")),
    Row("tl_final_rms", dict(final_rms=True, act_fn="gelu_pytorch_tanh")),
    Row("tl_solu", dict(act_fn="solu")),
    Row("tl_solu_ln", dict(act_fn="solu_ln")),
    Row("tl_solu_ln_folded", dict(act_fn="solu_ln", normalization_type="LNPre")),
    Row("tl_gelu", dict(act_fn="gelu")),
    Row("tl_gelu_fast", dict(act_fn="gelu_fast")),
    Row("tl_silu", dict(act_fn="silu")),
    Row("tl_reglu", dict(kRms, gated_mlp=True, act_fn="relu")),
    Row("tl_geglu", dict(kRms, gated_mlp=True, act_fn="gelu")),
    Row("tl_gated_ln", dict(gated_mlp=True, act_fn="silu")),
    # Blocks.
    Row("tl_attn_only", dict(attn_only=True)),
    Row("tl_attn_only_no_norm", dict(attn_only=True, normalization_type=None)),
    Row("tl_attn_only_rms_rotary", dict(kRotary, **kRms, attn_only=True)),
    Row("tl_parallel", dict(kRotary, parallel_attn_mlp=True, rotary_dim=2, act_fn="gelu")),
    Row("tl_parallel_rms_gated", dict(kRotary, **kRms, **kGated, parallel_attn_mlp=True)),
    Row("tl_norm_both", dict(kRotary, **kRms, **kGrouped, **kWindow, gated_mlp=True, act_fn="gelu_pytorch_tanh",
                             use_normalization_before_and_after=True, attn_scores_soft_cap=1.5,
                             output_logits_soft_cap=2.0)),
    Row("tl_norm_both_folded", dict(normalization_type="RMSPre", use_normalization_before_and_after=True)),
    Row("tl_norm_output", dict(kRotary, **kRms, **kGated, **kWhole, original_architecture="Olmo2ForCausalLM")),
    Row("tl_qk_norm_whole", dict(kRotary, **kRms, **kWhole, n_key_value_heads=1, gated_mlp=True, act_fn="silu",
                                 original_architecture="OlmoeForCausalLM")),
    # Mixtures of experts.
    Row("tl_mixture", dict(kRotary, **kRms, **kGated, **kGrouped, num_experts=4, experts_per_token=2)),
    Row("tl_mixture_renormalised", dict(kGated, num_experts=3, experts_per_token=1, norm_topk_prob=True)),
    # Positions.
    Row("tl_shortformer", dict(positional_embedding_type="shortformer", attn_only=True)),
    Row("tl_shortformer_mlp", dict(positional_embedding_type="shortformer", act_fn="gelu")),
    Row("tl_rotary_adjacent", dict(kRotary, d_head=6, rotary_dim=4, rotary_adjacent_pairs=True, rotary_base=500)),
    Row("tl_rotary_adjacent_full", dict(kRotary, rotary_adjacent_pairs=True)),
    Row("tl_rotary_linear", dict(kRotary, **kRms, rotary_scaling_factor=4.0)),
    Row("tl_rotary_local_base", dict(kRotary, **kRms, **kWindow, rotary_base=1000, rotary_base_local=50,
                                     rotary_scaling_factor=2.0, d_head=8)),
    Row("tl_rotary_llama3", dict(kRotary, **kRms, **kLlama3)),
    Row("tl_rotary_yarn", dict(kRotary, **kRms, **kYarn)),
    Row("tl_rotary_yarn_untruncated", dict(kRotary, **kRms, **kYarn, yarn_truncate=False)),
    Row("tl_rotary_yarn_partial", dict(kRotary, **(kYarn | dict(d_head=10, rotary_dim=8)))),
    Row("tl_alibi", dict(positional_embedding_type="alibi", n_heads=4, act_fn="gelu_fast")),
    Row("tl_alibi_three_heads", dict(positional_embedding_type="alibi")),
    Row("tl_post_embedding_norm", dict(positional_embedding_type="alibi", n_heads=2, post_embedding_ln=True)),
    # Attention.
    Row("tl_grouped_of_one", dict(n_key_value_heads=3)),
    Row("tl_grouped", dict(kGrouped)),
    Row("tl_multi_query", dict(n_key_value_heads=1)),
    Row("tl_no_attn_scale", dict(use_attn_scale=False)),
    Row("tl_attn_scale_value", dict(attn_scale=3.25)),
    Row("tl_inverse_layer", dict(scale_attn_by_inverse_layer_idx=True)),
    Row("tl_inverse_layer_no_scale", dict(scale_attn_by_inverse_layer_idx=True, use_attn_scale=False)),
    Row("tl_window", dict(kWindow), length=7),
    Row("tl_window_every_layer", dict(kRotary, **kRms, **kGrouped, use_local_attn=True, window_size=2,
                                      attn_types=["local", "local"]), length=7),
    Row("tl_score_cap", dict(attn_scores_soft_cap=1.5)),
    Row("tl_score_cap_alibi", dict(positional_embedding_type="alibi", n_heads=2, attn_scores_soft_cap=1.0)),
    Row("tl_logit_cap", dict(output_logits_soft_cap=2.0), gradients=True),
    Row("tl_qk_norm", dict(kRotary, **kRms, **kGrouped, use_qk_norm=True)),
    Row("tl_qk_norm_ln", dict(use_qk_norm=True)),
    Row("tl_bidirectional", dict(attention_dir="bidirectional", act_fn="gelu")),
    Row("tl_bidirectional_alibi", dict(attention_dir="bidirectional", positional_embedding_type="alibi", n_heads=2)),
    Row("tl_bidirectional_rotary", dict(kRotary, **kRms, attention_dir="bidirectional")),
    # Padding.
    Row("tl_left_padding", dict(), mask=kLeft),
    Row("tl_right_padding", dict(), mask=kRight),
    Row("tl_padding_inside", dict(), mask=kInside),
    Row("tl_left_padding_rotary", dict(kRotary, **kRms, **kGated, **kGrouped), mask=kLeft),
    Row("tl_both_paddings_rotary", dict(kRotary, rotary_dim=2), mask=kBothSides),
    Row("tl_left_padding_alibi", dict(positional_embedding_type="alibi", n_heads=2), mask=kLeft),
    Row("tl_left_padding_window", dict(kWindow), mask=kLeft),
    Row("tl_left_padding_shortformer", dict(positional_embedding_type="shortformer", attn_only=True), mask=kLeft),
)


def native_name(name: str, architecture: str | None) -> str:
    """TransformerLens keeps OLMo 2's output norms under the names of pre-norms."""
    if architecture == "Olmo2ForCausalLM":
        return name.replace(".ln1.", ".ln1_post.").replace(".ln2.", ".ln2_post.")
    return name


def native_weights(model: HookedTransformer) -> dict:
    """The model's parameters under native names: no buffers, and no W_pos that nothing reads (ALiBi)."""
    weights = {native_name(n, model.cfg.original_architecture): p.detach() for n, p in model.named_parameters()}
    if model.cfg.positional_embedding_type == "alibi":
        weights.pop("pos_embed.W_pos")
    return weights


def native_value(name: str, value: torch.Tensor, config) -> torch.Tensor:
    """q/k norm points with the axes [batch, pos, head, d_head], a router's with batch and pos.

    TransformerLens flattens them.
    """
    if ".hook_expert_" in name:
        return value.reshape(*config.golden_shape, -1)
    if ".q_norm." not in name and ".k_norm." not in name:
        return value
    heads = config.n_key_value_heads or config.n_heads if ".k_norm." in name else config.n_heads
    batch, length = config.golden_shape
    if name.endswith("hook_scale"):
        return value.reshape(batch, length, -1, 1)
    return value.reshape(batch, length, heads, config.d_head)


class Recorder:
    """Keeps every hook of a run under its native name, and each distinct tensor that fired there."""

    def __init__(self, config, tokens, keep_gradients=False):
        self.config = config
        self.config.golden_shape = tuple(tokens.shape)
        self.keep_gradients = keep_gradients
        self.fired = {}

    def __call__(self, tensor, hook):
        if self.keep_gradients:
            tensor.retain_grad()
        seen = self.fired.setdefault(hook.name, [])
        if not any(tensor is other for other in seen):
            seen.append(tensor)

    def _native(self, pick) -> dict:
        return {native_name(n, self.config.original_architecture): native_value(n, pick(ts), self.config)
                for n, ts in self.fired.items()}

    def values(self) -> dict:
        """The last tensor of each point; a point that fires several times (ln1) must show equal ones."""
        for name, tensors in self.fired.items():
            assert all(torch.equal(tensors[-1], t) for t in tensors), name
        return self._native(lambda tensors: tensors[-1].detach())

    def gradients(self) -> dict:
        """The gradient of each point: the sum over the tensors that fired there, 0 where nothing flowed."""
        return self._native(lambda tensors: sum((t.grad for t in tensors if t.grad is not None),
                                                torch.zeros_like(tensors[-1])))


def build(fields: dict, weights: dict) -> HookedTransformer:
    """A float64 model holding native float32 weights."""
    config = HookedTransformerConfig(**fields, dtype=torch.float64, device="cpu")
    model = HookedTransformer(config)
    state = model.state_dict()
    for name in dict(model.named_parameters()):
        native = native_name(name, config.original_architecture)
        state[name] = weights[native].double() if native in weights else state[name]
    model.load_state_dict(state)
    return model.eval()


def process(model: HookedTransformer, steps) -> HookedTransformer:
    model.load_and_process_state_dict({k: v.clone() for k, v in model.state_dict().items()},
                                      **{step: step in steps for step in kSteps})
    return model


def wide_flags(config) -> dict:
    flags = dict(kWideFlags)
    if not config.get("attn_only"):
        flags["use_hook_mlp_in"] = True
    if config.get("n_key_value_heads") is None:
        flags["use_attn_in"] = True
    return flags


def run(fields: dict, weights: dict, tokens, mask=None, steps=None) -> dict:
    """Every point of a model, wide ones included, with tokens and logits; processed if steps are given."""
    outputs = {}
    for flags in ({}, wide_flags(fields)):
        model = build(fields | flags, weights)
        if steps is not None:
            process(model, steps)
        recorder = Recorder(model.cfg, tokens)
        with torch.no_grad():
            logits = model.run_with_hooks(tokens, return_type="logits", attention_mask=mask,
                                          fwd_hooks=[(lambda name: True, recorder)])
        if flags:
            assert (logits - outputs["logits"]).abs().max() < 1e-11
            recorder.fired = {n: t for n, t in recorder.fired.items() if n.rsplit(".", 1)[-1] in kWideNames}
            outputs |= recorder.values()
        else:
            outputs = recorder.values() | {"logits": logits, "tokens": tokens}
    if mask is not None:
        outputs["attention_mask"] = mask
    return outputs


def run_gradients(fields: dict, weights: dict, tokens) -> tuple:
    """`grad.<name>` of logit[0, -1, answer] - logit[0, -1, against] for every default point, and that metric."""
    metric = {"answer": 3, "against": 7, "row": 0, "position": -1}
    model = build(fields, weights)
    recorder = Recorder(model.cfg, tokens, keep_gradients=True)
    logits = model.run_with_hooks(tokens, return_type="logits", fwd_hooks=[(lambda name: True, recorder)])
    (logits[0, -1, metric["answer"]] - logits[0, -1, metric["against"]]).backward()
    return {f"grad.{n}": g for n, g in recorder.gradients().items()}, metric


def steps_for(fields: dict) -> tuple:
    """The steps that TransformerLens's loader takes for such a model, and why others are left out."""
    if fields.get("positional_embedding_type") == "shortformer":
        return ("fold_value_biases",)
    steps = list(kSteps)
    if fields.get("original_architecture") == "Olmo2ForCausalLM":
        steps = ["center_unembed", "fold_value_biases"]
    norm = fields.get("normalization_type", "LN")
    if norm is None or norm.endswith("Pre"):
        steps = [s for s in steps if s != "fold_ln"]
    if norm not in ("LN", "LNPre") or fields.get("final_rms"):
        steps = [s for s in steps if s != "center_writing_weights"]
    if fields.get("output_logits_soft_cap", -1) > 0:
        steps.remove("center_unembed")
    return tuple(steps)


def processed_or_reason(fields, weights, tokens, mask, raw) -> tuple:
    """Processed outputs, their steps, and why TransformerLens is not an oracle for the steps left out (or for all)."""
    steps = steps_for(fields)
    reason = ""
    for attempt in (steps, tuple(s for s in steps if s != "fold_ln")):
        try:
            processed = run(fields, weights, tokens, mask, attempt)
        except (AssertionError, KeyError) as error:
            reason = reason or f"TransformerLens's fold_ln fails here: {error}"
            continue
        real = slice(None) if mask is None else mask.bool()
        change = (processed["logits"].log_softmax(-1) - raw["logits"].log_softmax(-1))[real].abs().max().item()
        if change <= kPreserved:
            return processed, attempt, reason
        reason = reason or f"TransformerLens's own {'+'.join(attempt)} changes log-probabilities by {change:.2g} nats"
    return None, (), reason


def native_config(fields: dict) -> dict:
    return {"model_type": "hooked_transformer", **fields}


def full_config(model: HookedTransformer) -> dict:
    """Every field of the config, as JSON values."""
    fields = {k: v for k, v in model.cfg.to_dict().items() if k != "golden_shape"} | {"dtype": torch.float32}
    return native_config({k: v if isinstance(v, (int, float, str, bool, list, type(None))) else str(v)
                          for k, v in fields.items()})


def make(row: Row) -> Golden:
    fields = kSizes | row.fields
    with float64():
        blank = HookedTransformer(HookedTransformerConfig(**fields, dtype=torch.float64, device="cpu"))
        weights = {n: draw(f"cases/{row.case}", n, p.shape, "F64") for n, p in native_weights(blank).items()}
        tokens = random_tokens(row.case, fields["d_vocab"], row.length)
        mask = None if row.mask is None else torch.tensor(row.mask)
        raw = run(fields, weights, tokens, mask)
        processed, steps, reason = processed_or_reason(fields, weights, tokens, mask, raw)
        gradients, metric = run_gradients(fields, weights, tokens) if row.gradients else (None, None)
    return Golden(
        case=row.case, oracle=kOracle, native_config=native_config(fields),
        config=full_config(blank) if row.full_config else native_config(fields), weights=weights, outputs=raw,
        processed=processed, processing=list(steps), processed_skipped=reason, gradients=gradients,
        gradient_metric=metric, exceptions=exceptions_of(fields))



def exceptions_of(fields: dict) -> tuple:
    """The kinds of points of ours that TransformerLens does not have for this config."""
    return ("grouped_of_one",) if fields.get("n_key_value_heads") == fields["n_heads"] else ()


def makers() -> list:
    return [Maker(row.case, lambda row=row: make(row)) for row in kRows]
