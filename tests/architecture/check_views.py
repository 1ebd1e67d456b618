#!/usr/bin/env python3
"""Refuses functions of public headers that give a view of what may be a temporary.

`const auto& logits = model.run(tokens).logits();` dangles where logits() returns a reference into the result. So a member
function that returns a reference, a pointer, a string_view, a span or an iterator is for values with a name (`&` after its
parameters), and beside it stands one for temporaries that returns a copy, or is deleted. A free function returns no view of a
parameter that it takes by reference to const.

Usage: check_views.py ROOT
"""

import pathlib
import sys

from cpp_reader import Reader, Unreadable, function_of, is_word, type_name, without_templates

VIEWS = {"&", "*", "string_view", "span", "ArrayRef", "IntArrayRef", "auto", "decltype"}
# What they return is in the program's text.
OF_LITERALS = {"ModelConfig::mixer", "Tokenizer::kind"}


class Views(Reader):
    """The functions of one public header that give a view."""

    def __init__(self, name, text):
        self.types, self.public, self.count = [], [], 0
        self.views, self.of_temporaries = [], set()
        super().__init__(name, text)

    def type_body(self, path, head):
        if "enum" in head:
            return super().type_body(path, head)
        self.types.append(type_name(head))
        self.public.append("class" not in without_templates(head))
        self.at += 1
        while self.peek() != "}":
            if self.peek() in ("public", "private", "protected") and self.peek(1) == ":":
                self.public[-1] = self.peek() == "public"
                self.at += 2
            else:
                self.declaration(path)
        self.at += 1
        self.types.pop()
        self.public.pop()

    def note(self, path, head, line, body):
        head = [t for t in head if t not in ("inline", "constexpr")]
        plain = without_templates(head)
        function = function_of(plain) if plain and type_name(head) is None and "using" not in plain else None
        if function is None or not all(self.public) or {"static", "friend"} & set(plain):
            return
        start, end = function
        name = "::".join(self.types + ["".join(plain[start:end])])
        self.count += 1
        after = [t for t in plain[end + 1 :] if t in ("&", "&&")]
        if after == ["&&"] or "&&" in plain[end].tokens:
            self.of_temporaries.add(name)
        if not VIEWS & set(plain[:start]) or plain[start : start + 2] == ["operator", "="] or "delete" in plain:
            return
        if "<" in plain[start:end] and ("=" in plain[start:end] or plain[start : end].count("<") == 2):
            return  # comparisons, and printing, which gives its stream back
        takes = " ".join(plain[end].tokens)
        if name not in OF_LITERALS and (self.types or ("const" in takes and "&" in takes)):
            self.views.append((line, name, after == ["&"] or not self.types))

    def problems(self):
        for line, name, qualified in self.views:
            if not qualified or name not in self.of_temporaries:
                yield (f"{self.name}:{line}: {name} gives a view of a temporary; expected `&` after its parameters and an "
                       "overload for temporaries (`&&`) that returns a copy or is deleted, or else a value")


def main():
    root = pathlib.Path(sys.argv[1])
    count, problems = 0, []
    for path in sorted((root / "include/hooked").rglob("*.h")):
        try:
            views = Views(str(path.relative_to(root)), path.read_text())
        except Unreadable as problem:
            problems.append(str(problem))
            continue
        count += views.count
        problems += views.problems()
    if problems:
        print(f"{len(problems)} public functions give a view of what may be a temporary:", *problems, sep="\n  ")
        sys.exit(1)
    if count == 0:
        sys.exit(f"no public function found under {root}: the check looked in the wrong place")
    print(f"{count} public functions give no view of a temporary")


main()
