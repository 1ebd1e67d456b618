"""Runs TransformerLens 3.9's own tests on hooked.transformer_lens, and prints what passed.

Usage: run_upstream.py [--archive transformer_lens-3.9.0.tar.gz] [--tokenizer FOLDER] [--itself]
    [--write FILE] [GROUP ...]

The environment has TransformerLens with what it requires; its tests import beartype and fancy_einsum, too.
Without --archive, pip fetches the source archive. FOLDER has GPT-2's vocab.json (or encoder.json) and merges.txt (or
vocab.bpe). --itself runs TransformerLens on the same tests, to see which of them fail there. FILE gets the figures as a
Markdown table.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass
class Tests:
    """A file of tests: those that are run (all if none are named), and those left out with the reason."""

    file: str
    only: list[str] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)


_COMPONENT = "builds a component by hand and runs it; components hold weights, and the engine runs whole models"
_OTHER_GROUP = "in group C, which needs a tokenizer"
_LOADS = "reads configs of the hub by TransformerLens's internal functions"
_CUDA = "needs a GPU"
_GPT2 = "needs GPT-2's weights"
_JAXTYPING = "expects jaxtyping's check of TransformerLens's own code"
_RANDOM = "compares with numbers of the trained model"

_TRAINED_HEADS = [
    "Test_detect_head_successful",
    "test_detect_head_exclude_bos",
    "test_detect_head_exclude_current_token",
    "test_detect_head_exclude_bos_and_current_token",
    "test_detect_head_with_cache",
    *(
        f"Test_specific_heads::Test_{kind}_head::test_allclose_{measure}"
        for kind in (
            "regular_sentence_previous_token",
            "duplicated_sentence_previous_token",
            "duplicated_sentence_duplicate_token",
            "duplicated_sentence_induction",
        )
        for measure in ("mul", "abs")
    ),
]

GROUPS: dict[str, list[Tests]] = {
    "A": [
        Tests("integration/test_stop_at_layer.py"),
        Tests("integration/test_start_at_layer.py", without={"test_start_at_layer_kwargs": _OTHER_GROUP}),
        Tests("integration/test_attention_mask.py", without={"test_masked_tokens": "in group D"}),
        Tests(
            "integration/test_d_vocab.py",
            only=["test_d_vocab_out_set"],
            without={"three others": _OTHER_GROUP},
        ),
        Tests(
            "integration/test_grouped_query_attention.py",
            only=["test_ungroup_grouped_query_attention_flag_changes_k_v_hooks_shape"],
            without={"two others": _COMPONENT},
        ),
        Tests("unit/test_split_qkv.py"),
        Tests("unit/test_use_attn_result.py"),
        Tests("unit/test_generate_no_tokenizer.py", without={"test_generate_cpu_tokens_cuda_model": _CUDA}),
        Tests("unit/test_n_params_total.py", without={"test_n_params_total_real_model_gpt2": _GPT2}),
        Tests("unit/test_direct_path_patching.py"),
        Tests("unit/components/test_transformer_block_olmo_post_norm.py"),
        Tests(
            "unit/test_moe_fold_guard.py",
            only=["test_process_weights_folds_moe_and_preserves_outputs"],
            without={"two others": _LOADS},
        ),
        Tests(
            "integration/test_hooked_encoder_properties.py",
            without={
                "test_W_E_pos": "expected to fail by jaxtyping's check of TransformerLens's own code; passes here"
            },
        ),
        Tests(
            "integration/test_create_hooked_encoder.py",
            only=["test_load_without_tokenizer", "test_cannot_load_without_tokenizer_or_d_vocab"],
            without={"two others": _OTHER_GROUP},
        ),
    ],
    "B": [
        Tests("unit/test_hooked_transformer_config.py"),
        Tests(
            "unit/test_hook_points.py",
            without={"TestHookPointHasHooks::test_invalid_direction_raises_error": _JAXTYPING},
        ),
        Tests("unit/test_hooked_root_module.py"),
        Tests("unit/test_hook_introspection.py"),
        Tests("unit/test_activation_cache_batch_dim.py"),
        Tests("unit/factored_matrix"),
        Tests("unit/test_key_value_cache_entry.py"),
        Tests("unit/test_evals_ioi.py"),
    ],
    "C": [
        Tests("acceptance/test_hook_tokens.py"),
        Tests("acceptance/test_tokenizer_special_tokens.py"),
        Tests(
            "integration/test_d_vocab.py",
            only=[
                "test_d_vocab_from_tokenizer",
                "test_d_vocab_from_tokenizer_name",
                "test_d_vocab_out_set_d_vocab_infer",
            ],
        ),
        Tests("integration/test_start_at_layer.py", only=["test_start_at_layer_kwargs"]),
        Tests(
            "integration/test_create_hooked_encoder.py", only=["test_pass_tokenizer", "test_load_tokenizer_from_config"]
        ),
    ],
    "D": [
        Tests("integration/test_hooks.py"),
        Tests("integration/test_kv_cache.py"),
        Tests("integration/test_left_padding.py"),
        Tests("integration/test_cache_pos_slice.py"),
        Tests("integration/test_cache_hook_names.py"),
        Tests("integration/test_cross_entropy_loss.py"),
        Tests("integration/test_attention_mask.py", only=["test_masked_tokens"]),
        Tests("unit/test_patching.py"),
        Tests("acceptance/test_activation_cache.py"),
        Tests(
            "integration/test_head_detector.py",
            without={
                **dict.fromkeys(_TRAINED_HEADS, _RANDOM),
                "test_detect_head_with_invalid_head_name": _JAXTYPING,
            },
        ),
    ],
}


@dataclass
class Outcome:
    """What pytest said of one file."""

    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)


def archive(given: str | None, folder: Path) -> Path:
    """The source archive: the given one, or fetched."""
    if given:
        return Path(given)
    fetch = ["download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "transformer_lens==3.9.0"]
    subprocess.run([sys.executable, "-m", "pip", *fetch, "-d", str(folder)], check=True)
    return next(folder.glob("transformer_lens-3.9.0*"))


def unpacked(source: Path, folder: Path) -> Path:
    """The archive's folder of tests."""
    with tarfile.open(source) as tar:
        tar.extractall(folder, [m for m in tar if m.name.split("/")[1:2] == ["tests"]], filter="data")
    return next(folder.glob("*/tests"))


def tokenizer(given: str | None, folder: Path) -> Path | None:
    """A folder with GPT-2's files under the names that transformers reads."""
    if given is None:
        return None
    folder.mkdir()
    for name, other in (("vocab.json", "encoder.json"), ("merges.txt", "vocab.bpe")):
        source = Path(given) / name
        shutil.copy(source if source.exists() else Path(given) / other, folder / name)
    return folder


def _is_test(name: str) -> bool:
    """Whether pytest knows it by this name; `two others` are left out by naming the rest."""
    return " " not in name


def run(group: list[Tests], root: Path, environment: dict[str, str], report: Path) -> list[Outcome]:
    """Runs the files of a group by pytest, in one process."""
    selected = [node for tests in group for node in [f"{tests.file}::{name}" for name in tests.only] or [tests.file]]
    left_out = [f"--deselect={tests.file}::{name}" for tests in group for name in tests.without if _is_test(name)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "upstream_plugin", "-p", "no:cacheprovider", "--no-header"]
    command += ["-W", "ignore", "-o", "addopts=", "--continue-on-collection-errors", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, f"--rootdir={root}", *left_out, *selected],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.exists():
        raise RuntimeError(f"pytest did not run: {(done.stdout + done.stderr)[-2000:]}")
    outcomes = [Outcome() for _ in group]
    for case in ElementTree.parse(report).iter("testcase"):
        where = f"{case.get('classname')}.{case.get('name')}".replace(".", "/")
        outcome = outcomes[next(i for i, tests in enumerate(group) if tests.file.removesuffix(".py") in where)]
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is not None:
            text = re.sub(r"\s+", " ", problem.get("message") or problem.text or "")
            detail = re.search(r"E +(\w*Error: .*)", problem.text or "")  # of a file that could not be imported
            text = f"{text}: {detail[1]}" if detail and detail[1] not in text else text
            outcome.failed.append(f"{case.get('name')}: {text[:200]}")
        elif case.find("skipped") is not None:
            outcome.skipped += 1
        else:
            outcome.passed += 1
    report.unlink()
    return outcomes


def table(results: dict[str, list[tuple[Tests, Outcome]]]) -> Iterator[str]:
    """The figures as Markdown."""
    yield "| group | file of TransformerLens 3.9's tests | passed | failed | left out, and why |"
    yield "|---|---|---|---|---|"
    for group, files in results.items():
        for tests, outcome in files:
            names: dict[str, list[str]] = {}
            for name, reason in tests.without.items():
                names.setdefault(reason, []).append(f"`{name}`" if _is_test(name) else name)
            why = [f"{', '.join(of)}: {reason}" for reason, of in names.items()]
            why += [f"{outcome.skipped} skipped by the file itself"] if outcome.skipped else []
            yield f"| {group} | `{tests.file}` | {outcome.passed} | {len(outcome.failed)} | {'; '.join(why)} |"
        passed = sum(outcome.passed for _, outcome in files)
        failed = sum(len(outcome.failed) for _, outcome in files)
        yield f"| **{group}** | **all** | **{passed}** | **{failed}** | |"


def main() -> int:
    """Runs the groups; the exit status says whether all passed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--archive")
    options.add_argument("--tokenizer")
    options.add_argument("--itself", action="store_true")
    options.add_argument("--write")
    options.add_argument("groups", nargs="*", default=None)
    given = options.parse_args()
    results: dict[str, list[tuple[Tests, Outcome]]] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        root = unpacked(archive(given.archive, folder), folder)
        words = tokenizer(given.tokenizer, folder / "tokenizer")
        environment = dict(
            os.environ, PYTHONPATH=os.pathsep.join([str(HERE), str(root.parent), os.environ.get("PYTHONPATH", "")])
        )
        environment |= {"UPSTREAM_TOKENIZER": str(words), "HF_HUB_OFFLINE": "1"}
        environment |= {"UPSTREAM_ITSELF": "1"} if given.itself else {}
        for group in given.groups or list(GROUPS):
            if words is None and group in "CD":
                print(f"group {group} needs --tokenizer")
                continue
            outcomes = run(GROUPS[group], root, environment, folder / "report.xml")
            results[group] = list(zip(GROUPS[group], outcomes, strict=True))
            for tests, outcome in results[group]:
                print(
                    f"{group} {tests.file}: {outcome.passed} passed, {len(outcome.failed)} failed, "
                    f"{outcome.skipped} skipped",
                    flush=True,
                )
                for line in outcome.failed:
                    print("    " + line)
    lines = list(table(results))
    print("\n".join(line for line in lines if "**" in line))
    if given.write:
        Path(given.write).write_text("\n".join(lines) + "\n")
    return int(any(outcome.failed for files in results.values() for _, outcome in files))


if __name__ == "__main__":
    sys.exit(main())
