"""Which modules of the readers' package can be imported here, since pytest imports all to run their examples."""

from importlib.util import find_spec

NEEDS = {
    "posenc_book/real/encoder.py": ("safetensors", "tokenizers"),
    "posenc_book/real/tables.py": ("safetensors", "tokenizers"),
    "posenc_book/real/transformers_model.py": ("gguf", "tokenizers", "transformers"),
}
GGUF = ("batches", "caches", "decoder", "gemma", "gguf_file", "language_model", "ledger", "pairs", "stretch", "where")
NEEDS |= {f"posenc_book/real/{name}.py": ("gguf", "tokenizers") for name in GGUF}
NEEDS["posenc_book/real/tokens.py"] = ("tokenizers",)
NEEDS["posenc_book/real/study.py"] = ("gguf", "safetensors", "tokenizers")

collect_ignore = [path for path, modules in NEEDS.items() if not all(map(find_spec, modules))]
