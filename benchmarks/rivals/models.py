"""The models that everybody runs: random weights, written as folders of Hugging Face."""
import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str  # of the folder
    title: str  # for people
    config: dict  # of transformers
    context: int  # tokens


LAYERS = 12  # of every shape

SHAPES = (
    Shape("gpt2-small", "GPT-2-small's shape", {"model_type": "gpt2"}, 1024),
    Shape("llama", "a Llama shape (12 layers, 768 wide, 12 heads on 4 keys and values, 2048 gated neurons, 32,000 tokens)",
          {"model_type": "llama", "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": LAYERS,
           "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
           "tie_word_embeddings": True, "rms_norm_eps": 1e-5}, 4096),
)


def write(shape: Shape, folder: pathlib.Path) -> None:
    """The same numbers each time. Matrices are larger than transformers makes them, so that heads attend to something."""
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
