"""Records adapters of golden checkpoints and what PEFT makes of them, in tests/golden/adapters/.

A folder is an adapter as PEFT saves it, of a random state, over a case of cases/ that its config names by a relative path. expected.safetensors
holds `logits` [2, pos, vocab] of the case's tokens in float64: those of `merge_and_unload`, which must agree with the model that the adapter
is applied to. Where the adapter changes one of two tied matrices PEFT's merge changes both (huggingface/peft 2777); there the applied
adapter's are recorded, which is what was trained. The test AdapterGoldens reads the folders.
"""

import dataclasses
import json
import shutil

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from .case_files import generator_for, kGoldens
from .drawn import model_folder
from .float64 import float64

kFolder = kGoldens / "adapters"


@dataclasses.dataclass(frozen=True)
class AdapterCase:
    """`applied`: what PEFT's merge makes of two tied matrices is not what the adapter does."""

    name: str
    base: str
    keys: dict
    auto: str = "AutoModelForCausalLM"
    applied: bool = False


kLlama = ["q_proj", "v_proj", "down_proj"]
kCases = [
    AdapterCase("llama_patterns", "llama", dict(
        r=4, lora_alpha=8, target_modules=kLlama, modules_to_save=["lm_head", "norm"],
        rank_pattern={"layers.0.self_attn.v_proj": 2, "down_proj": 3},
        alpha_pattern={r"self_attn\.[qv]_proj": 5, r"^model.layers.1.mlp.down_proj": 7})),
    AdapterCase("llama_embeddings", "llama", dict(r=3, lora_alpha=4, target_modules=["embed_tokens", "lm_head", "o_proj"])),
    AdapterCase("llama_dora", "llama", dict(r=2, lora_alpha=3, use_dora=True, target_modules=["embed_tokens", *kLlama])),
    AdapterCase("llama_bare", "llama", dict(r=2, target_modules=kLlama, task_type="FEATURE_EXTRACTION"), auto="AutoModel"),
    AdapterCase("gpt2_stabilised", "gpt2", dict(
        r=4, lora_alpha=8, use_rslora=True, bias="all", target_modules=["c_attn", "c_proj", "c_fc"])),
    AdapterCase("gpt2_equal_sizes_dora", "gpt2_equal_sizes", dict(r=2, use_dora=True, target_modules=["c_attn", "c_proj", "c_fc"])),
    AdapterCase("gpt2_tied_embedding", "gpt2", dict(r=2, target_modules=["wte", "c_attn"]), applied=True),
    AdapterCase("gemma_tied_unembedding", "gemma", dict(r=2, target_modules=["lm_head", "q_proj"]), applied=True),
    AdapterCase("gemma_own_embedding", "gemma", dict(r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens"]), applied=True),
    AdapterCase("qwen2_biases", "qwen2", dict(r=2, bias="lora_only", target_modules=["q_proj", "k_proj", "o_proj"])),
    AdapterCase("qwen2_lora_bias", "qwen2", dict(r=2, lora_bias=True, target_modules=["q_proj", "k_proj"])),
    AdapterCase("t5", "t5", dict(r=2, target_modules=["q", "v", "wo"], task_type="SEQ_2_SEQ_LM"), auto="AutoModelForSeq2SeqLM"),
    AdapterCase("gemma3", "gemma3_text_in_gemma3", dict(r=2, target_modules="all-linear"), auto="AutoModelForImageTextToText"),
]


def base_of(case: AdapterCase) -> torch.nn.Module:
    auto = getattr(transformers, case.auto)
    model = auto.from_pretrained(model_folder(f"cases/{case.base}"), dtype=torch.float64, attn_implementation="eager")
    return model.eval()


def randomise(model: torch.nn.Module, name: str) -> None:
    """Every tensor of the adapter gets numbers that half precision holds; those that begin as the base's are shifted."""
    generator = generator_for(name)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3
            of_base = any(part in path for part in ("modules_to_save", "magnitude")) or path.endswith(".bias") and "lora_B" not in path
            parameter.copy_((parameter + noise if of_base else noise).to(torch.half).to(torch.float64))


def logits_of(model, case: AdapterCase, inputs: dict) -> torch.Tensor:
    output = model(**inputs, use_cache=False) if case.auto != "AutoModel" else None
    return output.logits.detach().to(torch.float64)


def inputs_of(case: AdapterCase) -> dict:
    golden = load_file(kGoldens / "cases" / case.base / "golden.safetensors")
    inputs = dict(input_ids=golden["tokens"])
    if "decoder_tokens" in golden:
        inputs["decoder_input_ids"] = golden["decoder_tokens"]
    return inputs


def write(case: AdapterCase) -> None:
    folder = kFolder / case.name
    shutil.rmtree(folder, ignore_errors=True)
    with float64():
        config = peft.LoraConfig(**dict(dict(task_type="CAUSAL_LM"), **case.keys))
        model = peft.get_peft_model(base_of(case), config)
        randomise(model, case.name)
        model.save_pretrained(folder)
    (folder / "README.md").unlink()
    tensors = load_file(folder / "adapter_model.safetensors")
    save_file({name: tensor.to(torch.float32).contiguous() for name, tensor in tensors.items()}, folder / "adapter_model.safetensors",
              metadata={"format": "pt"})
    written = json.loads((folder / "adapter_config.json").read_text())
    written["base_model_name_or_path"] = f"../../cases/{case.base}"
    for key in ("target_modules", "modules_to_save"):  # sets, whose order changes
        if isinstance(written[key], list):
            written[key] = sorted(written[key])
    (folder / "adapter_config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")

    of_logits = dataclasses.replace(case, auto="AutoModelForCausalLM") if case.auto == "AutoModel" else case
    with float64():
        base = base_of(case)
    applied = peft.PeftModel.from_pretrained(base, folder).eval()  # reads files, whose dtypes must stay
    with float64(), torch.no_grad():
        if case.auto == "AutoModel":  # a model without logits: its merged body takes the place of the whole model's
            whole = base_of(of_logits)
            whole.model = applied.merge_and_unload()
            logits = logits_of(whole, of_logits, inputs_of(case))
        else:
            logits = logits_of(applied, case, inputs_of(case))
            merged = logits_of(applied.merge_and_unload(), case, inputs_of(case))
            difference = (merged - logits).abs().max().item()
            assert (difference > 1e-3) == case.applied or case.name == "gemma_own_embedding", (case.name, difference)
            print(f"{case.name}: merged and applied differ by {difference:.1e}")
            if not case.applied:
                assert difference < 1e-10, (case.name, difference)
                logits = merged
    with float64(), torch.no_grad():
        before = logits_of(base_of(of_logits), of_logits, inputs_of(case))
    assert (logits - before).abs().max() > 1e-2, f"{case.name}: the adapter changes nothing"
    save_file({"logits": logits.contiguous()}, folder / "expected.safetensors")


def main(arguments: list) -> None:
    for case in kCases:
        if not arguments or case.name in arguments:
            write(case)
