"""Plain Hugging Face, with PyTorch's forward hooks where an activation is read or changed."""
import contextlib

import torch
from transformers import AutoModelForCausalLM


class Stopped(Exception):
    """Ends a forward pass in the middle."""


def tensor_of(output):
    """Blocks give a tensor or, in some versions and models, a tuple that begins with it."""
    return output[0] if isinstance(output, tuple) else output


class Engine:
    packages = ("transformers",)

    def __init__(self, folder: str, dtype: torch.dtype, context: int, device: str):
        del context
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().requires_grad_(False).to(device)
        self.blocks = self.model.transformer.h if hasattr(self.model, "transformer") else self.model.model.layers
        self.model.generation_config.eos_token_id = None

    @contextlib.contextmanager
    def streams(self):
        """A list for each layer's stream, filled call by call."""
        kept = [[] for _ in self.blocks]
        handles = [block.register_forward_hook(lambda module, inputs, output, into=into: into.append(tensor_of(output)))
                   for block, into in zip(self.blocks, kept)]
        try:
            yield kept
        finally:
            for handle in handles:
                handle.remove()

    def forward(self, tokens):
        return {"logits": self.model(tokens).logits}

    def cache(self, tokens, points):
        assert points == "resid_post", points
        with self.streams() as kept:
            logits = self.model(tokens).logits
        return {"logits": logits, **{f"blocks.{l}.hook_resid_post": kept[l][0] for l in range(len(kept))}}

    def harvest(self, tokens, layer):
        kept = []

        def stop(module, inputs, output):
            kept.append(tensor_of(output))
            raise Stopped

        handle = self.blocks[layer - 1].register_forward_hook(stop)
        try:
            self.model(tokens)
        except Stopped:
            pass
        finally:
            handle.remove()
        return {f"blocks.{layer - 1}.hook_resid_post": kept[0]}

    def decode(self, tokens, new_tokens, keep):
        def generate():
            return self.model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False,
                                       max_new_tokens=new_tokens, min_new_tokens=new_tokens, pad_token_id=0)
        if not keep:
            return {"tokens": generate()}
        with self.streams() as kept:
            ids = generate()
        return {"tokens": ids, **{f"blocks.{l}.hook_resid_post": torch.cat(kept[l], 1) for l in range(len(kept))}}

    def edit_rows(self, tokens, layer, step, edited):
        assert edited
        more = torch.arange(len(tokens), dtype=self.model.dtype, device=tokens.device)[:, None, None] * step

        def change(module, inputs):
            return (inputs[0] + more, *inputs[1:])

        handle = self.blocks[layer].register_forward_pre_hook(change)
        try:
            return {"logits": self.model(tokens, logits_to_keep=1).logits}
        finally:
            handle.remove()

    def attribution(self, tokens, answer, against):
        read = []

        def begin(module, inputs):
            read.append(inputs[0].detach().requires_grad_())
            return (read[0], *inputs[1:])

        def note(module, inputs):
            inputs[0].retain_grad()
            read.append(inputs[0])

        handles = [block.register_forward_pre_hook(note if l else begin) for l, block in enumerate(self.blocks)]
        try:
            with torch.enable_grad():
                last = self.model(tokens, logits_to_keep=1).logits[:, -1]
                (last[:, answer] - last[:, against]).sum().backward()
        finally:
            for handle in handles:
                handle.remove()
        return attributed(read)


def attributed(streams) -> dict:
    """From what each layer reads, [2, pos, d_model], with gradients: the result of an attribution."""
    return {"attribution": torch.stack([((x[0] - x[1]) * x.grad[1]).sum(-1) for x in streams]).detach()}
