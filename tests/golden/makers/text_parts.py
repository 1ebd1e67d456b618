"""Records what transformers takes for a text part of which config.json says nothing, in tests/golden/text_parts.json.

Older versions of transformers wrote of a group only what differs from the defaults of its class. A row has the `model_type` of the
whole and of its text part, and what transformers makes of a config that says no more. The test CompositeConfigs reads both.
"""

import json

from .absent_keys import as_transformers_means
from .case_files import kGoldens
from .checkpoints.table import kCases

kKept = ("model_type", "tie_word_embeddings", "text_config")


def main(_arguments: list) -> None:
    pairs = sorted({(case.inside, case.model_type) for case in kCases if case.inside})
    lines = []
    for whole, text in pairs:
        config = {"model_type": whole, "text_config": {"model_type": text}}
        meant = {key: value for key, value in as_transformers_means(config).items() if key in kKept}
        lines.append(" " + json.dumps({"config": config, "means": meant}))
    joined = ",\n".join(lines)
    (kGoldens / "text_parts.json").write_text(f"[\n{joined}\n]\n")
