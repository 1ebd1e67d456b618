"""Whether everybody computed the same.

float32: each rival's tensors beside ours, each by its largest difference over its largest value; tokens must be equal.
bfloat16, and weights that stay as they are stored: each engine's error (root mean square of the difference to our float32
tensor, or to our float64 tensor of the stored numbers, over that tensor's). Ours may not be much larger than that of the rival
that errs most. Nor may we miss more of the exact run's likeliest tokens than twice what the rival that misses most does, and
one in a hundred: random weights have many near ties, and few positions make a coarse share.
"""
import dataclasses

import torch
from safetensors import safe_open

FLOAT32_LIMIT = 2e-4
BFLOAT16_FACTOR, BFLOAT16_ALLOWANCE = 1.5, 0.005
TOP_1 = 0.99


@dataclasses.dataclass
class Agreement:
    question: str
    engine: str  # whose tensors are compared with ours
    dtype: str = "float32"  # of the question
    tensors: int = 0  # compared
    worst: float = 0.0
    where: str = ""  # the worst
    top_1: float | None = None  # rounded: share of positions whose likeliest (or generated) token is the exact run's
    problems: list = dataclasses.field(default_factory=list)

    def note(self, name: str, difference: float) -> None:
        self.tensors += 1
        if not difference <= self.worst and self.worst == self.worst:  # a NaN is the worst and stays it
            self.worst, self.where = difference, name

    @property
    def text(self) -> str:
        top = "" if self.top_1 is None else f", tokens as exactly computed at {self.top_1:.4f} of the positions"
        return (f"{self.question}, {self.engine}: {self.tensors} tensors, worst {self.worst:.2g} at {self.where or '-'}{top}"
                + "".join(f"\n    DISAGREES: {problem}" for problem in self.problems))


def same_shape(mine, theirs, name: str, into: Agreement) -> bool:
    if mine.shape == theirs.shape:
        return True
    into.problems.append(f"{name} has shape {list(mine.shape)}, {into.engine}'s has {list(theirs.shape)}")
    return False


def hide_masked(mine, theirs):
    """Scores with zeros where both are masked; NaN where only one is."""
    both = torch.isneginf(mine) & torch.isneginf(theirs)
    return mine.masked_fill(both, 0), theirs.masked_fill(both, 0)


def cut(value, columns: int | None):
    """The first columns of an activation [batch, pos, ...]; all where nothing is said."""
    return value if columns is None else value[:, :columns]


def float32(question: str, engine: str, mine_file: str, theirs_file: str, columns: int | None) -> Agreement:
    """Compares our tensors with a rival's, which may have fewer. `columns`: how many positions of activations are
    compared (of a generation we also keep the column of the last token, which nobody else runs)."""
    result = Agreement(question, engine)
    with safe_open(mine_file, "pt") as mine, safe_open(theirs_file, "pt") as theirs:
        for name in theirs.keys():
            if name not in mine.keys():
                result.problems.append(f"{name} is {engine}'s only")
                continue
            a, b = mine.get_tensor(name), theirs.get_tensor(name)
            if a.dtype.is_floating_point:
                a, b = cut(a, columns), cut(b, columns)
            if not same_shape(a, b, name, result):
                continue
            if not a.dtype.is_floating_point:
                result.note(name, 0.0)
                if not torch.equal(a, b):
                    result.problems.append(f"{name} differ at {(a != b).sum().item()} of {a.numel()} places")
                continue
            a, b = hide_masked(a, b)
            result.note(name, ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item())
    if not result.tensors:
        result.problems.append("nothing could be compared")
    if not result.worst <= FLOAT32_LIMIT:
        result.problems.append(f"{result.where}: {result.worst:.3g} is more than {FLOAT32_LIMIT}")
    return result


def error(value, exact) -> float:
    value, exact = hide_masked(value, exact)
    return ((value - exact).norm() / exact.norm().clamp_min(1e-30)).item()


def rounded(question: str, dtype: str, exact_file: str, files: dict, columns: int | None) -> list:
    """`files` by engine, ours first. `columns`: how many positions are compared (those of a generation's prompt:
    after it other tokens may have been chosen)."""
    ours = next(iter(files))
    results = {engine: Agreement(question, engine, dtype) for engine in files}
    opened = {engine: safe_open(file, "pt") for engine, file in files.items()}
    exact = safe_open(exact_file, "pt")
    errors = {}  # by name and engine
    for name in exact.keys():
        whole = exact.get_tensor(name)
        if not whole.dtype.is_floating_point:  # a generation's tokens, which may part from the exact run's
            for engine, file in opened.items():
                results[engine].top_1 = (file.get_tensor(name) == whole)[:, columns:].float().mean().item()
            continue
        for engine, file in opened.items():
            if name not in file.keys():
                continue
            value, true = cut(file.get_tensor(name), columns), cut(exact.get_tensor(name), columns)
            if not same_shape(true, value, name, results[engine]):
                continue
            errors.setdefault(name, {})[engine] = error(value, true)
            results[engine].note(name, errors[name][engine])
            if name == "logits":
                results[engine].top_1 = (value.argmax(-1) == true.argmax(-1)).float().mean().item()
    for name, by_engine in errors.items():
        rivals = [e for engine, e in by_engine.items() if engine != ours]
        if rivals and not by_engine[ours] <= BFLOAT16_FACTOR * max(rivals) + BFLOAT16_ALLOWANCE:
            results[ours].problems.append(f"{name}: error {by_engine[ours]:.3g}, the rivals' at most {max(rivals):.3g}")
    if "logits" in errors:
        positions = exact.get_slice("logits").get_shape()[0] * exact.get_slice("logits").get_shape()[1]
        missed = {engine: round((1 - r.top_1) * positions) for engine, r in results.items()}
        most = max((count for engine, count in missed.items() if engine != ours), default=0)
        if missed[ours] > 2 * most + (1 - TOP_1) * positions + 1:
            results[ours].problems.append(f"{missed[ours]} of {positions} likeliest tokens are not the exact run's, "
                                              f"{most} of the rival that misses most")
    return list(results.values())
