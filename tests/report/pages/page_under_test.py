"""A page in a browser, and the numbers that its file has."""
import array
import base64
import decimal
import json
import math
import pathlib
import re
import sys
import time
import unicodedata


class Skip(Exception):
    """This page does not have what a test is about. (pytest shows it as skipped, see below.)"""


try:
    import pytest
    Skip = pytest.skip.Exception  # noqa: F811
except ImportError:
    pass


def js_number(x, digits=4):
    """A number as the page writes it."""
    if x is None:
        return "NaN"
    if x in ("inf", "-inf") or math.isinf(x):
        return "−∞" if str(x).startswith("-") else "∞"
    x = float(f"{x:.{digits}g}")
    if x == 0:
        return "0"
    if 1e-6 <= abs(x) < 1e21:
        text = format(decimal.Decimal(repr(x)), "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, exponent = repr(x).split("e")
        mantissa = mantissa.removesuffix(".0")
        text = f"{mantissa}e{int(exponent):+d}"
    return text.replace("-", "−")


def piece_text(page, token):
    text = page.data["pieces"].get(str(token), str(token))
    if text and not text.strip(" "):
        return "␣" * len(text)
    shown = re.sub(r"\r\n|\r|\n", "⏎", text).replace("\t", "⇥")
    shown = "".join(c for c in shown if unicodedata.category(c) != "Cc")
    return shown if any(unicodedata.category(c)[0] not in "CMZ" for c in shown) else f"#{token}"


class Pattern:
    """The attention patterns of a part, read by other code than the page's."""

    def __init__(self, part):
        def numbers(text):
            out = array.array("H", base64.b64decode(text))
            if sys.byteorder == "big":
                out.byteswap()
            return out
        self.part = part
        self.values = numbers(part["values"])
        self.at = numbers(part["at"]) if part.get("at") else None
        self.bin = math.ceil(max(part["queries"], part["keys"]) / 512)
        self.size = math.ceil(part["queries"] / self.bin)

    def row(self, head, query):
        n, keys = self.part["queries"], self.part["keys"]
        if self.at is not None:
            kept = self.part["kept"]
            start = (head * n + query) * kept
            return {self.at[i]: self.values[i] / 65535 for i in range(start, start + kept) if self.at[i] != 65535}
        if self.part["causal"]:
            start, count = head * n * (n + 1) // 2 + query * (query + 1) // 2, query + 1
        else:
            start, count = (head * n + query) * keys, keys
        return {key: self.values[start + key] / 65535 for key in range(count)}

    def column(self, head, key):
        rows = ((query, self.row(head, query)) for query in range(self.part["queries"]))
        return {query: row[key] for query, row in rows if key in row}

    def words(self, head, query, key):
        row = self.row(head, query)
        if key in row:
            return js_number(row[key])
        return "later than the query" if self.part["causal"] and key > query else f"not among the {self.part['kept']} kept"


class Page:
    def __init__(self, browser, path):
        self.browser, self.path, self.notes = browser, path, []
        text = pathlib.Path(path).read_text(encoding="utf-8")
        self.data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))
        self.first = self.data.get("first_column", 0)
        self.reopen(prefers_color_scheme="light")

    def reopen(self, **features):
        self.browser.media(**features)
        start = time.monotonic()
        self.browser.open(self.path)
        self.browser.settle()
        self.opened_in = time.monotonic() - start

    def note(self, text):
        self.notes.append(text)

    # Drawing

    def scroll_to(self, section):
        self.browser.run("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", section)
        self.browser.wait("return !document.querySelector(`[id=\"${arguments[0]}\"] .waiting`)", section)
        self.browser.settle()

    def draw_all(self):
        for section in self.data["sections"]:
            self.scroll_to(section["id"])

    def draw_at_once(self):
        self.browser.run("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
        self.browser.settle()

    def parts(self, kind, where=lambda part: True):
        found = []
        for section in self.data["sections"]:
            for i, part in enumerate(section["parts"]):
                if part["kind"] == kind and where(part):
                    found.append((section["id"], part, f'[id="{section["id"]}"] .parts > .part:nth-child({i + 1})'))
        if not found:
            raise Skip(f"no part of kind {kind}")
        for section, part, selector in found:
            self.scroll_to(section)
            yield part, selector

    def part(self, kind, where=lambda part: True):
        return next(self.parts(kind, where))

    def pattern(self, part):
        return Pattern(part)

    # Pointing

    def hover(self, selector, index=0):
        self.browser.hover(*self.browser.middle(selector, index))

    def click(self, selector, index=0):
        self.browser.click(*self.browser.middle(selector, index))

    def focus(self, selector, index=0):
        """Focus as the keyboard gives it."""
        self.browser.hover(0, 0)
        self.browser.run("document.querySelectorAll(arguments[0])[arguments[1]].focus({focusVisible: true})", selector, index)
        self.browser.settle()

    def hover_cell(self, box, row, column):
        canvas = f"{box} .surface canvas"
        x, y = self.browser.run(
            "const c = document.querySelector(arguments[0]); const across = Number(c.dataset.across), down = Number(c.dataset.down);"
            "c.scrollIntoView({block: 'center', behavior: 'instant'}); const scroller = c.closest('.scroll');"
            "scroller.scrollLeft = arguments[2] * across - scroller.clientWidth / 2; const b = c.getBoundingClientRect();"
            "const y = b.top + (arguments[1] + 0.5) * down; scrollBy({top: y - innerHeight / 2, behavior: 'instant'});"
            "const now = c.getBoundingClientRect();"
            "return [now.left + (arguments[2] + 0.5) * across, now.top + (arguments[1] + 0.5) * down]", canvas, row, column)
        self.browser.hover(x, y)

    # What is said

    def pointed(self, said):
        """Query and key of "5 “ a” → 3 “ b”: 0.1"."""
        found = re.match(r"(\d+) “.*” → (\d+) “", said, re.S)
        return (int(found.group(1)) - self.first, int(found.group(2)) - self.first) if found else None

    def check_lens(self, box, part, point, column):
        said = self.browser.text(f"{box} .readout")
        token = part["columns"][column]
        assert said.startswith(f"{self.first + token} “{piece_text(self, self.data['tokens'][token])}” at {part['points'][point]} "), said
        words = said.split(part["points"][point], 1)[1]
        for guess, probability in part["top"][point][column]:
            text = piece_text(self, guess)
            text = "·" + text[1:] if text.startswith(" ") else text
            assert f"{text} {js_number(probability)}" in words, (said, text, probability)

    def check_cell(self, box, part, cells, rows, columns, r, c):
        said = self.browser.text(f"{box} .readout")
        blank = part.get("blank")
        for _ in part["axes"][:-2]:
            blank = blank and blank[0]
        left_out = bool(blank and (blank[r][c] if rows else blank[c]))
        value = "left out" if left_out else js_number(cells[r][c])
        assert f": {value} " in said, (said, r, c, value)
        if rows:
            assert f"{rows['name']} {rows['labels'][r]}" in said
        assert f"{columns['name']} {columns['labels'][c]}:" in said, (said, columns["labels"][c])

    # What is wrong

    def sideways(self):
        return self.browser.run("const e = document.scrollingElement; return Math.max(e.scrollWidth - innerWidth, 0)")

    def faint_texts(self):
        """Texts whose contrast with their background is below 4.5."""
        return self.browser.run(r"""
          const channels = (css) => { const n = css.match(/[\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
          const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
          const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
            const x = c[i] / 255; return sum + w * (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); }, 0);
          const ground = (e) => { const layers = [];
            for (; e; e = e.parentElement) layers.push(channels(getComputedStyle(e).backgroundColor));
            return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]); };
          const found = [];
          for (const e of document.querySelectorAll('body *')) {
            if (e.closest('svg, script, style, noscript') || !e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
            if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
            const behind = ground(e), ink = over(channels(getComputedStyle(e).color), behind);
            const [a, b] = [light(behind), light(ink)];
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (contrast < 4.5) found.push(`${e.textContent.slice(0, 40)} (${e.className}): ${contrast.toFixed(2)}`);
          }
          return found.slice(0, 10);""")

    def unnamed_controls(self):
        """Roles of what can have the focus but has no name for a screen reader."""
        found = []
        for node in self.browser.cdp("Accessibility.getFullAXTree")["nodes"]:
            if node.get("ignored") or node["role"]["value"] in ("RootWebArea", "StaticText"):
                continue
            focusable = any(p["name"] == "focusable" and p["value"].get("value") for p in node.get("properties", []))
            if focusable and not node.get("name", {}).get("value", "").strip():
                found.append(node["role"]["value"])
        return found
