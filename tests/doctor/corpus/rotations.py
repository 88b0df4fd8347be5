"""Rotations in public packages: RoPE and its kin, in one and in more dimensions."""

from tests.doctor.corpus import Bug, Implementation, Package

NEW = {
    "decay-not-inverted": "xPos: keys are not scaled by the inverse of what scales queries",
    "axes-summed": "2-D: both axes turn the same pairs alike, only the sum of the coordinates counts",
    "scaling-reversed": "stretching reaches the fast pairs and spares the slow ones, not the other way",
}

PACKAGES = (
    Package(
        "torchtune",
        "0.6.1",
        "BSD-3-Clause",
        "https://github.com/pytorch/torchtune",
        bare=(
            "torchtune",
            "torchtune.modules",
            "torchtune.models",
            "torchtune.models.llama3_1",
            "torchtune.models.phi3",
        ),
    ),
    Package(
        "litgpt",
        "0.5.13",
        "Apache-2.0",
        "https://github.com/Lightning-AI/litgpt",
        bare=("litgpt",),
        stubs=(
            "lightning",
            "lightning.fabric",
            "lightning.fabric.utilities",
            "lightning.fabric.utilities.load",
            "lightning.fabric.loggers",
            "lightning.fabric.strategies",
            "lightning.pytorch",
            "lightning.pytorch.cli",
            "lightning.pytorch.loggers",
            "lightning_utilities",
            "lightning_utilities.core",
            "lightning_utilities.core.imports",
        ),
    ),
    Package(
        "llama-models",
        "0.3.0",
        "Llama-Community",
        "https://github.com/meta-llama/llama-models",
        bare=("llama_models", "llama_models.llama3"),
        stubs=(
            "fairscale",
            "fairscale.nn",
            "fairscale.nn.model_parallel",
            "fairscale.nn.model_parallel.initialize",
            "fairscale.nn.model_parallel.layers",
        ),
    ),
    Package(
        "mistral-inference",
        "1.6.0",
        "Apache-2.0",
        "https://github.com/mistralai/mistral-inference",
        bare=("mistral_inference",),
    ),
    Package("moshi", "0.2.13", "MIT", "https://github.com/kyutai-labs/moshi", bare=("moshi", "moshi.modules")),
    Package(
        "audiocraft",
        "1.3.0",
        "MIT",
        "https://github.com/facebookresearch/audiocraft",
        bare=("audiocraft", "audiocraft.modules"),
    ),
    Package(
        "torchscale",
        "0.3.0",
        "MIT",
        "https://github.com/microsoft/torchscale",
        bare=("torchscale", "torchscale.component"),
    ),
    Package("fair-esm", "2.0.0", "MIT", "https://github.com/facebookresearch/esm", bare=("esm",)),
    Package(
        "esm", "3.2.1.post1", "Cambrian-Open", "https://github.com/evolutionaryscale/esm", bare=("esm", "esm.layers")
    ),
    Package(
        "tabicl", "2.2.0", "BSD-3-Clause", "https://github.com/soda-inria/tabicl", bare=("tabicl", "tabicl._model")
    ),
    Package("rotary-embedding-torch", "0.9.1", "MIT", "https://github.com/lucidrains/rotary-embedding-torch"),
    Package(
        "toto-ts",
        "0.2.0",
        "Apache-2.0",
        "https://github.com/DataDog/toto",
        needs=("rotary-embedding-torch",),
        bare=("toto", "toto.model"),
        stubs=("jaxtyping",),
    ),
    Package(
        "sam2",
        "1.1.0",
        "Apache-2.0",
        "https://github.com/JinsuaFeito-dev/segment-anything-2",
        bare=("sam2", "sam2.modeling"),
    ),
    Package("sam3", "0.1.4", "SAM", "https://github.com/facebookresearch/sam3", bare=("sam3", "sam3.sam")),
    Package(
        "kornia",
        "0.9.0",
        "Apache-2.0",
        "https://github.com/kornia/kornia",
        bare=("kornia", "kornia.feature"),
        stubs=("kornia.feature.laf", "kornia_rs"),
    ),
    Package(
        "timesfm",
        "3.0.2",
        "Apache-2.0",
        "https://github.com/google-research/timesfm",
        bare=("timesfm", "timesfm.torch"),
    ),
    Package(
        "recurrentgemma",
        "1.0.1",
        "Apache-2.0",
        "https://github.com/google-deepmind/recurrentgemma",
        bare=("recurrentgemma", "recurrentgemma.torch"),
        stubs=("jaxtyping",),
    ),
    Package(
        "local-attention", "1.11.2", "MIT", "https://github.com/lucidrains/local-attention", bare=("local_attention",)
    ),
    Package(
        "palm-rlhf-pytorch",
        "0.8.0",
        "MIT",
        "https://github.com/lucidrains/PaLM-rlhf-pytorch",
        bare=("palm_rlhf_pytorch",),
        stubs=("beartype",),
    ),
    Package(
        "perceiver-ar-pytorch",
        "0.0.10",
        "MIT",
        "https://github.com/lucidrains/perceiver-ar-pytorch",
        bare=("perceiver_ar_pytorch",),
    ),
    Package(
        "performer-pytorch",
        "1.1.4",
        "MIT",
        "https://github.com/lucidrains/performer-pytorch",
        bare=("performer_pytorch",),
        stubs=("local_attention", "axial_positional_embedding"),
    ),
    Package("beartype", "0.23.1", "MIT", "https://github.com/beartype/beartype"),
    Package(
        "ring-attention-pytorch",
        "0.5.20",
        "MIT",
        "https://github.com/lucidrains/ring-attention-pytorch",
        needs=("beartype",),
        bare=("ring_attention_pytorch",),
    ),
    Package(
        "uni2ts",
        "2.0.0",
        "Apache-2.0",
        "https://github.com/SalesforceAIResearch/uni2ts",
        bare=("uni2ts", "uni2ts.module", "uni2ts.module.position"),
        stubs=("jaxtyping",),
    ),
    Package(
        "labml-nn",
        "0.5.1",
        "MIT",
        "https://github.com/labmlai/annotated_deep_learning_paper_implementations",
        bare=("labml_nn", "labml_nn.transformers", "labml_nn.neox"),
        stubs=("labml", "labml.logger", "labml.utils", "labml.utils.download"),
    ),
    Package(
        "megatron-core",
        "0.16.1",
        "Apache-2.0",
        "https://github.com/NVIDIA/Megatron-LM",
        bare=(
            "megatron",
            "megatron.core",
            "megatron.core.models",
            "megatron.core.models.common",
            "megatron.core.models.common.embeddings",
        ),
    ),
    Package(
        "ibm-fms",
        "1.13.1",
        "Apache-2.0",
        "https://github.com/foundation-model-stack/foundation-model-stack",
        bare=("fms", "fms.modules"),
    ),
    Package(
        "curated-transformers",
        "2.0.1",
        "MIT",
        "https://github.com/explosion/curated-transformers",
        bare=("curated_transformers", "curated_transformers.layers"),
    ),
    Package(
        "chronos-forecasting",
        "2.3.2",
        "Apache-2.0",
        "https://github.com/amazon-science/chronos-forecasting",
        bare=("chronos", "chronos.chronos2"),
    ),
    Package("opennmt-py", "3.5.1", "MIT", "https://github.com/OpenNMT/OpenNMT-py", bare=("onmt", "onmt.modules")),
    Package(
        "speechbrain",
        "1.1.2",
        "Apache-2.0",
        "https://github.com/speechbrain/speechbrain",
        bare=("speechbrain", "speechbrain.nnet"),
        stubs=("torchaudio",),
    ),
    Package(
        "stackformer",
        "0.1.10",
        "MIT",
        "https://github.com/stackformer-labs/Stackformer",
        bare=("stackformer", "stackformer.modules"),
    ),
    Package(
        "llms-from-scratch",
        "1.0.19",
        "Apache-2.0",
        "https://github.com/rasbt/LLMs-from-scratch",
        bare=("llms_from_scratch", "llms_from_scratch.kv_cache"),
        stubs=("tiktoken", "tiktoken.load"),
    ),
    Package("picogpt", "0.1.1", "MIT", "https://github.com/ptarau/picogpt", bare=("picogpt",)),
    Package(
        "autoawq",
        "0.2.7.post3",
        "MIT",
        "https://github.com/casper-hansen/AutoAWQ",
        bare=("awq", "awq.modules", "awq.modules.fused"),
        stubs=(
            "transformers",
            "transformers.models.llama.modeling_llama",
            "transformers.cache_utils",
            "accelerate",
            "awq.utils.fused_utils",
        ),
    ),
    Package(
        "vtx",
        "1.1.0",
        "Apache-2.0",
        "https://github.com/Zymrael/vortex",
        bare=("vortex", "vortex.model"),
        stubs=("flash_attn_2_cuda", "triton", "triton.language"),
    ),
    Package(
        "rotary-spatial-embeddings",
        "2025.9.27.2133",
        "BSD-3-Clause",
        "https://github.com/rhoadesScholar/RoSE",
        bare=("RoSE",),
    ),
    Package("vit-pytorch", "1.26.11", "MIT", "https://github.com/lucidrains/vit-pytorch", bare=("vit_pytorch",)),
    Package(
        "timm",
        "1.0.31",
        "Apache-2.0",
        "https://github.com/huggingface/pytorch-image-models",
        bare=("timm", "timm.layers"),
    ),
    Package("diffusers", "0.42.1", "Apache-2.0", "https://github.com/huggingface/diffusers"),
    Package("x-transformers", "2.31.10", "MIT", "https://github.com/lucidrains/x-transformers"),
    Package("PoPE-pytorch", "0.2.1", "MIT", "https://codeberg.org/lucidrains/PoPE-pytorch", bare=("PoPE_pytorch",)),
    Package("transformers", "5.23.0", "Apache-2.0", "https://github.com/huggingface/transformers"),
    Package("huggingface-hub", "0.20.3", "Apache-2.0", "https://github.com/huggingface/huggingface_hub"),
    # The same project years before: the other spelling keeps the two apart.
    Package(
        "Transformers",
        "4.36.2",
        "Apache-2.0",
        "https://github.com/huggingface/transformers",
        needs=("huggingface-hub",),
        stubs=("transformers.dependency_versions_check",),
    ),
    Package(
        "ai2-olmo-core",
        "3.0.0",
        "Apache-2.0",
        "https://github.com/allenai/OLMo-core",
        bare=("olmo_core", "olmo_core.nn"),
        stubs=("cached_path", "dataclass_extensions"),
    ),
    Package(
        "tinyllama",
        "0.0.2b0",
        "Apache-2.0",
        "https://github.com/miftahmoha/tinyllama",
        bare=("tinyllama", "tinyllama.encoding"),
    ),
    Package(
        "zetascale",
        "2.8.8",
        "MIT",
        "https://github.com/kyegomez/zeta",
        bare=("zeta", "zeta.nn", "zeta.nn.embeddings"),
    ),
)

IMPLEMENTATIONS = (
    Implementation(
        name="torchtune RotaryPositionalEmbeddings",
        package="torchtune",
        module="torchtune.modules.position_embeddings",
        make="RotaryPositionalEmbeddings(dim=64)",
        kind="rotation",
        settings={"dim": 64, "order": "bthd"},
        bugs=(
            Bug(
                "input positions never looked up",
                "if input_pos is None else self.cache[input_pos]",
                "if input_pos is None else self.cache[:seq_len]",
                "positions-ignored",
                "packed samples and decoding all count from 0",
            ),
            Bug(
                "counts from one",
                "seq_idx, self.theta).float()",
                "seq_idx + 1, self.theta).float()",
                "positions-shifted",
                "the first token is turned by one step",
                unseen="queries and keys both count from one, so logits stay as they are: sound code, which is noted",
            ),
        ),
    ),
    Implementation(
        name="torchtune Llama3ScaledRoPE",
        package="torchtune",
        module="torchtune.models.llama3_1._position_embeddings",
        make="Llama3ScaledRoPE(dim=64, base=500_000)",
        kind="rotation",
        settings={"dim": 64, "order": "bthd"},
        bugs=(
            Bug(
                "sign of the real part",
                "- xshaped[..., 1] * rope_cache[..., 1]",
                "+ xshaped[..., 1] * rope_cache[..., 1]",
                "not-a-rotation",
                "both parts of a pair are added",
            ),
            Bug(
                "slow pairs not stretched",
                "new_freqs.append(freq / scale_factor)",
                "new_freqs.append(freq)",
                "scaling-ignored",
                "wavelengths beyond the old context keep their speed",
            ),
            Bug(
                "base left at its default",
                "self.base = base",
                "self.base = 10_000",
                "base-ignored",
                "base has no effect",
            ),
        ),
    ),
    Implementation(
        name="torchtune Phi3RotaryPositionalEmbeddings",
        package="torchtune",
        module="torchtune.models.phi3._position_embeddings",
        make="Phi3RotaryPositionalEmbeddings(dim=64)",
        kind="rotation",
        settings={"dim": 64, "order": "bthd"},
        bugs=(
            Bug(
                "table repeated for neighbours",
                "torch.cat([idx_theta, idx_theta], dim=-1)",
                "idx_theta.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "pairs are half a width apart, angles are given for neighbours",
            ),
            Bug(
                "no minus in the turned half",
                "torch.cat((-x2, x1), dim=-1)",
                "torch.cat((x2, x1), dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "half the exponent",
                "torch.arange(0, self.dim, 2)[: (self.dim // 2)]",
                "torch.arange(0, self.dim // 2)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
        ),
    ),
    Implementation(
        name="torchtune VisionRotaryPositionalEmbeddings",
        package="torchtune",
        module="torchtune.modules.position_embeddings",
        make="VisionRotaryPositionalEmbeddings(patch_size=8, tile_size=32, max_num_tiles=1, dim=32)",
        kind="rotation",
        settings={"order": "bthd"},
        why="4 x 4 patches and a class token at the end: 17 tokens of width 64",
        bugs=(
            Bug(
                "columns twice",
                "patch_y_pos + 1, self.theta",
                "patch_x_pos + 1, self.theta",
                "axis-lost",
                "rows have no effect",
            ),
        ),
    ),
    Implementation(
        name="litgpt apply_rope",
        package="litgpt",
        module="litgpt.model",
        make="apply_rope",
        kind="rotation",
        glue="""
def wrapped(x, offset=0, condense_ratio=4):
    cos, sin = build_rope_cache(offset + x.shape[-2], x.shape[-1], condense_ratio=condense_ratio)
    return apply_rope(x, cos[None, offset:], sin[None, offset:])
""",
        bugs=(
            Bug(
                "table repeated for neighbours",
                "torch.outer(seq_idx, theta).repeat(1, 2)",
                "torch.outer(seq_idx, theta).repeat_interleave(2, dim=1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "exponent counted from one",
                "theta = 1.0 / (base ** (torch.arange(0, n_elem, 2, device=device)",
                "theta = 1.0 / (base ** (torch.arange(2, n_elem + 2, 2, device=device)",
                "exponent-shifted",
                "the first pair is not the fastest, and the last turns at 1 / base",
            ),
            Bug(
                "ratio not divided",
                ".float() / condense_ratio",
                ".float()",
                "scaling-ignored",
                "condense_ratio has no effect",
            ),
        ),
    ),
    Implementation(
        name="litgpt build_rope_cache with YaRN",
        package="litgpt",
        module="litgpt.model",
        make="build_rope_cache",
        kind="rotation",
        glue="""
YARN = {"factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_seq_len": 4096}


def wrapped(x, offset=0):
    cos, sin = build_rope_cache(offset + x.shape[-2], x.shape[-1], extra_config=YARN)
    return apply_rope(x, cos[None, offset:], sin[None, offset:])
""",
        defects=("scaling-reversed",),
        why="the ramp is used as it is where YaRN takes one minus it: with factor 8 and width 64 the fastest pair "
        "turns at 1/8 of its speed and the slowest at its full one, while the paper divides the slow ones only",
    ),
    Implementation(
        name="Llama 3 apply_rotary_emb",
        package="llama-models",
        module="llama_models.llama3.model",
        make="apply_rotary_emb",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(q, k, offset=0, theta=500000.0):
    freqs_cis = precompute_freqs_cis(q.shape[-1], offset + q.shape[1], theta=theta)
    return apply_rotary_emb(q, k, freqs_cis[offset:])
""",
        bugs=(
            Bug(
                "queries returned as keys",
                "torch.view_as_real(xk_ * freqs_cis)",
                "torch.view_as_real(xq_ * freqs_cis)",
                "one-for-both",
                "the second result is made from queries",
            ),
            Bug(
                "keys conjugated",
                "xk_ * freqs_cis",
                "xk_ * freqs_cis.conj()",
                "opposite",
                "keys turn the other way",
            ),
            Bug(
                "half the exponent",
                "torch.arange(0, dim, 2)[: (dim // 2)].float() / dim",
                "torch.arange(0, dim // 2).float() / dim",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "theta written out",
                "1.0 / (theta ** (torch.arange",
                "1.0 / (10000.0 ** (torch.arange",
                "base-ignored",
                "theta has no effect",
            ),
        ),
    ),
    Implementation(
        name="mistral-inference apply_rotary_emb",
        package="mistral-inference",
        module="mistral_inference.rope",
        make="apply_rotary_emb",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(q, k, offset=0):
    freqs_cis = precompute_freqs_cis(q.shape[-1], offset + q.shape[-3], 10000.0)
    return apply_rotary_emb(q, k, freqs_cis[offset:])
""",
        why="made for packed tokens (tokens, heads, width); leading axes pass through",
        bugs=(
            Bug(
                "powers not inverted",
                "freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[",
                "freqs = 1.0 * (theta ** (torch.arange(0, dim, 2)[",
                "exponent-inverted",
                "speeds grow up to theta",
            ),
            Bug(
                "keys pass as they are",
                "torch.view_as_real(xk_ * freqs_cis)",
                "torch.view_as_real(xk_)",
                "one-side",
                "only queries turn",
            ),
        ),
    ),
    Implementation(
        name="mistral-inference precompute_freqs_cis_2d",
        package="mistral-inference",
        module="mistral_inference.rope",
        make="precompute_freqs_cis_2d",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(q, k, positions):
    grid = precompute_freqs_cis_2d(q.shape[-1], 64, 64, 10000.0)
    return apply_rotary_emb(q, k, grid[positions[..., 0], positions[..., 1]])
""",
        why="positions are rows and columns of patches (tokens, 2)",
        bugs=(
            Bug(
                "rows in the place of columns",
                "freqs_w[None, :, :].repeat(height, 1, 1)",
                "freqs_w[:, None, :].repeat(1, width, 1)",
                "axis-lost",
                "columns have no effect",
            ),
            Bug(
                "results exchanged",
                "return xq_out.type_as(xq), xk_out.type_as(xk)",
                "return xk_out.type_as(xk), xq_out.type_as(xq)",
                "swapped",
                "keys come first",
            ),
        ),
    ),
    Implementation(
        name="moshi RotaryEmbedding",
        package="moshi",
        module="moshi.modules.rope",
        make="RotaryEmbedding(interleave=True)",
        kind="rotation",
        glue="""
from moshi.utils.compile import no_compile

rope = RotaryEmbedding(interleave=True)


def wrapped(q, k, offset=0):
    with no_compile():
        return rope(q, k, torch.full((q.shape[0],), offset))
""",
        bugs=(
            Bug(
                "sign of the imaginary part of keys",
                "koi = kr * roti + ki * rotr",
                "koi = kr * roti - ki * rotr",
                "not-a-rotation",
                "keys are mirrored",
            ),
            Bug(
                "half the exponent",
                "-math.log(max_period) * 2 / D",
                "-math.log(max_period) / D",
                "exponent-halved",
                "the slowest pair turns a hundred times too fast",
            ),
            Bug(
                "keys put together as halves",
                "torch.stack([kor.to(dtype), koi.to(dtype)], dim=-1)",
                "torch.stack([kor.to(dtype), koi.to(dtype)], dim=-2)",
                "sides-differ",
                "queries come back as neighbours, keys as halves",
            ),
        ),
    ),
    Implementation(
        name="audiocraft RotaryEmbedding.rotate_qk",
        package="audiocraft",
        module="audiocraft.modules.rope",
        make="RotaryEmbedding(64, max_period=500.0).rotate_qk",
        kind="rotation",
        settings={"order": "bthd"},
        defects=("buffers-rounded",),
        why="frequencies are a buffer: after .bfloat16() the result is off by more than 3 % at position 4095",
        bugs=(
            Bug(
                "streamed queries start at zero",
                "self.rotate(query, start + streaming_offset, time_dim)",
                "self.rotate(query, start, time_dim)",
                "offset-ignored",
                "with cached keys the query counts from 0",
            ),
            Bug(
                "period written out",
                "1.0 / (max_period ** (adim / dim))",
                "1.0 / (10000.0 ** (adim / dim))",
                "base-ignored",
                "max_period has no effect",
            ),
            Bug(
                "queries given for keys",
                "self.rotate(key, start, time_dim, invert_decay=True)",
                "self.rotate(query, start, time_dim, invert_decay=True)",
                "one-for-both",
                "the second result is made from queries",
            ),
        ),
    ),
    Implementation(
        name="audiocraft RotaryEmbedding with xPos",
        package="audiocraft",
        module="audiocraft.modules.rope",
        make="RotaryEmbedding(64, xpos=True).rotate_qk",
        kind="rotation",
        settings={"order": "bthd"},
        defects=("buffers-rounded",),
        why="as without xPos",
        bugs=(
            Bug(
                "decay of keys not inverted",
                "start, time_dim, invert_decay=True)",
                "start, time_dim)",
                "decay-not-inverted",
                "scores fade with the places of both in place of their distance",
            ),
        ),
    ),
    Implementation(
        name="torchscale XPOS",
        package="torchscale",
        module="torchscale.component.xpos_relative_position",
        make="XPOS(64)",
        kind="rotation",
        settings={"dim": 64, "order": "btd"},
        glue="""
xpos = XPOS(64)


def wrapped(q, k, offset=0):
    return xpos(q, offset=offset), xpos(k, offset=offset, downscale=True)
""",
        defects=("angles-rounded", "buffers-rounded"),
        why="angles are cast to the dtype of the scale, a buffer: after .bfloat16() positions 4094 and 4095 "
        "turn the first pair alike",
        bugs=(
            Bug(
                "keys scaled like queries",
                "scale = 1 / scale",
                "scale = scale",
                "decay-not-inverted",
                "scores fade with the places of both in place of their distance",
            ),
            Bug(
                "table repeated as halves",
                "duplicate_interleave(t * scale), (sin, cos)",
                "torch.cat((t * scale, t * scale), -1), (sin, cos)",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "half the exponent",
                "10000 ** (torch.arange(0, dim) / dim)",
                "10000 ** (torch.arange(0, dim) / (2 * dim))",
                "exponent-halved",
                "dim is the number of pairs here, not the width",
            ),
            Bug(
                "head of the table in decoding",
                "sin[-length:]\n            cos = cos[-length:]",
                "sin[:length]\n            cos = cos[:length]",
                "offset-ignored",
                "with an offset the token is turned as the first",
            ),
        ),
    ),
    Implementation(
        name="fair-esm RotaryEmbedding",
        package="fair-esm",
        module="esm.rotary_embedding",
        make="RotaryEmbedding(64)",
        kind="rotation",
        settings={"dim": 64, "order": "btd"},
        defects=("offset-ignored", "buffers-rounded"),
        why="queries fewer than the keys take the head of the keys' table: one query beside ten keys is not turned; "
        "after .bfloat16() both positions and frequencies are rounded",
        bugs=(
            Bug(
                "keys turn back",
                "apply_rotary_pos_emb(k, self._cos_cached, self._sin_cached)",
                "apply_rotary_pos_emb(k, self._cos_cached, -self._sin_cached)",
                "opposite",
                "keys turn the other way",
            ),
            Bug(
                "integer division in the exponent",
                "torch.arange(0, dim, 2).float() / dim",
                "torch.arange(0, dim, 2) // dim",
                "exponent-flat",
                "every pair turns by one radian a step",
            ),
            Bug(
                "table repeated for neighbours",
                "torch.cat((freqs, freqs), dim=-1)",
                "freqs.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
        ),
    ),
    Implementation(
        name="esm RotaryEmbedding",
        package="esm",
        module="esm.layers.rotary",
        make="RotaryEmbedding(64)",
        kind="rotation",
        settings={"dim": 64, "order": "bthd"},
        defects=("buffers-rounded",),
        why="frequencies are a buffer: after .bfloat16() they are cast back, but rounded",
        bugs=(
            Bug(
                "offset for queries only",
                "k,\n                    self._cos_cached[seqlen_offset:],\n"
                "                    self._sin_cached[seqlen_offset:]",
                "k,\n                    self._cos_cached,\n                    self._sin_cached",
                "sides-differ",
                "keys count from 0 while queries count from the offset",
            ),
            Bug(
                "table repeated for neighbours",
                'cos = repeat(cos, "s d -> s 1 (2 d)")\n    sin = repeat(sin, "s d -> s 1 (2 d)")',
                'cos = repeat(cos, "s d -> s 1 (d 2)")\n    sin = repeat(sin, "s d -> s 1 (d 2)")',
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "positions in the dtype of the input",
                "torch.arange(seqlen, device=device, dtype=torch.float32)",
                "torch.arange(seqlen, device=device, dtype=dtype)",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="esm RotaryEmbedding, interleaved",
        package="esm",
        module="esm.layers.rotary",
        make="RotaryEmbedding(64, interleaved=True)",
        kind="rotation",
        settings={"dim": 64, "order": "bthd"},
        defects=("layout-mixed", "buffers-rounded"),
        why="the table is repeated as halves whatever interleaved says, while the pairs are neighbours",
    ),
    Implementation(
        name="tabicl RotaryEmbedding",
        package="tabicl",
        module="tabicl._model.rope",
        make="RotaryEmbedding(64).rotate_queries_or_keys",
        kind="rotation",
        settings={"dim": 64},
        defects=("positions-rounded", "cache-stale", "buffers-rounded"),
        why="positions take the dtype of the input: in bfloat16 256 and 257 are alike; "
        "a first call with an offset is kept as if it had started at 0; "
        "frequencies are a parameter that .bfloat16() rounds",
        bugs=(
            Bug(
                "minus lost",
                "torch.stack((-x2, x1), dim=-1)",
                "torch.stack((x2, x1), dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "table repeated as halves",
                '"... n -> ... (n r)", r=2)\n\n        if should_cache',
                '"... n -> ... (r n)", r=2)\n\n        if should_cache',
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "offset not handed on",
                "seq_len, device=device, dtype=dtype, offset=offset)\n\n        if self.interleaved",
                "seq_len, device=device, dtype=dtype)\n\n        if self.interleaved",
                "offset-ignored",
                "decoding counts from 0",
            ),
        ),
    ),
    Implementation(
        name="tabicl RotaryEmbedding with xPos",
        package="tabicl",
        module="tabicl._model.rope",
        make="RotaryEmbedding(64, use_xpos=True).rotate_queries_and_keys",
        kind="rotation",
        settings={"dim": 64},
        defects=("layout-mixed", "cache-stale", "positions-rounded", "buffers-rounded"),
        why="the scale is repeated as halves while the pairs are neighbours: the parts of a pair fade differently "
        "and scores depend on places; a first call in bfloat16 leaves rounded angles, as without xPos",
    ),
    Implementation(
        name="rotary-embedding-torch rotate_queries_or_keys",
        package="rotary-embedding-torch",
        module="rotary_embedding_torch.rotary_embedding_torch",
        make="RotaryEmbedding(64).rotate_queries_or_keys",
        kind="rotation",
        settings={"dim": 64},
        defects=("positions-rounded", "cache-stale", "buffers-rounded"),
        why="positions take the dtype of the input: in bfloat16 256 and 257 are alike; "
        "what a first call in bfloat16 has rounded is kept for later ones in float32; "
        "frequencies are a parameter that .bfloat16() rounds",
        bugs=(
            Bug(
                "offset not handed on",
                "seq_len, device = device, dtype = dtype, offset = offset)\n",
                "seq_len, device = device, dtype = dtype)\n",
                "offset-ignored",
                "decoding counts from 0 while nothing is cached",
            ),
            Bug(
                "calls with an offset are cached too",
                "if should_cache and offset == 0:\n            self.cached_freqs",
                "if should_cache:\n            self.cached_freqs",
                "cache-stale",
                "angles of a later stretch are kept as those of the first",
            ),
            Bug(
                "table repeated as halves",
                "repeat(freqs, '... n -> ... (n r)', r = 2)",
                "repeat(freqs, '... n -> ... (r n)', r = 2)",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
        ),
    ),
    Implementation(
        name="rotary-embedding-torch rotate_queries_with_cached_keys",
        package="rotary-embedding-torch",
        module="rotary_embedding_torch.rotary_embedding_torch",
        make="RotaryEmbedding(64).rotate_queries_with_cached_keys",
        kind="rotation",
        settings={"dim": 64},
        defects=("sides-differ", "positions-rounded", "cache-stale", "buffers-rounded"),
        why="as rotate_queries_or_keys; offset moves the queries and leaves the keys: one query at its own key has, "
        "with an offset of 100, the score of a distance of 100",
        bugs=(
            Bug(
                "queries start at zero",
                "offset = k_len - q_len + offset)",
                "offset = offset)",
                "offset-ignored",
                "the last token is turned as the first",
            ),
        ),
    ),
    Implementation(
        name="rotary-embedding-torch xPos with cached keys",
        package="rotary-embedding-torch",
        module="rotary_embedding_torch.rotary_embedding_torch",
        make="RotaryEmbedding(64, use_xpos=True).rotate_queries_with_cached_keys",
        kind="rotation",
        settings={"dim": 64},
        defects=("sides-differ", "positions-rounded", "cache-stale", "buffers-rounded"),
        why="the scale of queries is centred on their own number, that of keys on theirs: "
        "the last row of 100 scores differs by 7 % from the same row decoded alone; offset moves the queries only",
    ),
    Implementation(
        name="rotary-embedding-torch get_axial_freqs",
        package="rotary-embedding-torch",
        module="rotary_embedding_torch.rotary_embedding_torch",
        make="RotaryEmbedding(32).get_axial_freqs",
        kind="rotation",
        glue="""
rope = RotaryEmbedding(32)


def wrapped(x, height, width, offsets=None):
    freqs = rope.get_axial_freqs(height, width, offsets=offsets)
    return apply_rotary_emb(freqs, x.unflatten(-2, (height, width))).flatten(-3, -2)
""",
        defects=("cache-stale",),
        why="offsets are added to the positions, but what is cached is kept as counting from 0: "
        "with offsets (3, 5) on a square grid the columns take the offset of the rows, and later calls too",
        bugs=(
            Bug(
                "first axis twice",
                "return torch.cat(all_freqs, dim = -1)",
                "return torch.cat((all_freqs[0], all_freqs[0]), dim = -1)",
                "axis-lost",
                "columns have no effect",
            ),
        ),
    ),
    Implementation(
        name="toto TimeAwareRotaryEmbedding",
        package="toto-ts",
        module="toto.model.rope",
        make="TimeAwareRotaryEmbedding(64, use_xpos=True, cache_if_possible=True).rotate_queries_and_keys",
        kind="rotation",
        settings={"dim": 64},
        defects=("layout-mixed", "positions-rounded", "buffers-rounded"),
        why="the scale is repeated as halves while the rotation pairs neighbours, so scores depend on places; "
        "positions take the dtype of the input: in bfloat16 256 and 257 are alike",
        bugs=(
            Bug(
                "offset dropped",
                "seq = seq + seq_pos_offset",
                "seq = seq + 0",
                "offset-ignored",
                "decoding counts from 0",
            ),
            Bug(
                "keys scaled like queries",
                "scale=scale**-1",
                "scale=scale",
                "decay-not-inverted",
                "scores fade with the places of both",
            ),
            Bug(
                "queries turned twice, keys lost",
                "apply_rotary_emb(freqs, k,",
                "apply_rotary_emb(freqs, q,",
                "one-for-both",
                "the second result is made from queries",
            ),
        ),
    ),
    Implementation(
        name="SAM 2 axial apply_rotary_enc",
        package="sam2",
        module="sam2.modeling.position_encoding",
        make="apply_rotary_enc",
        kind="rotation",
        glue="""
def wrapped(q, k, height, width):
    return apply_rotary_enc(q, k, compute_axial_cis(q.shape[-1], width, height))
""",
        bugs=(
            Bug(
                "columns twice",
                "torch.outer(t_y, freqs_y)",
                "torch.outer(t_x, freqs_y)",
                "axis-lost",
                "rows have no effect",
            ),
            Bug(
                "height divides",
                "torch.div(t, end_x, ",
                "torch.div(t, end_y, ",
                "axes-swapped",
                "rows are wrong where the grid is not square",
            ),
            Bug(
                "sine of keys turned round",
                "torch.view_as_real(xk_ * freqs_cis)",
                "torch.view_as_real(xk_ * freqs_cis.conj())",
                "opposite",
                "keys turn the other way",
            ),
        ),
    ),
    Implementation(
        name="SAM 3 VisionRotaryEmbeddingVE",
        package="sam3",
        module="sam3.sam.rope",
        make="VisionRotaryEmbeddingVE(dim=32, seq_len=4, pt_seq_len=2)",
        kind="rotation",
        why="a grid of 4 x 4: 16 tokens of width 64",
        bugs=(
            Bug(
                "columns twice",
                "freqs[None, :, :], freqs[:, None, :]",
                "freqs[None, :, :], freqs[None, :, :].expand(seq_len, -1, -1)",
                "axis-lost",
                "rows have no effect",
            ),
            Bug(
                "table repeated as halves",
                '"... n -> ... (n r)", r=2)',
                '"... n -> ... (r n)", r=2)',
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "grid not rescaled",
                "torch.arange(seq_len) * scale + offset",
                "torch.arange(seq_len) + offset",
                "scaling-ignored",
                "pt_seq_len has no effect",
            ),
        ),
    ),
    Implementation(
        name="SAM 3 apply_rotary_enc_real",
        package="sam3",
        module="sam3.sam.rope",
        make="apply_rotary_enc_real",
        kind="rotation",
        glue="""
def wrapped(q, k, height, width):
    freqs_cis = compute_axial_cis(q.shape[-1], width, height)
    return apply_rotary_enc_real(q, k, freqs_cis.real, freqs_cis.imag)
""",
        bugs=(
            Bug(
                "sign of the imaginary part",
                "xq_real * freqs_cis_imag + xq_imag * freqs_cis_real",
                "xq_real * freqs_cis_imag - xq_imag * freqs_cis_real",
                "not-a-rotation",
                "a mirror in place of a rotation",
            ),
            Bug(
                "queries given for keys",
                "xk_out = complex_mult(xk_real, xk_imag",
                "xk_out = complex_mult(xq_real, xq_imag",
                "one-for-both",
                "the second result is made from queries",
            ),
            Bug(
                "columns taken modulo the height",
                "t_x = (t % end_x)",
                "t_x = (t % end_y)",
                "axes-swapped",
                "columns are wrong where the grid is not square",
            ),
        ),
    ),
    Implementation(
        name="kornia LightGlue rotary encoding",
        package="kornia",
        module="kornia.feature.lightglue",
        make="apply_cached_rotary_emb",
        kind="rotation",
        glue="""
torch.manual_seed(0)
encoding = LearnableFourierPositionalEncoding(2, 64, 64)


def wrapped(x, positions):
    return apply_cached_rotary_emb(encoding(positions.to(encoding.Wr.weight)), x)
""",
        why="positions are points between -1 and 1 (batch, tokens, 2), the frequencies are learned",
        bugs=(
            Bug(
                "table repeated as halves",
                "emb.repeat_interleave(2, dim=-1)",
                "torch.cat((emb, emb), dim=-1)",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "cosine for sine",
                "(rotate_half(t) * freqs[1])",
                "(rotate_half(t) * freqs[0])",
                "not-a-rotation",
                "the sine is never used",
            ),
        ),
    ),
    Implementation(
        name="TimesFM RotaryPositionalEmbedding",
        package="timesfm",
        module="timesfm.torch.transformer",
        make="RotaryPositionalEmbedding(64)",
        kind="rotation",
        settings={"dim": 64, "order": "bthd"},
        bugs=(
            Bug(
                "sign of the second half",
                "second_half * cos + first_half * sin",
                "second_half * cos - first_half * sin",
                "not-a-rotation",
                "both halves lose the other",
            ),
            Bug(
                "half the exponent",
                "fraction = (\n      2\n",
                "fraction = (\n      1\n",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "positions rounded",
                "sinusoid_inp = position / timescale",
                "sinusoid_inp = position.to(inputs.dtype) / timescale",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="RecurrentGemma _apply_rope",
        package="recurrentgemma",
        module="recurrentgemma.torch.modules",
        make="_apply_rope",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(x, positions):
    return _apply_rope(x, positions)
""",
        why="the first half of the width turns, the second passes",
        bugs=(
            Bug(
                "half the exponent",
                "freq_exponents = 2 * freq / x_rope.shape[-1]",
                "freq_exponents = freq / x_rope.shape[-1]",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "the turned half in the place of the rest",
                "[first_part, second_part, x], dim=-1)",
                "[first_part, second_part, x_rope], dim=-1)",
                "width-wrong",
                "the second half of the input is lost",
            ),
            Bug(
                "positions rounded",
                "sinusoid_imp = positions * inv_frequencies",
                "sinusoid_imp = positions.to(inputs.dtype) * inv_frequencies",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="local-attention SinusoidalEmbeddings",
        package="local-attention",
        module="local_attention.rotary",
        make="SinusoidalEmbeddings(64, theta=500)",
        kind="rotation",
        settings={"dim": 64},
        glue="""
embeddings = SinusoidalEmbeddings(64, theta=500, scale_base=512, use_xpos=True)


def wrapped(q, k):
    freqs, scale = embeddings(k)
    return apply_rotary_pos_emb(q, k, freqs, scale)
""",
        defects=("buffers-rounded",),
        why="positions and frequencies take the dtype of the buffer: after .bfloat16() 256 and 257 are alike",
        bugs=(
            Bug(
                "queries take the head of the table",
                "freqs[..., -q_len:, :]",
                "freqs[..., :q_len, :]",
                "offset-ignored",
                "with more keys than queries the last query counts from 0",
            ),
            Bug(
                "theta written out",
                "1. / (theta ** (torch.arange",
                "1. / (10000 ** (torch.arange",
                "base-ignored",
                "theta has no effect",
            ),
            Bug(
                "keys scaled like queries",
                "inv_scale = scale ** -1",
                "inv_scale = scale",
                "decay-not-inverted",
                "scores fade with the places of both",
            ),
        ),
    ),
    Implementation(
        name="PaLM-rlhf RotaryEmbedding with xPos",
        package="palm-rlhf-pytorch",
        module="palm_rlhf_pytorch.palm",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
embedding = RotaryEmbedding(64)


def wrapped(q, k):
    angles, scale = embedding(q.shape[-2], q.device)
    return apply_rotary_pos_emb(angles, q, scale), apply_rotary_pos_emb(angles, k, scale**-1)
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "scale repeated for neighbours",
                "torch.cat((scale, scale), dim = -1)",
                "scale.repeat_interleave(2, dim = -1)",
                "layout-mixed",
                "the two parts of a pair fade differently",
            ),
            Bug(
                "scale for the cosine only",
                "(rotate_half(t) * pos.sin() * scale)",
                "(rotate_half(t) * pos.sin())",
                "not-a-rotation",
                "cosine and sine of a pair differ in scale",
            ),
        ),
    ),
    Implementation(
        name="perceiver-ar RotaryEmbedding, half the width",
        package="perceiver-ar-pytorch",
        module="perceiver_ar_pytorch.perceiver_ar_pytorch",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
embedding = RotaryEmbedding(32)


def wrapped(x):
    return apply_rotary_pos_emb(embedding(x.shape[-2], device=x.device), x)
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "neighbours taken for halves",
                '"... (j d) -> ... j d"',
                '"... (d j) -> ... j d"',
                "layout-mixed",
                "the turned part is split into neighbours and put together as halves",
            ),
            Bug(
                "the head passes in place of the rest",
                "t[..., :rotate_dim], t[..., rotate_dim:]",
                "t[..., :rotate_dim], t[..., :-rotate_dim]",
                "width-wrong",
                "the second half of the input is lost",
            ),
            Bug(
                "counts from one",
                "torch.arange(max_seq_len, device",
                "torch.arange(1, max_seq_len + 1, device",
                "positions-shifted",
                "the first token is turned by one step",
                unseen="queries and keys both count from one, so logits stay as they are: sound code, which is noted",
            ),
        ),
    ),
    Implementation(
        name="performer apply_rotary_pos_emb",
        package="performer-pytorch",
        module="performer_pytorch.performer_pytorch",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
embedding = FixedPositionalEmbedding(64, 4096)


def wrapped(q, k):
    return apply_rotary_pos_emb(q, k, embedding(q.transpose(1, 2)))
""",
        bugs=(
            Bug(
                "table repeated as halves",
                "'b n -> b (n j)'",
                "'b n -> b (j n)'",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "queries mapped twice",
                "(rotate_every_two(t) * sin), (q, k))",
                "(rotate_every_two(t) * sin), (q, q))",
                "one-for-both",
                "the second result is made from queries",
            ),
            Bug(
                "minus lost",
                "torch.stack((-x2, x1), dim = -1)",
                "torch.stack((x2, x1), dim = -1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
        ),
    ),
    Implementation(
        name="ring-attention RingRotaryEmbedding",
        package="ring-attention-pytorch",
        module="ring_attention_pytorch.ring_attention",
        make="RingRotaryEmbedding(64, theta=500000)",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
embedding = RingRotaryEmbedding(64, theta=500000)


def wrapped(x, positions=None):
    return apply_rotary_pos_emb(embedding(x.shape[1] if positions is None else positions), x)
""",
        defects=("buffers-rounded",),
        why="positions and frequencies take the dtype of the buffer: after .bfloat16() 256 and 257 are alike",
        bugs=(
            Bug(
                "theta written out",
                "theta ** -(torch.arange",
                "10000 ** -(torch.arange",
                "base-ignored",
                "theta has no effect",
            ),
            Bug(
                "given positions counted anew",
                "            pos = seq\n",
                "            pos = torch.arange(seq.shape[-1], device = device)\n",
                "positions-ignored",
                "positions have no effect",
            ),
        ),
    ),
    Implementation(
        name="uni2ts RotaryProjection",
        package="uni2ts",
        module="uni2ts.module.position.attn_projection",
        make="RotaryProjection(proj_width=64, num_heads=4, num_groups=4)",
        kind="rotation",
        settings={"dim": 64},
        glue="""
projection = RotaryProjection(proj_width=64, num_heads=4, num_groups=4)


def wrapped(x, positions):
    return projection(x, seq_id=positions[:, None])
""",
        defects=("buffers-rounded",),
        why="beyond the 512 rows made at first the table is made anew in the dtype of the buffer: "
        "after .bfloat16() 1024 and 1025 are alike",
        bugs=(
            Bug(
                "table repeated as halves",
                '"length width -> length (width 2)"',
                '"length width -> length (2 width)"',
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "turned pairs put together as halves",
                '"r ... dim -> ... (dim r)"',
                '"r ... dim -> ... (r dim)"',
                "layout-mixed",
                "neighbours are turned and put back half a width apart",
            ),
        ),
    ),
    Implementation(
        name="uni2ts QueryKeyProjection, half the width",
        package="uni2ts",
        module="uni2ts.module.position.attn_projection",
        make="QueryKeyProjection(256, 4, 4, RotaryProjection, partial_factor=(0.0, 0.5))",
        kind="rotation",
        glue="""
projection = QueryKeyProjection(256, 4, 4, RotaryProjection, partial_factor=(0.0, 0.5))


def wrapped(q, k, q_positions, k_positions):
    return projection(q, k, query_id=q_positions[:, None], kv_id=k_positions[:, None])
""",
        defects=("buffers-rounded",),
        why="as RotaryProjection",
        bugs=(
            Bug(
                "keys take the places of queries",
                "self.key_proj(keys[1], seq_id=kv_id)",
                "self.key_proj(keys[1], seq_id=query_id)",
                "positions-ignored",
                "the positions of keys have no effect",
            ),
            Bug(
                "keys pass as they are",
                "keys[1] = self.key_proj(keys[1], seq_id=kv_id)",
                "keys[1] = keys[1]",
                "one-side",
                "only queries turn",
            ),
        ),
    ),
    Implementation(
        name="labml RotaryPositionalEmbeddings",
        package="labml-nn",
        module="labml_nn.transformers.rope",
        make="RotaryPositionalEmbeddings(64)",
        kind="rotation",
        settings={"dim": 64, "order": "tbhd"},
        bugs=(
            Bug(
                "table repeated for neighbours",
                "torch.cat([idx_theta, idx_theta], dim=1)",
                "torch.repeat_interleave(idx_theta, 2, dim=1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "integer division in the exponent",
                ".float() / self.d)).to(x.device)",
                ".float() // self.d)).to(x.device)",
                "exponent-flat",
                "every pair turns by one radian a step",
            ),
            Bug(
                "positions in the dtype of the input",
                "device=x.device).float().to(x.device)",
                "device=x.device).type_as(x)",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="labml GPT-NeoX RoPE, half the width",
        package="labml-nn",
        module="labml_nn.neox.model",
        make="RoPE(32)",
        kind="rotation",
        settings={"order": "bthd"},
        defects=("positions-rounded", "cache-stale"),
        why="positions and speeds take the dtype of the first input: in bfloat16 256 and 257 are alike, "
        "and a later call in float32 still uses the rounded speeds",
        bugs=(
            Bug(
                "head of the table whatever the offset",
                "self.cos_cached[offset: seq_len], self.sin_cached[offset: seq_len]",
                "self.cos_cached[:x.shape[-3]], self.sin_cached[:x.shape[-3]]",
                "offset-ignored",
                "decoding counts from 0",
            ),
            Bug(
                "the head passes in place of the rest",
                "x[..., :self.d_rope], x[..., self.d_rope:]",
                "x[..., :self.d_rope], x[..., :-self.d_rope]",
                "width-wrong",
                "the second half of the input is lost",
            ),
            Bug(
                "half the exponent",
                "torch.arange(0, self.d_rope, 2).float() / self.d_rope",
                "torch.arange(0, self.d_rope // 2).float() / self.d_rope",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
        ),
    ),
    Implementation(
        name="Megatron _apply_rotary_pos_emb_bshd",
        package="megatron-core",
        module="megatron.core.models.common.embeddings.rope_utils",
        make="_apply_rotary_pos_emb_bshd",
        kind="rotation",
        settings={"order": "tbhd"},
        glue="""
def wrapped(x, offset=0):
    speeds = 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = torch.outer(torch.arange(offset, offset + x.shape[0]).float(), speeds)
    return _apply_rotary_pos_emb_bshd(x, torch.cat((angles, angles), dim=-1)[:, None, None, :])
""",
        bugs=(
            Bug(
                "minus lost",
                "torch.cat((-x2, x1), dim=-1)",
                "torch.cat((x2, x1), dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "angles in the dtype of the input",
                "cos_ = (torch.cos(freqs) * mscale).to(t.dtype)\n    sin_ = (torch.sin(freqs) * mscale).to(t.dtype)",
                "freqs = freqs.to(t.dtype)\n    cos_ = torch.cos(freqs) * mscale\n    sin_ = torch.sin(freqs) * mscale",
                "angles-rounded",
                "in bfloat16 angles beyond 256 are rounded to whole radians",
            ),
        ),
    ),
    Implementation(
        name="Megatron apply_rotary_pos_emb_with_cos_sin",
        package="megatron-core",
        module="megatron.core.models.common.embeddings.rope_utils",
        make="apply_rotary_pos_emb_with_cos_sin",
        kind="rotation",
        settings={"order": "tbhd"},
        glue="""
def wrapped(x):
    speeds = 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = torch.outer(torch.arange(x.shape[0]).float(), speeds)
    return apply_rotary_pos_emb_with_cos_sin(x, angles.cos(), angles.sin())
""",
        defects=("not-a-rotation",),
        why="without flash-attn the cosines and sines are woven together and taken for angles, whose cosine and sine "
        "are taken again: the first token does not come back and lengths of pairs change from the second on",
    ),
    Implementation(
        name="Megatron RotaryEmbedding",
        package="megatron-core",
        module="megatron.core.models.common.embeddings.rotary_pos_embedding",
        make="RotaryEmbedding(64, 1.0, seq_len_interpolation_factor=4.0, use_cpu_initialization=True)"
        ".get_freqs_non_repeated",
        kind="rotation",
        settings={"order": "tbhd"},
        glue="""
embedding = RotaryEmbedding(64, 1.0, seq_len_interpolation_factor=4.0, use_cpu_initialization=True)


def wrapped(x, offset=0):
    freqs = embedding.get_freqs_non_repeated(x.shape[0], offset)
    return _apply_rotary_pos_emb_bshd(x, torch.cat((freqs, freqs), dim=-1)[:, None, None, :])
""",
        why="its forward asks for a GPU",
        bugs=(
            Bug(
                "offset added nowhere",
                "dtype=self.inv_freq.dtype)\n            + offset\n",
                "dtype=self.inv_freq.dtype)\n",
                "offset-ignored",
                "decoding counts from 0",
            ),
            Bug(
                "factor not applied",
                "seq *= 1 / self.seq_len_interpolation_factor\n\n        freqs = torch.outer",
                "pass\n\n        freqs = torch.outer",
                "scaling-ignored",
                "seq_len_interpolation_factor has no effect",
            ),
        ),
    ),
    Implementation(
        name="ibm-fms RotaryEmbedding.adjusted_qk, half the width",
        package="ibm-fms",
        module="fms.modules.positions",
        make="RotaryEmbedding(dim=64, partial_rope=0.5).adjusted_qk",
        kind="rotation",
        settings={"order": "bthd"},
        bugs=(
            Bug(
                "sign in the matrix",
                "-torch.sin(freqs),",
                "torch.sin(freqs),",
                "not-a-rotation",
                "a symmetric matrix in place of a rotation",
            ),
            Bug(
                "queries take the head of the positions",
                "q_start = freqs.size(1) - q.size(1)",
                "q_start = 0",
                "offset-ignored",
                "with more keys than queries the last query counts from 0",
            ),
            Bug(
                "the head of keys passes",
                "k_out.view_as(k_rope), k[..., self.dim :]",
                "k_out.view_as(k_rope), k[..., : self.dim]",
                "width-wrong",
                "the second half of the keys is lost",
            ),
        ),
    ),
    Implementation(
        name="ibm-fms PixtralRotaryEmbedding.adjusted_qk",
        package="ibm-fms",
        module="fms.modules.positions",
        make="PixtralRotaryEmbedding(dim=64, theta=10000.0, image_size=64, patch_size=2).adjusted_qk",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
encoder = PixtralRotaryEmbedding(dim=64, theta=10000.0, image_size=64, patch_size=2)


def wrapped(q, k, positions):
    return encoder.adjusted_qk(q, k, positions)
""",
        why="positions are rows and columns of patches (batch, tokens, 2)",
        bugs=(
            Bug(
                "rows in the place of columns",
                "freqs_w[None, :, :].repeat(self.max_patches_per_side, 1, 1)",
                "freqs_w[:, None, :].repeat(1, self.max_patches_per_side, 1)",
                "axis-lost",
                "columns have no effect",
            ),
            Bug(
                "queries given for keys",
                "mulk = freqs[:, -k.size(1) :, None, :, :, :].mul(k_",
                "mulk = freqs[:, -k.size(1) :, None, :, :, :].mul(q_",
                "one-for-both",
                "the second result is made from queries",
            ),
        ),
    ),
    Implementation(
        name="curated-transformers QueryKeyRotaryEmbeddings, half the width",
        package="curated-transformers",
        module="curated_transformers.layers.embeddings",
        make="QueryKeyRotaryEmbeddings(fraction=0.5, head_width=64)",
        kind="rotation",
        glue="""
embeddings = QueryKeyRotaryEmbeddings(fraction=0.5, head_width=64)


def wrapped(q, k, positions=None):
    return embeddings(query=q, key=k, positions=positions)
""",
        defects=("buffers-rounded",),
        why="beyond the 512 rows made at first the table is made anew from theta, "
        "a buffer: after .bfloat16() the result is off by more than 3 % there",
        bugs=(
            Bug(
                "positions for keys only",
                "self.rotary_embeds(q_rotary, positions=positions)",
                "self.rotary_embeds(q_rotary)",
                "sides-differ",
                "queries count from 0 whatever the positions",
            ),
            Bug(
                "the places of the first row for all",
                "positions_flat = positions.view(-1)",
                "positions_flat = positions[:1].expand_as(positions).reshape(-1)",
                "rows-mixed",
                "padded rows take the positions of the first",
            ),
            Bug(
                "table repeated for neighbours",
                "torch.cat([m_theta, m_theta], dim=-1)",
                "m_theta.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
        ),
    ),
    Implementation(
        name="Chronos-2 rotary embedding",
        package="chronos-forecasting",
        module="chronos.chronos2.layers",
        make="Chronos2RotaryEmbedding(Chronos2CoreConfig(rope_theta=50000.0))",
        kind="rotation",
        glue="""
rope = Chronos2RotaryEmbedding(Chronos2CoreConfig(rope_theta=50000.0))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return Chronos2RotaryEmbedding.apply_rotary_pos_emb(q, k, cos, sin)
""",
        defects=("buffers-rounded",),
        why="frequencies are a buffer: after .bfloat16() they are cast back, but rounded",
        bugs=(
            Bug(
                "theta written out",
                "base = config.rope_theta",
                "base = 10000.0",
                "base-ignored",
                "rope_theta has no effect",
            ),
            Bug(
                "keys turn back",
                "rotate_half(k) * sin)",
                "rotate_half(k) * -sin)",
                "opposite",
                "keys turn the other way",
            ),
            Bug(
                "positions in the dtype of the input",
                "position_ids_expanded = position_ids[:, None, :].float()",
                "position_ids_expanded = position_ids[:, None, :].to(x.dtype)",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="OpenNMT apply_rotary_emb, interleaved",
        package="opennmt-py",
        module="onmt.modules.multi_headed_attn",
        make="apply_rotary_emb",
        kind="rotation",
        glue="""
def wrapped(q, k, offset=0, base=500):
    rope, _, _ = rotaryembeddings(q.shape[-1], maxseqlen=4096, base=base)
    return apply_rotary_emb(q, k, rope[offset : offset + q.shape[-2]], interleave=True)
""",
        bugs=(
            Bug(
                "keys conjugated",
                "torch.view_as_real(key_ * rope)",
                "torch.view_as_real(key_ * rope.conj())",
                "opposite",
                "keys turn the other way",
            ),
            Bug("base written out", "1.0 / (base ** (", "1.0 / (10000 ** (", "base-ignored", "base has no effect"),
            Bug(
                "queries given for keys",
                "key_ = key.float().reshape(*key.shape[:-1], -1, 2)",
                "key_ = query.float().reshape(*query.shape[:-1], -1, 2)",
                "one-for-both",
                "the second result is made from queries",
            ),
        ),
    ),
    Implementation(
        name="OpenNMT apply_rotary_emb, halves",
        package="opennmt-py",
        module="onmt.modules.multi_headed_attn",
        make="apply_rotary_emb",
        kind="rotation",
        glue="""
def wrapped(q, k):
    rope, _, _ = rotaryembeddings(32)
    return apply_rotary_emb(q, k, rope[: q.shape[-2]], interleave=False)
""",
        why="32 channels turn, the rest passes",
        bugs=(
            Bug(
                "table repeated for neighbours",
                "torch.cat((rope, rope), dim=1)",
                "rope.repeat_interleave(2, dim=1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "the head of keys passes in place of the rest",
                "torch.cat([k_embed, key[:, :, :, rotary_dim:]]",
                "torch.cat([k_embed, key[:, :, :, :-rotary_dim]]",
                "width-wrong",
                "the second half of the keys is lost",
            ),
        ),
    ),
    Implementation(
        name="SpeechBrain _rope_rotate",
        package="speechbrain",
        module="speechbrain.nnet.attention",
        make="_rope_rotate",
        kind="rotation",
        settings={"order": "bthd"},
        bugs=(
            Bug(
                "half the exponent",
                "torch.arange(0, input_size, 2, dtype=internal_dtype, device=device)",
                "torch.arange(input_size // 2, dtype=internal_dtype, device=device)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "pairs not swapped",
                "[dimensions[1::2], dimensions[::2]]",
                "[dimensions[::2], dimensions[1::2]]",
                "not-a-rotation",
                "each channel is mixed with itself",
            ),
            Bug(
                "cosines repeated as halves",
                "torch.stack([cosines, cosines], dim=-1)",
                "torch.cat([cosines, cosines], dim=-1)",
                "layout-mixed",
                "cosines for halves, sines for neighbours",
            ),
        ),
    ),
    Implementation(
        name="SpeechBrain RoPEMHA",
        package="speechbrain",
        module="speechbrain.nnet.attention",
        make="RoPEMHA(embed_dim=64, num_heads=4)",
        kind="attention",
        settings={"heads": 4},
        defects=("scale-of-model",),
        why="The scale is 1 / sqrt(embed_dim): 0.125 for 4 heads of 16, whose own would be 0.25.",
        bugs=(
            Bug(
                "values turned too",
                "value=value.permute(0, 2, 1, 3)",
                "value=_rope_rotate(value).permute(0, 2, 1, 3)",
                "values-moved",
                "the output depends on places",
            ),
            Bug(
                "keys pass as they are",
                "k_rotated = _rope_rotate(key)",
                "k_rotated = key",
                "one-side",
                "only queries turn",
            ),
            Bug(
                "keys turned twice",
                "k_rotated = _rope_rotate(key)",
                "k_rotated = _rope_rotate(_rope_rotate(key))",
                "keys-turned-twice",
                "keys are twice as far along",
            ),
        ),
    ),
    Implementation(
        name="Stackformer RoPE",
        package="stackformer",
        module="stackformer.modules.position_embedding",
        make="RoPE(head_dim=64, seq_len=4096, theta=500.0)",
        kind="rotation",
        settings={"dim": 64, "order": "bhtd"},
        bugs=(
            Bug(
                "half the exponent",
                "torch.arange(0, dim_half, **self.factory_kwargs) / dim_half",
                "torch.arange(0, dim_half, **self.factory_kwargs) / head_dim",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "turned along heads",
                "self.freq_complex[:T].unsqueeze(0).unsqueeze(0)",
                "self.freq_complex[:H].unsqueeze(0).unsqueeze(2)",
                "heads-axis",
                "every token of a head turns alike",
            ),
            Bug(
                "theta written out",
                "theta ** (torch.arange(0, dim_half",
                "10000.0 ** (torch.arange(0, dim_half",
                "base-ignored",
                "theta has no effect",
            ),
        ),
    ),
    Implementation(
        name="LLMs-from-scratch Llama 3 apply_rope",
        package="llms-from-scratch",
        module="llms_from_scratch.llama3",
        make="apply_rope",
        kind="rotation",
        settings={"order": "bhtd"},
        glue="""
SCALING = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context_length": 8192}


def wrapped(x):
    cos, sin = compute_rope_params(x.shape[-1], theta_base=500_000, freq_config=SCALING)
    return apply_rope(x, cos, sin)
""",
        bugs=(
            Bug(
                "turned along heads",
                "cos = cos[:seq_len, :].unsqueeze(0).unsqueeze(0)  # Shape: (1, 1, seq_len, head_dim)\n"
                "    sin = sin[:seq_len, :].unsqueeze(0).unsqueeze(0)",
                "cos = cos[:num_heads, :].unsqueeze(0).unsqueeze(2)\n"
                "    sin = sin[:num_heads, :].unsqueeze(0).unsqueeze(2)",
                "heads-axis",
                "every token of a head turns alike",
            ),
            Bug(
                "table repeated for neighbours",
                "torch.cat([angles, angles], dim=1)",
                "angles.repeat_interleave(2, dim=1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "stretched speeds not taken over",
                "        inv_freq = inv_freq_llama\n",
                "        inv_freq = inv_freq\n",
                "scaling-ignored",
                "freq_config has no effect",
            ),
            Bug(
                "positions in the dtype of the weights",
                "positions = torch.arange(context_length, dtype=dtype)",
                "positions = torch.arange(context_length, dtype=torch.bfloat16)",
                "positions-rounded",
                "positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="LLMs-from-scratch Qwen 3 apply_rope with cache",
        package="llms-from-scratch",
        module="llms_from_scratch.kv_cache.qwen3",
        make="apply_rope",
        kind="rotation",
        glue="""
def wrapped(x, offset=0):
    cos, sin = compute_rope_params(x.shape[-1], theta_base=1_000_000)
    return apply_rope(x, cos, sin, offset=offset)
""",
        bugs=(
            Bug(
                "offset dropped in both tables",
                "cos = cos[offset:offset + seq_len, :].unsqueeze(0).unsqueeze(0)  # Shape: (1, 1, seq_len, head_dim)\n"
                "    sin = sin[offset:offset + seq_len, :]",
                "cos = cos[:seq_len, :].unsqueeze(0).unsqueeze(0)\n    sin = sin[:seq_len, :]",
                "offset-ignored",
                "decoding counts from 0",
            ),
            Bug(
                "offset dropped for the sine",
                "sin = sin[offset:offset + seq_len, :]",
                "sin = sin[:seq_len, :]",
                "not-a-rotation",
                "with an offset cosine and sine are of different angles",
            ),
        ),
    ),
    Implementation(
        name="picogpt RotaryEmbedding",
        package="picogpt",
        module="picogpt.model",
        make="apply_rope",
        kind="rotation",
        settings={"order": "btd"},
        glue="""
rope = RotaryEmbedding(64, 512)


def wrapped(x, offset=0):
    cos, sin = rope.get_cos_sin(x.shape[-2], x.device, offset, x.dtype)
    return apply_rope(x, cos, sin)
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "written into the input",
                "x_out = torch.empty_like(x)",
                "x_out = x",
                "in-place",
                "the caller's tensor is overwritten",
            ),
            Bug(
                "the added rows count anew",
                "torch.arange(self.max_seq_len, new_max_seq_len, dtype",
                "torch.arange(0, new_max_seq_len - self.max_seq_len, dtype",
                "wrapped",
                "beyond the first table positions start at 0 again",
            ),
            Bug(
                "offset dropped",
                "self.cos_cached[pos_offset:end].to(device=device, dtype=use_dtype)\n"
                "        sin = self.sin_cached[pos_offset:end]",
                "self.cos_cached[:T].to(device=device, dtype=use_dtype)\n        sin = self.sin_cached[:T]",
                "offset-ignored",
                "decoding counts from 0",
            ),
            Bug(
                "sign of the odd channels",
                "x_even * sin + x_odd * cos",
                "x_even * sin - x_odd * cos",
                "not-a-rotation",
                "a mirror in place of a rotation",
            ),
        ),
    ),
    Implementation(
        name="AutoAWQ RoPE",
        package="autoawq",
        module="awq.modules.fused.attn",
        make="RoPE(64, 4096, 'cpu', 10000.0)",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
rope = RoPE(64, 4096, "cpu", 10000.0)


def wrapped(q, k, offset=0):
    return rope(q, k, offset, q.shape[1])
""",
        bugs=(
            Bug(
                "start dropped",
                "self.freqs_cis[start_pos : start_pos + seqlen]",
                "self.freqs_cis[:seqlen]",
                "offset-ignored",
                "decoding counts from 0",
            ),
            Bug(
                "keys split into neighbours",
                "xk.float().reshape(*xk.shape[:-1], 2, -1).transpose(-2, -1).contiguous()",
                "xk.float().reshape(*xk.shape[:-1], -1, 2).contiguous()",
                "sides-differ",
                "queries pair halves, keys pair neighbours",
            ),
            Bug(
                "keys conjugated",
                "torch.view_as_real(xk_ * freqs_cis)",
                "torch.view_as_real(xk_ * freqs_cis.conj())",
                "opposite",
                "keys turn the other way",
            ),
        ),
    ),
    Implementation(
        name="AutoAWQ RoPE, half the width",
        package="autoawq",
        module="awq.modules.fused.attn",
        make="RoPE(32, 4096, 'cpu', 10000.0)",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
rope = RoPE(32, 4096, "cpu", 10000.0)


def wrapped(q, k, offset=0):
    return rope(q, k, offset, q.shape[1], partial=True)
""",
        defects=("width-wrong",),
        why="what passes is put beside the unturned queries, which are not returned: of 64 channels 32 come back",
    ),
    Implementation(
        name="vortex apply_rotary_emb_torch, interleaved",
        package="vtx",
        module="vortex.model.rotary",
        make="apply_rotary_emb_torch",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(x, offset=0):
    speeds = 10000.0 ** (-torch.arange(0, 32, 2) / 32)
    angles = torch.outer(torch.arange(offset, offset + x.shape[1]).float(), speeds)
    return apply_rotary_emb_torch(x, angles.cos(), angles.sin(), interleaved=True)
""",
        why="32 channels turn, the rest passes",
        bugs=(
            Bug(
                "sines repeated as halves",
                'sin = repeat(sin, "... d -> ... 1 (2 d)" if not interleaved',
                'sin = repeat(sin, "... d -> ... 1 (2 d)" if interleaved',
                "layout-mixed",
                "cosines for neighbours, sines for halves",
            ),
            Bug(
                "the head passes in place of the rest",
                "            x[..., ro_dim:],",
                "            x[..., :-ro_dim],",
                "width-wrong",
                "the second half of the input is lost",
            ),
        ),
    ),
    Implementation(
        name="RoSE RotarySpatialEmbedding",
        package="rotary-spatial-embeddings",
        module="RoSE.rose",
        make="RotarySpatialEmbedding(feature_dims=256, num_heads=4, spatial_dims=2, learnable=False)",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
rose = RotarySpatialEmbedding(feature_dims=256, num_heads=4, spatial_dims=2, learnable=False)


def wrapped(x, height, width):
    return rose(x, (1.0, 1.0), (height, width))
""",
        defects=("axes-summed",),
        why="each pair's frequency is repeated for both axes, so the patches (0, 1) and (1, 0) are turned alike",
        bugs=(
            Bug(
                "cosine and sine added as numbers",
                "ph_x.cos() + 1j * ph_x.sin()",
                "ph_x.cos() + ph_x.sin()",
                "not-a-rotation",
                "pairs are scaled, not turned",
            ),
            Bug(
                "only the first coordinate",
                '"td,hpd->thp", pos, self.freqs)',
                '"td,hpd->thp", pos[:, :1], self.freqs[..., :1])',
                "axis-lost",
                "columns have no effect",
            ),
        ),
    ),
    Implementation(
        name="vit-pytorch GoldenGateRoPENd",
        package="vit-pytorch",
        module="vit_pytorch.vit_nd_rotary",
        make="GoldenGateRoPENd(dim_pos=2, heads=4, dim_head=64, rope_max_freq=10.0)",
        kind="rotation",
        settings={"dim": 64, "heads": 4},
        glue="""
rope = GoldenGateRoPENd(dim_pos=2, heads=4, dim_head=64, rope_max_freq=10.0)


def wrapped(x, positions):
    return rope(x, positions)
""",
        defects=("buffers-rounded",),
        why="frequencies are a buffer: after .bfloat16() the result is off by more than 3 %; "
        "positions are points (batch, tokens, 2)",
        bugs=(
            Bug(
                "only the first coordinate",
                "reduce(freqs * positions, 'b h n f p -> b h n f', 'sum')",
                "(freqs * positions)[..., 0]",
                "axis-lost",
                "the second coordinate has no effect",
            ),
            Bug(
                "sign of the second half",
                "y_out = x * sin_theta + y * cos_theta",
                "y_out = x * sin_theta - y * cos_theta",
                "not-a-rotation",
                "a mirror in place of a rotation",
            ),
        ),
    ),
    Implementation(
        name="vit-pytorch RvT AxialRotaryEmbedding",
        package="vit-pytorch",
        module="vit_pytorch.rvt",
        make="AxialRotaryEmbedding(64)",
        kind="rotation",
        glue="""
embedding = AxialRotaryEmbedding(64)


def wrapped(x):
    sin, cos = embedding(x)
    return x * cos + rotate_every_two(x) * sin
""",
        why="tokens are a square grid between -1 and 1",
        bugs=(
            Bug(
                "rows twice",
                "y_sinu = repeat(seq, 'j d -> i j d', i = n)",
                "y_sinu = repeat(seq, 'i d -> i j d', j = n)",
                "axis-lost",
                "columns have no effect",
            ),
            Bug(
                "table repeated as halves",
                "'n d -> () n (d j)'",
                "'n d -> () n (j d)'",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
        ),
    ),
    Implementation(
        name="timm build_rotary_pos_embed",
        package="timm",
        module="timm.layers.pos_embed_sincos",
        make="apply_rot_embed",
        kind="rotation",
        glue="""
def wrapped(x, height, width):
    sin, cos = build_rotary_pos_embed([height, width], dim=x.shape[-1], in_pixels=False)
    return apply_rot_embed(x, sin, cos)
""",
        bugs=(
            Bug(
                "table repeated as halves",
                "return x.repeat_interleave(2, -1)",
                "return torch.cat([x, x], dim=-1)",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "minus lost",
                "torch.stack([-x[..., 1::2], x[..., ::2]], -1)",
                "torch.stack([x[..., 1::2], x[..., ::2]], -1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "grid by columns",
                "torch.meshgrid(t, indexing=grid_indexing)",
                "torch.meshgrid(t, indexing='xy')",
                "axes-swapped",
                "tokens are counted down the columns while the image lies along rows",
            ),
        ),
    ),
    Implementation(
        name="timm RotaryEmbeddingCat",
        package="timm",
        module="timm.layers.pos_embed_sincos",
        make="RotaryEmbeddingCat(64, in_pixels=False, rotate_half=True).get_embed",
        kind="rotation",
        glue="""
embedding = RotaryEmbeddingCat(64, in_pixels=False, rotate_half=True)


def wrapped(x, height, width):
    return apply_rot_embed_cat(x, embedding.get_embed([height, width]), half=True)
""",
        bugs=(
            Bug(
                "cosine and sine exchanged on one side",
                "out = x * cos_emb + rope_rotate_half(x) * sin_emb",
                "out = x * cos_emb + rope_rotate_half(x) * cos_emb",
                "not-a-rotation",
                "the sine is never used",
            ),
            Bug(
                "layout flag lost",
                "rotate_half=self.rotate_half,\n            device=device",
                "device=device",
                "layout-mixed",
                "the table is made for neighbours though halves are asked for",
            ),
        ),
    ),
    Implementation(
        name="diffusers apply_rotary_emb",
        package="diffusers",
        module="diffusers.models.embeddings",
        make="apply_rotary_emb",
        kind="rotation",
        glue="""
def wrapped(x, linear_factor=4.0):
    freqs = get_1d_rotary_pos_embed(x.shape[-1], x.shape[-2], use_real=True, linear_factor=linear_factor)
    return apply_rotary_emb(x, freqs)
""",
        bugs=(
            Bug(
                "minus lost",
                "torch.stack([-x_imag, x_real], dim=-1)",
                "torch.stack([x_imag, x_real], dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
            Bug(
                "integer division in the exponent",
                "dtype=freqs_dtype, device=pos.device) / dim))",
                "dtype=freqs_dtype, device=pos.device) // dim))",
                "exponent-flat",
                "every pair turns alike",
            ),
            Bug(
                "factor not divided",
                "/ dim)) / linear_factor",
                "/ dim))",
                "scaling-ignored",
                "linear_factor has no effect",
            ),
        ),
    ),
    Implementation(
        name="diffusers get_2d_rotary_pos_embed",
        package="diffusers",
        module="diffusers.models.embeddings",
        make="get_2d_rotary_pos_embed",
        kind="rotation",
        glue="""
def wrapped(x, height, width):
    freqs = get_2d_rotary_pos_embed(x.shape[-1], ((0, 0), (height, width)), (height, width))
    return apply_rotary_emb(x, freqs)
""",
        bugs=(
            Bug(
                "first axis twice",
                "embed_dim // 2, grid[1].reshape(-1), use_real=use_real",
                "embed_dim // 2, grid[0].reshape(-1), use_real=use_real",
                "axis-lost",
                "one axis has no effect",
            ),
            Bug(
                "sines of one axis twice",
                "sin = torch.cat([emb_h[1], emb_w[1]], dim=1)",
                "sin = torch.cat([emb_h[1], emb_h[1]], dim=1)",
                "not-a-rotation",
                "cosine and sine of the second axis are of different angles",
            ),
        ),
    ),
    Implementation(
        name="diffusers FluxPosEmbed",
        package="diffusers",
        module="diffusers.models.transformers.transformer_flux",
        make="FluxPosEmbed(theta=2000, axes_dim=[16, 24, 24])",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
pos_embed = FluxPosEmbed(theta=2000, axes_dim=[16, 24, 24])


def wrapped(x, positions):
    return apply_rotary_emb(x, pos_embed(positions), sequence_dim=1)
""",
        why="positions are (tokens, 3)",
        bugs=(
            Bug(
                "first axis for all",
                "pos[:, i],",
                "pos[:, 0],",
                "axis-lost",
                "the second and third coordinate have no effect",
            ),
            Bug("theta written out", "theta=self.theta,", "theta=10000,", "base-ignored", "theta has no effect"),
            Bug(
                "table repeated as halves",
                "repeat_interleave_real=True",
                "repeat_interleave_real=False",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
        ),
    ),
    Implementation(
        name="x-transformers RotaryEmbedding",
        package="x-transformers",
        module="x_transformers.x_transformers",
        make="RotaryEmbedding(32, interpolation_factor=2.)",
        kind="rotation",
        glue="""
embedding = RotaryEmbedding(32, interpolation_factor=2.)


def wrapped(x, positions=None, length=None):
    freqs, scale = embedding(torch.arange(length or x.shape[-2]) if positions is None else positions)
    return apply_rotary_pos_emb(x, freqs, scale)
""",
        defects=("buffers-rounded",),
        why="positions and frequencies take the dtype of the buffer: after .bfloat16() 256 and 257 are alike; "
        "length is the number of keys where x holds the last queries",
        bugs=(
            Bug(
                "table repeated as halves",
                "freqs = rearrange(freqs, '... d r -> ... (d r)')",
                "freqs = rearrange(freqs, '... d r -> ... (r d)')",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "head of the table",
                "freqs = freqs[:, -seq_len:, :]",
                "freqs = freqs[:, :seq_len, :]",
                "offset-ignored",
                "decoding counts from 0",
            ),
            Bug(
                "factor not divided",
                ", self.inv_freq) / self.interpolation_factor",
                ", self.inv_freq)",
                "scaling-ignored",
                "interpolation_factor has no effect",
            ),
            Bug(
                "the head passes in place of the rest",
                "t[..., :rot_dim], t[..., rot_dim:]",
                "t[..., :rot_dim], t[..., :-rot_dim]",
                "width-wrong",
                "the second half of the input is lost",
            ),
        ),
    ),
    Implementation(
        name="PoPE apply_pope_to_qk",
        package="PoPE-pytorch",
        module="PoPE_pytorch.pope",
        make="apply_pope_to_qk",
        kind="rotation",
        glue="""
pope = PoPE(64, heads=4)


def wrapped(q, k):
    return apply_pope_to_qk(pope(k.shape[-2]), q, k)
""",
        why="each channel gives a length, the place gives its angle: the result is twice as wide; "
        "the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "head of the table",
                "slice_right_at_dim(freqs, q_len, dim = -2)",
                "freqs[..., :q_len, :]",
                "offset-ignored",
                "with more keys than queries the last query counts from 0",
            ),
            Bug(
                "keys turn back",
                "rearrange([k * kcos, k * ksin]",
                "rearrange([k * kcos, -k * ksin]",
                "opposite",
                "scores depend on the sum of places",
            ),
            Bug(
                "powers not inverted",
                "theta ** -(arange(dim).float() / dim)",
                "theta ** (arange(dim).float() / dim)",
                "exponent-inverted",
                "speeds grow up to theta",
            ),
        ),
    ),
    Implementation(
        name="transformers Llama rotary",
        package="transformers",
        module="transformers.models.llama.modeling_llama",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
rope = LlamaRotaryEmbedding(LlamaConfig(head_dim=64))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb(q, k, cos, sin)
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "the places of the first row for all",
                "position_ids[..., None].float()",
                "position_ids[:1, :, None].float()",
                "rows-mixed",
                "padded rows take the positions of the first",
            ),
            Bug(
                "table repeated for neighbours",
                "torch.cat((freqs, freqs), dim=-1)",
                "freqs.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "keys turn back",
                "(rotate_half(k) * sin)",
                "(rotate_half(k) * -sin)",
                "opposite",
                "keys turn the other way",
            ),
            Bug(
                "positions in the dtype of the input",
                "position_ids[..., None].float()",
                "position_ids[..., None].to(x.dtype)",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="transformers GPT-J rotary",
        package="transformers",
        module="transformers.models.gptj.modeling_gptj",
        make="apply_rotary_pos_emb",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
def wrapped(x, positions):
    sin, cos = create_sinusoidal_positions(4096, x.shape[-1])[positions].chunk(2, dim=-1)
    return apply_rotary_pos_emb(x, sin, cos)
""",
        bugs=(
            Bug(
                "integer division in the exponent",
                "dtype=torch.int64) / dim))",
                "dtype=torch.int64) // dim))",
                "exponent-flat",
                "every pair turns by one radian a step",
            ),
            Bug(
                "sines repeated as halves",
                "torch.repeat_interleave(sin[:, :, None, :], 2, 3)",
                "sin[:, :, None, :].repeat(1, 1, 1, 2)",
                "layout-mixed",
                "cosines for neighbours, sines for halves",
            ),
        ),
    ),
    Implementation(
        name="transformers GPT-NeoX rotary, a quarter of the width",
        package="transformers",
        module="transformers.models.gpt_neox.modeling_gpt_neox",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
rope = GPTNeoXRotaryEmbedding(GPTNeoXConfig(hidden_size=256, num_attention_heads=4, rope_parameters=ROPE))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb(q, k, cos, sin)
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "factor not applied",
                "int(head_dim * partial_rotary_factor)",
                "int(head_dim)",
                "width-wrong",
                "all channels turn",
            ),
            Bug(
                "halves of the whole width",
                "(rotate_half(q_rot) * sin)",
                "(rotate_half(q)[..., :rotary_dim] * sin)",
                "not-a-rotation",
                "queries are mixed with channels that pass",
            ),
        ),
    ),
    Implementation(
        name="transformers Cohere rotary",
        package="transformers",
        module="transformers.models.cohere.modeling_cohere",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
rope = CohereRotaryEmbedding(CohereConfig(hidden_size=256, num_attention_heads=4))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb(q, k, cos, sin)
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "table repeated as halves",
                "torch.repeat_interleave(freqs, 2, dim=-1)",
                "torch.cat((freqs, freqs), dim=-1)",
                "layout-mixed",
                "pairs are neighbours, angles are given for halves",
            ),
            Bug(
                "keys turn back",
                "(k * cos) + (rotate_half(k) * sin)",
                "(k * cos) - (rotate_half(k) * sin)",
                "opposite",
                "keys turn the other way",
            ),
            Bug(
                "gradient cut",
                "k = k.float()",
                "k = k.detach().float()",
                "no-gradient",
                "nothing flows back to the keys",
            ),
        ),
    ),
    Implementation(
        name="transformers GLM rotary, half the width",
        package="transformers",
        module="transformers.models.glm.modeling_glm",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
rope = GlmRotaryEmbedding(GlmConfig(head_dim=64, rope_parameters=ROPE))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb(q, k, cos, sin)
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "sines left as halves",
                "sin[..., : sin.shape[-1] // 2].repeat_interleave(2, dim=-1)",
                "sin[..., : sin.shape[-1]]",
                "layout-mixed",
                "cosines for neighbours, sines for halves",
            ),
            Bug(
                "keys pass as they are",
                "(k_rot * cos) + (rotate_half(k_rot) * sin)",
                "k_rot",
                "one-side",
                "only queries turn",
            ),
        ),
    ),
    Implementation(
        name="transformers DeepSeek-V3 interleaved rotary",
        package="transformers",
        module="transformers.models.deepseek_v3.modeling_deepseek_v3",
        make="apply_rotary_pos_emb_interleave",
        kind="rotation",
        glue="""
rope = DeepseekV3RotaryEmbedding(DeepseekV3Config(qk_rope_head_dim=64))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb_interleave(q, k, cos, sin)
""",
        why="pairs are neighbours in the input and half a width apart in the result, on both sides; "
        "the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "keys split into halves",
                "k1, k2 = k[..., 0::2], k[..., 1::2]",
                "k1, k2 = k.chunk(2, dim=-1)",
                "sides-differ",
                "queries pair neighbours, keys pair halves",
            ),
            Bug(
                "sign of the second half of keys",
                "k2 * cos + k1 * sin",
                "k2 * cos - k1 * sin",
                "not-a-rotation",
                "both halves lose the other",
            ),
        ),
    ),
    Implementation(
        name="transformers Qwen2-VL M-RoPE",
        package="transformers",
        module="transformers.models.qwen2_vl.modeling_qwen2_vl",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
from types import SimpleNamespace

ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]}
rope = Qwen2VLRotaryEmbedding(SimpleNamespace(max_position_embeddings=4096, head_dim=64, rope_parameters=ROPE))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb(q, k, cos, sin)
""",
        why="positions are (3, batch, tokens): time, height, width; "
        "the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug("two axes of three", "m[i % 3]", "m[i % 2]", "axis-lost", "the third coordinate has no effect"),
            Bug(
                "table repeated for neighbours",
                "return torch.cat((freq, freq), dim=-1)",
                "return freq.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "one coordinate for three",
                "position_ids.expand(3, -1, -1)",
                "position_ids[:1].expand(3, -1, -1)",
                "axis-lost",
                "height and width have no effect",
            ),
        ),
    ),
    Implementation(
        name="transformers Qwen2-VL vision rotary",
        package="transformers",
        module="transformers.models.qwen2_vl.modeling_qwen2_vl",
        make="apply_rotary_pos_emb_vision",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
from types import SimpleNamespace

AXIAL = {"rope_type": "axial", "rope_theta": 10000.0}
rope = Qwen2VLVisionRotaryEmbedding(SimpleNamespace(head_dim=64, rope_parameters=AXIAL))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb_vision(q, k, cos, sin)
""",
        why="positions are rows and columns of patches (tokens, 2); "
        "the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "rows twice",
                "freq_h, freq_w = freq[:, 0], freq[:, 1]",
                "freq_h, freq_w = freq[:, 0], freq[:, 0]",
                "axis-lost",
                "columns have no effect",
            ),
            Bug(
                "table repeated for neighbours",
                "torch.cat([freq_hw, freq_hw], dim=-1)",
                "freq_hw.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
        ),
    ),
    Implementation(
        name="transformers Pixtral rotary",
        package="transformers",
        module="transformers.models.pixtral.modeling_pixtral",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
rope = PixtralVisionRotaryEmbedding(PixtralVisionConfig(hidden_size=256, num_attention_heads=4))


def wrapped(q, k, positions):
    cos, sin = rope(q, positions)
    return apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=0)
""",
        why="positions are rows and columns of patches (tokens, 2); "
        "the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug("rows twice", "(m[:, i % 2] for", "(m[:, 0] for", "axis-lost", "columns have no effect"),
            Bug(
                "powers not inverted",
                "inv_freq = 1.0 / (base ** (",
                "inv_freq = 1.0 * (base ** (",
                "exponent-inverted",
                "speeds grow up to the base",
            ),
        ),
    ),
    Implementation(
        name="transformers Llama 4 text rotary",
        package="transformers",
        module="transformers.models.llama4.modeling_llama4",
        make="apply_rotary_emb",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
rope = Llama4TextRotaryEmbedding(
    Llama4TextConfig(head_dim=64, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
)


def wrapped(q, k, positions):
    return apply_rotary_emb(q, k, rope(q, positions))
""",
        why="the module that makes cos and sin would be rounded by .bfloat16(): not seen in a function of them",
        bugs=(
            Bug(
                "keys of all rows at the places of the first",
                "xk_ * freqs_cis[:, :, None, :]",
                "xk_ * freqs_cis[:1, :, None, :]",
                "rows-mixed",
                "padded rows take the positions of the first",
            ),
            Bug(
                "positions in the dtype of the input",
                "position_ids[..., None].float()",
                "position_ids[..., None].to(x.dtype)",
                "positions-rounded",
                "in bfloat16 positions 256 and 257 are alike",
            ),
        ),
    ),
    Implementation(
        name="transformers Llama 4 vision rotary",
        package="transformers",
        module="transformers.models.llama4.modeling_llama4",
        make="vision_apply_rotary_emb",
        kind="rotation",
        settings={"order": "bthd"},
        glue="""
rope = Llama4VisionRotaryEmbedding(
    Llama4VisionConfig(hidden_size=256, num_attention_heads=4, image_size=64, patch_size=16)
)


def wrapped(q, k):
    return vision_apply_rotary_emb(q, k, rope(q))
""",
        why="4 x 4 patches and a class token at the end: 17 tokens of width 64",
        bugs=(
            Bug(
                "columns twice",
                "frequencies_y = img_idx // idx",
                "frequencies_y = img_idx % idx",
                "axis-lost",
                "rows have no effect",
            ),
            Bug(
                "queries given for keys",
                "torch.view_as_real(key_ * freqs_ci)",
                "torch.view_as_real(query_ * freqs_ci)",
                "one-for-both",
                "the second result is made from queries",
            ),
        ),
    ),
    Implementation(
        name="transformers DINOv3 rotary",
        package="transformers",
        module="transformers.models.dinov3_vit.modeling_dinov3_vit",
        make="apply_rotary_pos_emb",
        kind="rotation",
        glue="""
rope = DINOv3ViTRopePositionEmbedding(DINOv3ViTConfig(hidden_size=256, num_attention_heads=4, patch_size=4)).eval()


def wrapped(q, k, height, width):
    cos, sin = rope(torch.zeros(1, 3, 4 * height, 4 * width))
    return apply_rotary_pos_emb(q, k, cos, sin)
""",
        why="tokens before the patches pass",
        bugs=(
            Bug(
                "grid by columns",
                'torch.meshgrid(coords_h, coords_w, indexing="ij")',
                'torch.meshgrid(coords_h, coords_w, indexing="xy")',
                "axes-swapped",
                "tokens are counted down the columns while the image lies along rows",
            ),
            Bug(
                "table repeated for neighbours",
                "angles.tile(2)",
                "angles.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
            Bug(
                "keys turn back",
                "(rotate_half(k_patches) * sin)",
                "(rotate_half(k_patches) * -sin)",
                "opposite",
                "keys turn the other way",
            ),
        ),
    ),
    Implementation(
        name="transformers RoFormer rotary",
        package="transformers",
        module="transformers.models.roformer.modeling_roformer",
        make="RoFormerSelfAttention.apply_rotary_position_embeddings",
        kind="rotation",
        glue="""
table = RoFormerSinusoidalPositionalEmbedding(2048, 64).create_weight()


def wrapped(q, k, offset=0):
    rows = table[None, None, offset : offset + q.shape[-2]]
    return RoFormerSelfAttention.apply_rotary_position_embeddings(rows, q, k)
""",
        bugs=(
            Bug(
                "sines repeated as halves",
                "torch.stack([sin, sin], dim=-1)",
                "torch.cat([sin, sin], dim=-1)",
                "layout-mixed",
                "cosines for neighbours, sines for halves",
            ),
            Bug(
                "exponent of each channel its own",
                "2 * (j // 2) / dim",
                "j / dim",
                "not-a-rotation",
                "cosine and sine of a pair have different speeds",
            ),
            Bug(
                "keys turn back",
                "rotate_half_key_layer * sin_pos",
                "rotate_half_key_layer * -sin_pos",
                "opposite",
                "keys turn the other way",
            ),
        ),
    ),
    Implementation(
        name="transformers Wav2Vec2-BERT rotary",
        package="transformers",
        module="transformers.models.wav2vec2_bert.modeling_wav2vec2_bert",
        make="Wav2Vec2BertRotaryPositionalEmbedding(Wav2Vec2BertConfig(hidden_size=256, num_attention_heads=4))",
        kind="rotation",
        settings={"order": "btd", "heads": 4},
        glue="""
CONFIG = Wav2Vec2BertConfig(
    hidden_size=256, num_attention_heads=4, position_embeddings_type="rotary", rotary_embedding_base=500
)
rope = Wav2Vec2BertRotaryPositionalEmbedding(CONFIG)
attention = Wav2Vec2BertSelfAttention(CONFIG)


def wrapped(x):
    return attention._apply_rotary_embedding(x, rope(x))
""",
        defects=("buffers-rounded", "cache-stale"),
        why="positions and frequencies take the dtype of the buffer: after .bfloat16() 256 and 257 are alike; "
        "heads lie side by side in x; a table made for bfloat16 input is kept for float32 input of the same length, "
        "which costs 0.1 % and is not counted",
        bugs=(
            Bug(
                "base written out",
                "base = config.rotary_embedding_base",
                "base = 10000",
                "base-ignored",
                "rotary_embedding_base has no effect",
            ),
            Bug(
                "table repeated for neighbours",
                "torch.cat((freqs, freqs), dim=-1)",
                "freqs.repeat_interleave(2, dim=-1)",
                "layout-mixed",
                "angles for neighbours, pairs half a width apart",
            ),
        ),
    ),
    Implementation(
        name="transformers 4.36 Llama rotary, linear scaling",
        package="Transformers",
        module="transformers.models.llama.modeling_llama",
        make="LlamaLinearScalingRotaryEmbedding(64, scaling_factor=4.0)",
        kind="rotation",
        glue="""
rope = LlamaLinearScalingRotaryEmbedding(64, scaling_factor=4.0)


def wrapped(q, k, positions):
    cos, sin = rope(q, seq_len=int(positions.max()) + 1)
    return apply_rotary_pos_emb(q, k, cos, sin, positions)
""",
        defects=("buffers-rounded",),
        why="beyond the 2048 rows made at first the table is made anew in the dtype of the buffer: "
        "after .bfloat16() 4094 and 4095 are alike",
        bugs=(
            Bug(
                "positions not looked up",
                "cos = cos[position_ids].unsqueeze(unsqueeze_dim)\n"
                "    sin = sin[position_ids].unsqueeze(unsqueeze_dim)",
                "cos = cos[: q.shape[-2]]\n    sin = sin[: q.shape[-2]]",
                "positions-ignored",
                "decoding and padded rows count from 0",
            ),
            Bug(
                "factor not divided",
                "t = t / self.scaling_factor",
                "t = t",
                "scaling-ignored",
                "scaling_factor has no effect",
            ),
            Bug(
                "the places of the first row for all",
                "cos = cos[position_ids].unsqueeze(unsqueeze_dim)\n"
                "    sin = sin[position_ids].unsqueeze(unsqueeze_dim)",
                "cos = cos[position_ids[:1]].unsqueeze(unsqueeze_dim)\n"
                "    sin = sin[position_ids[:1]].unsqueeze(unsqueeze_dim)",
                "rows-mixed",
                "padded rows take the positions of the first",
            ),
        ),
    ),
    Implementation(
        name="transformers 4.36 Falcon rotary, dynamic NTK",
        package="Transformers",
        module="transformers.models.falcon.modeling_falcon",
        make="FalconDynamicNTKScalingRotaryEmbedding(64, max_position_embeddings=64, scaling_factor=2.0)",
        kind="rotation",
        glue="""
rope = FalconDynamicNTKScalingRotaryEmbedding(64, max_position_embeddings=64, scaling_factor=2.0)


def wrapped(q, k, positions):
    cos, sin = rope(q, seq_len=int(positions.max()) + 1)
    return apply_rotary_pos_emb(q, k, cos, sin, positions)
""",
        defects=("cache-stale", "length-dependent"),
        why="beyond 64 positions the base grows with the longest call (the method's own way), "
        "and short calls after a long one keep its speeds",
        bugs=(
            Bug(
                "keys turn back",
                "(rotate_half(k) * sin)",
                "(rotate_half(k) * -sin)",
                "opposite",
                "keys turn the other way",
            ),
        ),
    ),
    Implementation(
        name="transformers 4.36 ESM RotaryEmbedding",
        package="Transformers",
        module="transformers.models.esm.modeling_esm",
        make="RotaryEmbedding(dim=64)",
        kind="rotation",
        settings={"dim": 64},
        defects=("offset-ignored", "buffers-rounded"),
        why="queries fewer than the keys take the head of the keys' table: one query beside ten keys is not turned, "
        "though the attention around it joins cached keys before; after .bfloat16() positions are rounded too",
        bugs=(
            Bug(
                "results exchanged",
                "apply_rotary_pos_emb(q, self._cos_cached, self._sin_cached),\n"
                "            apply_rotary_pos_emb(k, self._cos_cached",
                "apply_rotary_pos_emb(k, self._cos_cached, self._sin_cached),\n"
                "            apply_rotary_pos_emb(q, self._cos_cached",
                "swapped",
                "keys come first",
            ),
            Bug(
                "minus lost",
                "torch.cat((-x2, x1), dim=-1)",
                "torch.cat((x2, x1), dim=-1)",
                "not-a-rotation",
                "lengths are not kept",
            ),
        ),
    ),
    Implementation(
        name="OLMo-core RotaryEmbedding",
        package="ai2-olmo-core",
        module="olmo_core.nn.rope",
        make="RotaryEmbedding(head_size=64, theta=10_000)",
        kind="rotation",
        settings={"dim": 64},
        bugs=(
            Bug(
                "keys start at zero",
                "pos_sin[k_abs_start : k_abs_start + k_len, :])\n"
                "                cos_k = _broadcast(pos_cos[k_abs_start : k_abs_start + k_len, :])",
                "pos_sin[:k_len, :])\n                cos_k = _broadcast(pos_cos[:k_len, :])",
                "sides-differ",
                "with start_pos queries count from it and keys from 0",
            ),
            Bug(
                "queries given for keys",
                "self._apply_rotary_pos_emb(sin_k, cos_k, k_)",
                "self._apply_rotary_pos_emb(sin_k, cos_k, q_)",
                "one-for-both",
                "the second result is made from turned queries",
            ),
        ),
    ),
    Implementation(
        name="OLMo-core ComplexRotaryEmbedding, half the width",
        package="ai2-olmo-core",
        module="olmo_core.nn.rope",
        make="ComplexRotaryEmbedding(head_size=64, partial_rotary_factor=0.5)",
        kind="rotation",
        bugs=(
            Bug(
                "keys start at zero",
                "freqs_cis[None, None, k_abs_start : k_abs_start + k_len, :]",
                "freqs_cis[None, None, :k_len, :]",
                "sides-differ",
                "with start_pos queries count from it and keys from 0",
            ),
            Bug(
                "the head of keys passes in place of the rest",
                "k[..., : self.rotary_dim], k[..., self.rotary_dim :]",
                "k[..., : self.rotary_dim], k[..., : -self.rotary_dim]",
                "width-wrong",
                "the second half of the keys is lost",
            ),
        ),
    ),
    Implementation(
        name="tinyllama get_rotary_matrix",
        package="tinyllama",
        module="tinyllama.encoding.roPE",
        make="get_rotary_matrix",
        kind="rotation",
        settings={"order": "btd"},
        glue="""
def wrapped(x):
    R = get_rotary_matrix(x.shape[-2], x.shape[-1]).to(x.dtype)
    return torch.einsum("tij,...tj->...ti", R, x)
""",
        defects=("exponent-shifted",),
        why="the paper's i - 1 with an i that counts from 0: the first pair turns by 1.33 radians a step at width 64",
        bugs=(
            Bug(
                "sign in the matrix",
                "= -np.sin(m_theta)",
                "= np.sin(m_theta)",
                "not-a-rotation",
                "the matrix is symmetric",
            ),
        ),
    ),
    Implementation(
        name="zeta MIRoPE",
        package="zetascale",
        module="zeta.nn.embeddings.mi_rope",
        make="MIRoPE(64)",
        kind="rotation",
        settings={"order": "btd"},
        glue="""
rope = MIRoPE(64)


def wrapped(x):
    return torch.stack(rope(list(x.unbind(1)), list(range(x.shape[1])), x.shape[1]), dim=1)
""",
        defects=("not-a-rotation",),
        why="sines and cosines are taken for angles, and the partner of a channel is its neighbour without a sign: "
        "at position 0 the input does not come back",
    ),
)
