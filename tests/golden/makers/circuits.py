"""Makes tests/golden/circuits: TransformerLens's FactoredMatrix and composition scores, in float64.

`matrices.safetensors` has factors of several shapes with what TransformerLens says of each; what signs of singular vectors are free in is
recorded as a product that does not depend on them. Of each model, raw and folded, `Q`, `K` and `V` are all_composition_scores, and
`eigenvalues` those of the OV circuits [layer, head, d_head, 2]. `copying` are the copying scores of every head from weights in plain PyTorch,
[layer, head, 3]: the trace of W_E W_V W_O W_U over the sum of its eigenvalues' sizes, the share of tokens that are among the 3 that they raise
most, and the trace by itself, from the whole matrix. `singular.<OV|w_in|w_out>.<layer>[.<head>]` are SVDInterpreter's, [vocab, vector], and
`singular_values...` the matrix's singular values by torch.linalg.svdvals.
"""

import sys
import warnings

import torch
from transformer_lens import FactoredMatrix, SVDInterpreter

from .analyses import Analysis, read_model
from .case_files import generator_for
from .float64 import float64
from .patching import kRows, steps_that_preserve
from .transformer_lens_cases import build, kOracle, process

kModels = ("gpt2_like", "llama_like", "attention_only", "gptj_like", "mistral_like", "tl_grouped")
# Leading axes and [m, r], [r, n] of each pair of factors.
kShapes = {"tall": ((2, 3), (7, 2), (2, 5)), "square": ((3,), (6, 3), (3, 6)), "wide_inside": ((), (3, 6), (6, 4)),
           "square_inside": ((2,), (4, 6), (6, 4)), "vectors": ((), (5, 1), (1, 5))}


def parts(complex_numbers: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(complex_numbers)


def copying(model) -> torch.Tensor:
    """[layer, head, 3] as the module says, by the vocabulary's whole matrix where that is exact."""
    scores = torch.empty(model.cfg.n_layers, model.cfg.n_heads, 3, dtype=torch.float64)
    for layer in range(model.cfg.n_layers):
        for head in range(model.cfg.n_heads):
            W_V, W_O = model.W_V[layer, head], model.W_O[layer, head]  # TransformerLens repeats grouped values
            full = model.W_E @ W_V @ W_O @ model.W_U
            sizes = torch.linalg.eigvals(W_O @ model.W_U @ model.W_E @ W_V).abs().sum()  # those of `full` except zeros
            above = (full > full.diagonal()[:, None]).sum(1)
            scores[layer, head] = torch.stack([full.trace() / sizes, (above < 3).double().mean(), full.trace()])
    return scores


kVectors = 3


def record_singular(model, folded: bool, tensors: dict) -> None:
    """What SVDInterpreter can read: no grouped heads (KeyError), and W_in without a norm's weight, which it applies uncentred."""
    reader = SVDInterpreter(model)
    for layer in range(model.cfg.n_layers):
        matrices = {}
        if f"blocks.{layer}.attn.W_V" in reader.params:
            for head in range(model.cfg.n_heads):
                matrices["OV", head] = model.W_V[layer, head] @ model.W_O[layer, head]
        if not model.cfg.attn_only:
            matrices["w_out", None] = model.blocks[layer].mlp.W_out
            if folded:
                matrices["w_in", None] = model.blocks[layer].mlp.W_in
        for (kind, head), matrix in matrices.items():
            name = f"{kind}.{layer}" + ("" if head is None else f".{head}")
            vectors = reader.get_singular_vectors(kind, layer, num_vectors=kVectors, head_index=head)
            tensors[f"singular.{name}"] = vectors[:, 0]
            tensors[f"singular_values.{name}"] = torch.linalg.svdvals(matrix)[:kVectors]


def record_matrix(name: str, leading, left, right, tensors: dict) -> None:
    generator = generator_for("circuits/" + name)

    def drawn(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    m = FactoredMatrix(drawn(*leading, *left), drawn(*right))  # B has no leading axes: they broadcast
    before, after, vector = drawn(4, left[0]), drawn(right[1], 8), drawn(right[1])
    other = FactoredMatrix(drawn(right[1], 2), drawn(2, 4))
    made = {"A": m.A, "B": m.B, "before": before, "after": after, "vector": vector, "other.A": other.A, "other.B": other.B,
            "AB": m.AB, "T": m.T.AB, "S": m.S, "norm": m.norm(), "usv": m.U @ torch.diag_embed(m.S) @ m.V.mT,
            "even.left": m.make_even().A @ m.make_even().A.mT, "even.right": m.make_even().B.mT @ m.make_even().B,
            "collapse_l": m.collapse_l().mT @ m.collapse_l(), "collapse_r": m.collapse_r() @ m.collapse_r().mT,
            "matmul.after": (m @ after).AB, "matmul.before": (before @ m).AB, "matmul.other": (m @ other).AB,
            "matmul.inner": torch.tensor([(m @ after).mdim, (before @ m).mdim, (m @ other).mdim]), "mv": m @ vector,
            "scaled": (m * 2.5).AB, "corner": m.get_corner(2)}
    made["left_vector"] = drawn(left[0])
    made["vm"] = made["left_vector"] @ m
    if left[0] == right[1]:
        made["BA"], made["eigenvalues"] = m.BA, parts(m.eigenvalues)
    if leading:
        made["second"] = m[1].AB
    made["rows"] = m[(slice(None),) * len(leading) + (slice(1, 3),)].AB
    made["element"] = m[(slice(None),) * len(leading) + (2, -1)].AB[..., 0, 0]
    tensors.update({f"{name}.{key}": value for key, value in made.items()})


def main(_: list) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    analysis, models, matrices = Analysis("circuits"), [], {}
    analysis.clear()
    with torch.no_grad():
        for name, (leading, left, right) in kShapes.items():
            record_matrix(name, leading, left, right, matrices)
    analysis.write("", "matrices", matrices)
    for name in kModels:
        row = next(row for row in kRows if row.model == name)
        fields, weights = read_model(row.folder)
        generator = generator_for("circuits/" + name)
        with float64(), torch.no_grad():
            steps = steps_that_preserve(fields, weights, torch.randint(0, fields["d_vocab"], (1, 4), generator=generator))
            models.append({"model": name, "folder": row.folder, "processing": {"raw": [], "folded": list(steps)}})
            for processed, of in {"raw": (), "folded": steps}.items():
                model = build(fields, weights)
                if of:
                    process(model, of)
                tensors = {mode: model.all_composition_scores(mode) for mode in "QKV"}
                tensors |= {"eigenvalues": parts(model.OV.eigenvalues), "copying": copying(model)}
                record_singular(model, processed == "folded", tensors)
                analysis.write(name, processed, tensors)
        print(name, file=sys.stderr, flush=True)
    analysis.write_index({"oracle": kOracle, "matrices": list(kShapes)}, models)
