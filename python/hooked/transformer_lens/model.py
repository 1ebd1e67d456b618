"""HookedTransformer."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import nn

import hooked
from hooked.transformer_lens import components, pretrained
from hooked.transformer_lens.caching import CachingModel
from hooked.transformer_lens.config import HookedTransformerConfig
from hooked.transformer_lens.errors import NotBridged
from hooked.transformer_lens.generation import GeneratingModel
from hooked.transformer_lens.kv_cache import TransformerLensKeyValueCache
from hooked.transformer_lens.parameters import Weight
from hooked.transformer_lens.runs import SWITCHES
from hooked.transformer_lens.stacks import StackedWeights
from hooked.transformer_lens.text import TextModel
from hooked.transformer_lens.upstream import HookPoint, utilities

_RESULTS = {"logits": "logits", "loss": "logits", "both": "logits", None: "none"}


class Output(NamedTuple):
    """What a run with `return_type="both"` returns."""

    logits: torch.Tensor
    loss: torch.Tensor


class HookedTransformer(TextModel, StackedWeights, GeneratingModel, CachingModel):
    """TransformerLens's model, run by hooked's engine (docs/python.md)."""

    _parts = ("embed", "pos_embed", "blocks", "ln_final", "unembed")
    _has_tail = True

    def __init__(
        self,
        cfg: HookedTransformerConfig | dict[str, Any],
        tokenizer: Any = None,
        move_to_device: bool = True,
        default_padding_side: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(cfg, str):
            raise ValueError("[HookedTransformer] expected a config, got a name; use HookedTransformer.from_pretrained")
        self.cfg = HookedTransformerConfig.unwrap(cfg)
        self._find_tokenizer(tokenizer, default_padding_side)
        self.dataset = None
        self.embed = components.Embed(self.cfg)
        self.hook_embed = HookPoint()
        if self.cfg.positional_embedding_type != "rotary":
            self.pos_embed = components.PosEmbed(self.cfg)
            self.hook_pos_embed = HookPoint()
        if self.cfg.use_hook_tokens:
            self.hook_tokens = HookPoint()
        self.blocks = nn.ModuleList([components.TransformerBlock(self.cfg, i) for i in range(self.cfg.n_layers)])
        if self.cfg.normalization_type is not None:
            self.ln_final = components.final_norm(self.cfg)
        self.unembed = components.Unembed(self.cfg)
        if self.cfg.init_weights:
            self.init_weights()
        if move_to_device:
            self.to(self.cfg.device)
        self.setup()
        self._bind()

    def move_model_modules_to_device(self) -> None:
        """Moves the parameters to the config's device."""
        self.to(self.cfg.device)

    # Weights.

    def init_weights(self) -> None:
        """Draws the matrices anew, as the config says; with its seed if it has one."""
        if self.cfg.seed is not None:
            torch.manual_seed(self.cfg.seed)
        kind, _, distribution = self.cfg.init_mode.partition("_")
        scale = self.cfg.initializer_range
        for name, weight in self.named_parameters():
            if "W_" not in name:
                continue
            if kind == "gpt2":
                nn.init.normal_(weight, std=scale)
            elif kind == "xavier":
                getattr(utilities, f"init_xavier_{distribution}_")(weight, gain=scale)
            elif kind == "kaiming":
                getattr(utilities, f"init_kaiming_{distribution}_")(
                    weight, gain=scale, nonlinearity="relu", mode="fan_in"
                )
            else:
                raise NotBridged(
                    "init_mode", f"{self.cfg.init_mode} is not supported", "use gpt2, xavier_* or kaiming_*"
                )

    def process_weights_(
        self,
        fold_ln: bool = True,
        center_writing_weights: bool = True,
        center_unembed: bool = True,
        fold_value_biases: bool = True,
        refactor_factored_attn_matrices: bool = False,
    ) -> None:
        """Processes the weights in place, by the engine's steps, each where it leaves log-probabilities unchanged."""
        wanted = [
            *["fold_ln"] * fold_ln,
            *["center_writing_weights"] * center_writing_weights,
            *["center_unembed"] * center_unembed,
            *["fold_value_biases"] * fold_value_biases,
            *["refactor_factored_attn_matrices"] * refactor_factored_attn_matrices,
        ]
        possible = self.engine(hooked.WeightProcessing.all_that_apply()).processing
        skipped = [report.step.name for report in possible if not report.outcome.startswith("applied")]
        skipped.remove("refactor_factored_attn_matrices")
        self._take(self.engine(hooked.WeightProcessing.only([step for step in wanted if step not in skipped])))

    def _take(self, engine: hooked.HookedTransformer) -> None:
        """Takes over the weights of the engine's model, and the norms that it has left."""
        state = engine.state_dict()
        if "unembed.W_U" not in state:  # tied
            state["unembed.W_U"] = state["embed.W_E"].T
        folded = "RMSPre" if "RMS" in (self.cfg.normalization_type or "") else "LNPre"
        if self.cfg.normalization_type is not None and self._engine_name("blocks.0.ln1.w") not in state:
            self.cfg.normalization_type = folded
            self.ln_final = components.final_norm(self.cfg)
            for block in self.blocks:
                block.ln1 = components.norm(self.cfg)
                if not self.cfg.attn_only:
                    block.ln2 = components.norm(self.cfg)
                if hasattr(block, "mlp") and hasattr(block.mlp, "ln"):
                    block.mlp.ln = components.LayerNormPre(self.cfg, self.cfg.d_mlp)
            self.to(self.cfg.device)
            self.setup()
            self._bind()
        own = dict(self._weights())
        with torch.no_grad():
            for name, weight in own.items():
                value = state.pop(self._engine_name(name), None)
                if value is not None:
                    weight.copy_(value)
                elif "W_" in name and name != "pos_embed.W_pos":
                    raise NotBridged(name, "the checkpoint has no such weight", "load it by hooked.HookedTransformer")
        for name, value in state.items():  # weights that processing made, such as the bias of a gate
            if name.endswith("_mean"):  # what was subtracted from every logit, for the engine's own generations
                continue
            module, _, last = name.rpartition(".")
            setattr(self.get_submodule(module), last, Weight(value.clone()))

    def load_and_process_state_dict(self, state_dict: dict[str, torch.Tensor], **steps: bool) -> None:
        """Loads weights, missing ones staying as they are, and processes them as `process_weights_` does."""
        self.load_state_dict(state_dict, strict=False)
        self.process_weights_(**steps)

    # Switches.

    def set_use_attn_result(self, use_attn_result: bool) -> None:
        """Whether attn.hook_result is computed."""
        self.cfg.use_attn_result = use_attn_result

    def set_use_split_qkv_input(self, use_split_qkv_input: bool) -> None:
        """Whether hook_q_input, hook_k_input and hook_v_input are computed."""
        self.cfg.use_split_qkv_input = use_split_qkv_input

    def set_use_hook_mlp_in(self, use_hook_mlp_in: bool) -> None:
        """Whether hook_mlp_in is computed."""
        assert not self.cfg.attn_only, "Can't use hook_mlp_in with attn_only model"
        self.cfg.use_hook_mlp_in = use_hook_mlp_in

    def set_use_attn_in(self, use_attn_in: bool) -> None:
        """Whether hook_attn_in is computed."""
        grouped = self.cfg.n_key_value_heads is not None
        assert not grouped, "Can't use attn_in with GroupedQueryAttention, please use split_qkv_input instead"
        self.cfg.use_attn_in = use_attn_in

    def set_ungroup_grouped_query_attention(self, ungroup_grouped_query_attention: bool) -> None:
        """Whether heads that share keys and values have them as their own in hooks."""
        self.cfg.ungroup_grouped_query_attention = ungroup_grouped_query_attention

    def check_hooks_to_add(self, hook_point: Any, hook_point_name: str, hook: Any, **_: Any) -> None:
        """Refuses hooks on points that are not computed."""
        for last, switch in SWITCHES.items():
            off = hook_point_name.endswith(last) and not getattr(self.cfg, switch)
            assert not off, f"Cannot add hook {hook_point_name} if {switch} is False"

    # Runs.

    def _read(
        self,
        input: Any,
        prepend_bos: bool | None,
        padding_side: str | None,
        attention_mask: torch.Tensor | None,
        past_kv_cache: TransformerLensKeyValueCache | None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The ids of an input, and its mask where one is needed."""
        if isinstance(input, str | list):
            assert self.tokenizer is not None, "Must provide a tokenizer if passing a string to the model"
            input = self.to_tokens(input, prepend_bos=prepend_bos, padding_side=padding_side)
        tokens = (input[None] if input.ndim == 1 else input).to(self.cfg.device)
        left = self.tokenizer is not None and self.tokenizer.padding_side == "left"
        if attention_mask is None and (left or past_kv_cache is not None):
            if self.tokenizer is None:
                raise ValueError("Cannot compute attention mask without a tokenizer.")
            attention_mask = utilities.get_attention_mask(self.tokenizer, tokens, self.cfg.default_prepend_bos)
        if attention_mask is not None:
            assert attention_mask.shape == tokens.shape, (
                f"Attention mask shape {tuple(attention_mask.shape)} does not match tokens shape {tuple(tokens.shape)}"
            )
        return tokens, attention_mask

    def _continue(
        self, given: Any, mask: torch.Tensor | None, cache: TransformerLensKeyValueCache | None, **how: Any
    ) -> Any:
        """Runs what `given` makes of the input's details, after what the cache holds."""
        details: dict[str, Any] = {} if mask is None else {"attention_mask": mask[:, -how["columns"] :]}
        if cache is not None and cache.prefix is not None:
            details["prefix"] = cache.prefix
        keep = cache is not None and not cache.frozen
        options = {key: value for key, value in how.items() if key != "columns"}
        last = f"blocks.{self.cfg.n_layers - 1}.hook_resid_post"
        to_the_last = keep and options.get("stop_at_layer") == self.cfg.n_layers
        if to_the_last:  # a run that can be continued does not stop before the logits
            del options["stop_at_layer"]
            options["output"] = "none"
        if keep:
            options["also"] = [f"blocks.{layer}.attn.hook_{kind}" for layer in how["layers"] for kind in "kv"]
            options["also"] += [last] * to_the_last
            options["keep_prefix"] = True
            options["output"] = "logits" if options["output"] == "none" else options["output"]
        result = self._run(given(**details), **options)
        if keep:
            cache.prefix = result.prefix
            for layer in how["layers"]:
                cache[layer].keys.append(result.cache[f"blocks.{layer}.attn.hook_k"])
                cache[layer].values.append(result.cache[f"blocks.{layer}.attn.hook_v"])
        return SimpleNamespace(residual=result.cache[last]) if to_the_last else result

    def input_to_embed(
        self,
        input: Any,
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        attention_mask: torch.Tensor | None = None,
        past_kv_cache: TransformerLensKeyValueCache | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """The first block's input, the ids, the positions' embedding of a shortformer, and the mask."""
        with self._overridden(prepend_bos, padding_side):
            tokens, mask = self._read(input, prepend_bos, padding_side, attention_mask, past_kv_cache)
            taken: list[torch.Tensor] = []
            watch = (lambda value, hook: taken.append(value.detach())) if self._shortformer() else None
            with self.hooks(fwd_hooks=[("hook_pos_embed", watch)] if watch else []):
                details = {} if mask is None else {"attention_mask": mask}
                if past_kv_cache is not None and past_kv_cache.prefix is not None:
                    details["prefix"] = past_kv_cache.prefix
                result = self._run(
                    hooked.Input(tokens, **details), output="residual", layers=range(0), ends=False, stop_at_layer=0
                )
            if past_kv_cache is not None and mask is not None:
                mask = past_kv_cache.append_attention_mask(mask)
            return self._sealed(result.residual), tokens, taken[0] if taken else None, mask

    def _shortformer(self) -> bool:
        return self.cfg.positional_embedding_type == "shortformer"

    def forward(
        self,
        input: Any,
        return_type: str | None = "logits",
        loss_per_token: bool = False,
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        start_at_layer: int | None = None,
        tokens: torch.Tensor | None = None,
        shortformer_pos_embed: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        stop_at_layer: int | None = None,
        past_kv_cache: TransformerLensKeyValueCache | None = None,
    ) -> Any:
        """Runs a text, several, ids [batch, pos], or with `start_at_layer` a stream [batch, pos, d_model].

        Returns logits, the loss, both or nothing, or the stream if it stops at a layer. The embedding of a shortformer's
        positions is the engine's own; `shortformer_pos_embed` is not read.
        """
        if return_type not in _RESULTS:
            raise ValueError(
                f"[forward] return_type is unknown; expected logits, loss, both or None, got {return_type!r}"
            )
        layers = range(self.cfg.n_layers)[start_at_layer:stop_at_layer]
        how: dict[str, Any] = {"output": _RESULTS[return_type], "layers": layers}
        tail = stop_at_layer is None and "unembed" in self._replaced()
        if stop_at_layer is not None or tail:
            how |= {"output": "residual", "ends": False, "stop_at_layer": layers.stop}
        if start_at_layer is None:
            with self._overridden(prepend_bos, padding_side):
                tokens, attention_mask = self._read(input, prepend_bos, padding_side, attention_mask, past_kv_cache)
            ids = tokens
            if past_kv_cache is not None and attention_mask is not None:
                past_kv_cache.append_attention_mask(attention_mask)
            result = self._continue(
                lambda **details: hooked.Input(ids, **details),
                attention_mask,
                past_kv_cache,
                columns=ids.shape[1],
                **how,
            )
        else:
            assert isinstance(input, torch.Tensor), "start_at_layer takes the stream before that layer"
            if not len(layers):
                return input
            learn = input.requires_grad
            stream = input.to(self.cfg.device)
            if torch.is_grad_enabled() and not learn:
                stream = stream.detach().requires_grad_()
            result = self._continue(
                lambda **details: hooked.Input.start_at_layer(layers.start, stream, **details),
                attention_mask,
                past_kv_cache,
                columns=input.shape[1],
                entry=False,
                learn=learn,
                **how,
            )
        if how["output"] == "none":
            return None
        output = self._sealed(result.residual if how["output"] == "residual" else result.logits)
        if stop_at_layer is not None:
            return output
        logits = self._after_blocks(output, return_type is not None) if tail else output
        return self._output(logits, return_type, tokens, attention_mask, loss_per_token)

    def _after_blocks(self, stream: torch.Tensor, logits: bool) -> torch.Tensor | None:
        """The last norm and, with `logits`, the unembedding, by torch: something was put in the unembedding's place."""
        last = self.engine().config.unembedding
        if (last.in_scale, last.scale, last.mlm_head) != (1, 1, None):
            raise NotBridged(
                "unembed",
                "it was replaced, and this model scales its logits",
                "edit unembed.hook_in and unembed.hook_out by hooks",
            )
        if self.cfg.normalization_type is not None:
            stream = self.ln_final(stream)
        if not logits:
            return None
        made: torch.Tensor = self.unembed(stream)
        cap = self.cfg.output_logits_soft_cap
        return cap * torch.tanh(made / cap) if cap > 0 else made

    def _output(
        self,
        logits: torch.Tensor | None,
        return_type: str | None,
        tokens: torch.Tensor | None,
        mask: torch.Tensor | None,
        loss_per_token: bool,
    ) -> Any:
        if return_type is None or logits is None:
            return None
        if return_type == "logits":
            return logits
        assert tokens is not None, "tokens must be passed in if return_type is 'loss' or 'both'"
        loss = self.loss_fn(logits, tokens, None if mask is None else mask[:, -tokens.shape[1] :], loss_per_token)
        return loss if return_type == "loss" else Output(logits, loss)

    def loss_fn(
        self,
        logits: torch.Tensor,
        tokens: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        per_token: bool = False,
    ) -> torch.Tensor:
        """Next-token cross entropy in nats."""
        return utilities.lm_cross_entropy_loss(logits, tokens.to(logits.device), attention_mask, per_token)

    # Loading.

    @classmethod
    def from_pretrained(cls, model_name: str, **options: Any) -> "HookedTransformer":
        """A model by TransformerLens's names or aliases, from the local hub cache; see `pretrained.load`."""
        return pretrained.load(cls, model_name, **options)

    @classmethod
    def from_pretrained_no_processing(cls, model_name: str, **options: Any) -> "HookedTransformer":
        """The same with the weights as they are stored."""
        return pretrained.load(cls, model_name, **(dict.fromkeys(pretrained.STEPS, False) | options))
