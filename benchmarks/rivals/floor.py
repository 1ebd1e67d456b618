"""What the machine itself allows, measured in the process of transformers: the matrix products of a run and nothing else,
as LibTorch makes them and as its oneDNN does, and the rate at which memory is read."""
import time

import torch
import torch.nn.functional as F

from .models import products

ROUNDS = 3
READ_BYTES = 1 << 30


def one_dnn(rows, weight):
    return torch.ops.mkldnn._linear_pointwise(rows, weight, None, "none", [], "")


def least_ms(work) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - started))
    return min(times)


def floor(model, rows: list) -> dict:
    """`rows`: tokens of the runs. Milliseconds of all products of such a run with logits of every token (weights of every
    block are others, as in a run), floating-point operations, bytes of weights that a step of a generation reads."""
    sizes, unembedding = products(model)
    dtype = model.dtype
    blocks = [[torch.randn(size, dtype=dtype) for size in sizes] for _ in range(model.config.num_hidden_layers)]
    last = torch.randn(unembedding, dtype=dtype)
    numbers = sum(w.numel() for block in blocks for w in block) + last.numel()
    reply = {"weight_bytes": numbers * last.element_size(), "read_gb_per_s": read_rate(), "products": []}
    for count in rows:
        inputs = {width: torch.randn(count, width, dtype=dtype) for width in {size[1] for size in (*sizes, unembedding)}}

        def run(product):
            for block in blocks:
                for weight in block:
                    product(inputs[weight.shape[1]], weight)
            product(inputs[last.shape[1]], last)

        reply["products"].append({"rows": count, "flop": 2 * count * numbers, "linear_ms": least_ms(lambda: run(F.linear)),
                                  "one_dnn_ms": least_ms(lambda: run(one_dnn))})
    return reply


def read_rate() -> float:
    """GB/s, the faster of two ways to read a GiB once."""
    numbers = torch.ones(READ_BYTES // 4)
    return READ_BYTES / 1e6 / min(least_ms(numbers.sum), least_ms(lambda: torch.dot(numbers, numbers)))
