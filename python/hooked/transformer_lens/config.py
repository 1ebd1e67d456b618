"""HookedTransformerConfig, and what the engine makes of it."""

import json
import math
import pprint
import random
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch

from hooked._hooked import _read_native_config

_ACTIVATIONS = ("solu", "solu_ln", "gelu_new", "gelu_fast", "silu", "relu", "gelu", "gelu_pytorch_tanh", "xielu")
_NOT_SET = -1


@dataclass
class HookedTransformerConfig:
    """The fields of TransformerLens 3.9's config, with its defaults; docs/python.md says which of them are not supported.

    Flags may be assigned later; the next run follows them.
    """

    # Sizes.
    d_model: int
    d_head: int
    n_layers: int
    n_ctx: int
    n_heads: int = _NOT_SET
    d_mlp: int | None = None
    d_vocab: int = _NOT_SET
    d_vocab_out: int = _NOT_SET
    n_key_value_heads: int | None = None
    num_experts: int | None = None
    experts_per_token: int | None = None
    n_params: int | None = None

    # Which activations are computed.
    use_attn_result: bool = False
    use_split_qkv_input: bool = False
    use_hook_mlp_in: bool = False
    use_attn_in: bool = False
    use_hook_tokens: bool = False
    ungroup_grouped_query_attention: bool = False

    # Blocks and norms.
    act_fn: str = "relu"
    attn_only: bool = False
    gated_mlp: bool = False
    parallel_attn_mlp: bool = False
    normalization_type: str | None = "LN"
    uses_rms_norm: bool = False
    layer_norm_folding: bool = False
    final_rms: bool = False
    eps: float = 1e-5
    post_embedding_ln: bool = False
    use_normalization_before_and_after: bool = False
    norm_topk_prob: bool = False
    tie_word_embeddings: bool = False

    # Attention.
    attention_dir: str = "causal"
    use_attn_scale: bool = True
    attn_scale: float = -1.0
    scale_attn_by_inverse_layer_idx: bool = False
    attn_scores_soft_cap: float = -1.0
    output_logits_soft_cap: float = -1.0
    use_qk_norm: bool = False
    clip_qkv: float | None = None
    use_attention_sinks: bool = False
    use_logn_attn: bool = False
    use_local_attn: bool = False
    window_size: int | None = None
    attn_types: list[str] | None = None

    # Positions.
    positional_embedding_type: str = "standard"
    rotary_dim: int | None = None
    rotary_base: float = 10000
    rotary_base_local: float | None = None
    rotary_scaling_factor: float = 1.0
    rotary_adjacent_pairs: bool = False
    relative_attention_max_distance: int | None = None
    relative_attention_num_buckets: int | None = None
    use_NTK_by_parts_rope: bool = False
    NTK_by_parts_low_freq_factor: float = 1.0
    NTK_by_parts_high_freq_factor: float = 4.0
    NTK_by_parts_factor: float = 8.0
    NTK_original_ctx_len: int = 8192
    use_yarn_rope: bool = False
    yarn_factor: float = 1.0
    yarn_attention_factor: float = 1.0
    yarn_beta_fast: float = 32.0
    yarn_beta_slow: float = 1.0
    yarn_original_max_position_embeddings: int = 4096
    yarn_truncate: bool = True
    yarn_global_attn_only: bool = False
    use_dynamic_ntk_rope: bool = False
    train_seq_length: int | None = None

    # Fresh weights.
    init_mode: str = "gpt2"
    init_weights: bool = True
    initializer_range: float = -1.0
    seed: int | None = None

    # Where the model is, and where it comes from.
    device: str | None = None
    n_devices: int = 1
    dtype: torch.dtype = torch.float32
    model_name: str = "custom"
    original_architecture: str | None = None
    from_checkpoint: bool = False
    checkpoint_index: int | None = None
    checkpoint_label_type: str | None = None
    checkpoint_value: int | None = None
    tokenizer_name: str | None = None
    tokenizer_prepends_bos: bool | None = None
    default_prepend_bos: bool = True
    decoder_start_token_id: int | None = None
    trust_remote_code: bool = False
    load_in_4bit: bool = False
    quantization_method: str | None = None

    # What the engine knows of a model and these fields cannot say (docs/loading.md).
    hooked: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_heads == _NOT_SET:
            if self.d_model % self.d_head:
                raise ValueError(
                    f"[HookedTransformerConfig] n_heads is d_model / d_head where it is not given; expected d_head to "
                    f"divide d_model, got {self.d_head} and {self.d_model}"
                )
            self.n_heads = self.d_model // self.d_head
        if self.d_mlp is None:
            self.d_mlp = 4 * self.d_model
        if self.d_vocab_out == _NOT_SET:
            self.d_vocab_out = self.d_vocab
        if self.device is None:
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.positional_embedding_type == "rotary" and self.rotary_dim is None:
            self.rotary_dim = self.d_head
        if self.use_attn_scale and self.attn_scale == -1.0:
            self.attn_scale = math.sqrt(self.d_head)
        if self.initializer_range < 0:
            self.initializer_range = 0.8 / math.sqrt(self.d_model) if self.init_mode == "gpt2" else 1.0
        self._check()
        if self.seed is not None:
            self.set_seed_everywhere(self.seed)
        self.n_params = self._hidden_parameters()

    def _check(self) -> None:
        if self.use_local_attn:
            assert self.window_size is not None, "window_size must be given with use_local_attn"
            assert self.attn_types is not None, "attn_types must be given with use_local_attn"
        if not self.attn_only:
            assert self.act_fn in _ACTIVATIONS, f"act_fn must be one of {', '.join(_ACTIVATIONS)}; got {self.act_fn}"
        together = (self.num_experts is None) == (self.experts_per_token is None)
        assert together, "num_experts and experts_per_token must be given together"
        assert self.default_prepend_bos in (True, False), (
            f"default_prepend_bos must be a bool; got {self.default_prepend_bos}"
        )
        assert self.n_devices == 1 or torch.cuda.device_count() >= self.n_devices, (
            f"there are not {self.n_devices} devices"
        )

    def _hidden_parameters(self) -> int:
        each = 4 * self.d_model * self.d_head * self.n_heads
        if not self.attn_only:
            mlp = self.d_model * (self.d_mlp or 0) * (3 if self.gated_mlp else 2)
            each += (mlp + self.d_model) * self.num_experts if self.num_experts else mlp
        return self.n_layers * each

    @classmethod
    def unwrap(cls, config: Any) -> "HookedTransformerConfig":
        """`config` itself, or one made of a dict or of another config."""
        if isinstance(config, cls):
            return config
        if isinstance(config, dict):
            return cls.from_dict(config)
        known = {f.name for f in fields(cls)}
        return cls.from_dict({key: value for key, value in vars(config).items() if key in known})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any]) -> "HookedTransformerConfig":
        """A config with these fields; an unknown one is an error."""
        return cls(**config_dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields, as they are held."""
        return self.__dict__

    def is_layer_norm_activation(self) -> bool:
        """Whether a norm follows the activation function."""
        return self.act_fn is not None and self.act_fn.endswith("_ln")

    def set_seed_everywhere(self, seed: int) -> None:
        """Seeds torch's, Python's and NumPy's generators."""
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)

    def __repr__(self) -> str:
        return "HookedTransformerConfig:\n" + pprint.pformat(self.to_dict())


# What a checkpoint may lack or tie, and the modules here always have as weights of their own, zero where it lacks them.
_ALWAYS_THERE = (
    "processing",
    "norm_bias",
    "mlp_bias",
    "qkv_bias",
    "attn_out_bias",
    "unembed_bias",
    "tied_unembedding",
    "unembed_mean",
)

# Fields that the engine has in its own group.
_IN_GROUP = {"clip_qkv": "qkv_clip", "use_attention_sinks": "attention_sinks"}


def for_engine(cfg: HookedTransformerConfig, group: dict[str, Any] | None = None, ungroup: bool = False) -> Any:
    """The engine's config. With `ungroup`, each head has its own keys and values."""
    values = dict(cfg.to_dict())
    own = {"dtype": str(cfg.dtype).removeprefix("torch.")} | (group or {}) | values.pop("hooked")
    for theirs, ours in _IN_GROUP.items():
        if given := values.pop(theirs):
            own[ours] = given
    if ungroup:
        values["n_key_value_heads"] = None
    values["dtype"] = own["dtype"]
    values["seed"] = None
    return _read_native_config(json.dumps({**values, "hooked": own}, default=float), "HookedTransformerConfig")


def from_engine(text: str) -> HookedTransformerConfig:
    """The config whose engine's form is this JSON."""
    values = json.loads(text)
    group = values.pop("hooked", {})
    values.pop("model_type", None)
    values["dtype"] = getattr(torch, group.pop("dtype", "float32"))
    return HookedTransformerConfig(
        **values, hooked={key: value for key, value in group.items() if key not in _ALWAYS_THERE}
    )
