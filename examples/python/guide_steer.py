"""Steering: the difference of two means of the stream, added to each new token of a generation."""

import sys

import torch

import hooked

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")


def mean_of(texts: list[str]) -> torch.Tensor:
    """The mean of the stream after layer 0 at each text's last token; texts may have different lengths."""
    run = model.run_with_cache(texts, "resid_post0")
    return run.cache["resid_post0[pos=last]"].mean(0)  # [d_model]


direction = mean_of(
    [
        "Then John and Mary met at the shop and Mary gave a bag to",
        "When John and Mary went to the shop, Mary gave a bag to",
    ]
) - mean_of(
    [
        "Then John and Mary met at the shop and John gave a bag to",
        "When John and Mary went to the shop, John gave a bag to",
    ]
)

prompt = "When John and Mary went to the shop, John gave a bag to"
for strength in (0.0, 4.0):
    made = model.generate(
        prompt,
        max_new_tokens=8,
        sampling=hooked.SamplingOptions(greedy=True),
        edits=hooked.add("resid_post0[pos=-1]", direction * strength),
    )
    print(f"{strength:g}: {made.texts[0]}")

# The stream without this direction at every position; and the direction added from the first new token on, so that
# the prompt still decides what that token is.
greedy = hooked.SamplingOptions(greedy=True)
without = model.generate(
    prompt, max_new_tokens=8, sampling=greedy, edits=hooked.project_out("resid_post0", direction)
)
later = model.generate(
    prompt, max_new_tokens=8, sampling=greedy, new_token_edits=hooked.add("resid_post0", direction * 4.0)
)
print(f"without: {without.texts[0]}\nlater: {later.texts[0]}")
