"""Running oracles in real float64.

Both libraries ask for float32 in places even when the model is float64 (norm statistics, softmax, rotary tables,
weight processing). `Float64` turns every such request into float64 while it is active, and can keep what went into
each softmax over attention scores.
"""

import contextlib

import torch
from torch.overrides import TorchFunctionMode

kMasked = -1e30  # below this a score is a mask's finite stand-in for -inf


def _widen(value):
    return torch.float64 if value is torch.float32 else value


class Float64(TorchFunctionMode):
    """While active, every request for float32 is a request for float64, and top-k results are in order.

    `softmax_inputs` collects the inputs of softmax calls over [batch, head, query, key], with the finite masks that
    `transformers` uses turned into -inf.
    """

    def __init__(self):
        super().__init__()
        self.softmax_inputs = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {k: _widen(v) for k, v in (kwargs or {}).items()}
        args = tuple(_widen(a) for a in args)
        if func in (torch.topk, torch.Tensor.topk):
            kwargs["sorted"] = True  # routers choose the same without it, in an order without meaning
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        if func is torch.nn.functional.softmax and args[0].dim() == 4:
            scores = args[0].detach().clone()
            self.softmax_inputs.append(scores.masked_fill(scores < kMasked, float("-inf")))
        return func(*args, **kwargs)


@contextlib.contextmanager
def float64():
    """Everything inside is built and computed in float64; yields the `Float64` mode."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Float64() as mode:
            yield mode
    finally:
        torch.set_default_dtype(before)
