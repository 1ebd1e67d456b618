"""The generated section of docs/speed.md, which is also what is printed."""
import pathlib
import platform
import sys

from .figures import WAYS, met, number, rows, spread
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


def ratio_table(results: dict, shapes: dict, device: str) -> str:
    lines = []
    for row in rows(results, device):
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
    made = [(title(combination, shapes), p) for combination, result in results.items() for p in result["floor"]["products"]]
    kinds = [way for way in WAYS if any(way in p for _, p in made)]

    def cell(product: dict, way: str) -> str:
        return f"{number(product[way])} ms, {number(product['flop'] / product[way] / 1e6)} GFLOP/s" if way in product else ""

    return made and table(["products of a run", "tokens", *(WAYS[way] for way in kinds)],
                          [[name, str(p["rows"]), *(cell(p, way) for way in kinds)] for name, p in made])


def fresh_table(results: dict, shapes: dict) -> str:
    lines = []
    for combination, result in results.items():
        for kind, text in (("load", "load"), ("first_run", "load, forward 1 × 128"), ("keep", "load, all default points at 1 × 1024")):
            if kind not in result["fresh"]:
                continue
            costs = result["fresh"][kind]
            lines.append([f"{title(combination, shapes)}: {text}", *(
                "" if not costs.get(e) else f"{spread([c['seconds'] for c in costs[e]])} s, "
                f"{number(max(c['bytes'] for c in costs[e]) / 1e9)} GB" for e in TITLES)])
    return table(["from the start of a process; peak of resident memory", *TITLES.values()], lines) if lines else ""


def machine(about: dict) -> str:
    """What computed, and what with."""
    host = (f"{processor()}; {about['threads']} threads; LibTorch's kernels for {', '.join(sorted(about['instructions']))}")
    if about["device"] == "cpu":
        return host
    return (f"{', '.join(sorted(about['devices'] - {about['device']}) or ['an unknown GPU'])}; the host is {host}. Everybody's model lies on the GPU, "
            "and a time ends when the GPU has done all that it was given. hooked is given the tokens on the host, the others on the "
            "GPU. No product rounds to TF32")


def left_out(about: dict) -> str:
    engines = [f"{TITLES[engine]} ({reason.splitlines()[0]})" for engine, reason in about["absent"].items()]
    lines = [f"Not asked: {'; '.join(engines)}."] if engines else []
    if about["unasked"]:
        lines.append(f"There was no time for: {'; '.join(about['unasked'])}.")
    return " ".join(lines)


def problems(agreements: list) -> str:
    lines = [f"- {a.question}, {TITLES.get(a.engine, a.engine)}: {problem.splitlines()[0]}" for a in agreements for problem in a.problems]
    return "\n".join(["What disagreed or failed:", "", *lines]) if lines else ""


def floor_words(results: dict) -> list:
    rates = [rate for r in results.values() if (rate := r["floor"]["read_gb_per_s"]) == rate]
    return [f"What the machine itself allows, measured in the same run. Its memory moves {number(max(rates))} GB/s."] if rates else []


def section(results: dict, about: dict, shapes: dict, agreements: list) -> str:
    shapes = {name: shape for name, shape in shapes.items() if any(name == combination[0] for combination in results)}
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    names = "; ".join(f"{name} is {shape.title}" for name, shape in shapes.items())
    worst = max((a.worst for a in agreements if a.dtype == "float32"), default=0.0)
    compared = sum(a.tensors for a in agreements)
    if not any(result["ms"] for result in results.values()):
        return "\n\n".join(filter(None, ["Nothing was measured.", left_out(about), problems(agreements)]))
    parts = [
        f"{machine(about)}; {versions}.",
        left_out(about),
        f"{names}; random weights and logits of every position unless said. Median (smallest to largest) over {about['rounds']} rounds"
        f"{', with --quick' if about['quick'] else ''}. Ratios are taken within a round; those that miss their target are bold.",
        f"{compared} tensors were compared, {sum(len(a.problems) for a in agreements)} disagreed; the largest difference of float32 "
        f"tensors, over their largest value, is {worst:.2g}.",
        problems(agreements),
        ratio_table(results, shapes, about["device"]),
        *floor_words(results),
        floor_table(results, shapes), fresh_table(results, shapes)]
    for combination, result in results.items():
        parts += [f"Milliseconds, {title(combination, shapes)}:", time_table(result)]
    return "\n\n".join(filter(None, parts))


def write(page: pathlib.Path, text: str) -> None:
    """Puts `text` between the marks of a page."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":  # python -m rivals.page docs/gpu.md TABLES
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text().rstrip())
