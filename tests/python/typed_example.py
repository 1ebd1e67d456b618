"""A program as users write it, which type checkers accept (test_types.py); it runs, too."""

from pathlib import Path

import hooked
import torch
from hooked import HookedTransformer, act


def steer(stream: torch.Tensor) -> torch.Tensor:
    return stream + 1


def watch(value: torch.Tensor, name: hooked.ActivationName) -> None:
    print(name, value.shape)


def main(folder: str) -> None:
    model = HookedTransformer.load(folder, device="cpu", dtype=torch.float32)
    prompt = "When John and Mary went to the shop, John gave a bag to"
    logits, cache = model.run_with_cache(prompt, act.pattern | act.resid_post(1))
    pattern: torch.Tensor = cache[act.pattern(1)]
    first: torch.Tensor = cache["pattern", 0]
    print(logits.shape, pattern.shape, first.shape, "resid_post1" in cache, len(cache))
    for name in cache:
        print(name.upper())

    with model.hook("resid_pre1", steer), model.hook([act.z(0), "mlp_out1"], watch):
        run = model.run(["When John", prompt], edits=[hooked.zero(act.z(1).head(3))], output="logits")
    logits = run.logits
    model.run(model.to_tokens(prompt), hooks=[("z1", steer), ("z0", watch)], keep={"positions": -1})
    model.run(torch.tensor([[1, 2, 3]]), stop_at_layer=1, output=hooked.Output.residual)

    with model.generate_text(prompt, max_new_tokens=5, sampling=hooked.SamplingOptions(greedy=True)) as stream:
        for piece in stream:
            print(piece.strip())
    texts: list[str] = stream.result.texts
    config = hooked.ModelConfig(n_layers=1, norm="rms_norm", positions=hooked.RotaryPositions(base=5e5))
    config.d_model = 8
    weight: torch.Tensor = model.weights.W_Q(0, 1)
    probabilities = hooked.continuation_log_probs(model, prompt, model.to_tokens(texts[0], prepend_bos="nothing"))
    print(weight.shape, probabilities.sum(), config.window is None, model.config.window)

    sae = hooked.Dictionary.load(str(Path(folder).parent / "toy_sae"), dtype=torch.float32)
    raw = HookedTransformer.load(folder, without=hooked.steps_that_change(sae))
    spliced = raw.with_dictionary(sae, input=act.resid_post(0), with_error=True)
    features = act.sae_acts_post(act.resid_post(0))
    kept = spliced.run_with_cache(prompt, [act.sae_acts_post, act.sae_error(("resid_post", 0))]).cache
    strongest: int = hooked.firing_features(kept, features, positions=["last"], count=1)[0].feature
    spliced.run(prompt, edits=[hooked.zero(features.feature([strongest])), hooked.scale(act.sae_acts_post, 0.5)])
    codes: torch.Tensor = sae.encode(kept[features] @ sae.weights.W_dec)
    direction: torch.Tensor = hooked.feature_logits(spliced, features, [strongest])
    print(codes.shape, direction.shape, sae.config.features, [str(each.output) for each in spliced.dictionaries])

    try:
        model.run(prompt, hooks=("z9", steer))
    except hooked.HookError as error:
        print(error.where.upper(), error.message)


if __name__ == "__main__":
    main(str(Path(__file__).resolve().parents[2] / "examples" / "toy_model"))
