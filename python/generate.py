"""Writes fields.inc and documentation.inc for the Python module: what the public headers declare.

Usage: generate.py INCLUDE OUT
"""

import json
import keyword
import re
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import headers  # noqa: E402

REFERENCE = re.compile(r"&\s*\w+$")
SAME = re.compile(r"The same (for|of) a temporary")


def python_name(name: str) -> str:
    """A name as Python can say it: `from_` for `from`."""
    return name + "_" if keyword.iskeyword(name) else name


def docstring(name: str, declarations: list[headers.Declaration]) -> str:
    """What Python shows for a name: the texts of its overloads."""
    texts = []
    for declaration in declarations:
        if declaration.doc and not SAME.match(declaration.doc) and declaration.doc not in texts:
            texts.append(declaration.doc)
    return "\n\n".join(texts)


def fields(declarations: list[headers.Declaration]) -> str:
    members = defaultdict(list)
    enumerators = defaultdict(list)
    for declaration in declarations:
        owner, _, name = declaration.name.rpartition("::")
        if declaration.kind == "struct" and "template" not in declaration.text and ":" not in declaration.text:
            members[declaration.name]  # a struct without members is a value, too
        if declaration.kind == "member" and not REFERENCE.search(declaration.text) and not re.match(r"(static|inline|constexpr)\b", declaration.text):
            members[owner].append(name)
        elif declaration.kind == "enumerator":
            enumerators[owner].append(name)
    kinds = {d.name: d.kind for d in declarations}
    lines = []
    for owner, names in members.items():
        if kinds.get(owner) != "struct" or owner.startswith("act::"):
            continue
        calls = "".join(f'\n    visit(Field{{"{python_name(name)}", &{owner}::{name}}});' for name in names)
        lines.append(
            f"template <>\nstruct Fields<{owner}> {{\n  static constexpr const char* type = \"{owner}\";\n"
            f"  template <typename Visit>\n  static void visit([[maybe_unused]] const Visit& visit) {{{calls}\n  }}\n}};"
        )
    for owner, names in enumerators.items():
        if owner in ("Axis", "Site"):  # their tables say more than their names
            continue
        entries = ",\n      ".join(f'std::pair{{"{name}", {owner}::{name}}}' for name in names)
        lines.append(
            f"template <>\nstruct Enumerators<{owner}> {{\n  static constexpr const char* type = \"{owner}\";\n"
            f"  static constexpr std::pair<const char*, {owner}> list[] = {{\n      {entries}}};\n}};"
        )
    return "namespace hooked::python {\n\n" + "\n\n".join(lines) + "\n\n}  // namespace hooked::python\n"


def documentation(declarations: list[headers.Declaration]) -> str:
    by_name = defaultdict(list)
    for declaration in declarations:
        owner, colons, name = declaration.name.rpartition("::")
        by_name[owner + colons + python_name(name)].append(declaration)
    # JSON's escapes are C++'s, but for characters beyond ASCII, which stay as they are.
    entry = lambda text: json.dumps(text, ensure_ascii=False)  # noqa: E731
    return "".join(f"{{{entry(name)}, {entry(docstring(name, of))}}},\n" for name, of in sorted(by_name.items()))


def main() -> None:
    include, out = map(Path, sys.argv[1:])
    declarations = headers.read_all(include)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in {"fields.inc": fields(declarations), "documentation.inc": documentation(declarations)}.items():
        file = out / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


if __name__ == "__main__":
    main()
