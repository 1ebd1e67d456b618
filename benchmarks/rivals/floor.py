"""What the machine itself allows, measured in the process of transformers: the matrix products of a run and nothing else,
as LibTorch makes them in each of its ways (on plain weights, and on weights that it has packed for that number of tokens),
and the rate at which memory is read."""
import functools
import time

import torch
import torch.nn.functional as F

from .models import products

ROUNDS = 3
READ_BYTES = 1 << 30


def one_dnn(rows, weight):
    return torch.ops.mkldnn._linear_pointwise(rows, weight, None, "none", [], "")


def mkl_packed(rows, weight):
    packed, plain = weight
    return torch.ops.mkl._mkl_linear(rows, packed, plain, None, rows.shape[0])


def ways_on_cpu(dtype, tokens: int) -> dict:
    """By name: what is made of a weight once, and the product of rows with it. MKL packs float32 only."""
    ways = {"one_dnn_ms": (lambda weight: weight, one_dnn),
            "one_dnn_packed_ms": (lambda weight: torch.ops.mkldnn._reorder_linear_weight(weight, tokens), one_dnn)}
    if dtype == torch.float32 and torch.backends.mkl.is_available():
        ways["mkl_packed_ms"] = (lambda weight: (torch.ops.mkl._mkl_reorder_linear_weight(weight, tokens), weight), mkl_packed)
    return ways


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
    blocks = sizes * model.config.num_hidden_layers
    weights = [torch.randn(size, **made) for size in (*blocks, unembedding)]
    numbers = sum(w.numel() for w in weights)
    reply = {"weight_bytes": numbers * weights[0].element_size(), "read_gb_per_s": read_rate(device), "products": []}
    for count in rows:
        inputs = {width: torch.randn(count, width, **made) for width in {w.shape[1] for w in weights}}

        def run(product, operands):
            for weight, operand in zip(weights, operands):
                product(inputs[weight.shape[1]], operand)

        linear = functools.partial(run, F.linear, weights)
        ms = {"linear_ms": least_ms(linear, device)}
        if device == "cpu":
            for way, (prepared, product) in ways_on_cpu(model.dtype, count).items():
                ms[way] = least_ms(functools.partial(run, product, [prepared(weight) for weight in weights]), device)
        else:
            ms["recorded_ms"] = least_ms(recorded(linear), device)
        reply["products"].append({"rows": count, "flop": 2 * count * numbers, **ms})
    return reply


def read_rate(device: str) -> float:
    """GB/s, the fastest of some ways to go through a GiB once; a copy, which reads and writes it, counts twice."""
    numbers = torch.ones(READ_BYTES // 4, device=device)
    least = min(least_ms(numbers.sum, device), least_ms(lambda: torch.dot(numbers, numbers), device))
    if device != "cpu":
        other = torch.empty_like(numbers)
        least = min(least, least_ms(lambda: other.copy_(numbers), device) / 2)
    return READ_BYTES / 1e6 / least
