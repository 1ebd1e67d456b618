#!/usr/bin/env python3
"""Records what outside oracles compute, for tests that need no Python. README.md says how and when.

    python -m venv .venv && .venv/bin/pip install -r tests/golden/requirements.txt
    .venv/bin/python tests/golden/make.py compare [CASE-GLOB ...] [--program build/release/bin/hooked]
    .venv/bin/python tests/golden/make.py record [CASE-GLOB ...]
    .venv/bin/python tests/golden/make.py absent-keys | rope-spellings | generation-rules | text-parts | stored-numbers | gguf-blocks | gguf-models | adapters | sampling | pickles | tokenizers | tokenizer-folders | tokenizer-classes |
        unicode-differences | short-names
    .venv/bin/python tests/golden/make.py patching [MODEL-GLOB ...]
    .venv/bin/python tests/golden/make.py half-precision [CASE-GLOB ...]
    .venv/bin/python tests/golden/make.py newest [CASE-GLOB ...]  # in an environment with the newest transformers
    .venv/bin/python tests/golden/make.py reading | gradients | heads | lenses | probes | circuits | chat | real-models
    .venv/bin/python tests/golden/make.py quantised-weights  # in an environment of requirements_quantised.txt
    .venv/bin/python tests/golden/make.py bridge  # in an environment of requirements_bridge.txt
"""

import importlib
import os
import sys
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
warnings.filterwarnings("ignore")

# The command, and the module of makers whose main() it calls with the arguments after it.
kCommands = {"compare": "compare", "record": "record", "absent-keys": "absent_keys", "rope-spellings": "rope_spellings", "generation-rules": "generation_rules", "text-parts": "text_parts",
             "stored-numbers": "stored_numbers", "quantised-weights": "quantised_weights", "gguf-blocks": "gguf_blocks", "gguf-models": "gguf_models", "adapters": "adapters",
             "sampling": "sampling", "real-models": "real_models", "patching": "patching",
             "chat": "chat", "reading": "reading", "gradients": "gradients", "heads": "heads", "lenses": "lenses", "probes": "probes", "circuits": "circuits", "bridge": "bridge",
             "half-precision": "half_precision", "newest": "newest", "pickles": "pickles", "tokenizers": "tokenizers",
             "tokenizer-folders": "tokenizer_folders", "tokenizer-classes": "tokenizer_classes", "unicode-differences": "unicode_differences", "short-names": "short_names"}


def main(arguments: list) -> int:
    if not arguments or arguments[0] not in kCommands:
        print(__doc__, file=sys.stderr)
        return 2
    return importlib.import_module("makers." + kCommands[arguments[0]]).main(arguments[1:]) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
