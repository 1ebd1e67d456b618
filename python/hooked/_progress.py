"""Progress bars of long work, by `tqdm.auto` if it is installed."""

import time
from typing import Any


class StepBar:
    """A bar that appears only if the work takes longer than a second."""

    _options: dict[str, Any] = {}

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, done: int, total: int, seconds: float) -> None:
        if self._bar is not None and done < self._bar.n:
            self.close()  # the same options serve for another piece of work
        if self._bar is None:
            if seconds < 1 or done >= total or (made := self._made(total)) is None:
                return
            self._bar = made
            self._bar.start_t = time.time() - seconds
        self._bar.update(done - self._bar.n)
        if done >= total:
            self.close()

    def _made(self, total: int) -> Any:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        return tqdm(total=total, leave=False, **self._options)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __del__(self) -> None:
        self.close()


class ByteBar(StepBar):
    """The same for work that is counted in bytes."""

    _options = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
