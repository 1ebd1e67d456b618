"""llama.cpp, through the package llama-cpp-python. It rounds activations to eight bits where weights are quantised."""
import os

import torch
from llama_cpp import Llama


class Engine:
    packages = ("llama_cpp_python",)

    def __init__(self, folder: str, dtype: torch.dtype, context: int, device: str):
        if device != "cpu":
            raise ValueError("asked on a CPU only")
        del dtype
        threads = int(os.environ["OMP_NUM_THREADS"])
        self.model = Llama(model_path=folder, n_ctx=context, n_batch=context, n_threads=threads, n_threads_batch=threads,
                           n_gpu_layers=0, logits_all=True, verbose=False)

    def read(self, ids: list):
        """The logits of the last of them, after all before."""
        self.model.eval(ids)
        return self.model.scores[self.model.n_tokens - 1]

    def forward(self, tokens):
        self.model.reset()
        self.read(tokens[0].tolist())
        return {"logits": torch.from_numpy(self.model.scores[:tokens.shape[1]])[None]}

    def decode(self, tokens, new_tokens, keep):
        assert not keep, "llama.cpp does not give activations"
        self.model.reset()
        ids = tokens[0].tolist()
        logits = self.read(ids)
        for made in range(new_tokens):
            ids.append(int(logits.argmax()))
            if made + 1 < new_tokens:
                logits = self.read(ids[-1:])
        return {"tokens": torch.tensor([ids])}
