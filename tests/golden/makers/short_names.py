"""The short names of models on the hub that TransformerLens taught: src/io/files/short_names.inc."""

import importlib.metadata
import re

from transformer_lens.loading_from_pretrained import NON_HF_HOSTED_MODEL_NAMES
from transformer_lens.supported_models import MODEL_ALIASES, OFFICIAL_MODEL_NAMES

from .case_files import kRoot

# Repositories that the hub has moved to an organisation since.
kMoved = {"gpt2": "openai-community", "gpt2-medium": "openai-community", "gpt2-large": "openai-community", "gpt2-xl": "openai-community", "distilgpt2": "distilbert"}


def names_by_repository() -> dict:
    """Repository to the short names that are not its own name without the organisation."""
    made = {}
    for official in OFFICIAL_MODEL_NAMES:
        if official in NON_HF_HOSTED_MODEL_NAMES:
            continue
        organisation, _, own = official.rpartition("/")
        organisation = organisation or kMoved[own]
        others = []
        for alias in MODEL_ALIASES.get(official, []):
            word = alias.removeprefix(organisation + "/")
            assert "/" not in word, alias
            if word.lower() not in [own.lower(), *others]:
                others.append(word.lower())
        made[organisation, own] = others
    return made


def literals(models: list) -> list:
    """C++ texts that are the models in one, separated by blanks; a line ends at a blank or before an equals sign."""
    lines = [""]
    for part in re.findall(r"=?[^ =]+ ?", " ".join(models)):
        if len(lines[-1] + part) > 100:
            lines.append("")
        lines[-1] += part
    return [f'"{line}"' for line in lines]


def main(arguments: list) -> None:
    organisations, seen = {}, set()
    for (organisation, own), others in sorted(names_by_repository().items(), key=lambda row: [word.lower() for word in row[0]]):
        for word in [own.lower(), *others]:
            assert word not in seen, word
            seen.add(word)
        organisations.setdefault(organisation, []).append("=".join([own, *others]))
    rows = []
    for organisation, models in organisations.items():
        lines = literals(models)
        row = '    {"%s", %s},\n' % (organisation, lines[0])
        rows.append(row if len(lines) == 1 and len(row) <= 111 else '    {"%s",\n     %s},\n' % (organisation, "\n     ".join(lines)))
    version = importlib.metadata.version("transformer_lens")
    (kRoot / "src" / "io" / "files" / "short_names.inc").write_text(
        f"// The models that TransformerLens {version} names, by organisation, each with its short names after equals\n"
        f"// signs; written by tests/golden/make.py short-names.\nconstexpr Organisation kOrganisations[] = {{\n{''.join(rows)}}};\n")
