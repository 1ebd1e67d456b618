"""Where TransformerLens's patching functions crash or return another number than they should, and why."""

from transformer_lens import HookedTransformer

from .patching_by_hand import kStacks


def reason_for_crash(name: str, fields: dict, error: Exception) -> str:
    shown = f"{type(error).__name__}: {error.args[0] if error.args else ''}".strip().replace("\n", " ")
    reads = next((part for part in kStacks.get(name, [name]) if part in ("resid_mid", "mlp_out")), None)
    if isinstance(error, KeyError) and reads:
        block = "an attention-only" if fields.get("attn_only") else "a parallel"
        why = f"{block} block has no {reads}"
    elif isinstance(error, KeyError) and fields.get("normalization_type", "LN") is None:
        why = "the model has no norm, so no scale to divide by"
    elif isinstance(error, IndexError) and fields.get("n_key_value_heads") and name[-1] in "kv":
        why = "it counts query heads where the activation has key-value heads"
    else:
        raise error
    return f"{why} ({shown})"


def reason_for_wrong(name: str, fields: dict, model: HookedTransformer, padded: bool) -> str:
    if padded and fields.get("attention_dir") == "bidirectional":
        return "TransformerLens does not mask padding in a bidirectional model"
    assert name.startswith("direct_path"), f"{name}: an unknown fault"
    if fields.get("original_architecture") == "Olmo2ForCausalLM":
        return "it leaves out the norm after attention, and divides by that norm's scale where a reader has no norm"
    parts = ["the norm after attention"] if fields.get("use_normalization_before_and_after") else []
    parts += {"LN": ["the centring of the reader's norm", "its weight"], "LNPre": ["the centring of the reader's norm"],
              "RMS": ["the weight of the reader's norm"], "RMSPre": []}[model.cfg.normalization_type]
    assert parts, f"{name}: an unknown fault"
    return "it leaves out " + " and ".join(parts)


class Faults:
    """Rows of the index for results of one model that are not recorded: what has one reason in some files is one row."""

    def __init__(self, model: str):
        self.model, self.files, self.differences = model, {}, {}

    def add(self, file: str, name: str, kind: str, reason: str, difference: float) -> None:
        self.files.setdefault((kind, reason), {}).setdefault(file, []).append(f"get_act_patch_{name}")
        self.differences[kind, reason] = max(difference, self.differences.get((kind, reason), 0.0))

    def rows(self) -> list:
        rows = []
        for (kind, reason), names_of in self.files.items():
            files_with = {}
            for file, names in names_of.items():
                files_with.setdefault(tuple(names), []).append(file)
            difference = {"difference": float(f"{self.differences[kind, reason]:.1e}")} if kind == "wrong" else {}
            rows += [{"model": self.model, "files": files, "functions": list(names), "kind": kind, "reason": reason} | difference
                     for names, files in files_with.items()]
        return rows
