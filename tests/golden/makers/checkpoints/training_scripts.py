"""Checkpoints that training code leaves behind, without a model_type: TransformerLens's, nanoGPT's, minGPT's.

TransformerLens is its own oracle, with its own conversions of earlier files. What nanoGPT and minGPT compute is written
down here from their public definitions, with the activations under hook names.
"""

import collections
import dataclasses
import importlib.metadata
import json
import math
import pathlib
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

from .. import drawn
from ..case_files import generator_for
from ..float64 import float64
from .hub_models import kGreedyTokens

kTransformerLens = "TransformerLens " + importlib.metadata.version("transformer-lens")
kPoints = ("hook_resid_pre", "hook_resid_post", "attn.hook_z", "attn.hook_pattern", "mlp.hook_post")


@dataclasses.dataclass(frozen=True)
class ScriptCase:
    """One checkpoint. `make` turns the case into a Made; `file` is where the checkpoint lies in its folder."""

    name: str
    model_type: str
    make: object
    file: str
    keys: dict
    length: int = 11
    golden: bool = True
    oracle: str = "the definitions in tests/golden/makers/checkpoints/training_scripts.py"


@dataclasses.dataclass
class Made:
    """A model to run, and what its folder holds."""

    run: object  # tokens -> (logits, points)
    d_vocab: int
    n_ctx: int
    checkpoint: object
    config: dict | None


# ---------------------------------------------------------------------------------------------------- TransformerLens


def lens_runner(cfg, weights):
    import transformer_lens

    cfg.dtype = torch.float64
    model = transformer_lens.HookedTransformer(cfg)
    missing = model.load_state_dict({k: v.double() for k, v in weights.items()}, strict=False).missing_keys
    assert all(name.endswith(("mask", "IGNORE", "b_U", "rotary_sin", "rotary_cos")) for name in missing), missing
    if "unembed.b_U" in missing:
        model.unembed.b_U.data.zero_()
    model.eval()

    def run(tokens):
        logits, cache = model.run_with_cache(tokens)
        names = [f"blocks.{i}.{p}" for i in range(cfg.n_layers) for p in kPoints]
        return logits, {name: cache[name] for name in names if name in cache}

    return run


def published_config(name, config):
    """TransformerLens's own reading of the config.json of a training run."""
    from transformer_lens import HookedTransformerConfig, loading_from_pretrained as loading

    with mock.patch.object(loading, "get_official_model_name", lambda name: name), \
            mock.patch.object(loading.utils, "download_file_from_hf", lambda *_, **__: config):
        fields = loading.convert_neel_model_config(name)
    return HookedTransformerConfig(**fields | dict(tokenizer_name=None))


def lens_weights(case, cfg) -> dict:
    import transformer_lens

    with torch.random.fork_rng():
        blank = transformer_lens.HookedTransformer(cfg)
    weights = {n: drawn.draw(f"cases/{case.name}", n, p.shape) for n, p in blank.named_parameters()}
    return weights | {n: b for n, b in blank.named_buffers() if n.endswith(("mask", "IGNORE"))}


def lens_dump(case) -> Made:
    """A state dict and a config as `cfg.to_dict()` has it."""
    from transformer_lens import HookedTransformerConfig

    cfg = HookedTransformerConfig(**case.keys)
    weights = lens_weights(case, cfg)
    config = json.loads(json.dumps(cfg.to_dict(), default=str))
    return Made(lens_runner(cfg, weights), cfg.d_vocab, cfg.n_ctx, collections.OrderedDict(weights), config)


kTrainingRun = dict(lr_hidden=0.002, betas=[0.9, 0.99], seed=10, version=24, ln_eps=1e-5, dataset_name="c4_code",
                    use_bfloat16_matmul=True, tokenizer_name="NeelNanda/gpt-neox-tokenizer-digits")


def lens_run(case) -> Made:
    """A training run's state dict, and its config under the names of that time."""
    config = kTrainingRun | case.keys
    cfg = published_config("NeelNanda/" + case.name, config)
    weights = lens_weights(case, cfg)
    return Made(lens_runner(cfg, weights), cfg.d_vocab, cfg.n_ctx, weights, config)


def old_norm_name(name: str) -> str:
    return name.replace("ln_final.", "norm.").replace(".ln", ".norm")


def lens_old_solu(case) -> Made:
    """The first SoLU models: other names of norms, matrices the other way round by the number of layers."""
    from transformer_lens.pretrained.weight_conversions import convert_neel_solu_old_weights

    config = kTrainingRun | case.keys
    cfg = published_config("NeelNanda/" + case.name + "_old", config)
    file = {}
    for name, value in lens_weights(case, cfg).items():
        turned = cfg.n_layers <= (8 if name == "pos_embed.W_pos" else 6)
        file[old_norm_name(name)] = value.transpose(-2, -1).contiguous() if "W_" in name and turned else value
    weights = convert_neel_solu_old_weights(dict(file), cfg)
    return Made(lens_runner(cfg, weights), cfg.d_vocab, cfg.n_ctx, file, config)


def lens_early_mingpt(case) -> Made:
    """minGPT's tensors beside a config of TransformerLens, as its Othello model has them."""
    from transformer_lens.pretrained.weight_conversions import convert_mingpt_weights

    config = dict(case.keys, architecture="mingpt")
    cfg = published_config("Baidicoot/" + case.name, config)
    model = EarlyMinGpt(n_layer=cfg.n_layers, n_head=cfg.n_heads, n_embd=cfg.d_model, vocab_size=cfg.d_vocab,
                        block_size=cfg.n_ctx)
    drawn.fill(f"cases/{case.name}", model)
    file = {n: v.float() for n, v in model.state_dict().items()}
    return Made(lens_runner(cfg, convert_mingpt_weights(dict(file), cfg)), cfg.d_vocab, cfg.n_ctx, file, config)


# ---------------------------------------------------------------------------------------------------- nanoGPT, minGPT


def tanh_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


class Norm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


def attend(q, k, v):
    """Causal attention over [batch, pos, head, d_head]: (z of that shape, pattern)."""
    length = q.shape[1]
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    allowed = torch.ones(length, length, dtype=torch.bool).tril()
    pattern = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", pattern, v), pattern


class Attention(nn.Module):
    def __init__(self, n_head, n_embd, block_size, bias, mask):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        if mask:
            self.register_buffer("bias", torch.ones(block_size, block_size).tril()[None, None])

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.n_head, -1)) for part in self.c_attn(x).chunk(3, -1))
        z, pattern = attend(q, k, v)
        return self.c_proj(z.flatten(2)), z, pattern


class SeparateAttention(nn.Module):
    def __init__(self, n_head, n_embd, block_size):
        super().__init__()
        self.n_head = n_head
        self.key, self.query, self.value, self.proj = (nn.Linear(n_embd, n_embd) for _ in range(4))
        self.register_buffer("mask", torch.ones(block_size, block_size).tril()[None, None])

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (self.n_head, -1)) for part in (self.query, self.key, self.value))
        z, pattern = attend(q, k, v)
        return self.proj(z.flatten(2)), z, pattern


def run_blocks(x, blocks, parts_of, act):
    """The stream behind pre-norm blocks, and the points on the way. `parts_of`: norm, attention, norm, in, out."""
    points = {}
    for i, block in enumerate(blocks):
        norm1, attention, norm2, mlp_in, mlp_out = parts_of(block)
        at = f"blocks.{i}."
        points[at + "hook_resid_pre"] = x
        out, points[at + "attn.hook_z"], points[at + "attn.hook_pattern"] = attention(norm1(x))
        x = x + out
        points[at + "mlp.hook_post"] = act(mlp_in(norm2(x)))
        x = x + mlp_out(points[at + "mlp.hook_post"])
        points[at + "hook_resid_post"] = x
    return x, points


class Gpt(nn.Module):
    """nanoGPT, and minGPT since 2022: GPT-2's names, linear maps [out, in]."""

    def __init__(self, n_layer, n_head, n_embd, vocab_size, block_size, bias=True, tied=False, act=tanh_gelu, mask=True):
        super().__init__()
        self.act = act
        block = lambda: nn.ModuleDict(dict(  # noqa: E731
            ln_1=Norm(n_embd, bias), attn=Attention(n_head, n_embd, block_size, bias, mask), ln_2=Norm(n_embd, bias),
            mlp=nn.ModuleDict(dict(c_fc=nn.Linear(n_embd, 4 * n_embd, bias=bias),
                                   c_proj=nn.Linear(4 * n_embd, n_embd, bias=bias)))))
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocab_size, n_embd), wpe=nn.Embedding(block_size, n_embd),
            h=nn.ModuleList([block() for _ in range(n_layer)]), ln_f=Norm(n_embd, bias)))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        if tied:
            self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        parts = self.transformer
        x = parts.wte(tokens) + parts.wpe(torch.arange(tokens.shape[1]))
        x, points = run_blocks(
            x, parts.h, lambda b: (b.ln_1, b.attn, b.ln_2, b.mlp.c_fc, b.mlp.c_proj), self.act)
        points["unembed.hook_in"] = parts.ln_f(x)
        return self.lm_head(points["unembed.hook_in"]), points


class EarlyMinGpt(nn.Module):
    """minGPT of 2020: projections by themselves, exact GELU."""

    def __init__(self, n_layer, n_head, n_embd, vocab_size, block_size):
        super().__init__()
        self.tok_emb = nn.Embedding(vocab_size, n_embd)
        self.pos_emb = nn.Parameter(torch.zeros(1, block_size, n_embd))
        block = lambda: nn.ModuleDict(dict(  # noqa: E731
            ln1=Norm(n_embd, True), ln2=Norm(n_embd, True), attn=SeparateAttention(n_head, n_embd, block_size),
            mlp=nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))))
        self.blocks = nn.ModuleList([block() for _ in range(n_layer)])
        self.ln_f = Norm(n_embd, True)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, tokens):
        x = self.tok_emb(tokens) + self.pos_emb[:, :tokens.shape[1]]
        x, points = run_blocks(
            x, self.blocks, lambda b: (b.ln1, b.attn, b.ln2, b.mlp[0], b.mlp[2]), functional.gelu)
        points["unembed.hook_in"] = self.ln_f(x)
        return self.head(points["unembed.hook_in"]), points


kSizes = dict(n_layer=2, n_head=2, n_embd=12, vocab_size=23, block_size=32)


def float32_weights(model, prefix="") -> collections.OrderedDict:
    return collections.OrderedDict((prefix + n, v.float()) for n, v in model.state_dict().items())


def nanogpt(case) -> Made:
    """What train.py saves: the state dict of a compiled model, optimizer, model_args and settings."""
    keys = dict(case.keys)
    early = keys.pop("early", False)
    model = Gpt(**keys, tied=not early, act=tanh_gelu if early else functional.gelu, mask=early)
    drawn.fill(f"cases/{case.name}", model)
    if not early:
        keys["dropout"] = 0.0
    first = next(model.parameters())
    checkpoint = dict(
        model=float32_weights(model, "" if early else "_orig_mod."),
        optimizer=dict(state={0: dict(step=torch.tensor(5.0), exp_avg=torch.zeros(first.shape[0]))},
                       param_groups=[dict(lr=6e-4, betas=(0.9, 0.95), eps=1e-8, fused=None, params=[0])]),
        model_args=keys, iter_num=5, best_val_loss=torch.tensor(3.25),
        config=dict(out_dir="out", eval_interval=2000, always_save_checkpoint=True, learning_rate=6e-4,
                    n_layer=keys["n_layer"], block_size=1024, device="cuda", compile=True))
    return Made(model, keys["vocab_size"], keys["block_size"], checkpoint, None)


def mingpt(case) -> Made:
    """What chargpt.py leaves: a state dict, and the settings as they were before the data was read."""
    keys = dict(case.keys)
    model_type = keys.pop("model_type", None)
    model = Gpt(**keys)
    drawn.fill(f"cases/{case.name}", model)
    given = dict(keys, vocab_size=None, block_size=None)
    if model_type:
        given |= dict(n_layer=None, n_head=None, n_embd=None)
    config = dict(system=dict(seed=3407, work_dir="./out/chargpt"), data=dict(block_size=keys["block_size"]),
                  model=dict(model_type=model_type, **given, embd_pdrop=0.1, resid_pdrop=0.1, attn_pdrop=0.1),
                  trainer=dict(device="auto", num_workers=4, max_iters=None, betas=[0.9, 0.95]))
    return Made(model, keys["vocab_size"], keys["block_size"], float32_weights(model), config)


def early_mingpt(case) -> Made:
    model = EarlyMinGpt(**case.keys)
    drawn.fill(f"cases/{case.name}", model)
    return Made(model, case.keys["vocab_size"], case.keys["block_size"], float32_weights(model),
                dict(n_head=case.keys["n_head"]))


# ------------------------------------------------------------------------------------------------------------ the rows

kLens = dict(n_layers=2, d_model=10, n_ctx=32, n_heads=3, d_head=4, d_mlp=10, d_vocab=23)
kRun = kLens | dict(d_model=12, act_fn="gelu", attn_only=False, normalization="LN")
kOld = kRun | dict(act_fn="solu_ln", final_rms=True)


def lens(name, make, file, keys, **more):
    full_name = "transformer_lens" + (f"_{name}" if name else "")
    return ScriptCase(full_name, "transformer_lens", make, file, keys, oracle=kTransformerLens, **more)


kScriptCases = [
    lens("", lens_dump, "final.pth", kLens | dict(act_fn="gelu_new")),
    lens("folded", lens_dump, "model.pt", kLens | dict(act_fn="solu_ln", normalization_type="LNPre")),
    lens("rotary_grouped", lens_dump, "weights.pth",
         kLens | dict(act_fn="silu", n_heads=4, n_key_value_heads=2, gated_mlp=True, normalization_type="RMS",
                      positional_embedding_type="rotary")),
    lens("attn_only", lens_run, "model_final.pth", kRun | dict(attn_only=True, act_fn="solu_ln", d_mlp=48)),
    lens("shortformer", lens_run, "model_final.pth",
         kRun | dict(attn_only=True, shortformer_pos=True, normalization=None)),
    lens("solu", lens_run, "checkpoints/SoLU_2L_000400.pth", kRun | dict(act_fn="solu_ln", shortformer_pos=False)),
    lens("gelu", lens_run, "model_final.pth", kRun | dict(final_rms=True)),
    lens("old_solu", lens_old_solu, "SoLU_2L_v10_final.pth", kOld),
    lens("old_solu_7_layers", lens_old_solu, "SoLU_7L_v21_final.pth", kOld | dict(n_layers=7, final_rms=False)),
    lens("old_solu_9_layers", lens_old_solu, "SoLU_9L_v22_final.pth", kOld | dict(n_layers=9), golden=False),
    lens("early_mingpt", lens_early_mingpt, "synthetic_final.pth",
         kLens | dict(d_model=12, n_heads=3, d_mlp=48, act_fn="gelu", attn_only=False, normalization_type="LN")),
    ScriptCase("nanogpt", "nanogpt", nanogpt, "ckpt.pt", dict(kSizes, bias=True)),
    ScriptCase("nanogpt_no_bias", "nanogpt", nanogpt, "ckpt.pt", dict(kSizes, bias=False, n_head=3, vocab_size=12)),
    ScriptCase("nanogpt_early", "nanogpt", nanogpt, "ckpt.pt", dict(kSizes, early=True)),
    ScriptCase("mingpt", "mingpt", mingpt, "model.pt", kSizes),
    ScriptCase("mingpt_nano", "mingpt", mingpt, "model.pt",
               dict(kSizes, n_layer=3, n_head=3, n_embd=48, model_type="gpt-nano"), golden=False),
    ScriptCase("mingpt_early", "mingpt", early_mingpt, "model.pt", dict(kSizes, n_head=3)),
]


def record(case) -> tuple:
    """(what was made, activations by hook name with tokens, logits and greedy continuation)."""
    made = case.make(case)
    with float64(), torch.no_grad():
        if isinstance(made.run, nn.Module):
            made.run.double()
        tokens = torch.randint(0, made.d_vocab, (2, case.length), generator=generator_for(case.name + "/tokens"))
        logits, points = made.run(tokens)
        row = tokens[:1]
        for _ in range(kGreedyTokens):
            row = torch.cat([row, made.run(row)[0][:, -1].argmax(-1, keepdim=True)], 1)
        points = points | {"greedy": row} if row.shape[1] <= made.n_ctx else points
    points = points | {"logits": logits, "tokens": tokens}
    return made, {name: value.detach().clone().contiguous() for name, value in points.items()}


def write_folder(made, case, folder: pathlib.Path) -> None:
    file = folder / case.file
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(made.checkpoint, file)
    if made.config is not None:
        (folder / "config.json").write_text(json.dumps(made.config, indent=1) + "\n")
