#!/usr/bin/env python3
"""Compiles each source and each public header separately, syntax only.

Other builds compile several sources as one object, in which a source finds what its neighbours include. Here each has its own
includes alone. Sources of the program and of the fuzz targets are compiled with clang++ as well, where there is one.

Usage: scripts/compile_each.py [--jobs N] [--minutes N] [--since REVISION | FILE...]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What does not compile, or not as a part of this project, or only in a source of a set of kernels (Note [Kernel sets]).
LEFT_OUT = re.compile(r"tests/(architecture|compile_fail|consumer)/|models/kernels/loops/|tests/models/kernels_in_cpp/.*\.h$")
# What scripts/python.sh sets up; without it the Python module is left out.
PYTHON = ROOT / "build/python/venv-2.11.0/bin/python"


def git(*arguments):
    asked = subprocess.run(["git", *arguments], capture_output=True, text=True)
    if asked.returncode:
        sys.exit(f"[each] git {shlex.join(arguments)}: {asked.stderr.strip()}")
    return asked.stdout.splitlines()


def ours():
    """Sources and headers that git knows, or would add."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", "*.cc", "*.h")
    return [name for name in names if not LEFT_OUT.match(name) and pathlib.Path(name).exists()]


def changed_since(revision):
    """What changed, the newest first, and then the sources that include the changed headers."""
    names = git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    names += git("log", "--format=", "--name-only", f"{revision}..HEAD")
    known = set(ours())
    changed = [name for name in dict.fromkeys(names) if name in known]
    includes = {f'#include "{re.sub("^(include|src)/", "", name)}"' for name in changed if name.endswith(".h")}
    reading = [name for name in sorted(known) if name.endswith(".cc")
               and any(line in includes for line in pathlib.Path(name).read_text().splitlines())]
    return list(dict.fromkeys(changed + reading))


def configured(source, build, *options):
    """How each source of a project is compiled: (name, folder, command)."""
    torch = os.environ.get("TORCH_ROOT")
    command = ["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options]
    made = subprocess.run(command + ([f"-DTORCH_ROOT={torch}"] if torch else []), capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"[each] {shlex.join(command)} failed:\n{made.stdout}{made.stderr}")
    entries = []
    for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
        words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
        for option in ("-o", "-c"):
            place = words.index(option)
            del words[place : place + 2]
        words += ["-fsyntax-only", "-fdiagnostics-color=never"]
        entries.append((entry["file"].removeprefix(f"{ROOT}/"), entry["directory"], words))
    return entries


def near(header, source):
    """How many folders a header and a source have in common, and of these the fewest that the source has in addition."""
    header, source = (re.sub(r"^(include/hooked|src)/", "", name).split("/")[:-1] for name in (header, source))
    return len(os.path.commonprefix([header, source])), -len(source)


def commands_for(name, entries):
    """The commands that compile a file, one for each compiler, as (folder, command, input)."""
    if name.endswith(".h"):  # as a source of the same folder that includes it
        _, folder, words = max(entries, key=lambda entry: near(name, entry[0]))
        path = re.sub("^(include|src)/", "", name)
        return [(folder, [*words, "-x", "c++", "-"], f'#include "{path}"\n')]
    found = {words[0]: (folder, [*words, str(ROOT / name)], "") for known, folder, words in entries if known == name}
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time; one per processor")
    parser.add_argument("--minutes", type=float, help="start nothing new after this many, and say what was left out")
    parser.add_argument("--since", metavar="REVISION", help="what changed since then, and what includes changed headers")
    parser.add_argument("files", metavar="FILE", nargs="*", help="these alone; without any, everything")
    options = parser.parse_args()
    begun = time.monotonic()
    names = [os.path.relpath(file, ROOT) for file in options.files]
    os.chdir(ROOT)
    if options.since:
        names += changed_since(options.since)
    elif not names:
        names = [name for name in ours() if name.endswith(".cc") or name.startswith("include/hooked/")]

    python = [f"-DPython_EXECUTABLE={PYTHON}", "-DHOOKED_BUILD_PYTHON=ON"]
    if not PYTHON.exists():
        python = []
        names = [name for name in names if not name.startswith("python/")]
        print("[each] the Python module is left out; scripts/python.sh sets up what compiles it")
    entries = configured(".", "build/each", *python, "-DCMAKE_BUILD_TYPE=Release", "-DHOOKED_UNITY=OFF", "-DHOOKED_WERROR=ON",
                         "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON")
    if python:  # what its sources include is written by a program
        subprocess.run(["cmake", "--build", "build/each", "--target", "hooked_declared"], check=True, capture_output=True)
    if shutil.which("clang++"):
        entries += configured("tests/fuzz", "build/each_fuzz", "-DCMAKE_CXX_COMPILER=clang++", "-DHOOKED_UNITY=OFF")
        entries += configured(".", "build/each_clang", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_BUILD_TYPE=Release",
                              "-DHOOKED_UNITY=OFF", "-DHOOKED_WERROR=ON", "-DHOOKED_BUILD_TESTS=OFF",
                              "-DHOOKED_BUILD_EXAMPLES=OFF", "-DHOOKED_BUILD_BENCHMARKS=OFF")
    else:
        print("[each] there is no clang++: sources are compiled with g++ alone")

    def compiled(name, folder, command, given):
        if options.minutes is not None and time.monotonic() - begun > options.minutes * 60:
            return name, None
        run = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True)
        return name, run

    left_out, failed, unknown, count = set(), {}, [], 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        runs = []
        for name in names:
            commands = commands_for(name, entries)
            if not commands:
                unknown.append(name)
            runs += [workers.submit(compiled, name, *command) for command in commands]
        for done in concurrent.futures.as_completed(runs):
            name, run = done.result()
            if run is None:
                left_out.add(name)
                continue
            count += 1
            if run.returncode:
                failed.setdefault(name, run.args)
                said = "\n".join(run.stderr.splitlines()[:12])
                print(f"\n[each] {name} does not compile alone:\n{said}\n{shlex.join(run.args)}", flush=True)
    for name in unknown:
        print(f"[each] no target compiles {name}")
    if left_out:
        print(f"[each] {len(left_out)} of {len(names)} files were left out, because {options.minutes:g} minutes were over")
    minutes = (time.monotonic() - begun) / 60
    print(f"[each] {count} compilations in {minutes:.1f} minutes, {len(failed)} files failed", *sorted(failed), sep="\n  ")
    return 1 if failed else 0


sys.exit(main())
