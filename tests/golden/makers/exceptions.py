"""Points of a model that an oracle does not give: by kind the reason, and the names as globs.

A case lists the kinds that hold for it. A test compares the names of a record with those of the model: every point that
was not recorded must be one of its case's exceptions.
"""

import fnmatch

kExceptions = {
    "grouped_of_one": dict(why="TransformerLens refuses it whenever n_key_value_heads is set", points=["blocks.*.hook_attn_in"]),
    "encoder_mlp_in": dict(
        why="TransformerLens has it before ln1, and lets its edits reach the skip path; here it is what the MLP reads",
        points=["blocks.*.hook_mlp_in"]),
    "encoder": dict(why="HookedEncoder has none", points=["blocks.*.hook_attn_in", "hook_tokens"]),
    "wide": dict(
        why="a wide point: transformers does not compute it as a tensor of its own (TransformerLens cases cover it)",
        points=["hook_tokens", "*.hook_attn_in", "*.hook_q_input", "*.hook_k_input", "*.hook_v_input", "*.hook_mlp_in",
                "*.hook_result", "*.hook_cross_attn_in"]),
    "bloom_scores": dict(why="BLOOM adds slope * key position: it shifts each row by a constant",
                         points=["*.hook_attn_scores"]),
    # For checkpoints as libraries save them, whose modules are watched from outside.
    "inside_modules": dict(
        why="made inside a module that is watched from outside (hf_ and tl_ cases record it)",
        points=["hook_embed", "hook_pos_embed", "embed.ln.*", "ln_final.*", "mlm_head.ln.*", "unembed.hook_out", "*.ln1.*",
                "*.ln2.*", "*.ln3.*", "*.ln1_post.*", "*.ln2_post.*", "encoder_final_ln.*", "decoder_final_ln.*",
                "*.q_norm.*", "*.k_norm.*", "*.v_norm.hook_scale", "*.hook_rot_q", "*.hook_rot_k", "*.rel_pos_hook", "*.hook_attn_scores",
                "*.mlp.hook_pre", "*.mlp.hook_pre_linear"]),
    "projections": dict(why="queries, keys and values are made by modules that differ by family (hf_ and tl_ cases record them)",
                        points=["*.attn.hook_q", "*.attn.hook_k", "*.attn.hook_v", "*.attn.hook_gate"]),
    "summands": dict(why="residual stream before and after show their sum (hf_ and tl_ cases record them)",
                     points=["*.hook_attn_out", "*.hook_mlp_out", "*.hook_resid_mid"]),
    "inside_experts": dict(
        why="made inside a module that is watched from outside; the gate and the router's weights are recorded",
        points=["*.mlp.experts.*.hook_pre", "*.mlp.experts.*.hook_post", "*.mlp.shared_expert.hook_pre",
                "*.mlp.shared_expert.hook_pre_linear", "*.mlp.shared_expert.hook_weight"]),
    "idle_experts": dict(why="experts that no token chose: transformers does not run them",
                         points=["*.mlp.experts.*.hook_gate", "*.mlp.experts.*.hook_in"]),
    "normed_stream": dict(why="norms follow the additions, and a layer returns the normed stream", points=["*.hook_resid_post"]),
    "eager_attention": dict(why="the attention of transformers that shows patterns is wrong for this config",
                            points=["*.attn.hook_pattern"]),
    "output_projection": dict(why="transformers has a projection before the unembedding, which the engine multiplies in",
                              points=["unembed.hook_in"]),
    "training_code": dict(why="recorded where forms of checkpoints can differ (tl_ cases record it)",
                          points=["unembed.hook_in", "*.mlp.hook_mid", "*.mlp.ln.*"]),
    "padded_encoder": dict(why="what stands on padding of the encoder has no meaning",
                           points=["encoder.*", "embed.hook_*", "hook_full_embed", "*.cross_attn.hook_k", "*.cross_attn.hook_v"]),
}


def is_exception(name: str, kinds) -> bool:
    return any(fnmatch.fnmatch(name, glob) for kind in kinds for glob in kExceptions[kind]["points"])
