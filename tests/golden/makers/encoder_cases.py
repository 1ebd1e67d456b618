"""Goldens from TransformerLens's HookedEncoder: every hook of it."""

import torch
from transformer_lens import HookedEncoder, HookedTransformerConfig

from .case_files import Golden, Maker, random_tokens
from .drawn import draw
from .float64 import float64
from .transformer_lens_cases import kOracle

kSizes = dict(n_layers=2, d_model=6, n_ctx=8, n_heads=3, d_head=4, d_mlp=11, d_vocab=13, act_fn="gelu",
              attention_dir="bidirectional")
kEncoder = dict(norm_place="post", final_norm="none", embedding_sum_norm=True, token_types=2, mlm_head="gelu")
kRenamed = {"embed.embed.W_E": "embed.W_E", "embed.pos_embed.W_pos": "pos_embed.W_pos"}
kUnused = ("pooler.", "nsp_head.")  # of next-sentence prediction
kRight = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]

# (case, config fields in addition to kSizes, attention mask). Masks pad on the right: HookedEncoder numbers columns, so rows
# padded on the left would change their positions.
kRows = (
    ("tl_encoder", dict(), None),
    ("tl_encoder_equal_sizes", dict(d_mlp=6, d_vocab=6, n_heads=1, eps=1e-3), None),
    ("tl_encoder_right_padding", dict(act_fn="relu"), kRight),
)


def run(model, tokens, types, mask) -> dict:
    """Every point of a run, those of split inputs and head results too, and the logits."""
    points = {}
    for wide in (False, True):
        model.cfg.use_attn_result = model.cfg.use_split_qkv_input = wide
        fired = {}
        hooks = [(lambda name: True, lambda tensor, hook: fired.__setitem__(hook.name, tensor.detach().clone()))]
        with torch.no_grad(), model.hooks(fwd_hooks=hooks):
            logits = model(tokens, token_type_ids=types, one_zero_attention_mask=mask)
        points = fired | points
    return points | {"logits": logits}


def make(case: str, fields: dict, rows) -> Golden:
    fields = kSizes | fields
    with float64():
        model = HookedEncoder(HookedTransformerConfig(**fields, dtype=torch.float64, device="cpu")).eval()
        weights = {}
        for name, parameter in model.named_parameters():
            value = draw(f"cases/{case}", kRenamed.get(name, name), parameter.shape, "F64")
            parameter.data = value.double()
            if not name.startswith(kUnused):
                weights[kRenamed.get(name, name)] = value
        tokens = random_tokens(case, fields["d_vocab"], 5)
        types = random_tokens(case + "/types", 2, 5)
        mask = None if rows is None else torch.tensor(rows)
        outputs = run(model, tokens, types, mask) | {"tokens": tokens, "token_type_ids": types}
    if mask is not None:
        outputs["attention_mask"] = mask
    config = {"model_type": "hooked_transformer", **fields, "hooked": kEncoder}
    return Golden(case=case, oracle=kOracle, native_config=config, config=config, weights=weights, outputs=outputs,
                  processed_skipped="TransformerLens does not process encoders", exceptions=("encoder_mlp_in", "encoder"))


def makers() -> list:
    return [Maker(row[0], lambda row=row: make(*row)) for row in kRows]
