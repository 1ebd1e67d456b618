"""Goldens for GPT-2 folders as `transformers` saves them and as they are found in the wild.

Raw outputs come from `transformers` (or, in one case, from TransformerLens with every wide point), processed ones from
TransformerLens, which is also asked whether it agrees on the raw ones.
"""

import copy
import dataclasses
import json

import torch
import transformers
from safetensors.torch import save_file

from . import drawn, model_parts, native_weights, second_opinion, transformer_lens_cases, transformers_cases
from .case_files import Golden, Maker, random_tokens
from .float64 import float64
from .transformers_recorder import record


@dataclasses.dataclass
class Row:
    """One case: keys of GPT2Config beside kKeys, native fields that follow, and the form of the folder.

    `form` is prefix (`transformer.` before the names), bare (without, with mask buffers and an older config),
    masks (prefix, mask buffers and a second copy of the tied matrix) or sharded.
    """

    case: str
    keys: dict = dataclasses.field(default_factory=dict)
    fields: dict = dataclasses.field(default_factory=dict)
    form: str = "prefix"
    dtype: torch.dtype = torch.float32
    mask: list | None = None
    all_points: bool = False  # raw outputs from TransformerLens, wide points included
    written: dict = dataclasses.field(default_factory=dict)  # keys of the folder's config only


kKeys = dict(n_embd=8, n_head=2, n_layer=2, n_positions=8, n_inner=11, vocab_size=13, bos_token_id=1, eos_token_id=2)

# The one table.
kRows = (
    Row("gpt2_prefix"),
    Row("gpt2_all_points", dict(n_inner=None), all_points=True),
    Row("gpt2_bare", form="bare"),
    Row("gpt2_masks", form="masks"),
    Row("gpt2_sharded", form="sharded"),
    Row("gpt2_float16", dtype=torch.float16),
    Row("gpt2_bfloat16", dtype=torch.bfloat16),
    Row("gpt2_inverse_layer", dict(scale_attn_by_inverse_layer_idx=True), dict(scale_attn_by_inverse_layer_idx=True)),
    Row("gpt2_no_attn_scale", dict(scale_attn_weights=False), dict(use_attn_scale=False)),
    # Changes the precision of attention only, and stops transformers from running in float64.
    Row("gpt2_upcast", written=dict(reorder_and_upcast_attn=True)),
    Row("gpt2_untied", dict(tie_word_embeddings=False), dict(hooked=dict(unembed_bias=False))),
    Row("gpt2_equal_sizes_processed", dict(n_inner=8, vocab_size=8)),
    Row("gpt2_left_padding", mask=[[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
    Row("gpt2_right_padding", mask=[[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
) + tuple(Row(f"gpt2_{act}", dict(activation_function=act), dict(act_fn=act))
          for act in ("relu", "gelu", "gelu_fast", "gelu_pytorch_tanh", "silu", "swish", "quick_gelu", "relu2"))


def _with_masks(state: dict, config) -> dict:
    """Adds the causal-mask buffers that older files carry."""
    seen = torch.ones(config.n_positions, config.n_positions).tril()[None, None]
    for i in range(config.n_layer):
        state[f"transformer.h.{i}.attn.bias"] = seen.clone()
        state[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return state


def _old_config(config) -> dict:
    """The style of the configs of 2019: few keys, `n_ctx`, no dtype."""
    keys = ("activation_function", "attn_pdrop", "bos_token_id", "embd_pdrop", "eos_token_id", "initializer_range",
            "layer_norm_epsilon", "n_embd", "n_head", "n_inner", "n_layer", "n_positions", "resid_pdrop",
            "vocab_size")
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_ctx": config.n_positions,
            **{key: getattr(config, key) for key in keys}}


def write_folder(model, row: Row, folder) -> None:
    """The model as a Hugging Face folder in the row's form and dtype."""
    transformers.utils.logging.disable_progress_bar()
    saved = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(model.config), dtype=torch.float32)
    saved.load_state_dict({name: value.float() for name, value in model.state_dict().items()})
    saved.to(row.dtype)
    saved.config.update(row.written)
    if row.form in ("bare", "masks"):
        state = _with_masks(dict(saved.state_dict()), model.config)
        if row.form == "bare":
            state = {n.removeprefix("transformer."): t for n, t in state.items() if n != "lm_head.weight"}
        save_file({n: t.clone().contiguous() for n, t in state.items()}, folder / "model.safetensors",
                  metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(_old_config(model.config), indent=2) + "\n")
        return
    saved.save_pretrained(folder, max_shard_size="3KB" if row.form == "sharded" else "1GB")
    (folder / "generation_config.json").unlink(missing_ok=True)


def make(row: Row) -> Golden:
    model = transformers_cases.blank_model("GPT2", kKeys | row.keys)
    drawn.fill(f"cases/{row.case}", model, drawn.kDtypes[row.dtype])
    parts = model_parts.gpt2_parts(model)
    native = transformers_cases.native_config(
        model, dict(act_fn="gelu_new", hooked=dict(tied_unembedding=True, unembed_bias=False)) | row.fields)
    weights = native_weights.native_weights(parts, {"native": native})
    tokens = random_tokens(row.case, native["d_vocab"], 5)
    mask = None if row.mask is None else torch.tensor(row.mask)
    outputs = record(model, parts, {"native": native}, tokens, mask)
    golden = Golden(case=row.case, family="gpt2", oracle=transformers_cases.kOracle, native_config=native, weights=weights,
                    outputs=outputs, write_model=lambda folder: write_folder(model, row, folder),
                    processed_skipped="TransformerLens lacks this activation",
                    exceptions=("wide",))
    second_opinion.ask(golden)
    if row.all_points:
        with float64():
            golden.outputs = transformer_lens_cases.run(*second_opinion.opinion(native, weights), tokens, mask)
        golden.oracle, golden.agrees_with, golden.exceptions = golden.agrees_with, golden.oracle, ()
    return golden


def makers() -> list:
    return [Maker(row.case, lambda row=row: make(row)) for row in kRows]
