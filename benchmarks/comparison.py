"""What the scripts that time hooked beside others share."""
import argparse
import json
import os
import statistics
import subprocess


def arguments(description: str, **defaults) -> argparse.Namespace:
    """--rounds, --threads and --program, and a whole number for each of `defaults`."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    for name, default in {"rounds": 5, **defaults, "threads": os.cpu_count()}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--program", default="build/release/bin/hooked")
    return parser.parse_args()


def hooked_json(program: str, *options) -> dict:
    """What a command of the program prints with --json."""
    run = subprocess.run([program, *map(str, options), "--json"], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def spread(values) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"
