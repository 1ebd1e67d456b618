"""Writes tests/dictionaries/golden/published: a small random dictionary in each published format other than SAELens 6, in
the layout that its library writes, and what the formulas of its library give in float64, in NumPy.

Usage: published.py
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "published"
D, F, L = 6, 12, 3  # width, features, layers
random = np.random.default_rng(7)


def draw(*shape: int, scale: float = 0.6) -> Any:
    """Random numbers that float32 holds, as float64."""
    return (scale * random.standard_normal(shape)).astype(np.float32).astype(np.float64)


def f32(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.array(value, dtype=np.float32, order="C")
        for name, value in values.items()
    }


def relu(h: Any) -> Any:
    return np.maximum(h, 0)


def top(h: Any, k: int) -> Any:
    """The k largest of each row, 0 elsewhere."""
    kept = np.argsort(-h, axis=-1)[..., :k]
    codes = np.zeros_like(h)
    np.put_along_axis(codes, kept, np.take_along_axis(h, kept, -1), -1)
    return codes


def norms(W_dec: Any) -> Any:
    return np.linalg.norm(W_dec.reshape(len(W_dec), -1), axis=1)


def expect(name: str, **values: Any) -> None:
    save_file(
        {key: np.ascontiguousarray(value) for key, value in values.items()},
        GOLDEN / f"{name}.safetensors",
    )


def folder(*parts: str) -> Path:
    made = GOLDEN.joinpath(*parts)
    made.mkdir(parents=True, exist_ok=True)
    return made


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def save_torch(values: dict[str, Any], path: Path) -> None:
    torch.save(
        {
            name: torch.tensor(np.asarray(value), dtype=torch.float32)
            for name, value in values.items()
        },
        path,
    )


class Weights:
    """A random dictionary: W_enc [in, features], W_dec [features, out]."""

    def __init__(self, d_in: int = D, d_out: int = D, features: int = F):
        self.W_enc, self.W_dec = draw(d_in, features), draw(features, d_out)
        self.b_enc, self.b_dec = draw(features), draw(d_out)
        self.x = draw(4, d_in, scale=2.0)

    def h(self, x: Any = None) -> Any:
        return (self.x if x is None else x) @ self.W_enc + self.b_enc

    def out(self, codes: Any) -> Any:
        return codes @ self.W_dec + self.b_dec


def gemma_scope() -> None:
    for name, repository, layer in (
        ("gemma_scope", "gemma-scope-2b-pt-res", "layer_3"),
        ("gemma_scope_attention", "gemma-scope-9b-pt-att", "layer_5"),
        ("gemma_scope_transcoder", "gemma-scope-2b-pt-transcoders", "layer_1"),
        ("gemma_scope_embedding", "gemma-scope-2b-pt-res", "embedding"),
    ):
        w, threshold = Weights(), np.abs(draw(F))
        h, d = w.h(), 1.0
        if layer == "embedding":
            d = float(np.sqrt(D))
            h = w.x @ (w.W_enc / d) + w.b_enc
        codes = relu(h) * (h > threshold)
        x = w.x.reshape(4, 3, 2) if name.endswith("attention") else w.x
        output = codes @ (w.W_dec * d) + w.b_dec
        expect(name, x=x, codes=codes, output=output.reshape(x.shape))
        stored = f32(
            dict(
                W_enc=w.W_enc,
                W_dec=w.W_dec,
                b_enc=w.b_enc,
                b_dec=w.b_dec,
                threshold=threshold,
            )
        )
        stored["W_dec"] = np.asfortranarray(stored["W_dec"])  # NumPy writes both orders
        np.savez(
            folder("google", repository, layer, "width_12", "average_l0_4")
            / "params.npz",
            **stored,
        )


def gemma_scope_2() -> None:
    def params(w: Weights, threshold: Any, **more: Any) -> dict[str, Any]:
        return f32(
            dict(
                w_enc=w.W_enc,
                w_dec=w.W_dec,
                b_enc=w.b_enc,
                b_dec=w.b_dec,
                threshold=threshold,
                **more,
            )
        )

    w, threshold, affine = Weights(), np.abs(draw(F)), draw(D, D)
    codes = relu(w.h()) * (w.h() > threshold)
    expect(
        "gemma_scope_2_transcoder",
        x=w.x,
        codes=codes,
        output=w.out(codes) + w.x @ affine,
    )
    place = folder(
        "google", "gemma-scope-2-1b-it", "transcoder", "layer_7_width_12_affine"
    )
    save_file(
        params(w, threshold, affine_skip_connection=affine),
        place / "params.safetensors",
    )
    write_json(
        place / "config.json",
        dict(
            architecture="jump_relu",
            model_name="google/gemma-3-1b-it",
            hf_hook_point_in="model.layers.7.pre_feedforward_layernorm.output",
            hf_hook_point_out="model.layers.7.post_feedforward_layernorm.output",
            affine_connection=True,
        ),
    )
    w, threshold = Weights(), np.abs(draw(F))
    codes = relu(w.h()) * (w.h() > threshold)
    expect(
        "gemma_scope_2_attention",
        x=w.x.reshape(4, 2, 3),
        codes=codes,
        output=w.out(codes).reshape(4, 2, 3),
    )
    save_file(
        params(w, threshold),
        folder("google", "gemma-scope-2-1b-it", "attn_out", "layer_9_width_12")
        / "params.safetensors",
    )
    layers, place = (
        [],
        folder("google", "gemma-scope-2-1b-it", "clt", "width_12_affine"),
    )
    for layer in range(L):
        w, threshold, affine = Weights(), np.abs(draw(F)), draw(D, D)
        decoder = draw(F, L, D)  # what is written to layers before its own is not used
        layers.append((w, decoder, affine, relu(w.h()) * (w.h() > threshold)))
        stored = params(w, threshold, affine_skip_connection=affine) | f32(
            dict(w_dec=decoder)
        )
        save_file(stored, place / f"params_layer_{layer}.safetensors")
    found: dict[str, Any] = {}
    for layer, (w, _, affine, codes) in enumerate(layers):
        written = sum(
            codes_i @ decoder_i[:, layer]
            for _, decoder_i, _, codes_i in layers[: layer + 1]
        )
        found |= {
            f"x.{layer}": w.x,
            f"codes.{layer}": codes,
            f"output.{layer}": written + w.b_dec + w.x @ affine,
        }
    expect("gemma_scope_2_clt", **found)


def llama_scope() -> None:
    w, mean_norm = Weights(), dict([("in", 3.7), ("out", 3.7)])
    scale = np.sqrt(D) / mean_norm["in"]
    h = scale * w.x @ w.W_enc + w.b_enc
    codes = h * (h > 0.45 * scale)
    expect(
        "llama_scope", x=w.x, codes=codes, output=(codes @ w.W_dec + w.b_dec) / scale
    )
    place = folder("Llama3_1-8B-Base-L15R-8x")
    (place / "checkpoints").mkdir(exist_ok=True)
    stored = {
        "encoder.weight": w.W_enc.T,
        "encoder.bias": w.b_enc,
        "decoder.weight": w.W_dec.T,
        "decoder.bias": w.b_dec,
    }
    save_file(f32(stored), place / "checkpoints" / "final.safetensors")
    write_json(
        place / "hyperparams.json",
        dict(
            hook_point_in="blocks.15.hook_resid_post",
            hook_point_out="blocks.15.hook_resid_post",
            act_fn="jumprelu",
            jump_relu_threshold=0.45,
            dataset_average_activation_norm=mean_norm,
            d_model=D,
            d_sae=F,
            expansion_factor=2,
            norm_activation="dataset-wise",
            sparsity_include_decoder_norm=False,
            apply_decoder_bias_to_pre_encoder=False,
        ),
    )


def llamascopium() -> None:
    shared = dict(
        d_model=D,
        expansion_factor=2,
        use_decoder_bias=True,
        top_k=4,
        use_triton_kernel=False,
    )
    point = "blocks.2.hook_resid_post"
    for name, options in (
        (
            "llamascopium_jumprelu",
            dict(
                act_fn="jumprelu",
                norm_activation="dataset-wise",
                sparsity_include_decoder_norm=True,
            ),
        ),
        (
            "llamascopium_topk",
            dict(
                act_fn="topk",
                norm_activation="inference",
                sparsity_include_decoder_norm=True,
            ),
        ),
        (
            "llamascopium_token_wise",
            dict(
                act_fn="relu",
                norm_activation="token-wise",
                sparsity_include_decoder_norm=False,
            ),
        ),
    ):
        w, log_threshold, n = Weights(), draw(F), None
        n = norms(w.W_dec) if options["sparsity_include_decoder_norm"] else np.ones(F)
        scale: Any = 1.0
        stored = {"W_E": w.W_enc, "b_E": w.b_enc, "W_D": w.W_dec, "b_D": w.b_dec}
        stored[f"dataset_average_activation_norm.{point}"] = np.array(2.9)
        if options["norm_activation"] == "dataset-wise":
            scale = np.sqrt(D) / np.float64(np.float32(2.9))
        if options["norm_activation"] == "token-wise":
            scale = np.sqrt(D) / np.linalg.norm(w.x, axis=-1, keepdims=True)
        h = w.h(w.x * scale)
        if options["act_fn"] == "jumprelu":
            stored["activation_function.log_jumprelu_threshold"] = log_threshold
            codes = h * (h * n > np.exp(log_threshold))
        elif options["act_fn"] == "topk":
            codes = top(h * n, 4) / n
        else:
            codes = relu(h)
        expect(name, x=w.x, codes=codes, output=w.out(codes) / scale)
        place = folder(name)
        save_file(f32(stored), place / "sae_weights.safetensors")
        write_json(
            place / "config.json",
            shared
            | options
            | dict(sae_type="sae", hook_point_in=point, hook_point_out=point),
        )
    cross_layer(shared)


def cross_layer(shared: dict[str, Any]) -> None:
    layers = [Weights() for _ in range(L)]
    ins = [f"blocks.{i}.hook_resid_mid" for i in range(L)]
    outs = [f"blocks.{i}.hook_mlp_out" for i in range(L)]
    decoders = [draw(i + 1, F, D) for i in range(L)]  # by the layer that is written to
    log_threshold = draw(L, F)
    stored = {
        "W_E": np.stack([w.W_enc for w in layers]),
        "b_E": np.stack([w.b_enc for w in layers]),
    }
    stored |= {f"W_D.{i}": decoder for i, decoder in enumerate(decoders)} | {
        f"b_D.{i}": w.b_dec for i, w in enumerate(layers)
    }
    stored["activation_function.log_jumprelu_threshold"] = log_threshold
    found: dict[str, Any] = {}
    codes = [w.h() * (w.h() > np.exp(log_threshold[i])) for i, w in enumerate(layers)]
    for i, w in enumerate(layers):
        output = (
            sum(codes[source] @ decoders[i][source] for source in range(i + 1))
            + w.b_dec
        )
        found |= {f"x.{i}": w.x, f"codes.{i}": codes[i], f"output.{i}": output}
    expect("llamascopium_clt", **found)
    place = folder("llamascopium_clt")
    save_file(f32(stored), place / "sae_weights.safetensors")
    options = dict(
        act_fn="jumprelu",
        norm_activation="inference",
        sparsity_include_decoder_norm=False,
    )
    write_json(
        place / "config.json",
        shared
        | options
        | dict(sae_type="clt", hook_points_in=ins, hook_points_out=outs),
    )


def write_learning(
    name: str,
    dict_class: str,
    stored: dict[str, Any],
    codes: Any,
    w: Weights,
    **trainer: Any,
) -> None:
    expect(name, x=w.x, codes=codes, output=w.out(codes))
    place = folder(name)
    save_torch(stored, place / "ae.pt")
    facts = dict(
        dict_class=dict_class,
        layer=8,
        lm_name="EleutherAI/pythia-70m",
        submodule_name="resid_post_layer_8",
    )
    write_json(
        place / "config.json",
        dict(trainer=facts | trainer, buffer=dict(ctx_len=128)),
    )


def linear(w: Weights, bias: str) -> dict[str, Any]:
    return {
        "encoder.weight": w.W_enc.T,
        "encoder.bias": w.b_enc,
        "decoder.weight": w.W_dec.T,
        bias: w.b_dec,
    }


def dictionary_learning_new() -> None:
    w = Weights()
    codes = relu(w.h())  # no b_dec on the input
    write_learning(
        "learning_new", "AutoEncoderNew", linear(w, "decoder.bias"), codes, w
    )


def dictionary_learning() -> None:
    write = write_learning
    w = Weights()
    write(
        "learning_standard",
        "AutoEncoder",
        linear(w, "bias"),
        relu(w.h(w.x - w.b_dec)),
        w,
    )
    w, r_mag, gate, mag = Weights(), draw(F), draw(F), draw(F)
    inner = (w.x - w.b_dec) @ w.W_enc
    codes = (inner + gate > 0) * relu(inner * np.exp(r_mag) + mag)
    stored = {
        "encoder.weight": w.W_enc.T,
        "decoder.weight": w.W_dec.T,
        "decoder_bias": w.b_dec,
    }
    write(
        "learning_gated",
        "GatedAutoEncoder",
        stored | dict(r_mag=r_mag, gate_bias=gate, mag_bias=mag),
        codes,
        w,
    )
    w, threshold = Weights(), draw(F)
    codes = relu(w.h()) * (w.h() > threshold)  # no b_dec on the input
    stored = dict(
        W_enc=w.W_enc, b_enc=w.b_enc, W_dec=w.W_dec, b_dec=w.b_dec, threshold=threshold
    )
    write("learning_jumprelu", "JumpReluAutoEncoder", stored, codes, w)
    w = Weights()
    codes = top(
        relu(w.h(w.x - w.b_dec)), 3
    )  # the threshold that is stored is not that of codes
    write(
        "learning_topk",
        "AutoEncoderTopK",
        linear(w, "b_dec") | dict(k=np.array(3), threshold=np.array(9.0)),
        codes,
        w,
        k=3,
    )
    w = Weights()
    h = relu(w.h(w.x - w.b_dec))
    codes = h * (h > np.float64(np.float32(0.8)))
    write(
        "learning_batch_topk",
        "BatchTopKSAE",
        linear(w, "b_dec") | dict(k=np.array(3), threshold=np.array(0.8)),
        codes,
        w,
        k=3,
    )
    w = Weights()
    h = relu(w.h(w.x - w.b_dec))
    codes = h * (h > np.float64(np.float32(0.6)))
    stored = dict(
        W_enc=w.W_enc,
        b_enc=w.b_enc,
        W_dec=w.W_dec,
        b_dec=w.b_dec,
        k=np.array(3),
        threshold=np.array(0.6),
    )
    write(
        "learning_matryoshka",
        "MatryoshkaBatchTopKSAE",
        stored | dict(group_sizes=np.array([4, 8])),
        codes,
        w,
        k=3,
    )


def sparsify() -> None:
    shared = dict(
        expansion_factor=2,
        normalize_decoder=True,
        num_latents=0,
        multi_topk=False,
        d_in=D,
    )
    for name, place, options in (
        (
            "sparsify",
            folder("sparsify", "layers.4"),
            dict(activation="topk", k=3, skip_connection=False, transcode=False),
        ),
        (
            "sparsify_groups",
            folder("sparsify", "layers.5.mlp"),
            dict(activation="groupmax", k=4, skip_connection=True, transcode=True),
        ),
    ):
        w, skip = Weights(), draw(D, D)
        h = relu(w.h(w.x if options["transcode"] else w.x - w.b_dec))
        if options["activation"] == "topk":
            codes, output = top(h, 3), 0.0
        else:
            codes = np.concatenate(
                [top(group, 1) for group in np.split(h, 4, axis=-1)], axis=-1
            )
            output = w.x @ skip.T
        expect(name, x=w.x, codes=codes, output=w.out(codes) + output)
        stored = {
            "encoder.weight": w.W_enc.T,
            "encoder.bias": w.b_enc,
            "W_dec": w.W_dec,
            "b_dec": w.b_dec,
        }
        save_file(
            f32(stored | (dict(W_skip=skip) if options["skip_connection"] else {})),
            place / "sae.safetensors",
        )
        write_json(place / "cfg.json", shared | options)


def qwen_scope() -> None:
    place = folder("SAE-Res-Qwen3-1.7B-Base-W1K-L0_5")
    w = Weights(d_in=2, d_out=2, features=1024)
    w.x = w.x[:1]
    codes = relu(top(w.h(), 5))  # no b_dec on the input
    expect("qwen_scope", x=w.x, codes=codes, output=w.out(codes))
    save_torch(
        dict(W_enc=w.W_enc.T, W_dec=w.W_dec.T, b_enc=w.b_enc, b_dec=w.b_dec),
        place / "layer13.sae.pt",
    )


def circuit_tracer() -> None:
    config = "# a set\nmodel_name: google/gemma-2-2b\nmodel_kind: {}\nfeature_input_hook: {}\nfeature_output_hook: hook_mlp_out\nscan: mine\n"
    found: dict[str, Any] = {}
    place = folder("circuit_tracer_set")
    for layer in range(2):
        w, threshold, skip = (
            Weights(),
            draw(F),
            draw(D, D),
        )  # some thresholds are negative, and codes with them
        codes = w.h() * (w.h() > threshold) if layer == 0 else relu(w.h())
        found |= {
            f"x.{layer}": w.x,
            f"codes.{layer}": codes,
            f"output.{layer}": w.out(codes) + (w.x @ skip.T if layer else 0),
        }
        stored = dict(W_enc=w.W_enc.T, W_dec=w.W_dec, b_enc=w.b_enc, b_dec=w.b_dec)
        stored |= (
            dict(W_skip=skip) if layer else {"activation_function.threshold": threshold}
        )
        save_file(f32(stored), place / f"layer_{layer}.safetensors")
    (place / "config.yaml").write_text(
        config.format("transcoder_set", '"mlp.hook_in"  # normed')
    )
    expect("circuit_tracer_set", **found)
    layers = [(Weights(), draw(F)) for _ in range(L)]
    decoders = [draw(F, L - i, D) for i in range(L)]  # by the layer that writes
    codes = [w.h() * (w.h() > threshold) for w, threshold in layers]
    place, found = folder("circuit_tracer_clt"), {}
    for i, (w, threshold) in enumerate(layers):
        output = (
            sum(
                codes[source] @ decoders[source][:, i - source]
                for source in range(i + 1)
            )
            + w.b_dec
        )
        found |= {f"x.{i}": w.x, f"codes.{i}": codes[i], f"output.{i}": output}
        stored = {
            f"W_enc_{i}": w.W_enc.T,
            f"b_enc_{i}": w.b_enc,
            f"b_dec_{i}": w.b_dec,
            f"threshold_{i}": threshold,
        }
        save_file(f32(stored), place / f"W_enc_{i}.safetensors")
        save_file(f32({f"W_dec_{i}": decoders[i]}), place / f"W_dec_{i}.safetensors")
    (place / "config.yaml").write_text(
        config.format("cross_layer_transcoder", "hook_resid_mid")
    )
    expect("circuit_tracer_clt", **found)
    w = Weights()
    w.b_enc = -4 * np.abs(w.b_enc)
    codes = top(w.h(), 5)  # few are positive, and negative ones stay
    expect(
        "circuit_tracer_topk",
        **{"x.0": w.x, "codes.0": codes, "output.0": w.out(codes)},
    )
    place = folder("circuit_tracer_topk")
    save_file(
        f32(dict(W_enc=w.W_enc.T, W_dec=w.W_dec, b_enc=w.b_enc, b_dec=w.b_dec)),
        place / "layer_0.safetensors",
    )
    (place / "config.yaml").write_text(
        config.format("transcoder_set", "mlp.hook_in") + "activation: topk\nk: 5\n"
    )


def saelens_before_6() -> None:
    shared = dict(
        model_name="gpt2-small",
        hook_point="blocks.3.hook_resid_pre",
        hook_point_layer=3,
        d_in=D,
        d_sae=F,
    )
    shared |= dict(
        dtype="torch.float32", device="cuda", context_size=128, activation_fn_str="relu"
    )

    def write(
        name: str,
        codes: Any,
        w: Weights,
        options: dict[str, Any],
        factor: Any = 1.0,
        **more: Any,
    ) -> None:
        heads = "hook_z" in options.get("hook_point", "")
        shape = (4, 3, 2) if heads else (4, D)
        expect(
            name,
            x=w.x.reshape(shape),
            codes=codes,
            output=w.out(codes * factor).reshape(shape),
        )
        place = folder(name)
        stored = dict(
            W_enc=w.W_enc, W_dec=w.W_dec, b_enc=w.b_enc, b_dec=w.b_dec, **more
        )
        save_torch_file(
            {
                key: torch.tensor(value, dtype=torch.float32)
                for key, value in stored.items()
            },
            place / "sae_weights.safetensors",
        )
        write_json(place / "cfg.json", shared | options)

    w = Weights()
    write(
        "before_6",
        relu(w.h(w.x - w.b_dec)),
        w,
        dict(normalize_activations=False),
        scaling_factor=np.ones(F),
    )
    w, factor = Weights(), 2 * np.abs(draw(F))
    options: dict[str, Any] = dict(
        normalize_activations=True,
        finetuning_scaling_factor=True,
        apply_b_dec_to_input=False,
    )
    write("before_6_scaled", relu(w.h()), w, options, factor, scaling_factor=factor)
    w = Weights()
    options = dict(
        activation_fn_str="topk",
        activation_fn_kwargs=dict(k=3),
        hook_point="blocks.3.attn.hook_z",
    )
    write("before_6_topk", top(relu(w.h(w.x - w.b_dec)), 3), w, options)


def main() -> None:
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir(parents=True)
    for write in (
        gemma_scope,
        gemma_scope_2,
        llama_scope,
        llamascopium,
        dictionary_learning,
        sparsify,
        qwen_scope,
        circuit_tracer,
    ):
        write()
    saelens_before_6()
    dictionary_learning_new()


if __name__ == "__main__":
    main()
