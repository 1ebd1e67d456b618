"""Generated text as an iterator."""

import contextvars
import queue
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

from hooked._hooked import GenerateResult, Hook, HookedTransformer


class _Shared:
    """What the iterator and the thread that generates share."""

    def __init__(self) -> None:
        # A piece waits until the reader takes it, so that generation is at most a few tokens ahead.
        self.pieces: queue.Queue[str | None] = queue.Queue(maxsize=4)
        self.closed = threading.Event()
        self.result: GenerateResult | None = None
        self.failure: BaseException | None = None

    def put(self, piece: str | None) -> bool:
        while not self.closed.is_set():
            try:
                self.pieces.put(piece, timeout=0.05)
                return True
            except queue.Full:
                continue
        return False

    def take(self) -> str | None:
        while not self.closed.is_set():
            try:
                return self.pieces.get(timeout=0.1)
            except queue.Empty:
                continue
        return None


def _generate(model: HookedTransformer, prompt: Any, options: dict[str, Any], shared: _Shared) -> None:
    try:
        shared.result = model.generate(prompt, on_text=shared.put, **options)
    except BaseException as failure:  # it is raised where the text is read
        shared.failure = failure
    finally:
        shared.put(None)


class TextStream(Iterator[str]):
    """Pieces of a continuation's text, as soon as no later token can change them.

    The generation runs in a thread of its own, with the hooks that were attached to the model when it began. `close()`,
    leaving a `with` block or dropping the iterator ends it; an exception in a hook is raised by the iterator.
    """

    def __init__(self, model: HookedTransformer, prompt: Any, options: Mapping[str, Any]) -> None:
        settings = dict(options)
        if given := [name for name in ("on_text", "on_tokens") if settings.get(name) is not None]:
            raise TypeError(
                f"[{given[0]}] the iterator gives the text itself; expected no callback; use generate() with callbacks"
            )
        hooks = settings.get("hooks") or []
        one = isinstance(hooks, Hook) or (isinstance(hooks, tuple) and callable(hooks[1]))
        settings["hooks"] = [*model.hooks(), *([hooks] if one else hooks)]
        settings.setdefault("threads", torch.get_num_threads())  # those of this thread
        self._shared = _Shared()
        # LibTorch's settings belong to a thread: the new one takes them over.
        context = contextvars.copy_context()
        stream = torch.cuda.current_stream(model.device) if model.device.type == "cuda" else None
        arguments = (HookedTransformer(model), prompt, settings, self._shared)

        def work() -> None:
            with torch.cuda.stream(stream):
                context.run(_generate, *arguments)

        self._thread = threading.Thread(target=work, name="hooked generation", daemon=True)
        self._thread.start()

    def __next__(self) -> str:
        try:
            piece = self._shared.take()
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if piece is not None:
            return piece
        self.close()
        if self._shared.failure is not None:
            raise self._shared.failure
        raise StopIteration

    def close(self) -> None:
        """Ends the generation, at the latest after the token that is being computed."""
        self._shared.closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def result(self) -> GenerateResult:
        """What generate() returns: tokens, probabilities, the cache. Reads the rest of the text first."""
        for _ in self:
            pass
        self._thread.join()
        if self._shared.failure is not None:
            raise self._shared.failure
        assert self._shared.result is not None
        return self._shared.result

    def __enter__(self) -> "TextStream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self._shared.closed.set()
