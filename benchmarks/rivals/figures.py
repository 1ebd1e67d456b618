"""What the answers come to: rows of ratios, taken within a round."""
import dataclasses
import statistics

from .process import TITLES
from .questions import RATIOS

WAYS = {"linear_ms": "`at::linear`", "one_dnn_ms": "oneDNN through LibTorch", "one_dnn_packed_ms": "oneDNN, weights packed",
        "mkl_packed_ms": "MKL, weights packed", "recorded_ms": "`at::linear`, recorded as a graph"}


@dataclasses.dataclass(frozen=True)
class Spread:
    """Over rounds."""
    median: float
    least: float
    most: float

    def __str__(self) -> str:
        if self.least == self.most:
            return number(self.median)
        return f"{number(self.median)} ({number(self.least)} to {number(self.most)})"


def number(value: float) -> str:
    """Three digits or four: ratios near 1 are told apart at the third place."""
    digits = 3 if value < 2 else 2 if value < 100 else 0
    return f"{value:.{digits}f}"


def spread(values) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


@dataclasses.dataclass
class Row:
    row: str
    text: str
    target: str
    cells: dict  # Spread by (shape, dtype)


def met(spread: Spread, target: str) -> bool:
    sign, bound = target.split()[:2]
    return spread.median <= float(bound) if sign == "≤" else spread.median >= float(bound)


def divided(above: list, below: list) -> Spread:
    return spread([a / b for a, b in zip(above, below)])


def rows(results: dict, device: str) -> list:
    """`results` by (shape, dtype): {"ms": {question: {engine: ms by round}}, "floor": …, "fresh": …}."""
    made = []
    for ratio in RATIOS:
        cells = {}
        for combination, result in results.items():
            above = result["ms"].get(ratio.above[1], {}).get(ratio.above[0])
            below = result["ms"].get(ratio.below[1], {}).get(ratio.below[0])
            if above and below and combination[1] in ratio.dtypes:
                cells[combination] = divided([ratio.times * ms for ms in above], below)
        text = ratio.text
        for engine, title in TITLES.items():
            text = text.replace(engine + " ÷", title + " ÷")
        made.append(Row(ratio.row, text, ratio.target if device == "cpu" else ratio.on_card, cells))
    made += reading(results, device) + products(results) + memory(results) + python(results)
    return sorted((row for row in made if row.cells), key=lambda row: row.row or "Z")


def reading(results: dict, device: str) -> list:
    cells = {}
    for combination, result in results.items():
        floor, steps = result["floor"], result["ms"].get("decode", {}).get("hooked")
        if steps and floor["products"]:
            cells[combination] = spread([floor["weight_bytes"] / 1e6 / ms / floor["read_gb_per_s"] for ms in steps])
    return [Row("F", "weights that a step of a generation reads, GB/s ÷ what the machine reads",
                "≥ 0.7" if device == "cpu" else "", cells)]


def python(results: dict) -> list:
    """What the package adds to a call of a hook, and to importing torch."""
    calls, imports = {}, {}
    for combination, result in results.items():
        hooked, plain = (result["ms"].get(question, {}).get("hooked_python") for question in ("python_hooks", "unhooked"))
        if hooked and plain:
            calls[combination] = spread([1e3 * (a - b) / result["default_points"] for a, b in zip(hooked, plain)])
        if result.get("import_ms"):
            imports[combination] = spread([result["import_ms"] / 1e3])
    return [Row("M", "a function of Python at an activation, µs a call besides what it computes", "≤ 50", calls),
            Row("M", "`import hooked` after `import torch`, s", "≤ 0.3", imports)]


def ways(product: dict) -> list:
    """The ways in which the products of a run were made (floor.py)."""
    return [way for way in WAYS if way in product]


def products(results: dict) -> list:
    """Our runs over the time of their products alone, as the faster of LibTorch's ways makes them."""
    made = {}
    for combination, result in results.items():
        for product in result["floor"]["products"]:
            count = product["rows"]
            question = {16: "forward_1x16", 128: "forward_1x128", 512: "forward_4x128", 1024: "forward_1x1024",
                        4096: "forward_32x128"}[count]
            ms = result["ms"].get(question, {}).get("hooked")
            if ms:
                least = min(product[way] for way in ways(product))
                made.setdefault(question, {})[combination] = spread([m / least for m in ms])
    return [Row("", f"{question.replace('_', ' ').replace('x', ' × ')} ÷ its products alone (the fastest way of the next table)",
                "", cells) for question, cells in made.items()]


def memory(results: dict) -> list:
    kinds = (("I", "peak memory, all default points at 1 × 1024, hooked ÷ TransformerLens", "≤ 0.6", "keep", "bytes"),
             ("J", "load and first run from the start of the process, hooked ÷ TransformerLens", "≤ 0.15", "first_run", "seconds"),
             ("J", "load and first run from the start of the process, hooked ÷ transformers", "", "first_run", "seconds"))
    made = []
    for row, text, target, kind, unit in kinds:
        engine = "transformers" if text.endswith("transformers") else "transformer_lens"
        made.append(Row(row, text, target, {
            combination: divided([f[unit] for f in result["fresh"][kind]["hooked"]],
                                 [f[unit] for f in result["fresh"][kind][engine]])
            for combination, result in results.items() if engine in result["fresh"].get(kind, {})}))
    made.append(Row("J", "peak memory that loading adds ÷ the weights", "≤ 1.15", {
        combination: spread([(f["bytes"] - f["bytes_before"]) / result["weight_bytes"] for f in result["fresh"]["load"]["hooked"]])
        for combination, result in results.items() if result["fresh"]}))
    return made
