"""TransformerLens's HookedTransformer, with the weights of a folder of Hugging Face, not processed."""
import itertools
import tempfile

import pandas
import torch
from transformers import AutoModelForCausalLM
import transformer_lens
from transformer_lens import patching
from transformer_lens.cache.key_value_cache import TransformerLensKeyValueCache
from transformer_lens.pretrained.weight_conversions.gpt2 import convert_gpt2_weights
from transformer_lens.pretrained.weight_conversions.llama import convert_llama_weights

from .later import Later
from .questions import HARVEST_ROWS
from .transformers_engine import attributed


def lens_config(config, dtype: torch.dtype, context: int, device: str):
    """As TransformerLens describes a checkpoint of either kind."""
    head = config.hidden_size // config.num_attention_heads
    common = {"n_layers": config.num_hidden_layers, "d_model": config.hidden_size, "n_ctx": context, "d_head": head,
              "n_heads": config.num_attention_heads, "d_vocab": config.vocab_size, "device": device, "dtype": dtype}
    if config.model_type == "gpt2":
        common |= {"act_fn": "gelu_new", "eps": config.layer_norm_epsilon}
    else:
        common |= {"act_fn": config.hidden_act, "eps": config.rms_norm_eps, "d_mlp": config.intermediate_size,
                   "n_key_value_heads": config.num_key_value_heads, "normalization_type": "RMS", "final_rms": True,
                   "positional_embedding_type": "rotary", "rotary_dim": head, "rotary_adjacent_pairs": False,
                   "rotary_base": int(config.rope_parameters["rope_theta"]), "gated_mlp": True}
    return transformer_lens.HookedTransformerConfig(**common)


class Engine:
    packages = ("transformer-lens", "transformers")

    def __init__(self, folder: str, dtype: torch.dtype, context: int, device: str):
        source = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        config = lens_config(source.config, dtype, context, device)
        self.model = transformer_lens.HookedTransformer(config)
        convert = convert_gpt2_weights if source.config.model_type == "gpt2" else convert_llama_weights
        weights = convert(source, config)
        # Of a context that is cut: the positions that are left.
        if "pos_embed.W_pos" in weights:
            weights["pos_embed.W_pos"] = weights["pos_embed.W_pos"][:context]
        missing = self.model.load_state_dict(weights, strict=False)
        assert not missing.unexpected_keys, missing
        self.model.eval().requires_grad_(False)

    def forward(self, tokens):
        return {"logits": self.model(tokens)}

    def cache(self, tokens, points):
        if points == "defaults":
            logits, cache = self.model.run_with_cache(tokens)
            return {"logits": logits, **cache.cache_dict}
        words = points.split(", ")
        result, split = "result" in words, "q_input" in words
        self.model.set_use_attn_result(result)
        self.model.set_use_split_qkv_input(split)
        try:
            logits, cache = self.model.run_with_cache(
                tokens, names_filter=lambda name: name.rsplit("hook_", 1)[-1] in words)
        finally:
            self.model.set_use_attn_result(False)
            self.model.set_use_split_qkv_input(False)
        return {"logits": logits, **cache.cache_dict}

    def harvest(self, tokens, layer):
        _, cache = self.model.run_with_cache(tokens, names_filter=f"blocks.{layer - 1}.hook_resid_post", stop_at_layer=layer)
        return dict(cache.cache_dict)

    def store(self, tokens, layer):
        """By SAELens's runner, which writes a folder of `datasets`. Arrow has no bfloat16: it stores float32, then."""
        import datasets
        from sae_lens import CacheActivationsRunner, CacheActivationsRunnerConfig, cache_activations_runner

        name = f"blocks.{layer - 1}.hook_resid_post"
        batch, length = tokens.shape
        width = self.model.cfg.d_model
        folder = tempfile.TemporaryDirectory()
        options = CacheActivationsRunnerConfig(
            dataset_path="of tokens", model_name="in memory", model_batch_size=HARVEST_ROWS, hook_name=name, d_in=width,
            training_tokens=batch * length, context_size=length, new_cached_activations_path=folder.name, shuffle=False,
            buffer_size_gb=(batch * length * width * 4 + 1) / 1e9, prepend_bos=False, streaming=False, device="cpu")
        cache_activations_runner.load_model = lambda **_: self.model  # it takes names of models alone
        made = CacheActivationsRunner(options, override_dataset=datasets.Dataset.from_dict({"input_ids": tokens.tolist()})).run()
        return Later(lambda: {name: torch.from_numpy(made.with_format("numpy")[:][name])}, folder)

    def decode(self, tokens, new_tokens, keep):
        kept = {}

        def note(value, hook):
            kept.setdefault(hook.name, []).append(value)

        hooks = [(lambda name: name.endswith("hook_resid_post"), note)] if keep else []
        with self.model.hooks(fwd_hooks=hooks):
            ids = self.greedy(tokens, new_tokens)
        return {"tokens": ids, **{name: torch.cat(values, 1) for name, values in kept.items()}}

    def greedy(self, tokens, new_tokens):
        """Step by step: without a tokenizer `generate` of 3.9 gives new tokens wrong learned positions (it adds the remembered
        length to places that count from the beginning already)."""
        remembered = TransformerLensKeyValueCache.init_cache(self.model.cfg, tokens.device, len(tokens))
        ids, newest = tokens, tokens
        for _ in range(new_tokens):
            logits = self.model(newest, past_kv_cache=remembered, attention_mask=torch.ones_like(newest))
            newest = logits[:, -1:].argmax(-1)
            ids = torch.cat([ids, newest], 1)
        return ids

    def edit_rows(self, tokens, layer, step, edited):
        assert edited
        more = torch.arange(len(tokens), dtype=self.model.cfg.dtype, device=tokens.device)[:, None, None] * step
        logits = self.model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.hook_resid_pre", lambda x, hook: x + more)])
        return {"logits": logits[:, -1:]}

    def sweep(self, tokens, preset, every, answer, against):
        name, axes, setter = {
            "resid_pre": ("resid_pre", ("layer", "pos"), patching.layer_pos_patch_setter),
            "attn_head_out_all_pos": ("z", ("layer", "head"), patching.layer_head_vector_patch_setter),
            "attn_head_out_by_pos": ("z", ("layer", "pos", "head"), patching.layer_pos_head_vector_patch_setter)}[preset]
        sizes = {"layer": self.model.cfg.n_layers, "pos": tokens.shape[1], "head": self.model.cfg.n_heads}
        cells = pandas.DataFrame(list(itertools.product(*(range(sizes[axis]) for axis in axes)))[::every], columns=axes)
        _, clean = self.model.run_with_cache(tokens[:1])
        scores = patching.generic_activation_patch(
            self.model, tokens[1:], clean, lambda logits: logits[0, -1, answer] - logits[0, -1, against], setter, name,
            index_df=cells)
        return {"scores": scores}

    def attribution(self, tokens, answer, against):
        read = []

        def note(value, hook):
            if read:
                value.retain_grad()
            else:
                value = value.detach().requires_grad_()
            read.append(value)
            return value

        with torch.enable_grad():
            last = self.model.run_with_hooks(tokens, fwd_hooks=[(lambda name: name.endswith("hook_resid_pre"), note)])[:, -1]
            (last[:, answer] - last[:, against]).sum().backward()
        return attributed(read)
