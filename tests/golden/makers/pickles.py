"""Makes the files in tests/io/files: checkpoints that torch.save itself has to write, and what is in them.

expected.safetensors holds the tensors' values under their names;
tests/io/torch_files_test.cc compares.
"""

import collections
import pathlib
import zipfile

import safetensors.torch
import torch

from .case_files import kRoot

kFolder = kRoot / "tests" / "io" / "files"


def state_dict() -> collections.OrderedDict:
    """One tensor of every kind: dtypes, strides, sharing, sizes without elements."""
    base = torch.randn(4, 6)
    tensors = collections.OrderedDict(
        float64=torch.randn(2, 3, dtype=torch.float64),
        float32=torch.randn(3, 2),
        float16=torch.randn(5).half(),
        bfloat16=torch.randn(5).bfloat16(),
        int64=torch.tensor([-(2**62), 0, 2**62]),
        int32=torch.tensor([-(2**31), 7], dtype=torch.int32),
        int16=torch.tensor([-(2**15), 7], dtype=torch.int16),
        int8=torch.tensor([-128, 127], dtype=torch.int8),
        uint8=torch.tensor([0, 255], dtype=torch.uint8),
        bool=torch.tensor([True, False, True]),
        parameter=torch.nn.Parameter(torch.randn(2, 2)),
        scalar=torch.tensor(2.5),
        empty=torch.empty(0, 3),
        base=base,
        tied=base,
        transposed=base.t(),
        columns=base[:, 2:5],
        every_second=base[1::2, ::2],
        expanded=torch.randn(3, 1).expand(3, 4),
    )
    tensors._metadata = collections.OrderedDict({"": {"version": 1}})
    return tensors


def repack(source: pathlib.Path, target: pathlib.Path) -> None:
    """The same archive as another program writes it: sizes in the local headers, no zip64 record."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))


def main(_arguments: list) -> None:
    torch.manual_seed(7)
    folder = kFolder
    folder.mkdir(parents=True, exist_ok=True)
    tensors = state_dict()
    dense = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    safetensors.torch.save_file(dense, folder / "expected.safetensors")
    for protocol in range(2, 6):
        torch.save(tensors, folder / f"protocol{protocol}.pt", pickle_protocol=protocol)
    repack(folder / "protocol2.pt", folder / "repacked.pt")
    torch.serialization.set_crc32_options(False)
    torch.save({"float32": tensors["float32"]}, folder / "unchecked.pt")
    torch.serialization.set_crc32_options(True)

    module = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.ones(2)).backward()
    optimizer.step()
    checkpoint = {
        "model": {f"_orig_mod.{name}": value for name, value in module.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "model_args": dict(n_layer=2, n_head=3, n_embd=6, block_size=8, bias=False, vocab_size=None, dropout=0.25),
        "iter_num": 2**40,
        "best_val_loss": torch.tensor(1.5),
        "config": {"out_dir": "out", "betas": (0.9, 0.95), "compile": True, "seed": -(2**33)},
    }
    torch.save(checkpoint, folder / "training.pt")
    torch.save(tensors, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(module, folder / "module.pt")
