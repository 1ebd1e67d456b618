"""Everything that the public C++ headers declare is reachable from Python, or docs/python-coverage.md says why not."""

import re
import sys
from keyword import iskeyword
from pathlib import Path

import hooked

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import headers  # noqa: E402

# Spelled otherwise in Python, wherever they are.
_SPELLED = {
    "operator[]": "__getitem__",
    "operator()": "__call__",
    "operator==": "__eq__",
    "operator<=>": "__lt__",
    "operator|": "__or__",
    "operator bool": "__bool__",
    "operator<<": "__str__",
    "to_string": "__str__",
    "text": "__str__",
    "begin": "__iter__",
    "end": "__iter__",
    "size": "__len__",
    "empty": "__len__",
    "next": "__next__",
}


def _left_out() -> dict[str, str]:
    """The table of docs/python-coverage.md: names, or patterns of names, and why Python has no such thing."""
    page = (ROOT / "docs" / "python-coverage.md").read_text().partition("## Left out")[2].replace("\\|", "|")
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|$", page, re.M)
    return {name: reason for names, reason in rows for name in re.findall(r"`(.*?)`", names)}


def _declared() -> dict[str, headers.Declaration]:
    found = {}
    for declaration in headers.read_all(ROOT / "include"):
        if declaration.kind in ("namespace",) or "~" in declaration.name:
            continue
        found[declaration.name] = declaration
    return found


def _bound_as(name: str) -> object | None:
    """What Python has for a declared name."""
    parts = name.removeprefix("hooked::").split("::")
    # Nested types have names of their own: QkNorm::Span is QkNormSpan.
    while len(parts) > 1 and hasattr(hooked, "".join(parts[:2])):
        parts = ["".join(parts[:2]), *parts[2:]]
    where: object = hooked
    for i, part in enumerate(parts):
        if i > 0 and part == parts[i - 1]:
            part = "__init__"
        candidates = [part, part + "_", _SPELLED.get(part, part)]
        match = next((one for one in candidates if hasattr(where, one)), None)
        if match is None:
            return None
        where = getattr(where, match)
    return where


def _signatures() -> list[set[str]]:
    """The keywords of every function of Python."""
    functions = [f for f in vars(hooked).values() if callable(f)]
    functions += [f for owner in vars(hooked).values() if isinstance(owner, type) for f in vars(owner).values()]
    lines = [(getattr(f, "__doc__", None) or "").partition("\n")[0] for f in functions]
    return [set(re.findall(r"(\w+): ", line)) for line in lines if " -> " in line]


def _keywords_of_some_function(declared: dict[str, headers.Declaration]) -> set[str]:
    """The structs whose members are keywords of a function, and these members: options."""
    signatures = _signatures()
    reached = set()
    for name, declaration in declared.items():
        if declaration.kind != "struct":
            continue
        members = [d for d in declared.values() if d.kind == "member" and d.name.rpartition("::")[0] == name]
        # A keyword of Python cannot be a member's name as it is.
        names = [d.name.rpartition("::")[2] for d in members]
        keywords = {one + "_" if iskeyword(one) else one for one in names}
        if members and any(keywords <= signature for signature in signatures):
            reached |= {name, *(d.name for d in members)}
    return reached


def _missing() -> list[str]:
    left_out = _left_out()
    options = _keywords_of_some_function(_declared())
    patterns = [re.compile(re.escape(name).replace(r"\*", ".*") + "$") for name in left_out]
    return [
        name
        for name, declaration in _declared().items()
        if _bound_as(name) is None and name not in options and not any(pattern.match(name) for pattern in patterns)
    ]


def test_everything_is_reachable_or_left_out_for_a_reason() -> None:
    missing = _missing()
    assert not missing, f"{len(missing)} declarations have no Python counterpart and no reason: {missing}"


def test_the_table_holds_nothing_that_is_reachable_or_gone() -> None:
    declared = _declared()
    for name in _left_out():
        pattern = re.compile(re.escape(name).replace(r"\*", ".*") + "$")
        covered = [one for one in declared if pattern.match(one)]
        assert covered, f"docs/python-coverage.md lists {name}, which no header declares"
        assert any(_bound_as(one) is None for one in covered), f"docs/python-coverage.md lists {name}, which Python has"


def test_a_lost_option_would_be_noticed() -> None:
    declared = dict(_declared())
    assert {"RunOptions::differentiable", "LoadOptions::dtype"} <= _keywords_of_some_function(declared)
    declared["RunOptions::unheard_of"] = headers.Declaration("RunOptions::unheard_of", "member", "", "bool unheard_of")
    assert "RunOptions::differentiable" not in _keywords_of_some_function(declared)
