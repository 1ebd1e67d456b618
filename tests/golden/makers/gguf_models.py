"""Writes golden checkpoints as GGUF files, in tests/golden/gguf: what llama.cpp's convert_hf_to_gguf.py makes of them.

Keys and files are written by the package `gguf`, tensors are named by its table (`get_tensor_name_map`); how they lie is written out
here once more, in NumPy. transformers, where it reads such a file, must give the golden's logits. The test GgufModels loads them beside
the checkpoints.
"""

import json
import sys

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, GGUFWriter, MODEL_ARCH_NAMES, RopeScalingType, get_tensor_name_map
from safetensors.torch import load_file

from .case_files import kGoldens
from .drawn import model_folder
from .gguf_blocks import random_blocks

kFolder = kGoldens / "gguf"
# The case, its architecture in GGUF, and whether matrices are written in half precision.
kModels = [("llama", "llama", False), ("llama_biases", "llama", False), ("llama_llama3", "llama", False),
           ("llama_yarn", "llama", False), ("mistral", "llama", False), ("mixtral", "llama", True), ("qwen2", "qwen2", False),
           ("qwen3", "qwen3", False), ("qwen2_moe", "qwen2moe", False), ("qwen3_moe", "qwen3moe", False),
           ("gemma", "gemma", False), ("gemma2", "gemma2", True), ("gemma3_text", "gemma3", True), ("phi", "phi2", True),
           ("phi3_longrope", "phi3", True), ("gpt2", "gpt2", False), ("gpt_neox", "gptneox", False), ("falcon", "falcon", False),
           ("falcon_new", "falcon", True), ("falcon_new_one_norm", "falcon", False), ("starcoder2", "starcoder2", False),
           ("olmo2", "olmo2", False)]


def first_of(config: dict, *keys, default=None):
    return next((config[key] for key in keys if config.get(key) is not None), default)


def turned_pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp turns neighbouring rows."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def side_by_side(weight: np.ndarray, heads: int, kv_heads: int) -> np.ndarray:
    """Queries, keys and values apart, of tensors that have them by group."""
    d_head = weight.shape[0] // (heads + 2 * kv_heads)
    grouped = weight.reshape(kv_heads, heads // kv_heads + 2, d_head, *weight.shape[1:])
    parts = [grouped[:, :-2], grouped[:, -2], grouped[:, -1]]
    return np.concatenate([part.reshape(-1, *weight.shape[1:]) for part in parts])


def llama3_factors(rope: dict, d_head: int) -> np.ndarray:
    frequencies = 1.0 / rope["rope_theta"] ** (np.arange(0, d_head, 2) / d_head)
    low, high, factor, context = (rope[key] for key in ("low_freq_factor", "high_freq_factor", "factor",
                                                        "original_max_position_embeddings"))
    factors = []
    for frequency in frequencies:
        length = 2 * np.pi / frequency
        if length < context / high:
            factors.append(1.0)
        elif length > context / low:
            factors.append(factor)
        else:
            smooth = (context / length - low) / (high - low)
            factors.append(1.0 / ((1.0 - smooth) / factor + smooth))
    return np.array(factors, dtype=np.float32)


def write_keys(writer: GGUFWriter, architecture: str, config: dict, tensors: dict) -> None:
    width, heads = first_of(config, "n_embd", "hidden_size"), first_of(config, "n_head", "num_attention_heads")
    writer.add_context_length(first_of(config, "n_positions", "max_position_embeddings"))
    writer.add_embedding_length(width)
    writer.add_block_count(first_of(config, "n_layer", "num_hidden_layers"))
    writer.add_feed_forward_length(first_of(config, "n_inner", "ffn_hidden_size", "intermediate_size", default=4 * width))
    writer.add_head_count(heads)
    kv_heads = first_of(config, "num_key_value_heads", default=heads)
    if architecture == "falcon":
        kv_heads = config["num_kv_heads"] if config["new_decoder_architecture"] else 1
        writer.add_tensor_data_layout("jploski")
    writer.add_head_count_kv(kv_heads)
    writer.add_vocab_size(config["vocab_size"])
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    else:
        writer.add_layer_norm_eps(first_of(config, "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"))
    writer.add_file_type(0)
    d_head = first_of(config, "head_dim", default=width // heads)
    if "head_dim" in config:
        writer.add_key_length(d_head)
        writer.add_value_length(d_head)
    rope = config.get("rope_parameters")
    if rope:
        whole = rope.get("full_attention", rope)
        writer.add_rope_freq_base(whole["rope_theta"])
        writer.add_rope_dimension_count(int(d_head * whole.get("partial_rotary_factor", 1.0)))
        write_scaling(writer, config, whole, d_head)
    if config.get("sliding_window") and architecture not in ("qwen2", "qwen2moe"):
        writer.add_sliding_window(config["sliding_window"])
    if "num_experts_per_tok" in config:
        writer.add_expert_count(first_of(config, "num_experts", "num_local_experts"))
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_bool(f"{architecture}.expert_weights_norm", config["norm_topk_prob"])
    if "shared_expert_intermediate_size" in config:
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if architecture == "gptneox":
        writer.add_parallel_residual(config["use_parallel_residual"])
    if config.get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])


def write_scaling(writer: GGUFWriter, config: dict, rope: dict, d_head: int) -> None:
    kind = rope["rope_type"]
    if kind == "yarn":
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    elif kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, d_head))
    elif kind == "longrope":
        original = config["original_max_position_embeddings"]
        scale = config["max_position_embeddings"] / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(scale) / np.log(original))))
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], dtype=np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], dtype=np.float32))


def as_llama_cpp_has_it(architecture: str, config: dict, name: str, value: np.ndarray) -> np.ndarray:
    heads = first_of(config, "n_head", "num_attention_heads")
    kv_heads = first_of(config, "num_key_value_heads", default=heads)
    if architecture == "llama" and ".q_proj." in name:
        return turned_pairs(value, heads)
    if architecture == "llama" and ".k_proj." in name:
        return turned_pairs(value, kv_heads)
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return value + np.float32(1)
    if architecture == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        return value.T
    if "query_key_value" in name:
        if architecture == "falcon":
            kv_heads = config["num_kv_heads"] if config["new_decoder_architecture"] else 1
        return side_by_side(value, heads, kv_heads)
    return value.squeeze() if "shared_expert_gate" in name else value


def stacked_experts(architecture: str, tensors: dict) -> dict:
    """Experts of a layer in one tensor, under the name that the first has."""
    gathered, rest = {}, {}
    for name, value in tensors.items():
        if ".experts." not in name:
            rest[name] = value
        elif name.endswith(".experts.gate_up_proj"):
            stem = name.removesuffix("gate_up_proj")
            rest[stem + "gate_proj.weight"], rest[stem + "up_proj.weight"] = np.split(value, 2, axis=1)
        elif name.endswith(".experts.down_proj"):
            rest[name + ".weight"] = value
        else:
            stem, number = name.split(".experts.")
            expert, module = number.split(".", 1)
            gathered.setdefault(f"{stem}.experts.{module}", {})[int(expert)] = value
    return rest | {name: np.stack([all_of[e] for e in sorted(all_of)]) for name, all_of in gathered.items()}


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(case: str, architecture: str, half: bool) -> None:
    folder = model_folder(f"cases/{case}")
    config = json.loads((folder / "config.json").read_text())
    tensors = {name: value.float().numpy() for name, value in load_file(folder / "model.safetensors").items()}
    file = kFolder / f"{case}.gguf"
    writer = GGUFWriter(file, architecture)
    write_keys(writer, architecture, config, tensors)
    kind = next(key for key, value in MODEL_ARCH_NAMES.items() if value == architecture)
    names = get_tensor_name_map(kind, first_of(config, "n_layer", "num_hidden_layers"))
    tied = config.get("tie_word_embeddings")
    for name, value in stacked_experts(architecture, tensors).items():
        if tied and name == "lm_head.weight":
            continue
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert gguf_name, (case, name)
        value = np.ascontiguousarray(as_llama_cpp_has_it(architecture, config, name, value))
        writer.add_tensor(gguf_name, value.astype(np.float16) if half and value.ndim > 1 else value)
    finish(writer)
    file.chmod(0o644)


def write_quantised() -> None:
    """A Llama whose matrices are in many formats, of random bytes: rows of 256, so that all of them fit."""
    random = np.random.default_rng(64)
    file = kFolder / "quantised.gguf"
    writer = GGUFWriter(file, "llama")
    config = {"max_position_embeddings": 32, "hidden_size": 256, "num_hidden_layers": 1, "intermediate_size": 32,
              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "rms_norm_eps": 1e-5, "vocab_size": 16,
              "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    write_keys(writer, "llama", config, {})
    halves = {Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.Q3_K: [108], Type.Q2_K: [80, 82], Type.Q8_0: [0], Type.Q5_1: [0, 2]}
    for name, kind, rows, columns in (("token_embd", Type.Q6_K, 16, 256), ("output", Type.Q5_1, 16, 256),
                                      ("blk.0.attn_q", Type.Q4_K, 16, 256), ("blk.0.attn_k", Type.Q5_K, 8, 256),
                                      ("blk.0.attn_v", Type.Q6_K, 8, 256), ("blk.0.ffn_gate", Type.Q3_K, 32, 256),
                                      ("blk.0.ffn_up", Type.Q2_K, 32, 256), ("blk.0.ffn_down", Type.Q8_0, 256, 32)):
        size, length = GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, size=(rows * columns // size, length), dtype=np.uint8)
        for at in halves[kind]:
            factors = (random.standard_normal(len(blocks)) * (1e-3 if size == 32 else 3e-5)).astype(np.float16)
            blocks[:, at:at + 2] = factors.view(np.uint8).reshape(-1, 2)
        writer.add_tensor(f"{name}.weight", blocks.reshape(rows, columns // size * length), raw_dtype=kind)
    writer.add_tensor("blk.0.attn_output.weight", (random.standard_normal((256, 16)) * 0.1).astype(np.float16))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", random.standard_normal(256).astype(np.float32))
    finish(writer)
    file.chmod(0o644)


def write_sentencepiece() -> None:
    """A vocabulary that the package sentencepiece trained, and how it cuts texts."""
    import io

    import sentencepiece

    texts = json.loads((kGoldens.parent / "text" / "files" / "texts.json").read_text())
    texts = [text for text in texts if "\0" not in text]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text for text in texts * 3 if text.strip() and text.isascii()), model_writer=model, vocab_size=560, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, num_threads=1,
        user_defined_symbols=["<turn>"], character_coverage=0.99, max_sentencepiece_length=10, minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = pieces.get_piece_size()
    kinds = [2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 6 if pieces.is_byte(i) else 1 for i in range(count)]
    kinds[pieces.piece_to_id("<turn>")] = 4
    file = kFolder / "sentencepiece.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([pieces.id_to_piece(i).encode() for i in range(count)])
    writer.add_token_scores([pieces.get_score(i) for i in range(count)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(pieces.bos_id())
    writer.add_eos_token_id(pieces.eos_id())
    writer.add_unk_token_id(pieces.unk_id())
    writer.add_add_space_prefix(True)
    finish(writer)
    # After a token of the text itself the package writes no space, tokenizer.json does: both are right in their way.
    rows = [{"text": text, "ids": pieces.encode(text), "decoded": pieces.decode(pieces.encode(text))} for text in texts if "<turn>" not in text and 0 < len(text) < 90]
    expected = kFolder / "sentencepiece.json"
    expected.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows) + "\n]\n")
    for made in (file, expected):
        made.chmod(0o644)


def compare_with_transformers(case: str) -> str:
    """transformers reads some of these files itself."""
    from transformers import AutoModelForCausalLM

    golden = load_file(kGoldens / "cases" / case / "golden.safetensors")
    try:
        model = AutoModelForCausalLM.from_pretrained(kFolder, gguf_file=f"{case}.gguf", dtype=torch.float32)
        with torch.no_grad():
            logits = model.double()(golden["tokens"], attention_mask=golden.get("attention_mask")).logits
    except Exception as error:  # noqa: BLE001: what it does not read is said, not hidden
        return f"not read by transformers: {str(error).splitlines()[0][:120]}"
    wanted = AutoModelForCausalLM.from_pretrained(model_folder(f"cases/{case}"), dtype=torch.float64).eval()
    with torch.no_grad():
        wanted = wanted(golden["tokens"], attention_mask=golden.get("attention_mask")).logits
    return f"differs by {(logits - wanted).abs().max().item():.2g}"


def main(arguments: list) -> None:
    kFolder.mkdir(exist_ok=True)
    for case, architecture, half in kModels:
        write_model(case, architecture, half)
    write_quantised()
    write_sentencepiece()
    if "--compare" in arguments:
        for case, _, _ in kModels:
            print(f"{case}: {compare_with_transformers(case)}", file=sys.stderr)
