"""What hooked's public headers declare: names, parameters' and members' names, and their documentation.

The Python package takes its docstrings and the members of structs from here, so that neither is written twice.
The headers are our own and formatted by clang-format, which is what makes so small a reader possible.
"""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Declaration:
    """A function, a member, an enumerator or a type."""

    name: str  # with the types around it: `RunOptions::edits`
    kind: str  # function, member, enumerator, struct, class, enum, alias, namespace
    doc: str
    text: str  # as it is declared, on one line
    public: bool = True
    header: str = ""


@dataclass
class _Scope:
    kind: str  # namespace, struct, class, enum, other
    name: str
    public: bool


_TYPE = re.compile(r"(?:template <.*?> )?(?:requires.*? )?(struct|class|enum class|enum)(?: \[\[\w+\]\])? (?:HOOKED_EXPORT )?(\w+)")
_NAMESPACE = re.compile(r"(?:inline )?namespace (?:HOOKED_EXPORT )?([\w:]*)$")


def _name_of(text: str) -> tuple[str, str] | None:
    """The name and kind of a declaration that is not a type."""
    text = re.sub(r"\[\[\w+\]\] ?", "", text)
    if re.match(r"(friend|using namespace|static_assert|public|private)\b", text):
        return None
    if alias := re.match(r"using (\w+) =", text):
        return alias[1], "alias"
    # A function has a parenthesis before any initialiser, outside of template arguments.
    depth = 0
    for at, letter in enumerate(text):
        if letter == "<" and text[at - 1] != "<" and "operator" not in text[max(0, at - 9) : at]:
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
        elif letter in "={" and not depth and "operator" not in text[max(0, at - 10) : at]:
            text = text[:at]
            break
        elif letter == "(" and not depth:
            if text[:at].endswith("operator"):
                return "operator()", "function"
            name = re.search(r"(~?\w+|operator\W+|operator [\w:]+)\s*$", text[:at])
            return (name[1].strip(), "function") if name else None
    name = re.search(r"(\w+)(?:\[\d+\])?\s*$", text)
    return (name[1], "member") if name else None


def read(header: Path) -> list[Declaration]:
    """The declarations of one header, in its order."""
    ends_here = True
    found: list[Declaration] = []
    scopes: list[_Scope] = []
    doc: list[str] = []
    statement = ""
    last: Declaration | None = None
    skipping = 0  # depth of braces inside a function's body or an initialiser
    lines = header.read_text().splitlines()
    continued = False
    for line in lines:
        code = line.strip()
        if continued or code.startswith("#"):
            continued = code.endswith("\\")
            continue
        comment = re.search(r"(?<!:)//(/?)(<?) ?(.*)$", code)
        if comment:
            code = code[: comment.start()].strip()
            if comment[1] and comment[2]:
                trailing = comment[3].rstrip()
            elif comment[1]:
                if not code and not statement and not skipping:
                    doc.append(comment[3].rstrip())
                trailing = None
            else:
                trailing = None
        else:
            trailing = None
            if not code and not statement:
                doc = []
        before = len(found)
        for piece in re.split(r"([{};])", code):
            if not piece:
                continue
            if skipping:
                skipping += (piece == "{") - (piece == "}")
                if not skipping and scopes and scopes[-1].kind != "other":
                    # A body ends a declaration; an initialiser in braces continues to its semicolon.
                    if ends_here:
                        statement = ""
                continue
            if piece == "{":
                head = " ".join(statement.split())
                if namespace := _NAMESPACE.match(head):
                    found.append(Declaration(_qualified(scopes, namespace[1]), "namespace", "\n".join(doc), head, True, str(header)))
                    scopes.append(_Scope("namespace", namespace[1], True))
                    statement, doc = "", []
                elif (kind := _TYPE.match(head)) and "(" not in head.split(":")[0]:
                    name = "::".join([s.name for s in scopes if s.kind != "namespace" or s.name not in ("hooked", "")] + [kind[2]])
                    found.append(Declaration(name, kind[1].split()[0], "\n".join(doc), head, _public(scopes), str(header)))
                    scopes.append(_Scope(kind[1].split()[0], kind[2], kind[1] != "class"))
                    statement, doc = "", []
                else:
                    ends_here = _is_function(head) and head.count("(") == head.count(")")
                    if ends_here:
                        last = _add(found, scopes, statement, doc, header)
                        doc = []
                    skipping = 1
            elif piece == "}":
                if scopes and scopes[-1].kind == "enum" and statement.strip():
                    last = _enumerators(found, scopes, statement, doc, header)
                if scopes:
                    scopes.pop()
                statement, doc = "", []
            elif piece == ";":
                if statement.strip():
                    last = _add(found, scopes, statement, doc, header) or last
                statement, doc = "", []
            else:
                if scopes and scopes[-1].kind in ("struct", "class"):
                    if access := re.match(r"(public|private|protected):\s*", piece.strip()):
                        scopes[-1].public = access[1] == "public"
                        continue
                if scopes and scopes[-1].kind == "enum":
                    for one in piece.split(","):
                        if one.strip():
                            last = _enumerators(found, scopes, one, doc, header)
                            doc = []
                    continue
                statement += " " + piece
        if trailing is not None and last is not None:
            if len(found) > before or not code:
                last.doc = (last.doc + " " + trailing).strip()
            elif statement or skipping:
                doc.append(trailing)
    return found


def _public(scopes: list[_Scope]) -> bool:
    return all(scope.public for scope in scopes)


def _is_function(head: str) -> bool:
    named = _name_of(head)
    return named is not None and named[1] == "function"


def _qualified(scopes: list[_Scope], name: str) -> str:
    outer = [s.name for s in scopes if not (s.kind == "namespace" and s.name in ("hooked", "std", ""))]
    return "::".join([*outer, name])


def _add(found, scopes, statement, doc, header):
    text = " ".join(statement.split())
    text = re.sub(r"^template <[^{}]*?>(?= (?:requires|[\w:]))\s*", "", text) if text.startswith("template") else text
    if re.match(r"(struct|class|enum) ", text) and "(" not in text:
        return None  # declared elsewhere
    named = _name_of(text)
    if named is None:
        return None
    made = Declaration(_qualified(scopes, named[0]), named[1], "\n".join(doc), text, _public(scopes), str(header))
    found.append(made)
    return made


def _enumerators(found, scopes, text, doc, header):
    name = re.match(r"\s*(\w+)", text)
    made = Declaration(_qualified(scopes, name[1]), "enumerator", "\n".join(doc), text.strip(), _public(scopes), str(header))
    found.append(made)
    return made


def public_headers(include: Path) -> list[Path]:
    return sorted((include / "hooked").glob("*/*.h"))


def read_all(include: Path) -> list[Declaration]:
    """What all public headers declare for users."""
    return [d for header in public_headers(include) for d in read(header) if d.public]
