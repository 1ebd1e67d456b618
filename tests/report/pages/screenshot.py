"""The picture of docs/reports.md: `python3 screenshot.py PAGE.html OUT.png` shows the attention of a report."""
import base64
import pathlib
import sys

from browser import Browser


def main():
    page, out = sys.argv[1:]
    with Browser(width=1180) as browser:
        browser.media(prefers_color_scheme="light")
        browser.open(page)
        browser.run("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
        browser.settle()
        top, end = browser.run("return [...document.querySelectorAll('section')].slice(2, 4)"
                               ".map(e => e.getBoundingClientRect().top + scrollY)")
        clip = {"x": 0, "y": top - 20, "width": 1180, "height": end - top, "scale": 1}
        shot = browser.cdp("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        pathlib.Path(out).write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
