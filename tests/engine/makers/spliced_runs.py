"""Makes tests/engine/golden/spliced_runs.safetensors: a small random model of TransformerLens 3.9, dictionaries of SAELens 6.54 that stand in
it (HookedSAETransformer), and the logits and codes of runs in float64, of the raw model and of what its weights are after processing.

    python tests/engine/makers/spliced_runs.py [--packages FOLDER ...]

FOLDERs are where SAELens and what it imports are installed, if that is not this environment.
"""

import argparse
import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "golden"))
GOLDEN = TESTS / "engine" / "golden" / "spliced_runs.safetensors"
WIDTH, HEADS, HEAD, FEATURES, VOCABULARY = 10, 3, 5, 13, 9
TOKENS = [[1, 4, 7, 2], [8, 3, 4, 0]]

# How the weights of each model are processed. Its dictionaries say the same in `model_from_pretrained_kwargs`; those of "folded" are the raw
# model's, because its steps change no activation where one of them stands, but mlp.hook_in.
STEPS = ("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases")
MODELS = {"raw": (), "folded": ("fold_ln", "center_unembed"), "processed": STEPS}

# Name: architecture, place or places, options.
DICTIONARIES = {
    "standard": ("standard", ("blocks.0.hook_resid_post",), {}),
    "gated": ("gated", ("blocks.1.attn.hook_z",), {"reshape_activations": "hook_z"}),
    "jumprelu": ("jumprelu", ("blocks.1.hook_resid_post",), {"normalize_activations": "layer_norm"}),
    # It leaves token 4 as it is.
    "topk": ("topk", ("blocks.0.hook_mlp_out",), {"k": 4, "rescale_acts_by_decoder_norm": True, "excluded": [4]}),
    "abstopk": ("abstopk", ("blocks.1.hook_resid_mid",), {"k": 3}),
    "matching_pursuit": (
        "matching_pursuit", ("blocks.1.hook_attn_out",), {"residual_threshold": 0.1, "max_iterations": 4}),
    "transcoder": ("transcoder", ("blocks.1.ln2.hook_normalized", "blocks.1.hook_mlp_out"), {}),
    "jumprelu_transcoder": ("jumprelu_transcoder", ("blocks.0.mlp.hook_in", "blocks.0.hook_mlp_out"), {}),
    "skip_transcoder": ("skip_transcoder", ("blocks.0.ln2.hook_normalized", "blocks.0.hook_mlp_out"), {}),
}


def drawn(module, generator):
    import torch

    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))


def model_of(steps, weights=None):
    import torch
    from makers.float64 import float64
    from sae_lens import HookedSAETransformer
    from transformer_lens import HookedTransformerConfig

    model = HookedSAETransformer(HookedTransformerConfig(
        n_layers=2, d_model=WIDTH, n_ctx=6, d_head=HEAD, n_heads=HEADS, d_mlp=11, d_vocab=VOCABULARY, act_fn="gelu",
        normalization_type="LN", dtype=torch.float64, device="cpu", seed=1))
    if weights is None:
        drawn(model, torch.Generator().manual_seed(5))
        return model
    model.load_state_dict(weights, strict=False)
    if steps:
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        with float64():  # TransformerLens would round them to float32 first
            model.load_and_process_state_dict(weights, **{step: step in steps for step in STEPS})
    return model


def dictionary_of(name, steps, number):
    import torch
    from sae_lens.registry import get_sae_class
    from sae_lens.saes.sae import SAEMetadata

    architecture, places, options = DICTIONARIES[name]
    options = dict(options)
    facts = dict(model_name="tiny", hook_name=places[0])
    if steps:
        facts["model_from_pretrained_kwargs"] = {step: True for step in steps}
    if "excluded" in options:
        facts["exclude_special_tokens"] = options.pop("excluded")
    width = HEADS * HEAD if places[0].endswith("hook_z") else WIDTH
    if len(places) > 1:
        facts["hook_name_out"] = places[1]
        options |= dict(d_out=WIDTH, apply_b_dec_to_input=False)
    sae_class, config_class = get_sae_class(architecture)
    sae = sae_class(config_class(
        d_in=width, d_sae=FEATURES, dtype="float64", device="cpu", metadata=SAEMetadata(**facts), **options))
    generator = torch.Generator().manual_seed(100 + number)
    drawn(sae, generator)  # thresholds too: some are negative
    if architecture == "matching_pursuit":
        # SAELens makes the point of its codes, but its encode never calls it, so that hooks there do nothing. Here it does.
        encode = sae.encode
        sae.encode = lambda x: sae.hook_sae_acts_post(encode(x))
    return sae


def edits_of(edited):
    """Changes of codes, each of a feature of its own. The test has the same ones."""

    def ablated(codes):
        codes[..., edited[0]] = 0

    def clamped(codes):
        codes[:, 2, edited[1]] = 2.5

    def moved(codes):
        codes[1, :, edited[2]] *= 3
        codes[..., edited[3]] += 0.75

    def everything(codes):
        for change in (ablated, clamped, moved):
            change(codes)

    return {"ablated": ablated, "clamped": clamped, "moved": moved, "edited": everything}


def hooks_of(sae, with_error, change):
    place = sae.cfg.metadata.hook_name_out or sae.cfg.metadata.hook_name
    seen = {}

    def read(value, hook):
        seen["input"] = value

    def codes(value, hook):
        value = value.clone()
        if change:
            change(value)
        return value

    def output(value, hook):
        return value + seen["input"] @ sae.W_skip.T

    hooks = [(place + ".hook_sae_acts_post", codes)]
    if hasattr(sae, "W_skip") and not with_error:
        # SAELens splices by encode and decode, which leave W_skip out, in contrast to its own forward. With the error term
        # it is in the error. Here it is added.
        hooks += [(place + ".hook_sae_input", read), (place + ".hook_sae_output", output)]
    return hooks


def spliced(model, standing):
    """Logits of a run with (dictionary, with_error, change of its codes) each."""
    import torch

    hooks = []
    for sae, with_error, change in standing:
        excluded = sae.cfg.metadata.exclude_special_tokens or False
        model.add_sae(sae, use_error_term=with_error, exclude_special_tokens=excluded)
        hooks += hooks_of(sae, with_error, change)
    with torch.no_grad():
        logits = model.run_with_hooks(torch.tensor(TOKENS), fwd_hooks=hooks)
    model.reset_saes()
    return logits


def codes_in(model, sae):
    """Its codes in a run in which it changes nothing."""
    import torch

    model.add_sae(sae, use_error_term=True)
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.tensor(TOKENS))
    model.reset_saes()
    return cache[(sae.cfg.metadata.hook_name_out or sae.cfg.metadata.hook_name) + ".hook_sae_acts_post"]


def features_to_edit(codes):
    """Two that are large, of which one in row 1, and a small and another one."""
    sizes = codes.abs().sum((0, 1))
    first = int(sizes.argmax())
    in_row = codes[1].abs().sum(0).index_fill(0, codes.new_tensor([first]).long(), -1)
    second = int(in_row.argmax())
    others = [int(i) for i in sizes.argsort() if int(i) not in (first, second)]
    return [first, others[0], second, others[len(others) // 2]]


def difference(a, b):
    return float((a - b).abs().max())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", nargs="*", default=[])
    sys.path[:0] = parser.parse_args().packages
    import torch
    from safetensors.torch import save_file

    weights = {name: value.detach().clone() for name, value in model_of(()).named_parameters()}
    tensors = {"tokens": torch.tensor(TOKENS)} | {"model." + name: value for name, value in weights.items()}
    configs = {}
    for kind, steps in MODELS.items():
        model = model_of(steps, weights)
        own = steps if kind == "processed" else ()
        with torch.no_grad():
            plain = tensors[f"{kind}.logits"] = model(torch.tensor(TOKENS))
        saes = {name: dictionary_of(name, own, i) for i, name in enumerate(DICTIONARIES)}
        for name, sae in saes.items():
            if kind == "folded" and name == "jumprelu_transcoder":
                continue
            codes = codes_in(model, sae)
            if kind == "raw":
                tensors |= {f"{name}.{key}": value.detach().clone() for key, value in sae.named_parameters()}
                tensors[f"{name}.features"] = torch.tensor(features_to_edit(codes))
            if kind != "folded":
                tensors[f"{kind}.{name}.codes"] = codes
                configs[f"{kind}.{name}"] = sae.cfg.to_dict()
            edits = edits_of(tensors[f"{name}.features"].tolist())
            kept = ("ablated", "clamped", "moved") if kind == "raw" else ("edited",)
            wanted_log_probs = tensors["raw.logits"].log_softmax(-1)
            assert difference(plain.log_softmax(-1), wanted_log_probs) < 1e-12, kind
            same = difference(spliced(model, [(sae, True, None)]), plain)
            alone = spliced(model, [(sae, False, None)])
            assert same < 1e-12 and difference(alone, plain) > 1e-2, (kind, name, same)
            if kind != "folded":
                tensors[f"{kind}.{name}.alone"] = alone
            for edit in kept:
                for with_error, without in ((True, plain), (False, alone)):
                    logits = spliced(model, [(sae, with_error, edits[edit])])
                    assert difference(logits, without) > 1e-3, (kind, name, edit)
                    tensors[f"{kind}.{name}.{edit}.{'with_error' if with_error else 'alone'}"] = logits
        # Several at once: each reads what those before it leave.
        first, second, third = saes["standard"], saes["gated"], saes["transcoder"]
        tensors[f"{kind}.several"] = spliced(model, [
            (first, False, None), (second, True, edits_of(tensors["gated.features"].tolist())["edited"]), (third, False, None)])
    tensors = {name: value.detach().clone().contiguous() for name, value in tensors.items()}
    save_file(tensors, GOLDEN, metadata={"cfg.json": json.dumps(configs)})
    print(f"{len(tensors)} tensors, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
