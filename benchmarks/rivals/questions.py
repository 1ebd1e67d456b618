"""What is asked: one table of questions, and one of the ratios that answer them."""
import argparse
import dataclasses

from .models import STORED

ALL = ("hooked", "transformers", "transformer_lens", "nnsight")
LENS = ("hooked", "transformer_lens")
HOOKED = ("hooked",)
PYTHON = ("hooked_python",)  # the package over the same engine
GGUF = ("hooked", "llama_cpp")  # of models that stay in the bits of their files
ENGINES = ALL + PYTHON + GGUF[1:]
BOTH = ("float32", "bfloat16")
FLOAT = ("float32",)
KEPT = ("stored",)  # float32, with weights as they are stored
CPU = ("cpu",)
CARD = ("cuda",)

HARVEST_ROWS = 8  # of a run
MIDDLE = 6  # the layer that is harvested up to and edited
PROMPT = 32  # tokens that a generation continues from


@dataclasses.dataclass(frozen=True)
class Question:
    text: str
    command: dict  # what the processes are told, without tokens and repeats
    batch: int
    length: int
    engines: tuple = ALL
    dtypes: tuple = BOTH
    quick: bool = True  # also with --quick
    devices: tuple = ("cpu", "cuda")
    rounds: int | None = None  # where a turn takes minutes: at most as many, and no turn to warm up
    shapes: tuple = ("gpt2-small", "llama")


def forward(batch: int, length: int, **options) -> Question:
    return Question(f"forward {batch} × {length}", {"do": "forward"}, batch, length, **options)


def cache(what: str, points: str, batch: int, length: int, engines=ALL, **options) -> Question:
    return Question(f"{what}, {batch} × {length}", {"do": "cache", "points": points}, batch, length, engines, **options)


def edits(text: str, edited: bool, engines: tuple) -> Question:
    return Question(text, {"do": "edit_rows", "layer": MIDDLE, "edited": edited, "step": 0.001}, 256, 16, engines, FLOAT,
                    shapes=("gpt2-small",))


def sweep(preset: str, cells: int, every: int = 1, **options) -> Question:
    part = f" (TransformerLens: every {every}th)" if every > 1 else ""
    return Question(f"activation patching, {preset}, {cells} cells{part}",
                    {"do": "sweep", "preset": preset, "every": every, "answer": 11, "against": 12}, 2, 15, LENS, FLOAT,
                    quick=False, rounds=2, shapes=("gpt2-small",), **options)


def stored(text: str, command: dict, length: int, engines: tuple = GGUF) -> Question:
    return Question(text, command, 1, length, engines, KEPT, devices=CPU, shapes=STORED)


QUESTIONS = {
    "forward_1x1": forward(1, 1),
    "forward_1x16": forward(1, 16),
    "forward_1x128": forward(1, 128),
    "forward_2x128": forward(2, 128, engines=HOOKED, dtypes=FLOAT),
    "forward_4x128": forward(4, 128),
    "forward_1x1024": forward(1, 1024),
    "forward_1x4096": forward(1, 4096, quick=False, shapes=("llama",), dtypes=FLOAT, devices=CPU),
    "forward_32x128": forward(32, 128, engines=("hooked", "transformers", "transformer_lens"), devices=CARD),
    "cache_1x128": cache("run_with_cache of all default points", "defaults", 1, 128, LENS + PYTHON),
    "read_1x128": Question("run_with_cache of all default points and reading each, 1 × 128", {"do": "read_cache"}, 1, 128,
                           HOOKED + PYTHON, FLOAT),
    "cache_4x128": cache("run_with_cache of all default points", "defaults", 4, 128, LENS),
    "stream_1x128": cache("the stream after every layer", "resid_post", 1, 128),
    "result_1x128": cache("every head's result", "result", 1, 128, LENS, dtypes=FLOAT, devices=CPU),
    "split_1x128": cache("every head's own inputs", "q_input, k_input, v_input", 1, 128, LENS, dtypes=FLOAT,
                         devices=CPU),
    "until": Question(f"forward up to layer {MIDDLE}, 8 × 128", {"do": "until", "layer": MIDDLE}, 8, 128, HOOKED),
    "harvest": Question(f"harvest of the stream after layer {MIDDLE - 1}, ending there, 8 × 128",
                        {"do": "harvest", "layer": MIDDLE}, 8, 128),
    "until_corpus": Question(f"forward up to layer {MIDDLE}, 160 × 128 in runs of {HARVEST_ROWS}", {"do": "until", "layer": MIDDLE},
                             160, 128, PYTHON, devices=CPU, shapes=("gpt2-small",)),
    "store": Question(f"160 × 128 tokens harvested to a disk, the stream after layer {MIDDLE - 1}", {"do": "store", "layer": MIDDLE},
                      160, 128, ("hooked_python", "transformer_lens", "nnsight"), devices=CPU, shapes=("gpt2-small",)),
    "decode": Question(f"a step of a greedy generation after {PROMPT} tokens",
                       {"do": "decode", "new_tokens": 32, "keep": False}, 1, PROMPT),
    "decode_kept": Question("a step that keeps the stream after every layer",
                            {"do": "decode", "new_tokens": 32, "keep": True}, 1, PROMPT),
    "stored_1x128": stored("a prompt of 128 tokens, logits of each", {"do": "forward"}, 128),
    "stored_1x1024": stored("a prompt of 1,024 tokens, logits of each", {"do": "forward"}, 1024),
    "stored_step": stored(f"a step of a greedy generation after {PROMPT} tokens, weights as stored",
                          {"do": "decode", "new_tokens": 32, "keep": False}, PROMPT),
    "stored_step_kept": stored("a step that keeps the stream after every layer, weights as stored",
                               {"do": "decode", "new_tokens": 32, "keep": True}, PROMPT, HOOKED),
    "unedited": edits("256 × 16, logits at the last position", False, HOOKED),
    "row_edits": edits("256 × 16, another edit in each row", True, ALL),
    "attribution": Question("attribution patching of the stream, every layer and position, 128 tokens",
                            {"do": "attribution", "answer": 11, "against": 12}, 2, 128, dtypes=FLOAT),
    "unhooked": Question("1 × 1 from Python", {"do": "hooks", "called": False}, 1, 1, PYTHON, FLOAT, shapes=("gpt2-small",)),
    "python_hooks": Question("1 × 1 from Python, with a function at each default point", {"do": "hooks", "called": True}, 1, 1,
                             PYTHON, FLOAT, shapes=("gpt2-small",)),
    "sweep_stream": sweep("resid_pre", 180, devices=CPU),
    "sweep_heads": sweep("attn_head_out_all_pos", 144, devices=CPU),
    "sweep_heads_by_pos": sweep("attn_head_out_by_pos", 2160, every=10),
}


@dataclasses.dataclass(frozen=True)
class Ratio:
    row: str  # of the table of targets
    text: str
    above: tuple  # (engine, question)
    below: tuple
    target: str  # ≤ or ≥ and a number
    dtypes: tuple = BOTH
    times: int = 1  # what is above answered this part of what is below
    on_card: str = ""  # the target on a GPU


def rival(row: str, engine: str, question: str, target: str = "", dtypes: tuple = BOTH, **more) -> Ratio:
    return Ratio(row, f"{engine} ÷ hooked: {QUESTIONS[question].text}", (engine, question), ("hooked", question), target,
                 dtypes, **more)


def patched(question: str, target: str, on_card: str = "") -> Ratio:
    return rival("G", "transformer_lens", question, target, FLOAT, times=QUESTIONS[question].command["every"], on_card=on_card)


def own(row: str, text: str, above: str, below: str, target: str, dtypes: tuple = BOTH) -> Ratio:
    return Ratio(row, text, ("hooked", above), ("hooked", below), target, dtypes)


RATIOS = (
    own("A", "run_with_cache ÷ plain run, 1 × 128", "cache_1x128", "forward_1x128", "≤ 1.03"),
    own("A", "run_with_cache ÷ plain run, 4 × 128", "cache_4x128", "forward_4x128", "≤ 1.03"),
    own("A", "with every head's result ÷ plain run, 1 × 128", "result_1x128", "forward_1x128", "≤ 1.5"),
    own("A", "with every head's own inputs ÷ plain run, 1 × 128", "split_1x128", "forward_1x128", "≤ 1.5"),
    rival("B", "transformer_lens", "cache_1x128", "≥ 2.8", FLOAT, on_card="≥ 10"),
    Ratio("B", "transformer_lens ÷ hooked: the same, and reading each", ("transformer_lens", "cache_1x128"),
          ("hooked", "read_1x128"), "", FLOAT),
    rival("C", "transformer_lens", "cache_1x128", "≥ 6 with AMX", ("bfloat16",)),
    rival("B", "transformer_lens", "cache_4x128"),
    rival("B", "transformer_lens", "result_1x128"),
    rival("B", "transformer_lens", "split_1x128"),
    rival("D", "transformers", "forward_1x1"),
    rival("D", "transformers", "forward_1x16", "≥ 1.1"),
    rival("D", "transformers", "forward_1x128", "≥ 1.1"),
    rival("D", "transformers", "forward_4x128"),
    rival("D", "transformers", "forward_1x1024", "≥ 1.1"),
    rival("D", "transformers", "forward_1x4096"),
    rival("D", "transformers", "forward_32x128"),
    rival("D", "transformer_lens", "forward_1x128"),
    rival("D", "transformer_lens", "forward_1x1024"),
    rival("D", "nnsight", "forward_1x128"),
    rival("D", "transformers", "stream_1x128"),
    rival("D", "nnsight", "stream_1x128"),
    own("E", "a step that keeps the stream ÷ one that does not", "decode_kept", "decode", "≤ 1.03"),
    rival("F", "transformers", "decode", "≥ 1.5"),
    rival("F", "transformer_lens", "decode"),
    rival("F", "nnsight", "decode"),
    rival("F", "transformers", "decode_kept"),
    rival("F", "transformer_lens", "decode_kept"),
    rival("F", "nnsight", "decode_kept"),
    rival("N", "llama_cpp", "stored_step", "≥ 1.3", KEPT),
    rival("N", "llama_cpp", "stored_1x128", "≥ 3", KEPT),
    rival("N", "llama_cpp", "stored_1x1024", "", KEPT),
    own("N", "a step that keeps the stream ÷ one that does not, weights as stored", "stored_step_kept", "stored_step",
        "≤ 1.03", KEPT),
    own("H", "attribution patching ÷ forward 1 × 128", "attribution", "forward_1x128", "≤ 3.2"),
    own("H", "attribution patching ÷ forward 2 × 128", "attribution", "forward_2x128", ""),
    rival("H", "transformers", "attribution"),
    rival("H", "transformer_lens", "attribution"),
    rival("H", "nnsight", "attribution"),
    patched("sweep_stream", "≥ 40"),
    patched("sweep_heads", "≥ 22"),
    patched("sweep_heads_by_pos", "≥ 45", "≥ 50"),
    own("K", "256 rows, each with its edit ÷ without edits", "row_edits", "unedited", "≤ 1.1"),
    rival("K", "transformers", "row_edits"),
    rival("K", "transformer_lens", "row_edits"),
    rival("K", "nnsight", "row_edits"),
    Ratio("L", f"tokens a second: harvest ÷ forward up to layer {MIDDLE}", ("hooked", "until"), ("hooked", "harvest"),
          "≥ 0.85"),
    rival("L", "transformers", "harvest"),
    rival("L", "transformer_lens", "harvest"),
    rival("L", "nnsight", "harvest"),
    Ratio("L", "tokens a second: harvest to a disk ÷ the runs alone, from Python", ("hooked_python", "until_corpus"),
          ("hooked_python", "store"), "≥ 0.95"),
    Ratio("L", "SAELens's runner ÷ hooked in Python: " + QUESTIONS["store"].text, ("transformer_lens", "store"),
          ("hooked_python", "store"), "≥ 1"),
    Ratio("L", "nnsight ÷ hooked in Python: " + QUESTIONS["store"].text, ("nnsight", "store"), ("hooked_python", "store"), "≥ 1"),
    Ratio("M", "from Python ÷ from C++: run_with_cache of all default points, 1 × 128", ("hooked_python", "cache_1x128"),
          ("hooked", "cache_1x128"), "≤ 1.03"),
    Ratio("M", "the same, and reading each", ("hooked_python", "read_1x128"), ("hooked", "read_1x128"), "≤ 1.03", FLOAT),
)


def some_of(known):
    """For argparse: a list of these keys, with commas."""
    def read(text: str) -> list:
        keys = text.split(",")
        unknown = [key for key in keys if key not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; expected some of {', '.join(known)}")
        return keys
    return read


def asked(shape: str, dtype: str, device: str, quick: bool) -> dict:
    """The questions for a shape, a dtype and a device, by key."""
    return {key: q for key, q in QUESTIONS.items()
            if shape in q.shapes and dtype in q.dtypes and device in q.devices and (q.quick or not quick)}
