"""Which places of a recorded tensor are padding, of which tests compare nothing."""

import torch

kByQuery = ("hook_pattern", "hook_attn_scores", "rel_pos_hook")  # [batch, head, query, key]; the others are [batch, pos, ...]


def of_activation(inputs: dict, name: str, value: torch.Tensor) -> torch.Tensor | None:
    """Rows of padding of an activation, of a gradient or of logits.

    All of what an encoder-decoder's record holds is real, and padding goes to no expert.
    """
    mask = inputs.get("attention_mask")
    if mask is None or "decoder_tokens" in inputs or ".experts." in name:
        return None
    shape = [1] * value.dim()
    shape[0], shape[2 if name.endswith(kByQuery) else 1] = mask.shape
    return (mask == 0).reshape(shape).expand_as(value)


def of_reading(call: dict, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Of what a call of reading/index.json returned: [part, row, pos, ...], cut as the call says."""
    method, arguments, padding = call["method"], call["arguments"], mask == 0
    if method == "stack_activation":
        if arguments["activation"] == "pattern":  # [layer, row, head, query, key]: a query or a key
            return (padding[:, :, None] | padding[:, None, :])[None, :, None].expand_as(value)
    else:
        for name, cut in (("pos_slice", lambda at: padding[:, at]), ("batch_slice", lambda at: padding[at])):
            if name in arguments:
                at = arguments[name]
                padding = cut(at["list"] if isinstance(at, dict) else slice(*at) if isinstance(at, list) else at)
    shape = [1] * value.dim()
    first = 0 if method == "get_neuron_results" else 1
    shape[first:first + padding.dim()] = padding.shape
    return padding.reshape(shape).expand_as(value)


def of_gradients(name: str, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor | None:
    """Of what is estimated by column, [row, layer, pos, ...]."""
    if name not in ("nodes.resid_pre", "nodes.mlp_out", "atp.q", "atp.k"):
        return None
    shape = [1] * value.dim()
    shape[0], shape[2] = mask.shape
    return (mask == 0).reshape(shape).expand_as(value)
