"""Random encoder-decoders of transformers, whole or the encoder alone, and their activations under hook names."""

import dataclasses

import torch
import transformers

from ..case_files import generator_for
from ..float64 import float64
from .hub_models import build, kGreedyTokens, passed, write_folder  # noqa: F401: write_folder is a part of this source
from .table import Case

kStart = 0  # the token that decoders begin with


@dataclasses.dataclass(frozen=True)
class TwoStackCase(Case):
    """`padded`: row 1 of both sides ends in padding; then only what the decoder makes of real tokens is compared."""

    head: str | None = "Seq2SeqLM"
    decoder_length: int = 7
    padded: bool = False
    encoder_alone: bool = False


kT5 = dict(d_model=12, d_kv=5, d_ff=15, num_layers=2, num_heads=3, vocab_size=23, relative_attention_num_buckets=8,
           relative_attention_max_distance=10, decoder_start_token_id=kStart, pad_token_id=0, eos_token_id=1)


def t5(name="t5", length=11, decoder_length=7, padded=False, encoder_alone=False, golden=True, written=None,
       model_type="t5", **keys):
    return TwoStackCase(name, model_type, kT5 | keys, length=length, decoder_length=decoder_length, padded=padded,
                        encoder_alone=encoder_alone, head="TextEncoding" if encoder_alone else "Seq2SeqLM", golden=golden,
                        written=written or {})


kTwoStackCases = [
    t5(),
    t5("t5_gated", feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    t5("t5_gated_silu", feed_forward_proj="gated-silu", golden=False),
    t5("t5_gelu", feed_forward_proj="gelu", golden=False),
    t5("t5_deep_decoder", num_decoder_layers=3, golden=False),
    t5("t5_deep_encoder", num_layers=3, num_decoder_layers=1),
    t5("t5_long", length=25, decoder_length=17, relative_attention_num_buckets=7, relative_attention_max_distance=20),
    t5("t5_usual_buckets", length=150, decoder_length=140, relative_attention_num_buckets=32,
       relative_attention_max_distance=128, golden=False),
    t5("t5_equal_widths", d_model=16, d_kv=4, num_heads=4, d_ff=16, vocab_size=16, golden=False),
    t5("t5_padded", padded=True),
    t5("t5_bare_config", golden=False,
       written={key: None for key in ("dense_act_fn", "is_gated_act", "scale_decoder_outputs", "is_encoder_decoder",
                                      "num_decoder_layers", "decoder_start_token_id", "is_decoder")}),
    t5("t5_encoder", encoder_alone=True),
    t5("mt5", model_type="mt5", padded=True),
    t5("mt5_plain", model_type="mt5", feed_forward_proj="relu", num_decoder_layers=1,
       written=dict(tie_word_embeddings=False, is_gated_act=None, dense_act_fn=None)),
    t5("mt5_encoder", model_type="mt5", encoder_alone=True, golden=False),
    t5("umt5", model_type="umt5", padded=True),
    # As published: the output is not scaled. transformers 5.0 to 5.23 scaled it anyway; recorded with 5.24.
    t5("umt5_plain", model_type="umt5", feed_forward_proj="relu", num_layers=3, num_decoder_layers=1, tie_word_embeddings=False,
       written=dict(tie_word_embeddings=False, scale_decoder_outputs=None, is_gated_act=None, dense_act_fn=None)),
    t5("umt5_encoder", model_type="umt5", encoder_alone=True),
    t5("t5_encoder_older_style", encoder_alone=True, padded=True, feed_forward_proj="gated-gelu", num_layers=3,
       written=dict(is_encoder_decoder=True)),
]


# BART and its descendants. The first token that decoders read is not the padding token.
kBart = dict(d_model=12, encoder_ffn_dim=15, decoder_ffn_dim=15, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3,
             decoder_attention_heads=3, vocab_size=23, max_position_embeddings=32, decoder_start_token_id=kStart, pad_token_id=1,
             bos_token_id=0, eos_token_id=2)


def bart(model_type="bart", variant="", length=11, decoder_length=7, padded=False, golden=True, written=None, **keys):
    return TwoStackCase("_".join(filter(None, (model_type, variant))), model_type, kBart | keys, length=length,
                        decoder_length=decoder_length, padded=padded, golden=golden, written=written or {})


kBartCases = [
    bart(),
    bart(variant="padded", padded=True, scale_embedding=True, activation_function="relu"),
    bart(variant="deep_decoder", decoder_layers=3, encoder_layers=1, tie_word_embeddings=False),
    bart(variant="older_style", golden=False,
         written=dict(num_hidden_layers=2, normalize_before=False, normalize_embedding=True, add_bias_logits=False,
                      add_final_layer_norm=False, static_position_embeddings=False, force_bos_token_to_be_generated=False,
                      extra_pos_embeddings=2, forced_bos_token_id=0, early_stopping=True, num_beams=4, no_repeat_ngram_size=3)),
    bart("blenderbot"),
    bart("blenderbot", "padded", padded=True, scale_embedding=True, encoder_layers=1, decoder_layers=3),
    bart("m2m_100"),
    bart("m2m_100", "options", pad_token_id=4, scale_embedding=False, activation_function="gelu", d_model=15),
    bart("marian", decoder_start_token_id=kStart, pad_token_id=0),
    bart("marian", "scaled", scale_embedding=True, d_model=15, activation_function="swish"),
    bart("marian", "padded", padded=True, pad_token_id=0, encoder_layers=1),
    bart("mbart"),
    bart("mbart", "padded", padded=True, scale_embedding=True, encoder_layers=3, decoder_layers=1),
    bart("pegasus", pad_token_id=0, eos_token_id=1),
    bart("pegasus", "scaled", pad_token_id=0, scale_embedding=True, d_model=15, activation_function="relu",
         tie_word_embeddings=False),
    bart("pegasus", "padded", padded=True, pad_token_id=0, eos_token_id=1, decoder_layers=1),
    bart("plbart"),
]
kTwoStackCases += kBartCases


class Recorder:
    """Keeps what goes into and comes out of the modules that have a hook point. `stacks`: their blocks by name."""

    def __init__(self):
        self.points = {}

    def _attention(self, attention, at, heads, maps="qkv", last="o"):
        for letter, name in zip("qkv", maps, strict=True):
            self._keep(getattr(attention, name), f"{at}hook_{letter}", "out", heads)
        self._keep(getattr(attention, last), at + "hook_z", "in", heads)
        block, _, kind = at.removesuffix(".").rpartition(".")
        self._keep(getattr(attention, last), f"{block}.hook_{kind}_out", "out")

    def _keep(self, module, name, side, heads=None):
        def hook(_module, args, kwargs, output):
            value = passed(side, args, kwargs, output).detach().clone()
            if value.dim() == 2 or value.shape[0] == 1:  # one row of positions serves for all
                value = value.expand(2, *value.shape[-2:])
            self.points[name] = value.unflatten(-1, (heads, -1)) if heads else value

        module.register_forward_hook(hook, with_kwargs=True)


class T5Recorder(Recorder):
    def __init__(self, model, stacks: dict):
        super().__init__()
        heads = model.config.num_heads
        for stack, blocks in stacks.items():
            for i, block in enumerate(blocks):
                at = f"{stack}.{i}."
                self._keep(block, at + "hook_resid_pre", "in")
                self._keep(block, at + "hook_resid_post", "out")
                self._keep(block.layer[0], at + "hook_resid_mid", "out")
                self._attention(block.layer[0].SelfAttention, at + "attn.", heads)
                if stack == "decoder":
                    self._keep(block.layer[1], at + "hook_resid_mid_cross", "out")
                    self._attention(block.layer[1].EncDecAttention, at + "cross_attn.", heads)
                mlp = block.layer[-1].DenseReluDense
                self._keep(mlp.wo, at + "mlp.hook_post", "in")
                self._keep(mlp.wo, at + "hook_mlp_out", "out")
        if "decoder" in stacks:
            self._keep(model.lm_head, "unembed.hook_in", "in")


class BartRecorder(Recorder):
    def __init__(self, model):
        super().__init__()
        encoder, decoder = model.get_encoder(), model.get_decoder()
        if hasattr(encoder, "layernorm_embedding"):
            self._keep(encoder.embed_tokens, "embed.hook_embed", "out")
            self._keep(encoder.embed_positions, "embed.hook_pos_embed", "out")
            self._keep(encoder.layernorm_embedding, "hook_full_embed", "out")
        post = not hasattr(encoder, "layer_norm")
        for stack, blocks in (("encoder", encoder.layers), ("decoder", decoder.layers)):
            for i, block in enumerate(blocks):
                at = f"{stack}.{i}."
                crosses = stack == "decoder"
                # Each norm reads the stream, before the sublayer or after the addition.
                norms = ["self_attn_layer_norm", *(["encoder_attn_layer_norm"] if crosses else []), "final_layer_norm"]
                stream = ["hook_resid_mid", *(["hook_resid_mid_cross"] if crosses else []), "hook_resid_post"]
                self._keep(block, at + "hook_resid_pre", "in")
                self._keep(block, at + ("hook_normalized_resid_post" if post else "hook_resid_post"), "out")
                for norm, point in zip(norms if post else norms[1:], stream if post else stream[:-1], strict=True):
                    self._keep(getattr(block, norm), at + point, "in")
                maps = dict(maps=("q_proj", "k_proj", "v_proj"), last="out_proj")
                self._attention(block.self_attn, at + "attn.", block.self_attn.num_heads, **maps)
                if crosses:
                    self._attention(block.encoder_attn, at + "cross_attn.", block.encoder_attn.num_heads, **maps)
                self._keep(block.fc2, at + "mlp.hook_post", "in")
                self._keep(block.fc2, at + "hook_mlp_out", "out")
        self._keep(model.lm_head, "unembed.hook_in", "in")


def recorder_of(model):
    if hasattr(model, "lm_head") and hasattr(model.get_encoder(), "layers"):
        return BartRecorder(model)
    return T5Recorder(model, {"encoder": model.encoder.block, "decoder": model.decoder.block})


def greedy(model, tokens) -> torch.Tensor:
    """The start token and what follows it for row 0, [1, 1 + kGreedyTokens]."""
    model.generation_config = transformers.GenerationConfig()  # not stated in a config
    count = lambda stack: len(stack.layers if hasattr(stack, "layers") else stack.block)
    # The cache of transformers fails if the decoder has more layers than the encoder.
    return model.generate(tokens[:1], attention_mask=torch.ones_like(tokens[:1]), do_sample=False, pad_token_id=0,
                          decoder_start_token_id=kStart, max_new_tokens=kGreedyTokens,
                          use_cache=count(model.get_decoder()) <= count(model.get_encoder()))


def build_stacks(case) -> torch.nn.Module:
    """The case's model. Where it is not tied, transformers gives each stack an embedding of its own, which no published
    model has: both read the one that is shared."""
    model = build(case)
    shared = model.get_input_embeddings().weight
    for stack in (model.get_encoder(), model.get_decoder()):
        stack.embed_tokens.weight.copy_(shared)
    return model


def mask_of(length: int, real_in_second_row: int) -> torch.Tensor:
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, real_in_second_row:] = 0
    return mask


def record_encoder(case) -> tuple:
    """(model, activations by hook name with inputs and `residual`, the output of the final norm)."""
    with float64(), torch.no_grad():
        model = build(case)
        generator = generator_for(case.name + "/tokens")
        inputs = dict(tokens=torch.randint(3, case.keys["vocab_size"], (2, case.length), generator=generator))
        if case.padded:
            inputs["attention_mask"] = mask_of(case.length, case.length - 4)
        recorder = T5Recorder(model, {"blocks": model.encoder.block})
        result = model(input_ids=inputs["tokens"], attention_mask=inputs.get("attention_mask"), output_attentions=True)
        patterns = {f"blocks.{i}.attn.hook_pattern": pattern for i, pattern in enumerate(result.attentions)}
        points = recorder.points | patterns | inputs | {"residual": result.last_hidden_state}
    return model, {name: value.detach().contiguous() for name, value in points.items()}


def record(case) -> tuple:
    """(model, activations by hook name with inputs, logits and greedy continuation)."""
    if case.encoder_alone:
        return record_encoder(case)
    with float64(), torch.no_grad():
        model = build_stacks(case)
        generator = generator_for(case.name + "/tokens")
        draw = lambda length: torch.randint(3, case.keys["vocab_size"], (2, length), generator=generator)
        inputs = dict(tokens=draw(case.length), decoder_tokens=draw(case.decoder_length))
        inputs["decoder_tokens"][:, 0] = kStart
        masks = {}
        if case.padded:
            masks = dict(attention_mask=mask_of(case.length, case.length - 4),
                         decoder_attention_mask=mask_of(case.decoder_length, case.decoder_length))
        recorder = recorder_of(model)
        result = model(input_ids=inputs["tokens"], decoder_input_ids=inputs["decoder_tokens"], output_attentions=True,
                       use_cache=False, **masks)
        points = dict(recorder.points)
        for stack, kind, patterns in (("encoder", "attn", result.encoder_attentions),
                                      ("decoder", "attn", result.decoder_attentions),
                                      ("decoder", "cross_attn", result.cross_attentions)):
            for i, pattern in enumerate(patterns):
                points[f"{stack}.{i}.{kind}.hook_pattern"] = pattern
        if case.padded:  # numbers at the encoder's padding have no meaning
            points = {name: value for name, value in points.items()
                      if not name.startswith(("encoder.", "embed.", "hook_full_embed"))
                      and not name.endswith(("cross_attn.hook_k", "cross_attn.hook_v"))}
        points |= inputs | masks | {"logits": result.logits, "greedy": greedy(model, inputs["tokens"])}
    return model, {name: value.detach().contiguous() for name, value in points.items()}
