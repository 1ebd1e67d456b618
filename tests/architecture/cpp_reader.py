"""Reads C++ as far as the checks of this folder need it: which declarations there are, in which namespace or type."""

import re

# Comments, literals and preprocessor lines, which hold no definitions. A raw string may hold anything.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s\\"]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.S | re.M,
)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|&&|\d[\w.']*|\S")
CLOSING = {"(": ")", "[": "]", "{": "}"}
# Words before a bracket that holds no parameters.
NO_NAMES = ("operator", "requires", "decltype", "noexcept", "explicit")
# In front of a name, but not part of it.
BEFORE_NAMES = {"HOOKED_EXPORT", "alignas"}


class Unreadable(Exception):
    pass


def tokens_of(text):
    """(token, line) of the code in `text`."""
    blank = lambda found: '""' if found[0][0] in 'R"' and not found[0].startswith("R ") else " "
    kept = NOISE.sub(lambda found: blank(found) + "\n" * found[0].count("\n"), text)
    line, at, tokens = 1, 0, []
    for found in TOKEN.finditer(kept):
        line += kept.count("\n", at, found.start())
        at = found.start()
        tokens.append((found[0], line))
    return tokens


class Group(str):
    """A pair of brackets in a head, with what is in it."""

    def __new__(cls, brackets, tokens):
        group = super().__new__(cls, brackets)
        group.tokens = tokens
        return group


class Reader:
    """Reads one file, declaration by declaration, and calls `note` with the head of each."""

    def __init__(self, name, text):
        self.name, self.tokens, self.at = name, tokens_of(text), 0
        self.scope([])
        if self.at != len(self.tokens):
            raise Unreadable(f"{name}:{self.tokens[self.at][1]}: a '}}' too many")

    def peek(self, ahead=0):
        place = self.at + ahead
        return self.tokens[place][0] if place < len(self.tokens) else ""

    def group(self):
        """The bracket at `at` and what it holds; goes past it."""
        start, line = self.at, self.tokens[self.at][1]
        closing = []
        while True:
            token = self.peek()
            if token in CLOSING:
                closing.append(CLOSING[token])
            elif token == closing[-1]:
                closing.pop()
            elif token in CLOSING.values() or not token:
                raise Unreadable(f"{self.name}:{line}: a bracket is not closed")
            self.at += 1
            if not closing:
                break
        tokens = [token for token, _ in self.tokens[start + 1 : self.at - 1]]
        return Group(self.tokens[start][0] + self.tokens[self.at - 1][0], tokens)

    def scope(self, path):
        """Everything up to the end of a namespace."""
        while self.peek() not in ("}", ""):
            self.declaration(path)

    def declaration(self, path):
        """One declaration: its head, as far as a `;` or a body."""
        line, head = self.tokens[self.at][1], []
        while True:
            token = self.peek()
            if token == "}" and len(head) == 2 and head[1] == "()":
                return  # a macro
            if token in ("}", ""):
                raise Unreadable(f"{self.name}:{line}: a declaration has no end")
            if token == ";":
                self.at += 1
                return self.note(path, head, line, body=False)
            if token == "{" and self.opens_namespace(head, path):
                return
            if token == "{" and not holds_value(head):
                is_type = type_name(head) is not None
                if is_type:
                    self.type_body(path, head)
                else:
                    self.group()
                self.note(path, head, line, body=True)
                while self.peek() == "catch":  # the body was `try {`
                    self.at += 1
                    self.group(), self.group()
                while is_type and self.peek() != ";":  # variables of that type, mostly none
                    self.at += 1
                if self.peek() == ";":
                    self.at += 1
                return
            if token in CLOSING:
                attribute = token == "[" and self.peek(1) == "["
                group = self.group()
                if not attribute:
                    head.append(group)
            else:
                head.append(token)
                self.at += 1

    def opens_namespace(self, head, path):
        if head == ["extern", '""']:
            inner = path
        elif "namespace" in head and "=" not in head:
            after = [t for t in head[head.index("namespace") + 1 :] if t not in BEFORE_NAMES]
            inner = path + ([t for t in after if t != "::"] or [None])
        else:
            return False
        self.at += 1
        self.scope(inner)
        if not self.peek():
            raise Unreadable(f"{self.name}: a namespace is not closed")
        self.at += 1
        return True

    def type_body(self, path, head):
        """The braces of a class or an enum; goes past them."""
        self.group()

    def note(self, path, head, line, body):
        """A declaration, or with `body` a definition, in the namespaces and types of `path`; None is one without a name."""
        raise NotImplementedError


def is_word(token):
    return not isinstance(token, Group) and re.match(r"[A-Za-z_]", token) is not None


def without_templates(head):
    """`head` without `template <...>` in front and without the arguments of templates."""
    kept, depth = [], 0
    for i, token in enumerate(head):
        before = head[i - 1] if i else ""
        if token == "<" and (depth or (is_word(before) and before != "operator")):
            depth += 1
        elif token == ">" and depth:
            depth -= 1
        elif not depth and token != "template":
            kept.append(token)
    return kept


def holds_value(head):
    """Whether the `{` after a head holds the value of a variable or a member, and no body."""
    plain = without_templates(head)
    if type_name(head) is not None:
        return False
    if "operator" not in plain and ("=" in plain or "()" not in plain):
        return True
    # Of a constructor: `A::A() : a_(1), b_{2} {`.
    return ":" in plain and is_word(plain[-1])


def type_name(head):
    """The name of the class, struct, union or enum that a head introduces; None for another head."""
    plain = [t for t in without_templates(head) if t not in BEFORE_NAMES]
    keys = [i for i, token in enumerate(plain) if token in ("class", "struct", "union", "enum")]
    if not keys or "()" in plain or "=" in plain:
        return None
    rest = [t for t in plain[keys[0] + 1 :] if t not in ("class", "struct", "final")]
    rest = rest[: rest.index(":")] if ":" in rest else rest
    names = [t for t in rest if t != "::"]
    if len(rest) != 2 * len(names) - 1:
        return None  # `struct stat status`: a variable
    return "".join(rest)


def parameter(tokens):
    """A parameter's type, without its name and its default."""
    if "=" in tokens:
        tokens = tokens[: tokens.index("=")]
    words = [t for t in tokens if is_word(t) and t != "const"]
    if len(words) > 1 and is_word(tokens[-1]) and tokens[-2] != "::":
        tokens = tokens[:-1]
    if not {"&", "&&", "*"} & set(tokens):
        tokens = [t for t in tokens if t != "const"]
    return " ".join(tokens)


def parameters(tokens):
    found, own, depth = [], [], 0
    for token in tokens:
        depth += (token in CLOSING or token == "<") - (token in CLOSING.values() or token == ">")
        if token == "," and not depth:
            found.append(parameter(own))
            own = []
        else:
            own.append(token)
    return ", ".join(found + ([parameter(own)] if own else []))


def function_of(plain):
    """Where in a head without templates a function's name begins and its parameters stand; None for no function."""
    value = plain.index("=") if "=" in plain and "operator" not in plain else len(plain)
    brackets = [i for i, t in enumerate(plain[:value]) if t == "()" and i > 0 and plain[i - 1] not in NO_NAMES]
    if not brackets:
        return None
    end = start = brackets[0]
    if "operator" in plain:
        start = plain.index("operator")
    elif is_word(plain[start - 1]):
        start -= 2 if plain[start - 2] == "~" else 1
    while start > 1 and plain[start - 1] == "::" and is_word(plain[start - 2]):
        start -= 2
    return start, end
