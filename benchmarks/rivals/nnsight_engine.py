"""nnsight over the model of transformers."""
import tempfile

import nnsight
import torch
from nnsight.modeling.transformers import TransformersModel
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from .later import Later
from .questions import HARVEST_ROWS
from .transformers_engine import attributed


class Engine:
    packages = ("nnsight", "transformers")

    def __init__(self, folder: str, dtype: torch.dtype, context: int, device: str):
        del context
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().requires_grad_(False).to(device)
        self.model.generation_config.eos_token_id = None
        words = {"0": 0}  # nnsight wants a tokenizer; all input is ids
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="0")), pad_token="0")
        self.sight = TransformersModel(self.model, tokenizer=tokenizer, task="text-generation")
        self.blocks = self.sight.transformer.h if hasattr(self.model, "transformer") else self.sight.model.layers

    def forward(self, tokens):
        with self.sight.trace(tokens):
            logits = self.sight.output.logits.save()
        return {"logits": logits}

    def cache(self, tokens, points):
        assert points == "resid_post", points
        with self.sight.trace(tokens):
            kept = nnsight.save([])
            for block in self.blocks:
                kept.append(block.output)
            logits = self.sight.output.logits.save()
        return {"logits": logits, **{f"blocks.{l}.hook_resid_post": x for l, x in enumerate(kept)}}

    def harvest(self, tokens, layer):
        with self.sight.trace(tokens) as tracer:
            stream = self.blocks[layer - 1].output.save()
            tracer.stop()
        return {f"blocks.{layer - 1}.hook_resid_post": stream}

    def store(self, tokens, layer):
        name = f"blocks.{layer - 1}.hook_resid_post"
        file = tempfile.NamedTemporaryFile()
        kept = [self.harvest(rows, layer)[name] for rows in tokens.split(HARVEST_ROWS)]
        save_file({name: torch.cat(kept), "tokens": tokens}, file.name)
        return Later(lambda: {name: load_file(file.name)[name]}, file)

    def decode(self, tokens, new_tokens, keep):
        options = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens, "do_sample": False, "pad_token_id": 0}
        if not keep:
            with self.sight.generate(tokens, **options) as tracer:
                ids = tracer.result.save()
            return {"tokens": ids}
        with self.sight.generate(tokens, **options) as tracer:
            kept = nnsight.save([])
            for _ in tracer.iter[:new_tokens]:
                for block in self.blocks:
                    kept.append(block.output)
            ids = tracer.result.save()
        layers = len(self.blocks)
        return {"tokens": ids,
                **{f"blocks.{l}.hook_resid_post": torch.cat(list(kept[l::layers]), 1) for l in range(layers)}}

    def edit_rows(self, tokens, layer, step, edited):
        assert edited
        more = torch.arange(len(tokens), dtype=self.model.dtype, device=tokens.device)[:, None, None] * step
        with self.sight.trace(tokens, logits_to_keep=1):
            self.blocks[layer].input = self.blocks[layer].input + more
            logits = self.sight.output.logits.save()
        return {"logits": logits}

    def attribution(self, tokens, answer, against):
        with torch.enable_grad():
            with self.sight.trace(tokens, logits_to_keep=1):
                read = nnsight.save([])
                self.blocks[0].input = self.blocks[0].input.detach().requires_grad_()
                for block in self.blocks:
                    stream = block.input
                    stream.retain_grad()
                    read.append(stream)
                logits = self.sight.output.logits.save()
            last = logits[:, -1]
            (last[:, answer] - last[:, against]).sum().backward()
        return attributed(read)
