"""The models that everybody runs: random weights, written as folders of Hugging Face; and quantised ones, which are GGUF files."""
import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str  # of the folder, or of the file without `.gguf`
    title: str  # for people
    config: dict  # of transformers; of a quantised model, what goes into its file
    context: int  # tokens
    stored: str = ""  # of a quantised model: the kind of file that llama.cpp makes of it
    published: str = ""  # a file that others made, under the repository's root


LAYERS = 12  # of SHAPES

SHAPES = (
    Shape("gpt2-small", "GPT-2-small's shape", {"model_type": "gpt2"}, 1024),
    Shape("llama", "a Llama shape (12 layers, 768 wide, 12 heads on 4 keys and values, 2048 gated neurons, 32,000 tokens)",
          {"model_type": "llama", "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": LAYERS,
           "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
           "tie_word_embeddings": True, "rms_norm_eps": 1e-5}, 4096),
)

BILLION = {"width": 2048, "layers": 22, "heads": 32, "kv_heads": 4, "neurons": 5632, "vocabulary": 32000}
QUANTISED = (Shape("smollm2-q4_1", "SmolLM2-135M-Instruct as it is published, in Q4_1", {}, 2048, "Q4_1",
                   "third_party/models/smollm2-135m-instruct.gguf"),
             *(Shape(f"llama-1b-{kind.lower()}", f"a random Llama of 1.1 billion weights in {kind}", BILLION, 2048, kind)
               for kind in ("Q4_0", "Q4_K_M", "Q6_K", "Q8_0")))
STORED = tuple(shape.name for shape in QUANTISED)


def place(shape: Shape, scratch: pathlib.Path) -> pathlib.Path:
    """What everybody loads."""
    if shape.published:
        return ROOT / shape.published
    return scratch / (f"{shape.name}.gguf" if shape.stored else shape.name)


def weight_bytes(model: pathlib.Path) -> int:
    return (model / "model.safetensors" if model.is_dir() else model).stat().st_size


def write(shape: Shape, path: pathlib.Path) -> None:
    """The same numbers each time."""
    if shape.published:
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; scripts/fetch_models.sh fetches it")
    elif shape.stored:
        write_quantised(shape, path)
    else:
        write_folder(shape, path)


def write_quantised(shape: Shape, file: pathlib.Path) -> None:
    """A Llama in half precision by the package gguf, and what llama.cpp's own quantiser makes of it."""
    import gguf
    import llama_cpp
    import numpy as np
    random, sizes = np.random.default_rng(0), shape.config
    width, neurons, layers = sizes["width"], sizes["neurons"], sizes["layers"]
    kv_width = width // sizes["heads"] * sizes["kv_heads"]
    half = file.with_suffix(".f16.gguf")
    writer = gguf.GGUFWriter(half, "llama")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(neurons)
    writer.add_head_count(sizes["heads"])
    writer.add_head_count_kv(sizes["kv_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(width // sizes["heads"])
    writer.add_vocab_size(sizes["vocabulary"])
    writer.add_file_type(1)
    writer.add_tokenizer_model("no_vocab")

    def matrix(name: str, out: int, inputs: int) -> None:
        writer.add_tensor(f"{name}.weight", (random.standard_normal((out, inputs), np.float32) * 0.03).astype(np.float16))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))

    matrix("token_embd", sizes["vocabulary"], width)
    for layer in range(layers):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm")
        for name, out, inputs in (("attn_q", width, width), ("attn_k", kv_width, width), ("attn_v", kv_width, width),
                                  ("attn_output", width, width)):
            matrix(f"{block}.{name}", out, inputs)
        norm(f"{block}.ffn_norm")
        for name, out, inputs in (("ffn_gate", neurons, width), ("ffn_up", neurons, width), ("ffn_down", width, neurons)):
            matrix(f"{block}.{name}", out, inputs)
    norm("output_norm")
    matrix("output", sizes["vocabulary"], width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{shape.stored}")
    failed = llama_cpp.llama_model_quantize(str(half).encode(), str(file).encode(), options)
    half.unlink()
    if failed:
        raise RuntimeError(f"llama.cpp could not write {shape.stored}")


def write_folder(shape: Shape, folder: pathlib.Path) -> None:
    """Matrices are larger than transformers makes them, so that heads attend to something."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(0)
    config = AutoConfig.for_model(**{"initializer_range": 0.03, "bos_token_id": 0, "eos_token_id": 0, **shape.config})
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


def tokens(shape: Shape, batch: int, length: int):
    """[batch, length] ids below 32,000, the same each time."""
    import torch
    return torch.randint(0, 32000, (batch, length), generator=torch.Generator().manual_seed(1000 * batch + length))


def products(model) -> tuple:
    """The matrix products of a run, in order, as (weights [out, in] of each block) and the unembedding's."""
    config = model.config
    width = config.hidden_size
    if config.model_type == "gpt2":
        sizes = [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
    else:
        head = width // config.num_attention_heads
        rows = (config.num_attention_heads + 2 * config.num_key_value_heads) * head
        sizes = [(rows, width), (width, width), (2 * config.intermediate_size, width), (width, config.intermediate_size)]
    return sizes, (config.vocab_size, width)
