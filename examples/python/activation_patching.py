"""Which heads carry the indirect object? Activation patching over a file of prompt pairs, read from top to bottom.

How much of the answer comes back with one head's output from the clean run, where it counts, and through which heads it
goes:

    python activation_patching.py [MODEL] [PAIRS] [--device cpu|cuda]
"""

import argparse
from typing import Any

import hooked
from hooked import Grid, HeadPlace, SweptAxis, SweptPlace, act

SHARE = "share of the answer that comes back"


def print_largest(what: str, shares: Grid) -> None:
    """Prints the places that bring back most, such as `attn_head_out_all_pos  layer 1, head 3  0.81`."""
    for cell in shares.largest(3):
        places = ", ".join(f"{axis.name} {label}" for axis, label in zip(shares.axes, cell.labels))
        print(f"{what}  {places}  {cell.value:g}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="examples/toy_model")
    parser.add_argument("pairs", nargs="?", default="examples/pairs.jsonl")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    model = hooked.HookedTransformer.load(arguments.model, device=arguments.device)
    pairs = hooked.PromptPairs.load(model, arguments.pairs)

    # The clean prompts ask for " Mary", the corrupted ones, where another person gives, for " John".
    metric = hooked.logit_difference(pairs.answers(), pairs.against())
    right = hooked.scores(model, pairs.clean, metric)  # [row]
    wrong = hooked.scores(model, pairs.corrupted, metric)  # [row]
    print(
        f"{len(pairs)} pairs: logit difference {right.mean('row').at([]):g} clean, "
        f"{wrong.mean('row').at([]):g} corrupted"
    )

    # Everything below patches the clean runs' values into the corrupted ones.
    options: dict[str, Any] = {
        "from_": model.run_with_cache(pairs.clean, act.z | act.resid_pre).cache,
        "into": pairs.corrupted,
        "metric": metric,
    }

    def share(grid: Grid) -> Grid:
        return grid.rescaled(wrong, right, SHARE).mean("row")  # each pair on its own scale

    # 1. Each head at all positions at once: [layer, head].
    heads = share(hooked.sweep(model, "attn_head_out_all_pos", **options))
    print(heads)
    print_largest("heads", heads)

    # 2. Where the answer is in the stream: prompts differ in length, so places are named.
    named = [SweptPlace(pairs.corrupted_place(name), pairs.clean_place(name)) for name in ("first", "second", "giver")]
    places = SweptAxis("pos", [*named, SweptPlace("last")])
    print(share(hooked.sweep(model, "resid_pre", over=[places], **options)))

    # 3. Which later heads listen to the strongest one, and with what: queries, keys or values.
    best = heads.largest(1)[0]
    for input, name in (("query", "queries"), ("key", "keys"), ("value", "values")):
        paths = share(hooked.direct_path(model, input=input, source=HeadPlace(*best.index), sweep=options))
        print_largest(f"from it into {name}", paths)  # [layer, head]


if __name__ == "__main__":
    main()
