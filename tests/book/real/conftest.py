"""A small Llama of random weights on disk, in both formats."""

import pytest

from tests.book.real import tiny_llama
from tests.peers import peer


@pytest.fixture(scope="package")
def tiny_files(tmp_path_factory):
    """Return a folder with `tiny.gguf`, and the same model as transformers keeps it in `hf`."""
    peer("gguf")
    transformers = peer("transformers")
    folder = tmp_path_factory.mktemp("tiny")
    tensors, tokens = tiny_llama.weights(), tiny_llama.tokenizer()
    tiny_llama.write_gguf(folder / "tiny.gguf", tensors, tokens)
    tiny_llama.model_of_transformers(tensors).save_pretrained(folder / "hf")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokens).save_pretrained(folder / "hf")
    return folder
