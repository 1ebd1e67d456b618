#!/usr/bin/env python3
"""Refuses two definitions of one name: the linker keeps either of them, and says nothing.

Reads every header and source of the rooms and of their tests, and notes what each defines in a named namespace: types, aliases, concepts,
functions with their parameters, variables. What stands in an anonymous namespace or is static belongs to its source alone.

Usage: check_names.py ROOT
"""

import collections
import pathlib
import sys

from cpp_reader import BEFORE_NAMES, Reader, Unreadable, is_word, function_of, parameters, type_name, without_templates

FOLDERS = ("include/hooked", "hooks", "models", "families", "src", "python/src", "tests")

Definition = collections.namedtuple("Definition", "name kind file line")


class Definitions(Reader):
    """What one file defines in named namespaces."""

    def __init__(self, name, text):
        self.found = []
        super().__init__(name, text)

    def note(self, path, head, line, body):
        if None in path or not head or "static" in head or "extern" in head:
            return
        definition = definition_of(head, body)
        if definition:
            name, kind = definition
            self.found.append(Definition("::".join(path + [name]), kind, self.name, line))


def definition_of(head, body):
    """(name, kind) of what a head defines, or None for what it only declares."""
    if head[0] == "TORCH_MODULE":
        return head[1].tokens[0], "type"
    if "using" in head and "=" in head:
        return head[head.index("using") + 1], "alias"
    if "concept" in head:
        return head[head.index("concept") + 1], "concept"
    if head[0] in ("using", "namespace", "typedef", "static_assert"):
        return None
    plain = [t for t in without_templates(head) if t not in BEFORE_NAMES]
    specialised = head[:3] == ["template", "<", ">"]
    name = type_name(head)
    if name is not None:
        return (name, "type") if body and name and not specialised else None

    function = function_of(plain)
    if function is None:
        value = plain.index("=") if "=" in plain and "operator" not in plain else len(plain)
        names = [t for t in plain[:value] if is_word(t)]
        defines = value < len(plain) or "{}" in plain
        return (names[-1], "variable") if defines and len(names) > 1 else None
    if not body or "requires" in plain or specialised:
        return None
    start, end = function
    name = "".join(plain[start:end])
    if start == 0 and "::" not in name:
        return None  # a macro: TEST(Suite, Name)
    # Members may be one for values and one for temporaries, or for constants.
    after = [t for t in plain[end + 1 :] if t in ("const", "&", "&&")]
    kind = f"{name}({parameters(plain[end].tokens)}){' '.join([''] + after)}"
    return (kind, "function") if name and name != "main" else None


def main():
    root = pathlib.Path(sys.argv[1])
    defined, count, problems = collections.defaultdict(dict), 0, []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = str(path.relative_to(root))
            if path.suffix not in (".h", ".cc") or name.startswith("tests/architecture/"):
                continue
            try:
                read = Definitions(name, path.read_text()).found
            except Unreadable as problem:
                problems.append(str(problem))
                continue
            count += len(read)
            for definition in read:  # both branches of an #if are one definition
                defined[definition.name].setdefault(name, definition)
    for name, places in sorted(defined.items()):
        if len(places) > 1:
            places = list(places.values())
            where = ", ".join(f"{place.file}:{place.line}" for place in places)
            problems.append(f"{name}: is defined in {where}; expected one definition; rename all but one, or put what "
                            "belongs to one source into an anonymous namespace")
    if problems:
        print(f"{len(problems)} names of the rooms are not one thing each:", *problems, sep="\n  ")
        sys.exit(1)
    if count == 0:
        sys.exit(f"no definition found under {root}: the check looked in the wrong place")
    print(f"{count} definitions, each of a name of its own")


main()
