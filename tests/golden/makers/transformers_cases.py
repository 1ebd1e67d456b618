"""Goldens from `transformers`: what TransformerLens lacks, and what both have.

Processed outputs come from TransformerLens, where it has the model and agrees on the raw outputs.
"""

import dataclasses
from collections.abc import Callable

import torch
import transformers

from . import model_parts, native_weights, second_opinion
from .case_files import Golden, Maker, random_tokens
from .float64 import float64
from .transformers_recorder import record

kOracle = f"transformers {transformers.__version__}"

kLeft = [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
kRight = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
kBothSides = [[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]]


@dataclasses.dataclass
class Row:
    """One case: a model of `transformers` and the native config of the same function.

    `model` is the config class without "Config", `keys` its keys, `fields` the native fields beside the sizes
    (`hooked` is the native group of that name), `notes` what the recorder must know (see its use of them).
    """

    case: str
    model: str
    keys: dict
    parts: Callable
    fields: dict
    notes: dict = dataclasses.field(default_factory=dict)
    exceptions: tuple = ()
    mask: list | None = None
    length: int = 5


kCommon = dict(hidden_size=12, intermediate_size=15, num_hidden_layers=2, num_attention_heads=2, vocab_size=13,
               max_position_embeddings=16, pad_token_id=0, bos_token_id=1, eos_token_id=2)
kGrouped = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=4)
kSmall = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, vocab_size=13)

kRotary = dict(positional_embedding_type="rotary")
kRms = dict(normalization_type="RMS")
kNoBias = dict(mlp_bias=False, qkv_bias=False, attn_out_bias=False, unembed_bias=False)
kLlama = dict(kRotary, **kRms, gated_mlp=True, act_fn="silu", eps=1e-6)
kInside = dict(gated_bias_after_product=False)
kHookedLlama = dict(kNoBias, **kInside)


def rope(kind="default", **parameters):
    return dict(rope_parameters=dict(rope_type=kind, **({"rope_theta": 10000.0} | parameters)))


kLlama3 = dict(rope_theta=100.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=64)
kNativeLlama3 = dict(rotary_base=100, use_NTK_by_parts_rope=True, NTK_by_parts_factor=8.0,
                     NTK_by_parts_low_freq_factor=1.0, NTK_by_parts_high_freq_factor=4.0, NTK_original_ctx_len=64)
kYarn = dict(rope_theta=100.0, factor=4.0, attention_factor=1.25, beta_fast=4.0, beta_slow=0.5,
             original_max_position_embeddings=64)
kNativeYarn = dict(rotary_base=100, use_yarn_rope=True, yarn_factor=4.0, yarn_attention_factor=1.25,
                   yarn_beta_fast=4.0, yarn_beta_slow=0.5, yarn_original_max_position_embeddings=64)


def llama(case, keys=None, fields=None, hooked=None, **rest) -> Row:
    return Row(case, "Llama", kCommon | dict(head_dim=8) | rope() | (keys or {}), model_parts.llama_parts,
               kLlama | (fields or {}) | dict(hooked=kHookedLlama | (hooked or {})), **rest)


def local_layers(types):
    return dict(use_local_attn=True, window_size=3, attn_types=types)


# BLOOM adds slope * key position to the scores, and rounds sqrt(2/pi) of its GELU to 0.79788456, not 0.7978845608.
kBloomNotes = dict(scores_differ=True, no_position_ids=True, agreement=1e-9)
kBloomExceptions = ("bloom_scores",)

# The one table of native folders converted from models of `transformers`.
kRows = (
    # Gated MLPs by activation, biases inside the gate, rotary and its scalings, heads, padding, direction.
    llama("hf_llama"),
    llama("hf_llama_reglu_grouped", dict(kGrouped, hidden_act="relu"), dict(act_fn="relu")),
    llama("hf_llama_glu_multi_query", dict(num_attention_heads=3, num_key_value_heads=1, hidden_act="sigmoid"),
          dict(act_fn="sigmoid")),
    llama("hf_llama_geglu_tied", dict(hidden_act="gelu", tie_word_embeddings=True), dict(act_fn="gelu"),
          dict(tied_unembedding=True)),
    llama("hf_llama_biases", dict(attention_bias=True, mlp_bias=True), None,
          dict(mlp_bias=True, qkv_bias=True, attn_out_bias=True)),
    llama("hf_llama_linear_rope", rope("linear", factor=4.0), dict(rotary_scaling_factor=4.0)),
    llama("hf_llama_llama3_rope", rope("llama3", **kLlama3), kNativeLlama3),
    llama("hf_llama_yarn", rope("yarn", **kYarn), kNativeYarn),
    llama("hf_llama_yarn_untruncated", rope("yarn", **kYarn, truncate=False), kNativeYarn, dict(yarn_truncate=False)),
    llama("hf_llama_left_padding", mask=kLeft),
    llama("hf_llama_right_padding", mask=kRight),
    llama("hf_llama_bidirectional", None, dict(attention_dir="bidirectional")),
    llama("hf_llama_bidirectional_padding", None, dict(attention_dir="bidirectional"), mask=kBothSides),
    Row("hf_arcee", "Arcee", kCommon | dict(head_dim=8) | rope(), model_parts.llama_parts,
        dict(kRotary, **kRms, act_fn="relu2", eps=1e-5, hooked=kNoBias)),
    Row("hf_nemotron", "Nemotron", kCommon | dict(num_key_value_heads=2, head_dim=8) |
        rope(partial_rotary_factor=0.5), model_parts.llama_parts,
        dict(kRotary, rotary_dim=4, act_fn="relu2", eps=1e-5, hooked=kNoBias), dict(adds_one_to_norm_weights=True)),
    Row("hf_qwen2", "Qwen2", kCommon | kGrouped | dict(hidden_size=16) | rope(), model_parts.llama_parts,
        dict(kLlama, hooked=kHookedLlama | dict(qkv_bias=True))),
    Row("hf_qwen3", "Qwen3", kCommon | kGrouped | rope(), model_parts.llama_parts,
        dict(kLlama, use_qk_norm=True, hooked=kHookedLlama)),
    Row("hf_mistral", "Mistral", kCommon | kGrouped | dict(sliding_window=3) | rope(), model_parts.llama_parts,
        dict(kLlama, **local_layers(["local"] * 2), hooked=kHookedLlama), length=7),
    Row("hf_smollm3_no_positions", "SmolLM3", kCommon | kGrouped | dict(hidden_size=16, no_rope_layers=[0, 0],
                                                                        tie_word_embeddings=False) | rope(),
        model_parts.llama_parts,
        dict(kLlama, positional_embedding_type="none", hooked=kHookedLlama)),
    # Norm places and norm forms.
    Row("hf_olmo2", "Olmo2", kCommon | dict(head_dim=6) | rope(), model_parts.olmo2_parts,
        dict(kLlama, eps=1e-5, hooked=dict(kHookedLlama, norm_place="output", qk_norm="whole_projection"))),
    Row("hf_olmo2_grouped", "Olmo2", kCommon | kGrouped | rope(), model_parts.olmo2_parts,
        dict(kLlama, eps=1e-5, hooked=dict(kHookedLlama, norm_place="output", qk_norm="whole_projection")),
        mask=kLeft),
    Row("hf_gemma2", "Gemma2", kCommon | kGrouped | dict(hidden_size=16, sliding_window=3, query_pre_attn_scalar=9,
                                                         attn_logit_softcapping=1.5, final_logit_softcapping=2.0,
                                                         layer_types=["sliding_attention", "full_attention"],
                                                         tie_word_embeddings=False) | rope(),
        model_parts.gemma_parts,
        dict(kLlama, act_fn="gelu_pytorch_tanh", use_normalization_before_and_after=True, attn_scale=3.0,
             attn_scores_soft_cap=1.5, output_logits_soft_cap=2.0, **local_layers(["local", "global"]),
             hooked=dict(kHookedLlama, norm_place="both", norm_offset=True)),
        dict(adds_one_to_norm_weights=True), length=7),
    Row("hf_gemma3", "Gemma3Text", kCommon | kGrouped | dict(
            hidden_size=16, sliding_window=3, query_pre_attn_scalar=4, tie_word_embeddings=False,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                             "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}}),
        model_parts.gemma_parts,
        dict(kLlama, act_fn="gelu_pytorch_tanh", use_normalization_before_and_after=True, use_qk_norm=True,
             rotary_base=1000, rotary_base_local=50, rotary_scaling_factor=2.0, **local_layers(["local", "global"]),
             hooked=dict(kHookedLlama, norm_place="both", norm_offset=True)),
        dict(adds_one_to_norm_weights=True), length=7),
    Row("hf_opt", "OPT", kSmall | dict(hidden_size=12, ffn_dim=12, num_hidden_layers=2, num_attention_heads=3,
                                       max_position_embeddings=8, word_embed_proj_dim=12),
        model_parts.opt_parts,
        dict(act_fn="relu", hooked=dict(tied_unembedding=True, unembed_bias=False))),
    Row("hf_opt_post", "OPT", kSmall | dict(hidden_size=12, ffn_dim=15, num_hidden_layers=2, num_attention_heads=3,
                                            max_position_embeddings=8, word_embed_proj_dim=12,
                                            do_layer_norm_before=False),
        model_parts.opt_parts,
        dict(act_fn="relu", hooked=dict(norm_place="post", tied_unembedding=True, unembed_bias=False))),
    Row("hf_opt_post_left_padding", "OPT", kSmall | dict(hidden_size=12, ffn_dim=15, num_hidden_layers=2,
                                                         num_attention_heads=3, max_position_embeddings=8,
                                                         word_embed_proj_dim=12, do_layer_norm_before=False,
                                                         tie_word_embeddings=False),
        model_parts.opt_parts,
        dict(act_fn="relu", hooked=dict(norm_place="post", unembed_bias=False)), mask=kLeft),
    # Parallel blocks, positions.
    Row("hf_gpt_neox", "GPTNeoX", kCommon | dict(hidden_size=16, hidden_act="gelu") |
        rope(partial_rotary_factor=0.5), model_parts.gpt_neox_parts,
        dict(kRotary, rotary_dim=4, parallel_attn_mlp=True, act_fn="gelu", hooked=dict(unembed_bias=False))),
    Row("hf_gpt_neox_serial", "GPTNeoX", kCommon | dict(hidden_size=16, hidden_act="gelu",
                                                        use_parallel_residual=False) |
        rope(partial_rotary_factor=0.25, rope_theta=500.0), model_parts.gpt_neox_parts,
        dict(kRotary, rotary_dim=2, rotary_base=500, act_fn="gelu", hooked=dict(unembed_bias=False)), mask=kLeft),
    Row("hf_gptj", "GPTJ", kSmall | dict(n_embd=12, n_layer=2, n_head=2, n_positions=16, rotary_dim=4, n_inner=15,
                                         tie_word_embeddings=False),
        model_parts.gptj_parts,
        dict(kRotary, rotary_dim=4, rotary_adjacent_pairs=True, parallel_attn_mlp=True, act_fn="gelu_new",
             hooked=dict(parallel_one_norm=True, qkv_bias=False, attn_out_bias=False))),
    Row("hf_phi", "Phi", kCommon | dict(hidden_size=16) | rope(partial_rotary_factor=0.5),
        model_parts.one_norm_parts,
        dict(kRotary, rotary_dim=4, parallel_attn_mlp=True, act_fn="gelu_new", hooked=dict(parallel_one_norm=True))),
    Row("hf_phi_left_padding", "Phi", kCommon | dict(hidden_size=16) | rope(partial_rotary_factor=0.5),
        model_parts.one_norm_parts,
        dict(kRotary, rotary_dim=4, parallel_attn_mlp=True, act_fn="gelu_new", hooked=dict(parallel_one_norm=True)),
        mask=kLeft),
    Row("hf_cohere", "Cohere", kCommon | dict(num_attention_heads=4, num_key_value_heads=2, hidden_size=16,
                                              logit_scale=1.0, tie_word_embeddings=True) | rope(),
        model_parts.one_norm_parts,
        dict(kRotary, rotary_adjacent_pairs=True, parallel_attn_mlp=True, gated_mlp=True, act_fn="silu",
             hooked=dict(kHookedLlama, parallel_one_norm=True, norm_bias=False, tied_unembedding=True))),
    Row("hf_starcoder2", "Starcoder2", kCommon | kGrouped | dict(hidden_size=16, use_bias=True, sliding_window=None,
                                                                tie_word_embeddings=True) | rope(),
        model_parts.llama_parts,
        dict(kRotary, act_fn="gelu_pytorch_tanh", hooked=dict(tied_unembedding=True, unembed_bias=False))),
    Row("hf_gpt_neo", "GPTNeo", kSmall | dict(hidden_size=12, intermediate_size=12, num_layers=2, num_heads=3,
                                              max_position_embeddings=8, window_size=3,
                                              attention_types=[[["global", "local"], 1]], tie_word_embeddings=True),
        model_parts.gpt_neo_parts,
        dict(act_fn="gelu_new", use_attn_scale=False, **local_layers(["global", "local"]),
             hooked=dict(qkv_bias=False, tied_unembedding=True, unembed_bias=False)), length=7),
    Row("hf_bloom", "Bloom", kSmall | dict(hidden_size=12, n_layer=2, n_head=4, tie_word_embeddings=True),
        model_parts.bloom_parts,
        dict(positional_embedding_type="alibi", post_embedding_ln=True, act_fn="gelu_fast",
             hooked=dict(tied_unembedding=True, unembed_bias=False)),
        kBloomNotes,
        kBloomExceptions),
    Row("hf_bloom_left_padding", "Bloom", kSmall | dict(hidden_size=12, n_layer=2, n_head=4,
                                                        tie_word_embeddings=True),
        model_parts.bloom_parts,
        dict(positional_embedding_type="alibi", post_embedding_ln=True, act_fn="gelu_fast",
             hooked=dict(tied_unembedding=True, unembed_bias=False)),
        kBloomNotes,
        kBloomExceptions,
        mask=kLeft),
)


def blank_model(name: str, keys: dict):
    """A float64 model."""
    config = getattr(transformers, f"{name}Config")(**keys)
    with float64():
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    return model.eval()


def native_config(model, fields: dict) -> dict:
    """The native config: sizes from the model's config, the rest from the table."""
    config = model.config
    d_model, n_heads = config.hidden_size, config.num_attention_heads
    kv = getattr(config, "num_key_value_heads", None)
    d_mlp = next(size for key in ("intermediate_size", "ffn_dim", "n_inner")
                 if (size := getattr(config, key, None)) or key == "n_inner") or 4 * d_model
    sizes = dict(n_layers=config.num_hidden_layers, d_model=d_model,
                 n_ctx=getattr(config, "max_position_embeddings", 16), n_heads=n_heads,
                 d_head=getattr(config, "head_dim", None) or d_model // n_heads, d_mlp=d_mlp,
                 d_vocab=config.vocab_size)
    grouped = dict(n_key_value_heads=kv) if kv not in (None, n_heads) else {}
    return {"model_type": "hooked_transformer", **sizes, **grouped, **fields}


def make(row: Row) -> Golden:
    model = blank_model(row.model, row.keys)
    parts = row.parts(model)
    native = native_config(model, row.fields)
    config = dict(row.notes, native=native)
    mask = None if row.mask is None else torch.tensor(row.mask)
    weights = native_weights.drawn_weights(parts, config, f"cases/{row.case}")
    outputs = record(model, parts, config, random_tokens(row.case, native["d_vocab"], row.length), mask)
    golden = Golden(case=row.case, oracle=kOracle, native_config=native, config=native, weights=weights,
                    outputs=outputs,
                    processed_skipped="transformers processes no weights, TransformerLens lacks this model",
                    exceptions=("wide", *row.exceptions))
    # TransformerLens applies no padding mask in bidirectional models.
    if mask is None or native.get("attention_dir") != "bidirectional":
        second_opinion.ask(golden, row.notes.get("agreement", second_opinion.kAgreement))
    return golden


def makers() -> list:
    return [Maker(row.case, lambda row=row: make(row)) for row in kRows]
