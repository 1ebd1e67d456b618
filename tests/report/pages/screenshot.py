"""Pictures of a report of the shipped model: `python3 screenshot.py PAGE.html FOLDER [NAME...]`.

Shows sections of the page at 1280 pixels, light and dark, and at 390: docs/reports.md has some of them. Names like light_attention choose
some. Needs Pillow, which makes the files small.
"""
import io
import pathlib
import sys
import tempfile

from PIL import Image

from browser import Browser
from page_under_test import Page

FREQUENT, OTHERS = 4, 14  # colours of a picture


def tokens(page):
    page.click(".part-next .token", 11)


def lens(page):
    _, box = page.part("lens")
    page.hover_cell(box, 1, 8)


def attention(page):
    """The head that looks hardest at one token, and what the last token looks at."""
    part, box = page.part("attention")
    pattern, last = page.pattern(part), part["queries"] - 1
    heads = range(sum(layer["heads"] for layer in part["layers"]))
    best = max(heads, key=lambda head: max(value for key, value in pattern.row(head, last).items() if 0 < key < last))
    page.click(f"{box} .thumb", best)
    page.hover(f"{box} .token", last)


def patching(page):
    _, box = page.part("grid", lambda part: part["title"].startswith("Patching"))
    page.hover_cell(box, 1, 14)


def features(page):
    if page.browser.count(".part-features .examples"):
        page.click(".part-features .feature:first-child .examples summary")
    page.hover(".part-features .feature:first-child .token", 3)


def graph(page):
    _, box = page.part("svg", lambda part: "data-node" in part["svg"])
    page.focus(f"{box} [data-node]", page.browser.count(f"{box} [data-node]") - 1)


# The sections: how their titles begin, what is done before, and how many pixels are in the picture at most.
STATES = {"tokens": ("Tokens", tokens, 520), "lens": ("Logit lens", lens, 900), "attention": ("Attention", attention, 1300),
          "patching": ("Activation patching", patching, 440), "features": ("Features", features, 330),
          "graph": ("Attribution graph", graph, 900)}
LOOKS = {"light": (1280, "light"), "dark": (1280, "dark"), "narrow": (390, "light")}


def save(picture, path, kept=FREQUENT):
    """With a palette: the most frequent colours are kept, others become one of a few."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    frequent = sorted(image.getcolors(1 << 24), reverse=True)[:kept]
    others = image.quantize(OTHERS, method=Image.Quantize.MAXCOVERAGE).getpalette()[:3 * OTHERS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for _, colour in frequent for channel in colour] + others)
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def take(browser, page, scheme, state, path):
    title, prepare, most = STATES[state]
    page.reopen(prefers_color_scheme=scheme)
    section = next(s["id"] for s in page.data["sections"] if s["title"].startswith(title))
    page.draw_all()
    page.scroll_to(section)
    prepare(page)
    left, top, across, down = browser.run(
        "const section = document.getElementById(arguments[0]);"
        "const parts = section.querySelector('.parts').getBoundingClientRect();"
        "const head = section.querySelector('h2').getBoundingClientRect();"
        "return [parts.left + scrollX, head.top + scrollY, parts.width, parts.bottom - head.top]", section)
    clip = {"x": left - 12, "y": top - 12, "width": across + 24, "height": min(down, most) + 24, "scale": 1}
    with tempfile.NamedTemporaryFile(suffix=".png") as taken:
        browser.screenshot(taken.name, clip=clip)
        save(pathlib.Path(taken.name).read_bytes(), path, 0 if state == "graph" else FREQUENT)  # its faint lines cost most


def main():
    file, folder, *names = sys.argv[1:]
    for look, (width, scheme) in LOOKS.items():
        with Browser(width=width) as browser:
            page = Page(browser, file)
            for state in STATES:
                if not names or f"{look}_{state}" in names:
                    take(browser, page, scheme, state, pathlib.Path(folder) / f"report_{look}_{state}.png")


if __name__ == "__main__":
    main()
