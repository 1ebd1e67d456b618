"""A random model of transformers, and its activations under hook names."""

import contextlib
import copy
import json
import pathlib
import sys
import tempfile

import torch
import transformers

from .. import drawn
from ..case_files import generator_for
from ..float64 import float64
from . import storage

kGreedyTokens = 20

# The families' names for the last linear map of a sublayer.
kAttentionOut = ("o_proj", "out_proj", "c_proj", "dense", "out_lin", "Wo")
kMlpOut = ("down_proj", "c_proj", "fc_out", "fc2", "dense_4h_to_h", "output.dense", "lin2", "ffn.2", "w2", "output_linear", "Wo")

# The parts of a sum of embeddings, by their names in the embeddings module.
kSummands = {"word_embeddings": "embed.hook_embed", "position_embeddings": "embed.hook_pos_embed",
             "token_type_embeddings": "embed.hook_token_type_embed", "LayerNorm": "hook_full_embed"}


def config_of(case):
    if case.inside is None:
        return transformers.AutoConfig.for_model(case.model_type, **case.keys)
    return transformers.AutoConfig.for_model(case.inside, text_config=dict(case.keys, model_type=case.model_type), **case.whole)


def build(case) -> torch.nn.Module:
    """The case's model in float64, with the weights that are drawn for its checkpoint. Call inside float64()."""
    config = config_of(case)
    config._attn_implementation = "eager" if case.eager else "sdpa"
    for each in (config, config.get_text_config()):
        each._experts_implementation = "eager"  # expert by expert, so that their parts can be seen
    of = "ImageTextToText" if case.inside else case.head
    auto = getattr(transformers, f"AutoModelFor{of}" if of else "AutoModel")
    model = auto.from_config(config)
    model.to(torch.float64)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        copy.deepcopy(model).save_pretrained(folder)  # which adds to its config
        drawn.redraw(f"cases/{case.name}", folder / "model.safetensors")
        read = type(model).from_pretrained(folder, dtype=torch.float64)
    model.load_state_dict(read.state_dict())
    return model.eval().requires_grad_(False)


# RoBERTa and similar models: positions from pad_token_id + 1.
kRobertas = ("camembert", "data2vec-text", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl")


def random_tokens(case, config) -> torch.Tensor:
    """[2, length] token ids. RoBERTa takes its padding token for padding wherever it stands, whatever the mask says; hooked
    goes by the mask alone, so that token is none of them."""
    tokens = torch.randint(3, config.vocab_size, (2, case.length), generator=generator_for(case.name + "/tokens"))
    if case.model_type not in kRobertas:
        return tokens
    other = config.pad_token_id + (1 if config.pad_token_id + 1 < config.vocab_size else -1)
    return tokens.masked_fill(tokens == config.pad_token_id, other)


def random_token_types(case, model) -> dict:
    """Keyword arguments of the model: types of the tokens where it has several."""
    count = getattr(model.config, "type_vocab_size", None) or 1
    if count == 1:
        return {}
    generator = generator_for(case.name + "/types")
    return dict(token_type_ids=torch.randint(0, count, (2, case.length), generator=generator))


def padding(case, tokens) -> dict:
    """Keyword arguments of the model where the case has padding, at an end of the last row: the mask, and the positions that
    transformers' generation counts by it."""
    if case.padded == 0:
        return {}
    mask = torch.ones_like(tokens)
    mask[-1, slice(case.padded) if case.padded > 0 else slice(case.padded, None)] = 0
    return dict(attention_mask=mask) | (dict(position_ids=(mask.cumsum(-1) - 1).clamp(min=0)) if case.padded > 0 else {})


def _layers(model):
    stack = getattr(getattr(model, "model", model), "language_model", model)  # the text model of several models
    count = stack.config.num_hidden_layers
    lists = [m for m in stack.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == count]
    return lists[0]


def _named(layer, of_attention: bool, shared: bool = False):
    names = kAttentionOut if of_attention else kMlpOut
    # Granite's shared MLP is alone if the layer has no experts.
    shared_parts = ("shared_expert", "shared_mlp") if _router(layer) else ("shared_expert",)
    if getattr(layer, "enable_moe_block", False):  # every token goes to Gemma 4's MLP, in addition to the experts
        shared_parts = ("mlp",)
    for path, module in layer.named_modules():
        parent, _, leaf = path.rpartition(".")
        inside = "att" in parent.lower()
        if (leaf in names or path in names) and inside == of_attention and any(p in parent for p in shared_parts) == shared:
            return module
    return None


def _of_class(layer, ending: str):
    return next((m for m in layer.modules() if type(m).__name__.lower().endswith(ending.lower())), None)


kPostNorm = ("bert", "camembert", "data2vec-text", "distilbert", "electra", "ernie", "openai-gpt", "roberta", "xlm-roberta")


def _router(layer):
    return (_of_class(layer, "TopKRouter") or _of_class(layer, "TokenChoiceRouter") or _of_class(layer, "MoEV1Gate")
            or _of_class(layer, "Llama4Router") or _of_class(layer, "Gemma4TextRouter"))


def norms_after_additions(case) -> bool:
    """Whether the norms follow the additions, so that what a layer returns is the normed stream."""
    return case.model_type in kPostNorm or case.keys.get("do_layer_norm_before") is False


# Encoders whose stream ends with a norm: their output if the head is missing.
kFinalNorms = ("megatron-bert", "modernbert")

# Routers whose weights exist for the chosen experts only.
kScattered = ("GptOss", "GraniteMoe", "Phimoe")
# Routers that give weights, not logits.
kWeights = ("Gemma4",)
# Routers that weigh each expert by a sigmoid of its logit.
kSigmoids = ("Afmoe", "DeepseekV3", "Dots1", "ExaoneMoe", "Glm4Moe", "GlmMoeDsa", "HYV3", "MiniMaxM2", "SolarOpen")


class MixtureRecorder:
    """What one mixture of experts shows: its router's weights and choice, and each expert's gate."""

    def __init__(self, layer, at: str):
        self.at, self.gates, self.seen, self.handles = at, [], None, []
        self.router, experts = _router(layer), _of_class(layer, "Experts")
        self.handles.append(self.router.register_forward_hook(self._keep_router))
        if not experts.is_concatenated:  # gate and up in alternate columns
            apply_gate = experts._apply_gate

            def spy(gate_up):
                self.gates.append(gate_up[..., ::2].detach().clone())
                return apply_gate(gate_up)

            experts._apply_gate = spy
        else:
            keep = lambda _module, args, _output: self.gates.append(args[0].detach().clone())
            self.handles.append(experts.act_fn.register_forward_hook(keep))

    def _keep_router(self, _module, _args, output):
        self.gates.clear()  # of an earlier run
        self.seen = output

    def points(self, shape, real=None) -> dict:
        """`real` [batch, pos] bool: the tokens, where some are padding."""
        logits, weights, indices = self.seen
        if type(self.router).__name__.startswith(kScattered):
            of_all = torch.zeros_like(logits).scatter(-1, indices, weights)
        elif type(self.router).__name__.startswith(kWeights):
            of_all = logits
        else:
            of_all = logits.sigmoid() if type(self.router).__name__.startswith(kSigmoids) else logits.softmax(-1)
        points = {}
        for e, gate in zip(indices.unique(sorted=True).tolist(), self.gates, strict=True):
            if real is not None:  # an expert reads its tokens by rank, then row and position
                gate = gate[real.flatten()[(indices.reshape(-1, indices.shape[-1]).t() == e).nonzero()[:, 1]]]
            if len(gate) > 0:
                points[f"{self.at}mlp.experts.{e}.hook_gate"] = gate
        points[self.at + "mlp.hook_expert_weights"] = of_all.reshape(*shape, -1)
        points[self.at + "mlp.hook_expert_indices"] = indices.reshape(*shape, -1)
        return points


class DenseMixtureRecorder:
    """What a mixture shows whose experts all compute, times zero for tokens that did not choose them."""

    def __init__(self, layer, at: str):
        self.at, self.seen = at, {}
        self.router, experts = _router(layer), _of_class(layer, "Experts")
        keep = lambda name, of: lambda _module, args, output: self.seen.__setitem__(name, of(args, output).detach().clone())
        self.handles = [self.router.register_forward_hook(keep("logits", lambda _args, output: output[1])),
                        experts.register_forward_hook(keep("in", lambda args, _output: args[0])),
                        experts.act_fn.register_forward_hook(keep("gate", lambda args, _output: args[0]))]

    def points(self, shape, real=None) -> dict:
        """`real` [batch, pos] bool: the tokens, where some are padding."""
        logits, gates = self.seen["logits"], self.seen["gate"]
        read = self.seen["in"].view(self.router.num_experts, -1, self.router.in_features)
        chosen = torch.topk(logits, self.router.top_k, dim=-1).indices  # [token, rank]
        points = {self.at + "mlp.hook_expert_weights": logits.sigmoid().reshape(*shape, -1),
                  self.at + "mlp.hook_expert_indices": chosen.reshape(*shape, -1)}
        sent = chosen if real is None else chosen.masked_fill(~real.reshape(-1, 1), -1)
        for e in sent.unique().tolist():
            if e < 0:
                continue
            tokens = (sent.t() == e).nonzero()[:, 1]  # by rank, then row and position
            points[f"{self.at}mlp.experts.{e}.hook_in"] = read[e][tokens]
            points[f"{self.at}mlp.experts.{e}.hook_gate"] = gates[e][tokens]
        return points


class LatentRecorder:
    """The parts of latent attention, under the names of the points that they are."""

    def __init__(self, attention, at: str):
        self.attention, self.at, self.seen, self.handles = attention, at + "attn.", {}, []
        for leaf in ("q_proj", "q_b_proj", "q_a_layernorm", "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj"):
            module = getattr(attention, leaf, None)
            if module is not None:
                self.handles.append(module.register_forward_hook(self._keeper(leaf)))

    def _keeper(self, leaf):
        def keep(_module, args, output):
            self.seen[leaf] = (args[0].detach().clone(), output.detach().clone())
        return keep

    def points(self) -> dict:
        a, seen = self.attention, self.seen
        by_head = lambda value: value.unflatten(-1, (a.num_heads, -1))
        made = by_head(seen["kv_b_proj"][1].squeeze(1))
        shared = seen["kv_a_proj_with_mqa"][1][..., a.kv_lora_rank:]
        own = made[..., :a.qk_nope_head_dim]
        points = {"hook_q": by_head(seen["q_proj" if "q_proj" in seen else "q_b_proj"][1]),
                  "hook_k": torch.cat([own, shared.unsqueeze(2).expand(*own.shape[:3], -1)], -1),
                  "hook_v": made[..., a.qk_nope_head_dim:], "hook_k_shared": shared}
        for side in ("q", "kv"):
            if f"{side}_a_layernorm" in seen:
                before, after = seen[f"{side}_a_layernorm"]
                norm = getattr(a, f"{side}_a_layernorm")
                points[f"hook_{side}_latent"] = after
                points[f"{side}_latent_norm.hook_scale"] = (
                    before.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).sqrt()
                points[f"{side}_latent_norm.hook_normalized"] = after / norm.weight
        return {self.at + name: value for name, value in points.items()}


# The norms of mixtures, of per-layer embeddings, and of all blocks' maps of the embedding.
kMixtureNorms = {"router.norm": "mlp.router_ln", "pre_feedforward_layernorm_2": "mlp.experts_ln",
                 "post_feedforward_layernorm_2": "mlp.experts_ln_post",
                 "post_feedforward_layernorm_1": "mlp.shared_expert.ln_post"}
kLayerInputNorms = {"post_per_layer_input_norm": "layer_input.ln_post"}
kEmbeddingNorms = {"per_layer_projection_norm": "blocks.{}.layer_input.ln"}


class NormRecorder:
    """Norms of a module by their paths in it. In the name of one whose input has an axis of layers, `{}` is the layer."""

    def __init__(self, module, at: str, norms: dict):
        self.at, self.seen, self.handles = at, {}, []
        for path, name in norms.items():
            self.handles.append(module.get_submodule(path).register_forward_hook(self._keeper(name)))

    def _keeper(self, name):
        def keep(norm, args, output):
            scale = (args[0].pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()
            self.seen[name] = (scale, output / norm.weight if norm.with_scale else output.clone())
        return keep

    def points(self, shape) -> dict:
        points = {}
        for name, values in self.seen.items():
            for leaf, value in zip(("hook_scale", "hook_normalized"), values):
                layers = value.unbind(-2) if "{}" in name else [value]
                for layer, own in enumerate(layers):
                    points[f"{self.at}{name.format(layer)}.{leaf}"] = own.reshape(*shape, -1)
        return points


class ConvolutionRecorder:
    """The parts of a short convolution."""

    def __init__(self, conv, at: str):
        self.at, self.seen = at + "conv.", {}
        self.handles = [conv.in_proj.register_forward_hook(self._keeper("in", "out")),
                        conv.out_proj.register_forward_hook(self._keeper("gated", "in"))]

    def _keeper(self, name, side):
        def keep(_module, args, output):
            self.seen[name] = (output if side == "out" else args[0]).detach().clone()
        return keep

    def points(self) -> dict:
        b, c, x = self.seen["in"].chunk(3, dim=-1)
        gated = self.seen["gated"]
        conv = (gated / c).masked_fill(c == 0, 0)  # of padding
        points = {"hook_b": b, "hook_c": c, "hook_x": x, "hook_bx": b * x, "hook_conv": conv, "hook_gated": gated}
        return {self.at + name: value for name, value in points.items()}


class DeltaNetRecorder:
    """The parts of a gated delta net."""

    def __init__(self, net, at: str):
        self.net, self.at, self.seen, self.runs = net, at + "linear_attn.", {}, False
        self.norm = getattr(net, "norm", None) or net.o_norm
        out = getattr(net, "out_proj", None) or net.o_proj
        self.handles = [net.register_forward_pre_hook(lambda *_: setattr(self, "runs", True)),
                        net.register_forward_hook(lambda *_: setattr(self, "runs", False))]
        self.handles += [module.register_forward_hook(self._keeper(name)) for name, module in
                        (("norm", self.norm), ("out_proj", out))]
        module = sys.modules[type(net).__module__]
        self.undo = []
        for name in ("torch_chunk_gated_delta_rule", "causal_conv1d_fn"):
            original = getattr(module, name)

            def spy(*args, _name=name, _original=original, **kwargs):
                result = _original(*args, **kwargs)
                if self.runs:  # the function is that of all layers
                    self.seen.setdefault(_name, (args, kwargs, result))
                return result

            setattr(module, name, spy)
            self.undo.append((module, name, original))

    def _keeper(self, name):
        def keep(_module, args, output):
            self.seen.setdefault(name, (args, output))
        return keep

    def states(self) -> torch.Tensor:
        """The state behind each token, by the recurrence that transformers decodes with: [batch, pos, head, d_key, d_value]."""
        rule = sys.modules[type(self.net).__module__].torch_recurrent_gated_delta_rule
        args, kwargs, _ = self.seen["torch_chunk_gated_delta_rule"]
        parts = dict(zip(("query", "key", "value"), args), g=kwargs["g"], beta=kwargs["beta"])
        made, state = [], None
        for token in range(parts["key"].shape[1]):
            now = {name: value[:, token:token + 1] for name, value in parts.items()}
            _, state = rule(**now, initial_state=state, output_final_state=True,
                            use_qk_l2norm_in_kernel=kwargs["use_qk_l2norm_in_kernel"])
            made.append(state)
        return torch.stack(made, 1)

    def points(self, shape) -> dict:
        net, seen = self.net, self.seen
        args, kwargs, result = seen["torch_chunk_gated_delta_rule"]
        q, k, v = args[:3]
        (out, gate), _ = seen["norm"]
        by_head = lambda x: x.reshape(*shape, net.num_v_heads, net.head_v_dim)
        out, gate = by_head(out), by_head(gate)
        scale = (out.pow(2).mean(-1, keepdim=True) + self.norm.variance_epsilon).sqrt()
        points = {"hook_qkv": seen["causal_conv1d_fn"][0][0].transpose(1, 2), "hook_q": q, "hook_k": k, "hook_v": v,
                  "hook_beta": kwargs["beta"], "hook_decay": kwargs["g"],
                  "hook_state": self.states(), "hook_out": by_head(result[0]), "hook_gate": gate,
                  "norm.hook_scale": scale, "norm.hook_normalized": out / scale,
                  "hook_gated": by_head(seen["out_proj"][0][0])}
        return {self.at + name: value.detach().clone() for name, value in points.items()}


def attending_layers(config) -> list:
    """The numbers of the layers that have attention."""
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    return [i for i, kind in enumerate(kinds) if kind not in ("conv", "linear_attention")]


def passed(side: str, args, kwargs, output) -> torch.Tensor:
    """What goes into a module ("in", or an argument of that name), or the first of what comes out of it."""
    if side == "in":
        return args[0] if args else kwargs["hidden_states"]
    if side == "per_layer_input":
        return args[1] if len(args) > 1 else kwargs[side]
    return output[0] if isinstance(output, (tuple, list)) else output


class Recorder(contextlib.AbstractContextManager):
    """Keeps what goes into and comes out of the modules that have a hook point."""

    def __init__(self, model, case):
        self.points, self.handles, self.mixtures, self.latents, self.convolutions, self.nets = {}, [], [], [], [], []
        self.norms = []
        returned = "hook_normalized_resid_post" if norms_after_additions(case) else "hook_resid_post"
        for i, layer in enumerate(_layers(model)):
            at = f"blocks.{i}."
            self._keep(layer, at + "hook_resid_pre", "in")
            self._keep(layer, at + returned, "out")
            if not hasattr(layer, "linear_attn"):
                self._keep(_named(layer, True), at + "attn.hook_z", "in")
            self._keep(_named(layer, False), at + "mlp.hook_post", "in")
            self._keep(_named(layer, False, shared=True), at + "mlp.shared_expert.hook_post", "in")
            if hasattr(layer, "layer_scalar"):
                self._keep(layer, at + "hook_resid_sum", "out", layer.layer_scalar.detach().clone())
            if hasattr(layer, "per_layer_input_gate"):
                self._keep(layer, at + "layer_input.hook_in", "per_layer_input")
                self._keep(layer.per_layer_input_gate, at + "hook_resid_mid_mlp", "in")
                self._keep(layer.per_layer_input_gate, at + "layer_input.hook_pre", "out")
                self._keep(layer.per_layer_projection, at + "layer_input.hook_post", "in")
                self._keep(layer.post_per_layer_input_norm, at + "hook_layer_input_out", "out")
                self._keep_norms(layer, at, kLayerInputNorms)
            if hasattr(getattr(layer, "self_attn", None), "v_norm"):
                self._keep(layer.self_attn.v_norm, at + "attn.hook_v", "in")
                self._keep(layer.self_attn.v_norm, at + "attn.v_norm.hook_normalized", "out")
            if _router(layer) is not None:
                dense = type(_router(layer)).__name__.startswith("Llama4")
                self.mixtures.append((DenseMixtureRecorder if dense else MixtureRecorder)(layer, at))
                self.handles += self.mixtures[-1].handles
            if getattr(layer, "enable_moe_block", False):
                self._keep_norms(layer, at, kMixtureNorms)
            attention = getattr(layer, "self_attn", None)
            if hasattr(attention, "kv_a_layernorm"):
                self.latents.append(LatentRecorder(attention, at))
                self.handles += self.latents[-1].handles
            if hasattr(getattr(layer, "conv", None), "in_proj"):
                self.convolutions.append(ConvolutionRecorder(layer.conv, at))
                self.handles += self.convolutions[-1].handles
            if hasattr(layer, "linear_attn"):
                self.nets.append(DeltaNetRecorder(layer.linear_attn, at))
                self.handles += self.nets[-1].handles
        base = getattr(model, model.base_model_prefix, model)
        if hasattr(getattr(base, "language_model", base), "per_layer_projection_norm"):
            self._keep_norms(getattr(base, "language_model", base), "", kEmbeddingNorms)
        embeddings = getattr(base, "embeddings", None)
        if hasattr(embeddings, "LayerNorm"):
            for leaf, name in kSummands.items():
                self._keep(getattr(embeddings, leaf, None), name, "out")
        elif hasattr(embeddings, "token_type_embeddings"):  # a sum without a norm
            for leaf, name in kSummands.items():
                self._keep(getattr(embeddings, leaf, None), name, "out")
            self._keep(embeddings, "hook_full_embed", "out")
        # ERNIE's embedding of task 0 is a part of what the engine adds for positions.
        tasks = getattr(embeddings, "task_type_embeddings", None)
        self.of_every_position = None if tasks is None else tasks.weight[0]
        unembed = model.get_output_embeddings()
        if unembed is not None and unembed.in_features == model.config.get_text_config().hidden_size:  # not after a projection that the engine folds in
            self._keep(unembed, "unembed.hook_in", "in")

    def _keep_norms(self, module, at, norms):
        self.norms.append(NormRecorder(module, at, norms))
        self.handles += self.norms[-1].handles

    def _keep(self, module, name, side, factor=None):
        """`factor` is what the value is multiplied by behind the point."""
        if module is None:
            return

        def hook(_module, args, kwargs, output):
            value = passed(side, args, kwargs, output)
            if name.startswith("embed.hook") and value.shape[0] == 1:  # one row of positions serves for all
                value = value.expand(2, -1, -1)
            if name == "embed.hook_pos_embed" and self.of_every_position is not None:
                value = value + self.of_every_position
            self.points[name] = value.detach().clone() if factor is None else value.detach() / factor

        self.handles.append(module.register_forward_hook(hook, with_kwargs=True))

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()
        for net in reversed(self.nets):
            for module, name, original in net.undo:
                setattr(module, name, original)


def greedy(case, model, tokens) -> torch.Tensor:
    """Row 0 and its continuation, with remembered keys as users generate unless the case says otherwise."""
    model.generation_config.eos_token_id = None
    return model.generate(tokens[:1], attention_mask=torch.ones_like(tokens[:1]), do_sample=False, pad_token_id=0,
                          max_new_tokens=kGreedyTokens, use_cache=case.cached)


def record(case) -> tuple:
    """(model, activations by hook name with tokens, logits and greedy continuation)."""
    with float64(), torch.no_grad():
        model = build(case)
        stored = {}
        if case.stored:
            model, stored = storage.quantised(case, model)
        tokens = random_tokens(case, model.config.get_text_config())
        types = random_token_types(case, model)
        with Recorder(model, case) as recorder:
            padded = padding(case, tokens)
            mask = {name: value for name, value in padded.items() if name == "attention_mask"}
            result = model(tokens, output_attentions=case.eager, **types, **padded,
                           **(dict(use_cache=False) if case.head == "CausalLM" else {}))
            points = dict(recorder.points)
            for mixture in recorder.mixtures:
                points |= mixture.points(tokens.shape, **({"real": mask["attention_mask"].bool()} if mask else {}))
            for part in recorder.latents + recorder.convolutions:
                points |= part.points()
            for part in recorder.nets + recorder.norms:
                points |= part.points(tokens.shape)
        points = {name: value.reshape(*tokens.shape, -1) if name.endswith("shared_expert.hook_post") else value
                  for name, value in points.items()}
        patterns = result.attentions or ()
        text_config = model.config.get_text_config()
        layers = attending_layers(text_config) if 0 < len(patterns) < (text_config.num_hidden_layers or 0) else range(len(patterns))
        for i, pattern in zip(layers, patterns, strict=True):
            points[f"blocks.{i}.attn.hook_pattern"] = pattern
        limit = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 10**6
        fits = case.length + kGreedyTokens <= limit or case.name.endswith("dynamic")
        if case.greedy and case.head == "CausalLM" and fits:
            points["greedy"] = greedy(case, model, tokens)
    logits = getattr(result, "prediction_logits" if case.head == "PreTraining" else "logits", None)
    if case.head is None and case.model_type in kFinalNorms:
        points["residual"] = result.last_hidden_state
    points |= types | mask | {"tokens": tokens} | ({} if logits is None else {"logits": logits})
    model.stored_tensors = stored
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
    if stored := getattr(model, "stored_tensors", None):
        storage.store(case, stored, folder)
