"""What the machine itself allows, measured in the process of transformers: the matrix products of a run and nothing else,
as LibTorch makes them in each of its ways, and the rate at which memory is read."""
import time

import torch
import torch.nn.functional as F

from .models import products

ROUNDS = 3
READ_BYTES = 1 << 30


def one_dnn(rows, weight):
    return torch.ops.mkldnn._linear_pointwise(rows, weight, None, "none", [], "")


def least_ms(work, device: str) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - started))
    return min(times)


def recorded(work):
    """The kernels that `work` launches, recorded: what they take when the host has nothing to do."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def floor(model, rows: list, device: str) -> dict:
    """`rows`: tokens of the runs. Milliseconds of all products of such a run with logits of every token (weights of every
    block are others, as in a run), floating-point operations, bytes of weights that a step of a generation reads."""
    sizes, unembedding = products(model)
    made = {"dtype": model.dtype, "device": device}
    blocks = [[torch.randn(size, **made) for size in sizes] for _ in range(model.config.num_hidden_layers)]
    last = torch.randn(unembedding, **made)
    numbers = sum(w.numel() for block in blocks for w in block) + last.numel()
    reply = {"weight_bytes": numbers * last.element_size(), "read_gb_per_s": read_rate(device), "products": []}
    for count in rows:
        inputs = {width: torch.randn(count, width, **made) for width in {size[1] for size in (*sizes, unembedding)}}

        def run(product):
            for block in blocks:
                for weight in block:
                    product(inputs[weight.shape[1]], weight)
            product(inputs[last.shape[1]], last)

        def linear():
            run(F.linear)

        second = {"one_dnn_ms": lambda: run(one_dnn)} if device == "cpu" else {"recorded_ms": recorded(linear)}
        ways = {"linear_ms": linear, **second}
        reply["products"].append({"rows": count, "flop": 2 * count * numbers,
                                  **{way: least_ms(work, device) for way, work in ways.items()}})
    return reply


def read_rate(device: str) -> float:
    """GB/s, the fastest of some ways to go through a GiB once; a copy, which reads and writes it, counts twice."""
    numbers = torch.ones(READ_BYTES // 4, device=device)
    least = min(least_ms(numbers.sum, device), least_ms(lambda: torch.dot(numbers, numbers), device))
    if device != "cpu":
        other = torch.empty_like(numbers)
        least = min(least, least_ms(lambda: other.copy_(numbers), device) / 2)
    return READ_BYTES / 1e6 / least
