"""Compiles a source without HOOKED_MUST_NOT_COMPILE, which must succeed, and with it, where the compiler must reject every line that ends
in `// expect: <regex>` with such a message, and no other line.

Usage: check_rejections.py SOURCE COMPILER [ARGUMENT...]
"""

import os
import re
import subprocess
import sys
from pathlib import Path


def compiled(command, *arguments):
    """Whether the compiler takes it, and what it prints: with plain quotes, and without the comments of the lines that it shows."""
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return result.returncode == 0, re.sub("// expect: .*", "", result.stderr)


def messages_by_line(source, text):
    """What the compiler prints about each line of the source. A message about a header belongs to the line that is mentioned next."""
    found = {}
    about_header = []
    printed = about_header
    for text_line in text.splitlines():
        if re.match("In file included from | +from ", text_line):
            about_header = []
            printed = about_header
        elif mention := re.search(re.escape(source.name) + r":(\d+):\d+:", text_line):
            printed = found.setdefault(int(mention[1]), [])
            printed += about_header
            about_header = []
        printed.append(text_line)
    return {line: "\n".join(printed) for line, printed in found.items()}


def main():
    source = Path(sys.argv[1])
    command = [*sys.argv[2:], "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", str(source)]
    lines = source.read_text().splitlines()
    expected = {number: parts[1] for number, line in enumerate(lines, 1) if len(parts := line.split("  // expect: ")) == 2}
    if not expected:
        sys.exit(f"{source.name}: no line ends in '// expect: <regex>'")
    accepted, text = compiled(command)
    if not accepted:
        sys.exit(f"{source.name}: the part that should compile does not:\n{text}")
    accepted, text = compiled(command, "-DHOOKED_MUST_NOT_COMPILE")
    messages = messages_by_line(source, text)
    faults = []
    for number, regex in expected.items():
        if number not in messages:
            faults.append(f"{source.name}:{number}: was compiled; expected a rejection that matches '{regex}'")
        elif not re.search(regex, messages[number]):
            faults.append(f"{source.name}:{number}: rejected with another message; expected '{regex}', got:\n{messages[number]}")
    faults += [f"{source.name}:{number}: rejected, and no line expects it:\n{message}" for number, message in messages.items()
               if number not in expected and "error:" in message]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{source.name}: {len(expected)} lines are rejected as expected")


if __name__ == "__main__":
    main()
