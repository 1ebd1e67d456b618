"""A headless Chromium through chromedriver's HTTP interface (W3C WebDriver), with the standard library only."""
import base64
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015", "Enter": "\ue007", "Tab": "\ue004",
        "Home": "\ue011", "End": "\ue010", "Space": " "}


class BrowserError(RuntimeError):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser:
    """`with Browser() as browser: browser.open(path)`."""

    def __init__(self, driver="chromedriver", width=1280, height=900):
        self.port = free_port()
        # A profile of its own keeps runs apart and is deleted with them.
        self.profile = tempfile.TemporaryDirectory(prefix="page-test-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen([driver, f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.session = None
        try:
            self._wait_for_driver()
            self.session = self._start()
            self.cdp("Performance.enable")
            self._call("POST", "/url", {"url": "about:blank"})
            self.log("performance")  # what the first tab of a browser asks for is not the page's
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.session:
            try:
                self._call("DELETE", "")
            except (BrowserError, OSError):
                pass
            self.session = None
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def _http(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise BrowserError(f"{method} {path}: {error.read().decode(errors='replace')[:600]}") from None

    def _call(self, method, path, body=None):
        return self._http(method, f"/session/{self.session}{path}", body)

    def _wait_for_driver(self):
        for _ in range(100):
            try:
                if self._http("GET", "/status")["ready"]:
                    return
            except OSError:
                time.sleep(0.1)
        raise BrowserError("chromedriver does not answer")

    def _start(self):
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                            f"--user-data-dir={self.profile.name}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        return self._http("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def open(self, page):
        self._call("POST", "/url", {"url": pathlib.Path(page).resolve().as_uri()})

    def cdp(self, command, **parameters):
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height):
        """Sets the size of the page itself, which may be narrower than a window can be."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, media="", **features):
        """media("print"), media(prefers_color_scheme="dark")."""
        self.cdp("Emulation.setEmulatedMedia", media=media,
                 features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def run(self, script, *arguments):
        """The value of the body of a function; `arguments[0]` is the first argument."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def settle(self):
        """Waits until what was asked for is drawn: two frames, and the tasks after them."""
        self._call("POST", "/execute/async", {"script": "const done = arguments[0];"
                   "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));", "args": []})

    def wait(self, script, *arguments, seconds=10):
        """Waits until the script's value is true, and returns it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script, *arguments)
            if value:
                return value
            time.sleep(0.03)
        raise BrowserError(f"not true within {seconds} s: {script} {arguments}")

    def _pointer(self, actions):
        self._call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                                                     "actions": actions}]})
        self.settle()

    def hover(self, x, y):
        self._pointer([{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}])

    def click(self, x, y):
        self._pointer([{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
                       {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}])

    def press(self, *names):
        keys = [KEYS.get(name, name) for name in names]
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})
        self.settle()

    def middle(self, selector, index=0):
        """Where the middle of an element is, once scrolled into view."""
        self.run("document.querySelectorAll(arguments[0])[arguments[1]].scrollIntoView({block: 'center', behavior: 'instant'})",
                 selector, index)
        self.settle()
        return self.run("const b = document.querySelectorAll(arguments[0])[arguments[1]].getBoundingClientRect();"
                        "return [b.left + b.width / 2, b.top + b.height / 2]", selector, index)

    def text(self, selector, index=0):
        return self.run("return document.querySelectorAll(arguments[0])[arguments[1]].textContent", selector, index)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def screenshot(self, path, whole=False, clip=None):
        """Of what the window shows, of the whole page, or of a part of it."""
        if whole:
            size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        if clip:
            picture = self.cdp("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        else:
            picture = self._call("GET", "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(picture))

    def log(self, kind):
        """The entries since the last call: "browser" (console) or "performance"."""
        return self._call("POST", "/se/log", {"type": kind})

    def requests(self):
        """Addresses that were asked for since the last call, the page itself and data in addresses left out."""
        found = []
        for entry in self.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Network.requestWillBeSent":
                continue
            parameters = message["params"]
            if parameters.get("type") != "Document" and not parameters["request"]["url"].startswith("data:"):
                found.append(parameters["request"]["url"])
        return found

    def metrics(self):
        return {each["name"]: each["value"] for each in self.cdp("Performance.getMetrics")["metrics"]}

    def resident_bytes(self):
        """Memory of the largest process of this browser, which is the page's."""
        most = 0
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                if b"--type=renderer" not in command or os.fsencode(self.profile.name) not in command:
                    continue
                pages = int((folder / "statm").read_text().split()[1])
            except (OSError, ValueError, IndexError):
                continue
            most = max(most, pages * os.sysconf("SC_PAGE_SIZE"))
        return most
