"""What TransformerLens's patching functions should return, computed by hand: the second opinion about their goldens.

Every value comes from one pair without padding, copied into the rows of a batch, with hooks written here. A direct path is
not approximated by weights: the reading head gets an input of its own (TransformerLens's split inputs), the change of the
source is added there, and the norm before the reader keeps the scale of the corrupted run.
"""

import dataclasses
import itertools

import torch

# The axes of a point, and of a result, by their names in TransformerLens's tables.
kStream = ("batch", "pos")
kHeads = ("batch", "pos", "head")
kPattern = ("batch", "head", "dest", "src")


@dataclasses.dataclass(frozen=True)
class Preset:
    """One sweep: the point (with its axes) that is patched, and the axes of the result behind `layer`."""

    point: str
    point_axes: tuple
    axes: tuple


def _heads(point: str, *axes: str) -> Preset:
    return Preset(f"attn.hook_{point}", kHeads, axes)


def _pattern(*axes: str) -> Preset:
    return Preset("attn.hook_pattern", kPattern, axes)


kPresets = {
    "resid_pre": Preset("hook_resid_pre", kStream, ("pos",)),
    "resid_mid": Preset("hook_resid_mid", kStream, ("pos",)),
    "attn_out": Preset("hook_attn_out", kStream, ("pos",)),
    "mlp_out": Preset("hook_mlp_out", kStream, ("pos",)),
    "attn_head_out_by_pos": _heads("z", "pos", "head"),
    "attn_head_q_by_pos": _heads("q", "pos", "head"),
    "attn_head_k_by_pos": _heads("k", "pos", "head"),
    "attn_head_v_by_pos": _heads("v", "pos", "head"),
    "attn_head_pattern_by_pos": _pattern("head", "dest"),
    "attn_head_pattern_dest_src_pos": _pattern("head", "dest", "src"),
    "attn_head_out_all_pos": _heads("z", "head"),
    "attn_head_q_all_pos": _heads("q", "head"),
    "attn_head_k_all_pos": _heads("k", "head"),
    "attn_head_v_all_pos": _heads("v", "head"),
    "attn_head_pattern_all_pos": _pattern("head"),
}
# Several presets, in sequence on a new first axis.
kStacks = {
    "attn_head_all_pos_every": [f"attn_head_{part}_all_pos" for part in ("out", "q", "k", "v", "pattern")],
    "attn_head_by_pos_every": [f"attn_head_{part}_by_pos" for part in ("out", "q", "k", "v", "pattern")],
    "block_every": ["resid_pre", "attn_out", "mlp_out"],
}
kComponents = ("q", "k", "v")


class Pair:
    """A clean and a corrupted prompt [1, pos] of a model, behind `pad` columns of padding that only results show."""

    def __init__(self, model, clean, corrupted, metric, pad: int):
        self.model, self.corrupted, self.metric, self.pad = model, corrupted, metric, pad
        self.clean_cache = model.run_with_cache(clean)[1]
        logits, self.corrupted_cache = model.run_with_cache(corrupted)
        self.unpatched = metric(logits)
        self.values = {}  # by name, of everything asked for so far

    def run(self, copies: int, hooks: list) -> torch.Tensor:
        """The metric [copies] of a run of so many copies of the corrupted prompt."""
        logits = self.model.run_with_hooks(self.corrupted.expand(copies, -1), fwd_hooks=hooks)
        return torch.cat([self.metric(logits[i:i + 1]).reshape(1) for i in range(copies)])


def sweep(pair: Pair, name: str) -> torch.Tensor:
    """[layer, ...axes of the preset]; a place in the padding is one that changes nothing."""
    preset = kPresets[name]
    results = []
    for layer in range(pair.model.cfg.n_layers):
        point = f"blocks.{layer}.{preset.point}"
        clean = pair.clean_cache[point]
        sizes = [clean.shape[preset.point_axes.index(axis)] for axis in preset.axes]
        places = list(itertools.product(*map(range, sizes)))

        def patch(value, hook, places=places, clean=clean):
            value = value.clone()
            for copy, place in enumerate(places):
                index = dict(zip(preset.axes, place)) | {"batch": copy}
                where = tuple(index.get(axis, slice(None)) for axis in preset.point_axes)
                value[where] = clean[0][where[1:]]
            return value

        shift = [0 if axis == "head" else pair.pad for axis in preset.axes]
        result = torch.full([size + by for size, by in zip(sizes, shift)], pair.unpatched.item())
        result[tuple(slice(by, None) for by in shift)] = pair.run(len(places), [(point, patch)]).reshape(sizes)
        results.append(result)
    return torch.stack(results)


def stack(pair: Pair, name: str) -> torch.Tensor:
    """[preset, layer, (pos), head] or [preset, layer, pos]; keys and values of grouped queries with zeros behind them."""
    parts = [by_hand(pair, part) for part in kStacks[name]]
    if name == "attn_head_by_pos_every":
        parts[-1] = parts[-1].transpose(1, 2)
    widest = max(part.shape[-1] for part in parts)
    return torch.stack([torch.nn.functional.pad(part, (0, widest - part.shape[-1])) for part in parts])


def _written(pair: Pair, cache, layer: int, head: int) -> torch.Tensor:
    """What a head adds to the stream [1, pos, d_model], output norms (of their run's scale) included."""
    block = pair.model.blocks[layer]
    out = cache[f"blocks.{layer}.attn.hook_z"][:, :, head] @ block.attn.W_O[head]
    for name, norm in (("ln1_post", getattr(block, "ln1_post", None)), ("ln1", _output_norm(pair.model, block))):
        if norm is not None:
            out = out / cache[f"blocks.{layer}.{name}.hook_scale"] * getattr(norm, "w", 1.0)
    return out


def _output_norm(model, block):
    """OLMo 2's ln1 stands behind attention, not before it."""
    return block.ln1 if model.cfg.original_architecture == "Olmo2ForCausalLM" else None


def direct_paths(pair: Pair, component: str) -> torch.Tensor:
    """[source layer, source head, layer, head]: the source's change reaches one head's queries, keys or values alone.

    0 where the layer does not follow the source's.
    """
    model, config = pair.model, pair.model.cfg
    grouped = component != "q" and config.n_key_value_heads is not None
    heads = config.n_key_value_heads if grouped else config.n_heads
    result = torch.zeros(config.n_layers, config.n_heads, config.n_layers, heads)
    model.set_use_split_qkv_input(True)
    scales = {layer: [] for layer in range(config.n_layers)}
    model.run_with_hooks(pair.corrupted, fwd_hooks=[
        (f"blocks.{layer}.ln1.hook_scale", lambda value, hook, kept=kept: kept.append(value.clone()))
        for layer, kept in scales.items() if config.normalization_type is not None])
    for layer, kept in scales.items():
        paths = list(itertools.product(range(layer), range(config.n_heads), range(heads)))
        if not paths:
            continue
        changes = [_written(pair, pair.clean_cache, *path[:2]) - _written(pair, pair.corrupted_cache, *path[:2])
                   for path in paths]

        def add(value, hook, paths=paths, changes=changes):
            value = value.clone()
            for copy, path in enumerate(paths):
                value[copy, :, path[2]] += changes[copy][0]
            return value

        hooks = [(f"blocks.{layer}.hook_{component}_input", add)]
        if kept:
            frozen = iter(kept)
            hooks.append((f"blocks.{layer}.ln1.hook_scale", lambda value, hook, frozen=frozen: next(frozen)))
        result[:layer, :, layer] = pair.run(len(paths), hooks).reshape(layer, config.n_heads, heads)
    model.set_use_split_qkv_input(False)
    return result


def by_hand(pair: Pair, name: str) -> torch.Tensor:
    """What the function `get_act_patch_<name>` should return; direct paths end in `.q`, `.k` or `.v`."""
    key = "direct_path" + name[-2:] if name.startswith("direct_path") else name
    if key not in pair.values:
        if name.startswith("direct_path"):
            pair.values[key] = direct_paths(pair, name.rpartition(".")[2])
        else:
            pair.values[key] = stack(pair, name) if name in kStacks else sweep(pair, name)
    return pair.values[key]
