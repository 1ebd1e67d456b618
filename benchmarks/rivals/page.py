"""The generated section of docs/speed.md, which is also what is printed."""
import pathlib
import platform

from .figures import met, number, rows, spread
from .process import TITLES
from .questions import QUESTIONS

BEGIN = "<!-- begin: written by benchmarks/compare_rivals.py -->"
END = "<!-- end: written by benchmarks/compare_rivals.py -->"


def table(head: list, lines: list) -> str:
    return "\n".join(["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)])


def processor() -> str:
    """Its name, and those of its instruction sets that products may use."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = fields.get("flags", "").split()
    sets = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16") if flag in flags]
    return f"{fields.get('model name', platform.machine())} ({', '.join(sets)})"


def title(combination: tuple, shapes: dict) -> str:
    return f"{shapes[combination[0]].name}, {combination[1]}"


def ratio_table(results: dict, shapes: dict) -> str:
    lines = []
    for row in rows(results):
        cells = []
        for combination in results:
            cell = row.cells.get(combination)
            missed = cell and row.target and not met(cell, row.target)
            cells.append("" if cell is None else f"**{cell}**" if missed else str(cell))
        lines.append([row.row, row.text, row.target, *cells])
    return table(["row", "ratio", "target", *(title(c, shapes) for c in results)], lines)


def time_table(result: dict) -> str:
    lines = [[QUESTIONS[key].text, *(str(spread(engines[e])) if e in engines else "" for e in TITLES)]
             for key, engines in result["ms"].items()]
    return table(["ms", *TITLES.values()], lines)


def floor_table(results: dict, shapes: dict) -> str:
    lines = []
    for combination, result in results.items():
        for p in result["floor"]["products"]:
            lines.append([title(combination, shapes), str(p["rows"]), *(
                f"{number(p[kind])} ms, {number(p['flop'] / p[kind] / 1e6)} GFLOP/s" for kind in ("linear_ms", "one_dnn_ms"))])
    return table(["products of a run", "tokens", "`at::linear`", "oneDNN through LibTorch"], lines)


def fresh_table(results: dict, shapes: dict) -> str:
    lines = []
    for combination, result in results.items():
        for kind, text in (("load", "load"), ("first_run", "load, forward 1 × 128"), ("keep", "load, all default points at 1 × 1024")):
            if not result["fresh"]:
                continue
            costs = result["fresh"][kind]
            lines.append([f"{title(combination, shapes)}: {text}", *(
                "" if e not in costs else f"{spread([c['seconds'] for c in costs[e]])} s, "
                f"{number(max(c['bytes'] for c in costs[e]) / 1e9)} GB" for e in TITLES)])
    return table(["from the start of a process; peak of resident memory", *TITLES.values()], lines)


def section(results: dict, about: dict, shapes: dict, agreements: list) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    names = "; ".join(f"{name} is {shape.title}" for name, shape in shapes.items())
    worst = max((a.worst for a in agreements if a.top_1 is None), default=0.0)
    compared = sum(a.tensors for a in agreements)
    parts = [
        f"{processor()}; {about['threads']} threads; LibTorch's kernels for {', '.join(about['instructions'])}; {versions}.",
        f"{names}; random weights, logits of every position unless said. Median (smallest to largest) over {about['rounds']} rounds"
        f"{', with --quick' if about['quick'] else ''}. Ratios are taken within a round; those that miss their target are bold.",
        f"{compared} tensors were compared, {sum(len(a.problems) for a in agreements)} disagreed; the largest difference of float32 "
        f"tensors, over their largest value, is {worst:.2g}.",
        ratio_table(results, shapes),
        "What the machine itself allows, measured in the same run. "
        f"It reads {number(max(r['floor']['read_gb_per_s'] for r in results.values()))} GB/s.",
        floor_table(results, shapes), fresh_table(results, shapes)]
    for combination, result in results.items():
        parts += [f"Milliseconds, {title(combination, shapes)}:", time_table(result)]
    return "\n\n".join(parts)


def write(page: pathlib.Path, text: str) -> None:
    """Puts `text` between the marks of a page."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
