"""A random model of transformers, and its activations under hook names."""

import contextlib
import json
import pathlib

import torch
import transformers

from goldens.case_files import generator_for
from goldens.float64 import float64

kGreedyTokens = 20

# How the families name the linear map that a sublayer ends with.
kAttentionOut = ("o_proj", "out_proj", "c_proj", "dense", "out_lin")
kMlpOut = ("down_proj", "c_proj", "fc_out", "fc2", "dense_4h_to_h", "output.dense", "lin2")

# The parts of a normed sum of embeddings, by what they are called in the embeddings module.
kSummands = {"word_embeddings": "embed.hook_embed", "position_embeddings": "embed.hook_pos_embed",
             "token_type_embeddings": "embed.hook_token_type_embed", "LayerNorm": "hook_full_embed"}


def random_parameter(name: str, shape, generator) -> torch.Tensor:
    """A float32 parameter that shows if it is left out: no bias is 0 and no norm weight is 1."""
    if len(shape) <= 1:
        is_norm_weight = name.endswith("weight")
        return torch.rand(shape, generator=generator) + 0.5 if is_norm_weight else torch.randn(
            shape, generator=generator) * 0.4
    is_table = "embed" in name or "wte" in name or "wpe" in name
    scale = 1.0 if is_table else 1.3 / shape[-1] ** 0.5
    return torch.randn(shape, generator=generator) * scale


def build(case) -> torch.nn.Module:
    """The case's model in float64 with random parameters that float32 can hold. Call inside float64()."""
    config = transformers.AutoConfig.for_model(case.model_type, **case.keys)
    config._attn_implementation = "eager" if case.eager else "sdpa"
    auto = getattr(transformers, f"AutoModelFor{case.head}" if case.head else "AutoModel")
    model = auto.from_config(config)
    model.to(torch.float64)
    model.eval()
    generator = generator_for(case.name)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(random_parameter(name, parameter.shape, generator).to(torch.half).to(torch.float64))
            parameter.requires_grad_(False)
    return model


def random_tokens(case, d_vocab: int) -> torch.Tensor:
    return torch.randint(3, d_vocab, (2, case.length), generator=generator_for(case.name + "/tokens"))


def random_token_types(case, model) -> dict:
    """Keyword arguments of the model: types of the tokens where it has several."""
    count = getattr(model.config, "type_vocab_size", None) or 1
    if count == 1:
        return {}
    generator = generator_for(case.name + "/types")
    return dict(token_type_ids=torch.randint(0, count, (2, case.length), generator=generator))


def _layers(model):
    count = model.config.num_hidden_layers
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == count]
    return lists[0]


def _named(layer, of_attention: bool):
    names = kAttentionOut if of_attention else kMlpOut
    for path, module in layer.named_modules():
        parent, _, leaf = path.rpartition(".")
        inside = "att" in parent.lower()
        if (leaf in names or path in names) and inside == of_attention:
            return module
    return None


class Recorder(contextlib.AbstractContextManager):
    """Keeps what goes into and comes out of the modules that have a hook point."""

    def __init__(self, model, case):
        self.points, self.handles = {}, []
        for i, layer in enumerate(_layers(model)):
            at = f"blocks.{i}."
            self._keep(layer, at + "hook_resid_pre", "in")
            self._keep(layer, at + "hook_resid_post", "out")
            self._keep(_named(layer, True), at + "attn.hook_z", "in")
            self._keep(_named(layer, False), at + "mlp.hook_post", "in")
        embeddings = getattr(getattr(model, model.base_model_prefix, model), "embeddings", None)
        if hasattr(embeddings, "LayerNorm"):
            for leaf, name in kSummands.items():
                self._keep(getattr(embeddings, leaf, None), name, "out")
        unembed = model.get_output_embeddings()
        if unembed is not None and unembed.in_features == model.config.hidden_size:  # not behind a projection that the engine multiplies in
            self._keep(unembed, "unembed.hook_in", "in")

    def _keep(self, module, name, side):
        if module is None:
            return

        def hook(_module, args, kwargs, output):
            value = (args[0] if args else kwargs["hidden_states"]) if side == "in" else (
                output[0] if isinstance(output, tuple) else output)
            if name.startswith("embed.hook") and value.shape[0] == 1:  # one row of positions stands for all
                value = value.expand(2, -1, -1)
            self.points[name] = value.detach().clone()

        self.handles.append(module.register_forward_hook(hook, with_kwargs=True))

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()


def greedy(model, tokens) -> torch.Tensor:
    """The continuation of row 0 without a cache, so that length-dependent rotary sees whole rows."""
    row = tokens[:1]
    for _ in range(kGreedyTokens):
        row = torch.cat([row, model(row, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
    return row


def record(case) -> tuple:
    """(model, activations by hook name with tokens, logits and greedy continuation)."""
    with float64(), torch.no_grad():
        model = build(case)
        tokens = random_tokens(case, model.config.vocab_size)
        types = random_token_types(case, model)
        with Recorder(model, case) as recorder:
            result = model(tokens, output_attentions=case.eager, **types,
                           **(dict(use_cache=False) if case.head == "CausalLM" else {}))
        points = dict(recorder.points)
        for i, pattern in enumerate(result.attentions or ()):
            points[f"blocks.{i}.attn.hook_pattern"] = pattern
        limit = getattr(model.config, "max_position_embeddings", None) or 10**6
        fits = case.length + kGreedyTokens <= limit or case.name.endswith("dynamic")
        if case.head == "CausalLM" and fits:
            points["greedy"] = greedy(model, tokens)
    logits = getattr(result, "prediction_logits" if case.head == "PreTraining" else "logits", None)
    points |= types | {"tokens": tokens} | ({} if logits is None else {"logits": logits})
    return model, {name: value.detach().contiguous() for name, value in points.items()}


def write_folder(model, case, folder: pathlib.Path) -> None:
    """The model as transformers saves it, in float32, with the case's changes to config.json."""
    transformers.utils.logging.disable_progress_bar()
    model.to(torch.float32)
    model.config.dtype = "float32"
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config_file = folder / "config.json"
    config = json.loads(config_file.read_text())
    for key, value in case.written.items():
        config.pop(key, None) if value is None else config.__setitem__(key, value)
    config_file.write_text(json.dumps(config, indent=1) + "\n")
