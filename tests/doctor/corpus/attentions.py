"""Attention layers with positions inside, in public packages."""

from tests.doctor.corpus import Bug, Implementation, Package

NEW = {
    "scale-wrong": "the scale is that of another width than the head's",
    "queries-mixed": "the bias of a query is made of the content of another query",
}

PACKAGES = (
    Package("transformers", "5.23.0", "Apache-2.0", "https://github.com/huggingface/transformers"),
    Package(
        "torchtune",
        "0.6.1",
        "BSD-3-Clause",
        "https://github.com/pytorch/torchtune",
        bare=("torchtune", "torchtune.modules"),
    ),
    Package(
        "litgpt",
        "0.5.13",
        "Apache-2.0",
        "https://github.com/Lightning-AI/litgpt",
        bare=("litgpt",),
        stubs=("litgpt.utils", "litgpt.scripts", "litgpt.scripts.convert_hf_checkpoint"),
    ),
    Package(
        "llama-models",
        "0.3.0",
        "Llama-Community",
        "https://github.com/meta-llama/llama-models",
        bare=("llama_models",),
        stubs=(
            "fairscale",
            "fairscale.nn",
            "fairscale.nn.model_parallel",
            "fairscale.nn.model_parallel.initialize",
            "fairscale.nn.model_parallel.layers",
        ),
    ),
    Package(
        "timm",
        "1.0.31",
        "Apache-2.0",
        "https://github.com/huggingface/pytorch-image-models",
        bare=("timm",),
        stubs=("torchvision", "torchvision.ops", "torchvision.ops.misc"),
    ),
    Package(
        "labml-nn",
        "0.5.1",
        "MIT",
        "https://github.com/labmlai/annotated_deep_learning_paper_implementations",
        bare=("labml_nn", "labml_nn.transformers"),
        stubs=("labml", "labml.logger", "labml.configs", "labml.tracker"),
    ),
    Package(
        "d2l",
        "1.0.3",
        "MIT-0",
        "https://github.com/d2l-ai/d2l-en",
        stubs=(
            "torchvision",
            "torchvision.transforms",
            "pandas",
            "matplotlib",
            "matplotlib.pyplot",
            "matplotlib_inline",
            "requests",
            "gym",
            "scipy",
            "scipy.spatial",
            "PIL",
            "IPython",
            "IPython.display",
        ),
    ),
    Package("espnet", "202511", "Apache-2.0", "https://github.com/espnet/espnet", bare=("espnet", "espnet.nets")),
    Package(
        "speechbrain",
        "1.1.2",
        "Apache-2.0",
        "https://github.com/speechbrain/speechbrain",
        bare=("speechbrain", "speechbrain.nnet", "speechbrain.utils", "speechbrain.dataio"),
        stubs=("torchaudio", "speechbrain.dataio.dataio", "hyperpyyaml"),
    ),
    Package("fair-esm", "2.0.0", "MIT", "https://github.com/facebookresearch/esm", bare=("esm",)),
    Package(
        "local-attention",
        "1.11.2",
        "MIT",
        "https://github.com/lucidrains/local-attention",
        bare=("local_attention",),
        stubs=("hyper_connections",),
    ),
    Package(
        "palm-rlhf-pytorch",
        "0.8.0",
        "MIT",
        "https://github.com/lucidrains/PaLM-rlhf-pytorch",
        bare=("palm_rlhf_pytorch",),
        stubs=("beartype", "beartype.typing", "accelerate", "palm_rlhf_pytorch.lora"),
    ),
    Package("conformer", "0.3.2", "MIT", "https://github.com/lucidrains/conformer"),
    Package(
        "enformer-pytorch",
        "0.8.12",
        "MIT",
        "https://github.com/lucidrains/enformer-pytorch",
        bare=("enformer_pytorch",),
        stubs=("polars", "pyfaidx", "discrete_key_value_bottleneck_pytorch", "enformer_pytorch.data"),
    ),
    Package("vit-pytorch", "1.26.11", "MIT", "https://github.com/lucidrains/vit-pytorch", bare=("vit_pytorch",)),
    Package(
        "segment-anything",
        "1.0",
        "Apache-2.0",
        "https://github.com/facebookresearch/segment-anything",
        bare=("segment_anything", "segment_anything.modeling"),
    ),
    Package("sam2", "1.1.0", "Apache-2.0", "https://github.com/JinsuaFeito-dev/segment-anything-2", bare=("sam2",)),
    Package(
        "openai-whisper",
        "20250625",
        "MIT",
        "https://github.com/openai/whisper",
        bare=("whisper",),
        stubs=("tiktoken", "numba", "whisper.decoding", "whisper.transcribe"),
    ),
    Package(
        "grouped-query-attention-pytorch",
        "0.3.0",
        "MIT",
        "https://github.com/fkodom/grouped-query-attention-pytorch",
        bare=("grouped_query_attention_pytorch",),
    ),
    Package(
        "tinyllama",
        "0.0.2b0",
        "Apache-2.0",
        "https://github.com/miftahmoha/tinyllama",
        bare=("tinyllama", "tinyllama.models"),
    ),
    Package("picogpt", "0.1.1", "MIT", "https://github.com/ptarau/picogpt", bare=("picogpt",)),
    Package(
        "llms-from-scratch",
        "1.0.19",
        "Apache-2.0",
        "https://github.com/rasbt/LLMs-from-scratch",
        bare=("llms_from_scratch",),
        stubs=("tiktoken", "tiktoken.load"),
    ),
    Package("stackformer", "0.1.10", "MIT", "https://github.com/stackformer-labs/Stackformer", bare=("stackformer",)),
    Package(
        "llm-foundry",
        "0.22.0",
        "Apache-2.0",
        "https://github.com/mosaicml/llm-foundry",
        bare=("llmfoundry", "llmfoundry.models", "llmfoundry.models.layers"),
        stubs=(
            "llmfoundry.layers_registry",
            "llmfoundry.models.layers.layer_builders",
            "llmfoundry.models.utils.config_defaults",
            "llmfoundry.models.utils",
        ),
    ),
    Package(
        "moshi",
        "0.2.13",
        "MIT",
        "https://github.com/kyutai-labs/moshi",
        bare=("moshi", "moshi.modules"),
    ),
    Package("opennmt-py", "3.5.1", "MIT", "https://github.com/OpenNMT/OpenNMT-py", bare=("onmt", "onmt.modules")),
    Package(
        "self-attention-cv",
        "1.2.3",
        "MIT",
        "https://github.com/The-AI-Summer/self_attention_cv",
        bare=("self_attention_cv", "self_attention_cv.bottleneck_transformer"),
    ),
    Package(
        "curated-transformers",
        "2.0.1",
        "MIT",
        "https://github.com/explosion/curated-transformers",
        bare=("curated_transformers", "curated_transformers.layers"),
    ),
)


def _decoder(config: str, layer: str, rotary: str, past: str = "past_key_values") -> str:
    """Glue for a layer of transformers that takes tables, a mask and a cache."""
    return (
        f"config = {config}\n"
        "config._attn_implementation = 'eager'\n"
        f"layer = {layer}(config, layer_idx=0).eval()\n"
        f"rotary = {rotary}(config)\n"
        "def wrapped(x, offset=0, cache=None):\n"
        "    s = offset + x.shape[1]\n"
        "    mask = torch.full((x.shape[1], s), -1e9).triu(offset + 1)[None, None]\n"
        "    tables = rotary(x, torch.arange(offset, s)[None])\n"
        f"    return layer(x, position_embeddings=tables, attention_mask=mask, {past}=cache)[0]\n"
    )


_SMALL = "hidden_size=64, num_attention_heads=4, num_key_value_heads=2"

IMPLEMENTATIONS = (
    Implementation(
        name="transformers LlamaAttention",
        package="transformers",
        module="transformers.models.llama.modeling_llama",
        make=f"LlamaAttention(LlamaConfig({_SMALL}), 0)",
        kind="attention",
        glue=_decoder(f"LlamaConfig({_SMALL})", "LlamaAttention", "LlamaRotaryEmbedding"),
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "queries only",
                "k_embed = (k * cos) + (rotate_half(k) * sin)",
                "k_embed = k",
                "one-side",
                "keys are not turned",
            ),
            Bug(
                "width of the model",
                "self.scaling = self.head_dim**-0.5",
                "self.scaling = config.hidden_size**-0.5",
                "scale-of-model",
                "the root of hidden_size in place of head_dim",
            ),
            Bug(
                "groups side by side",
                "hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen",
                "hidden_states[:, None, :, :, :].expand(batch, n_rep, num_key_value_heads, slen",
                "groups-tiled",
                "key heads repeat as 0 1 0 1 in place of 0 0 1 1",
            ),
            Bug(
                "softmax over queries",
                "nn.functional.softmax(attn_weights, dim=-1",
                "nn.functional.softmax(attn_weights, dim=-2",
                "softmax-axis",
                "weights of a query do not sum to 1",
            ),
        ),
    ),
    Implementation(
        name="transformers Qwen3Attention",
        package="transformers",
        module="transformers.models.qwen3.modeling_qwen3",
        make=f"Qwen3Attention(Qwen3Config({_SMALL}, head_dim=32), 0)",
        kind="attention",
        glue=_decoder(f"Qwen3Config({_SMALL}, head_dim=32)", "Qwen3Attention", "Qwen3RotaryEmbedding"),
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "values turned",
                "cos, sin = position_embeddings",
                "cos, sin = position_embeddings\n        "
                "value_states, _ = apply_rotary_pos_emb(value_states, value_states, cos, sin)",
                "values-moved",
                "values depend on their places",
            ),
            Bug(
                "view for transpose",
                "self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)",
                "self.v_proj(hidden_states).view(input_shape[0], -1, input_shape[1], self.head_dim)",
                "heads-mixed",
                "tokens and heads of the values are mixed",
            ),
            Bug(
                "keys the other way",
                "k_embed = (k * cos) + (rotate_half(k) * sin)",
                "k_embed = (k * cos) - (rotate_half(k) * sin)",
                "opposite",
                "scores depend on sums of places",
            ),
        ),
    ),
    Implementation(
        name="transformers Gemma2Attention",
        package="transformers",
        module="transformers.models.gemma2.modeling_gemma2",
        make=f"Gemma2Attention(Gemma2Config({_SMALL}, head_dim=16, query_pre_attn_scalar=16), 0)",
        kind="attention",
        glue=_decoder(
            f"Gemma2Config({_SMALL}, head_dim=16, query_pre_attn_scalar=16)", "Gemma2Attention", "Gemma2RotaryEmbedding"
        ),
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "scaled again",
                "torch.matmul(query, key_states.transpose(2, 3)) * scaling",
                "torch.matmul(query * scaling, key_states.transpose(2, 3)) * scaling",
                "scale-twice",
                "queries and logits are both scaled",
            ),
            Bug(
                "sum thrown away",
                "attn_weights = attn_weights + attention_mask",
                "attn_weights + attention_mask",
                "mask-ignored",
                "the masked logits are not kept",
            ),
            Bug(
                "same for both",
                "k_embed = (k * cos) + (rotate_half(k) * sin)",
                "k_embed = (k * cos) + (rotate_half(q[:, :k.shape[1]]) * sin)",
                "one-for-both",
                "half of the rotation of keys is made of queries",
            ),
        ),
    ),
    Implementation(
        name="transformers PhiAttention",
        package="transformers",
        module="transformers.models.phi.modeling_phi",
        make="PhiAttention(PhiConfig(hidden_size=64, num_attention_heads=4), 0)",
        kind="attention",
        glue=_decoder("PhiConfig(hidden_size=64, num_attention_heads=4)", "PhiAttention", "PhiRotaryEmbedding"),
        settings={"dim": 64, "heads": 4},
        why="Half of each head turns.",
        bugs=(
            Bug(
                "other end of the queries",
                "torch.cat((query_rot, query_pass), dim=-1)",
                "torch.cat((query_pass, query_rot), dim=-1)",
                "sides-differ",
                "the channels that turned stand last in queries and first in keys",
            ),
            Bug(
                "exchanged",
                "query_rot, key_rot = apply_rotary_pos_emb(query_rot, key_rot, cos, sin)",
                "query_rot, key_rot = apply_rotary_pos_emb(key_rot, query_rot, cos, sin)",
                "swapped",
                "queries and keys exchange the channels that turn",
            ),
            Bug(
                "no scale",
                "self.scaling = self.head_dim**-0.5",
                "self.scaling = 1.0",
                "scale-missing",
                "logits are not divided",
            ),
        ),
    ),
    Implementation(
        name="transformers GPTNeoXAttention",
        package="transformers",
        module="transformers.models.gpt_neox.modeling_gpt_neox",
        make="GPTNeoXAttention(GPTNeoXConfig(hidden_size=64, num_attention_heads=4), 0)",
        kind="attention",
        glue=_decoder(
            "GPTNeoXConfig(hidden_size=64, num_attention_heads=4)",
            "GPTNeoXAttention",
            "GPTNeoXRotaryEmbedding",
            "layer_past",
        ),
        settings={"dim": 64, "heads": 4},
        why="One matrix for q, k and v, and a quarter of each head turns.",
        bugs=(
            Bug(
                "last channels of the queries",
                "q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]",
                "q_rot, q_pass = q[..., -rotary_dim:], q[..., :-rotary_dim]",
                "sides-differ",
                "queries turn their last channels",
            ),
            Bug(
                "keys again",
                "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)",
                "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)\n        "
                "_, key_states = apply_rotary_pos_emb(key_states, key_states, cos, sin)",
                "keys-turned-twice",
                "keys turn by twice their angles",
            ),
            Bug(
                "no transpose at the end",
                "attn_output = attn_output.transpose(1, 2).contiguous()",
                "attn_output = attn_output.contiguous()",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="transformers GPTJAttention",
        package="transformers",
        module="transformers.models.gptj.modeling_gptj",
        make="GPTJAttention(GPTJConfig(n_embd=64, n_head=4, rotary_dim=8), 0)",
        kind="attention",
        glue="layer = GPTJAttention(GPTJConfig(n_embd=64, n_head=4, rotary_dim=8), 0).eval()\n"
        "def wrapped(x, offset=0, cache=None):\n"
        "    s = offset + x.shape[1]\n"
        "    mask = torch.full((x.shape[1], s), -1e9).triu(offset + 1)[None, None]\n"
        "    positions = torch.arange(offset, s)[None]\n"
        "    return layer(x, cache, mask, positions)[0]\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "sine repeated whole",
                "sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)",
                "sin = sin[:, :, None, :].repeat(1, 1, 1, 2)",
                "layout-mixed",
                "cosines lie beside each other, sines in halves",
            ),
            Bug(
                "width of the model",
                "math.sqrt(self.head_dim)",
                "math.sqrt(self.embed_dim)",
                "scale-of-model",
                "the root of n_embd",
            ),
            Bug(
                "no minus",
                "torch.stack((-x2, x1), dim=-1)",
                "torch.stack((x2, x1), dim=-1)",
                "not-a-rotation",
                "a minus is missing",
            ),
            Bug(
                "integer division",
                "torch.arange(0, dim, 2, dtype=torch.int64) / dim",
                "torch.arange(0, dim, 2, dtype=torch.int64) // dim",
                "exponent-flat",
                "all speeds are 1",
            ),
        ),
    ),
    Implementation(
        name="transformers CohereAttention",
        package="transformers",
        module="transformers.models.cohere.modeling_cohere",
        make=f"CohereAttention(CohereConfig({_SMALL}, use_qk_norm=True), 0)",
        kind="attention",
        glue=_decoder(f"CohereConfig({_SMALL}, use_qk_norm=True)", "CohereAttention", "CohereRotaryEmbedding"),
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "halves for pairs",
                "torch.stack([-x2, x1], dim=-1).flatten(-2)",
                "torch.cat([-x2, x1], dim=-1)",
                "layout-mixed",
                "the turned channels are put back as halves",
            ),
            Bug(
                "no minus",
                "torch.stack([-x2, x1], dim=-1)",
                "torch.stack([x2, x1], dim=-1)",
                "not-a-rotation",
                "a minus is missing",
            ),
            Bug(
                "groups side by side",
                "hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen",
                "hidden_states[:, None, :, :, :].expand(batch, n_rep, num_key_value_heads, slen",
                "groups-tiled",
                "key heads repeat as 0 1 0 1",
            ),
        ),
    ),
    Implementation(
        name="transformers GlmAttention",
        package="transformers",
        module="transformers.models.glm.modeling_glm",
        make=f"GlmAttention(GlmConfig({_SMALL}, head_dim=16), 0)",
        kind="attention",
        glue=_decoder(f"GlmConfig({_SMALL}, head_dim=16, pad_token_id=0)", "GlmAttention", "GlmRotaryEmbedding"),
        settings={"dim": 64, "heads": 4},
        why="Half of each head turns, in pairs side by side.",
        bugs=(
            Bug(
                "sine repeated whole",
                "sin = sin[..., : sin.shape[-1] // 2].repeat_interleave(2, dim=-1)",
                "sin = sin[..., : sin.shape[-1] // 2].repeat(1, 1, 1, 2)",
                "layout-mixed",
                "cosines lie beside each other, sines in halves",
            ),
            Bug(
                "rest of the queries first",
                "q_embed = torch.cat([q_embed, q_pass], dim=-1)",
                "q_embed = torch.cat([q_pass, q_embed], dim=-1)",
                "sides-differ",
                "the channels that turned stand last in queries and first in keys",
            ),
            Bug(
                "no scale",
                "self.scaling = self.head_dim**-0.5",
                "self.scaling = 1.0",
                "scale-missing",
                "logits are not divided",
            ),
        ),
    ),
    Implementation(
        name="transformers DeepseekV3Attention",
        package="transformers",
        module="transformers.models.deepseek_v3.modeling_deepseek_v3",
        make="DeepseekV3Attention(DeepseekV3Config(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, "
        "q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16), 0)",
        kind="attention",
        glue=_decoder(
            "DeepseekV3Config(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=32, "
            "kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16)",
            "DeepseekV3Attention",
            "DeepseekV3RotaryEmbedding",
        ),
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "halves of the keys",
                "k1, k2 = k[..., 0::2], k[..., 1::2]",
                "k1, k2 = k.chunk(2, dim=-1)",
                "sides-differ",
                "queries turn pairs side by side, keys turn halves",
            ),
            Bug(
                "a sign",
                "torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], dim=-1)",
                "torch.cat([q1 * cos + q2 * sin, q2 * cos + q1 * sin], dim=-1)",
                "not-a-rotation",
                "queries are not rotated but reflected",
            ),
            Bug(
                "scale without the rotary part",
                "self.qk_head_dim ** (-0.5)",
                "self.qk_nope_head_dim ** (-0.5)",
                "scale-wrong",
                "the width of the part that turns is left out",
            ),
            Bug(
                "the keys only",
                "q_rot, k_rot = apply_rotary_pos_emb_interleave(q_rot, k_rot, cos, sin)",
                "_, k_rot = apply_rotary_pos_emb_interleave(q_rot, k_rot, cos, sin)",
                "one-side",
                "the turned queries are dropped",
            ),
        ),
    ),
    Implementation(
        name="transformers ModernBertAttention",
        package="transformers",
        module="transformers.models.modernbert.modeling_modernbert",
        make="ModernBertAttention(ModernBertConfig(hidden_size=64, num_attention_heads=4), 0)",
        kind="attention",
        glue="config = ModernBertConfig(hidden_size=64, num_attention_heads=4)\n"
        "config._attn_implementation = 'eager'\n"
        "layer = ModernBertAttention(config, 0).eval()\n"
        "rotary = ModernBertRotaryEmbedding(config)\n"
        "def wrapped(x):\n"
        "    positions = torch.arange(x.shape[1])[None]\n"
        "    return layer(x, rotary(x, positions, config.layer_types[0]))[0]\n",
        settings={"dim": 64, "heads": 4},
        why="Not causal.",
        bugs=(
            Bug("no scale", "scaling=self.head_dim**-0.5", "scaling=1.0", "scale-missing", "logits are not divided"),
            Bug(
                "keys the other way",
                "(k.float() * cos) + (rotate_half(k.float()) * sin)",
                "(k.float() * cos) - (rotate_half(k.float()) * sin)",
                "opposite",
                "scores depend on sums of places",
            ),
            Bug(
                "width of the model",
                "scaling=self.head_dim**-0.5",
                "scaling=self.config.hidden_size**-0.5",
                "scale-of-model",
                "the root of hidden_size",
            ),
        ),
    ),
    Implementation(
        name="transformers BloomAttention",
        package="transformers",
        module="transformers.models.bloom.modeling_bloom",
        make="BloomAttention(BloomConfig(hidden_size=64, n_head=4), 0)",
        kind="attention",
        glue="layer = BloomAttention(BloomConfig(hidden_size=64, n_head=4), 0).eval()\n"
        "def wrapped(x, offset=0, cache=None):\n"
        "    b, t, _ = x.shape\n"
        "    alibi = build_alibi_tensor(torch.ones(b, offset + t, dtype=torch.long), 4, x.dtype)\n"
        "    mask = torch.full((t, offset + t), -1e9).triu(offset + 1)[None, None]\n"
        "    return layer(x, torch.zeros_like(x), alibi, mask, layer_past=cache)[0]\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug("bias dropped", "self.beta = 1.0", "self.beta = 0.0", "bias-lost", "the bias is multiplied by 0"),
            Bug("no scale", "alpha=self.inv_norm_factor", "alpha=1.0", "scale-missing", "logits are not divided"),
            Bug(
                "near is punished",
                "alibi = slopes[..., None] * arange_tensor",
                "alibi = slopes[..., None] * -arange_tensor",
                "penalty-reversed",
                "far keys are favored",
            ),
            Bug(
                "heads as tokens",
                "x = x.permute(0, 2, 1, 3)",
                "x = x.contiguous()",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="transformers MptAttention",
        package="transformers",
        module="transformers.models.mpt.modeling_mpt",
        make="MptAttention(MptConfig(d_model=64, n_heads=4), 0)",
        kind="attention",
        glue="layer = MptAttention(MptConfig(d_model=64, n_heads=4, max_seq_len=64), 0).eval()\n"
        "alibi = build_mpt_alibi_tensor(4, 64)\n"
        "def wrapped(x, offset=0, cache=None):\n"
        "    t = x.shape[1]\n"
        "    mask = torch.ones(t, offset + t, dtype=torch.bool).triu(offset + 1)[None, None]\n"
        "    return layer(x, alibi, past_key_values=cache, attention_mask=mask)[0]\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "bias subtracted",
                "attention_scores = attention_scores + position_bias",
                "attention_scores = attention_scores - position_bias",
                "penalty-reversed",
                "far keys are favored",
            ),
            Bug(
                "mask the other way",
                "attention_scores.masked_fill(attention_mask,",
                "attention_scores.masked_fill(~attention_mask,",
                "mask-inverted",
                "the future is seen, the past not",
            ),
            Bug(
                "width of the model",
                "math.sqrt(self.hidden_size / self.n_heads)",
                "math.sqrt(self.hidden_size)",
                "scale-of-model",
                "the root of d_model",
            ),
        ),
    ),
    Implementation(
        name="transformers T5Attention, decoder",
        package="transformers",
        module="transformers.models.t5.modeling_t5",
        make="T5Attention(T5Config(d_model=64, d_kv=16, num_heads=4, is_decoder=True), True, 0)",
        kind="attention",
        glue="config = T5Config(d_model=64, d_kv=16, num_heads=4, is_decoder=True)\n"
        "config._attn_implementation = 'eager'\n"
        "layer = T5Attention(config, True, 0).eval()\n"
        "def wrapped(x, offset=0, cache=None):\n"
        "    mask = torch.full((x.shape[1], offset + x.shape[1]), -1e9).triu(offset + 1)[None, None]\n"
        "    return layer(x, mask, past_key_values=cache)[0]\n",
        settings={"dim": 64, "heads": 4},
        why="T5 has no scale.",
        bugs=(
            Bug(
                "sum thrown away",
                "attn_weights = attn_weights + position_bias",
                "attn_weights + position_bias",
                "bias-lost",
                "the bias is added and not kept",
            ),
            Bug(
                "cache not counted",
                "device=query_states.device, past_seen_tokens=past_seen_tokens",
                "device=query_states.device",
                "decode-aligned-first",
                "a step of decoding has the bias of query 0",
            ),
            Bug(
                "softmax over queries",
                "nn.functional.softmax(attn_weights, dim=-1",
                "nn.functional.softmax(attn_weights, dim=-2",
                "softmax-axis",
                "weights of a query do not sum to 1",
            ),
        ),
    ),
    Implementation(
        name="transformers VitsAttention",
        package="transformers",
        module="transformers.models.vits.modeling_vits",
        make="VitsAttention(VitsConfig(hidden_size=64, num_attention_heads=4))",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        why="Relative embeddings within a window are added to keys and to values: both on purpose.",
        bugs=(
            Bug(
                "scaled again",
                "attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))",
                "attn_weights = torch.bmm(query_states, key_states.transpose(1, 2)) * self.scaling",
                "scale-twice",
                "queries are scaled before",
            ),
            Bug(
                "wrong corner",
                "x_final[:, :length, length - 1 :]",
                "x_final[:, :length, :length]",
                "queries-mixed",
                "keys before the query get the bias of the query above",
            ),
            Bug(
                "bias dropped",
                "attn_weights += rel_pos_bias",
                "attn_weights = attn_weights",
                "bias-lost",
                "the relative part of the keys is not added",
            ),
        ),
    ),
    Implementation(
        name="torchtune MultiHeadAttention",
        package="torchtune",
        module="torchtune.modules.attention",
        make="MultiHeadAttention(embed_dim=64, num_heads=4, num_kv_heads=2, head_dim=16, q_proj=nn.Linear(64, 64), "
        "k_proj=nn.Linear(64, 32), v_proj=nn.Linear(64, 32), output_proj=nn.Linear(64, 64))",
        kind="attention",
        glue="from torchtune.modules.position_embeddings import RotaryPositionalEmbeddings\n"
        "layer = MultiHeadAttention(embed_dim=64, num_heads=4, num_kv_heads=2, head_dim=16, q_proj=nn.Linear(64, 64),\n"
        "    k_proj=nn.Linear(64, 32), v_proj=nn.Linear(64, 32), output_proj=nn.Linear(64, 64),\n"
        "    pos_embeddings=RotaryPositionalEmbeddings(16))\n"
        "def wrapped(x, positions=None):\n"
        "    return layer(x, x, input_pos=positions)\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "keys from 0",
                "k = self.pos_embeddings(k, input_pos=input_pos)",
                "k = self.pos_embeddings(k)",
                "sides-differ",
                "given positions reach the queries only",
            ),
            Bug(
                "keys stay",
                "k = self.pos_embeddings(k, input_pos=input_pos)",
                "k = 1 * k",
                "one-side",
                "keys are not turned",
            ),
            Bug(
                "groups side by side",
                "k = k.unsqueeze(2).expand(expand_shape).flatten(1, 2)",
                "k = k.repeat(1, q_per_kv, 1, 1)",
                "groups-tiled",
                "key heads repeat as 0 1 0 1, value heads as 0 0 1 1",
            ),
            Bug(
                "not causal",
                "is_causal=self.kv_cache is None and mask is None and self.is_causal",
                "is_causal=False",
                "future-seen",
                "is_causal is not passed on",
            ),
            Bug(
                "no transpose at the end",
                "output.transpose(1, 2).contiguous().view(b, s_x, -1)",
                "output.contiguous().view(b, s_x, -1)",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="litgpt CausalSelfAttention",
        package="litgpt",
        module="litgpt.model",
        make="CausalSelfAttention(Config(n_layer=1, n_embd=64, n_head=4, n_query_groups=2, rotary_percentage=0.5), 0)",
        kind="attention",
        glue="config = Config(n_layer=1, n_embd=64, n_head=4, n_query_groups=2, rotary_percentage=0.5, block_size=64)\n"
        "layer = CausalSelfAttention(config, 0)\n"
        "cos, sin = build_rope_cache(64, config.rope_n_elem)\n"
        "def wrapped(x):\n"
        "    return layer(x, cos[None, :x.shape[1]], sin[None, :x.shape[1]])\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "keys the other way",
                "apply_rope(k[..., :rope_n_elem], cos, sin)",
                "apply_rope(k[..., :rope_n_elem], cos, -sin)",
                "opposite",
                "scores depend on sums of places",
            ),
            Bug(
                "width of the model",
                "self.config.attention_scores_scalar or self.config.head_size",
                "self.config.attention_scores_scalar or self.config.n_embd",
                "scale-of-model",
                "the root of n_embd",
            ),
            Bug(
                "rest of the keys first",
                "k = torch.cat((k_roped, k[..., rope_n_elem:]), dim=-1)",
                "k = torch.cat((k[..., rope_n_elem:], k_roped), dim=-1)",
                "sides-differ",
                "the channels that turned stand last in keys and first in queries",
            ),
        ),
    ),
    Implementation(
        name="litgpt CausalSelfAttention with a window",
        package="litgpt",
        module="litgpt.model",
        make="CausalSelfAttention(Config(n_layer=1, n_embd=64, n_head=4, sliding_window_size=4, "
        "sliding_window_indices=[1]), 0)",
        kind="attention",
        glue="config = Config(n_layer=1, n_embd=64, n_head=4, sliding_window_size=4, sliding_window_indices=[1],\n"
        "    block_size=64)\n"
        "layer = CausalSelfAttention(config, 0)\n"
        "cos, sin = build_rope_cache(64, config.rope_n_elem)\n"
        "def wrapped(x):\n"
        "    return layer(x, cos[None, :x.shape[1]], sin[None, :x.shape[1]])\n",
        settings={"dim": 64, "heads": 4},
        defects=("mask-ignored",),
        why="The window's mask replaces the mask that is given, where the comment above it adds the two: hiding keys "
        "0 to 2 of 8 changes the result by 0.0, without a window by 0.7.",
        bugs=(
            Bug(
                "one more key",
                "i - self.config.sliding_window_size + 1)",
                "i - self.config.sliding_window_size)",
                "window-wrong",
                "a query sees window + 1 keys",
            ),
            Bug(
                "to the end",
                "sliding_window_mask[i, window_start : i + 1] = 0.0",
                "sliding_window_mask[i, window_start:] = 0.0",
                "future-seen",
                "the window is open to the right",
            ),
        ),
    ),
    Implementation(
        name="litgpt MultiheadLatentAttention",
        package="litgpt",
        module="litgpt.model",
        make="MultiheadLatentAttention(Config(n_layer=1, n_embd=64, n_head=4, block_size=64, latent_attention=dict("
        "q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16)), 0)",
        kind="attention",
        glue="config = Config(n_layer=1, n_embd=64, n_head=4, block_size=64, latent_attention=dict(q_lora_rank=32,\n"
        "    kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16))\n"
        "layer = MultiheadLatentAttention(config, 0)\n"
        "cos, sin = build_rope_cache(64, config.rope_n_elem)\n"
        "def wrapped(x):\n"
        "    return layer(x, cos[None, :x.shape[1]], sin[None, :x.shape[1]])\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "parts of the keys exchanged",
                "k = torch.cat((k_pass, k_roped), dim=-1)",
                "k = torch.cat((k_roped, k_pass), dim=-1)",
                "sides-differ",
                "the part of the keys that turned meets the part of the queries that did not",
            ),
            Bug(
                "scale without the rotary part",
                "self.config.attention_scores_scalar or self.config.qk_head_dim",
                "self.config.attention_scores_scalar or self.config.qk_nope_head_dim",
                "scale-wrong",
                "the width of the part that turns is left out",
            ),
            Bug(
                "keys stay",
                "k_roped = apply_rope(k_rot, cos, sin)",
                "k_roped = k_rot",
                "one-side",
                "keys are not turned",
            ),
        ),
    ),
    Implementation(
        name="llama-models Attention",
        package="llama-models",
        module="llama_models.llama3.model",
        make="Attention",
        kind="attention",
        glue="def linear(inside, outside, **rest):\n"
        "    return nn.Linear(inside, outside, bias=False)\n"
        "Attention.__init__.__globals__.update(ColumnParallelLinear=linear, RowParallelLinear=linear)\n"
        "fs_init.get_model_parallel_world_size.return_value = 1\n"
        "args = ModelArgs(dim=64, n_heads=4, n_kv_heads=2, max_batch_size=2, max_seq_len=64)\n"
        "layer = Attention(args)\n"
        "table = precompute_freqs_cis(16, 64)\n"
        "@torch.no_grad()\n"
        "def wrapped(x, offset=0):\n"
        "    s = offset + x.shape[1]\n"
        "    mask = torch.full((x.shape[1], s), float('-inf')).triu(offset + 1)\n"
        "    return layer(x, offset, table[offset:s], mask)\n",
        settings={"dim": 64, "heads": 4},
        why="The cache lies inside: a step with offset goes on from what calls before it have left.",
        bugs=(
            Bug(
                "queries stay",
                "xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)",
                "_, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)",
                "one-side",
                "queries are not turned",
            ),
            Bug(
                "values from the start",
                "self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv",
                "self.cache_v[:bsz, :seqlen] = xv",
                "cache-order",
                "a step of decoding overwrites the first values",
            ),
            Bug(
                "no transpose at the end",
                "output.transpose(1, 2).contiguous().view(bsz, seqlen, -1)",
                "output.contiguous().view(bsz, seqlen, -1)",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
            Bug(
                "width of the model",
                "/ math.sqrt(self.head_dim)",
                "/ math.sqrt(self.head_dim * self.n_local_heads)",
                "scale-of-model",
                "the root of dim",
            ),
        ),
    ),
    Implementation(
        name="timm AttentionRope",
        package="timm",
        module="timm.layers.attention",
        make="AttentionRope(dim=64, num_heads=4, qkv_fused=False, num_kv_heads=2, num_prefix_tokens=1)",
        kind="attention",
        glue="from timm.layers.pos_embed_sincos import RotaryEmbeddingCat\n"
        "layer = AttentionRope(dim=64, num_heads=4, qkv_fused=False, num_kv_heads=2, num_prefix_tokens=1)\n"
        "table = RotaryEmbeddingCat(16, in_pixels=False, feat_shape=(4, 6)).get_embed()\n"
        "def wrapped(x):\n"
        "    return layer(x, rope=table)\n",
        settings={"dim": 64, "heads": 4},
        why="One class token, then 4 x 6 tokens.",
        bugs=(
            Bug(
                "halves of the keys",
                "k[:, :, npt:, :], rope, half=half",
                "k[:, :, npt:, :], rope, half=not half",
                "sides-differ",
                "queries turn pairs side by side, keys turn halves",
            ),
            Bug(
                "groups side by side",
                "k = k.repeat_interleave(self.num_kv_groups, dim=1)",
                "k = k.repeat(1, self.num_kv_groups, 1, 1)",
                "groups-tiled",
                "key heads repeat as 0 1 0 1",
            ),
            Bug(
                "table to the first tokens",
                "apply_rot_embed_cat(q[:, :, npt:, :], rope",
                "apply_rot_embed_cat(q[:, :, npt:, :], rope.roll(1, 0)",
                "sides-differ",
                "queries have the angles of the token before",
            ),
        ),
    ),
    Implementation(
        name="labml-nn RotaryPEMultiHeadAttention",
        package="labml-nn",
        module="labml_nn.transformers.rope",
        make="RotaryPEMultiHeadAttention(4, 64)",
        kind="attention",
        glue="layer = RotaryPEMultiHeadAttention(4, 64).eval()\n"
        "def wrapped(x):\n"
        "    mask = torch.ones(x.shape[0], x.shape[0]).tril()[:, :, None]\n"
        "    return layer(query=x, key=x, value=x, mask=mask)\n",
        settings={"dim": 64, "heads": 4, "order": "tbd"},
        bugs=(
            Bug(
                "pairs for halves",
                "torch.cat([idx_theta, idx_theta], dim=1)",
                "idx_theta.repeat_interleave(2, dim=1)",
                "layout-mixed",
                "the table is one of pairs side by side",
            ),
            Bug(
                "queries stay",
                "self.query_rotary_pe(query), self.key_rotary_pe(key)",
                "query, self.key_rotary_pe(key)",
                "one-side",
                "queries are not turned",
            ),
            Bug(
                "no minus",
                "torch.cat([-x[:, :, :, d_2:], x[:, :, :, :d_2]]",
                "torch.cat([x[:, :, :, d_2:], x[:, :, :, :d_2]]",
                "not-a-rotation",
                "a minus is missing",
            ),
            Bug(
                "half exponent",
                "torch.arange(0, self.d, 2).float() / self.d)",
                "torch.arange(0, self.d // 2).float() / self.d)",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
        ),
    ),
    Implementation(
        name="labml-nn AlibiMultiHeadAttention",
        package="labml-nn",
        module="labml_nn.transformers.alibi",
        make="AlibiMultiHeadAttention(4, 64, 0.0)",
        kind="attention",
        glue="layer = AlibiMultiHeadAttention(4, 64, 0.0).eval()\n"
        "def wrapped(x):\n"
        "    mask = torch.ones(x.shape[0], x.shape[0]).tril()[:, :, None]\n"
        "    return layer(query=x, key=x, value=x, mask=mask)\n",
        settings={"dim": 64, "heads": 4, "order": "tbd"},
        why="The bias is kept from the first mask; for causal masks that is right.",
        bugs=(
            Bug("no scale", "scores *= self.scale", "scores *= 1", "scale-missing", "logits are not divided"),
            Bug(
                "subtracted",
                "scores += self.alibi_biases",
                "scores -= self.alibi_biases",
                "penalty-reversed",
                "far keys are favored",
            ),
        ),
    ),
    Implementation(
        name="labml-nn RelativeMultiHeadAttention",
        package="labml-nn",
        module="labml_nn.transformers.xl.relative_mha",
        make="RelativeMultiHeadAttention(4, 64)",
        kind="attention",
        glue="layer = RelativeMultiHeadAttention(4, 64).eval()\n"
        "for part in (layer.key_pos_embeddings, layer.key_pos_bias, layer.query_pos_bias):\n"
        "    nn.init.normal_(part, std=0.2)\n"
        "def wrapped(x):\n"
        "    mask = torch.ones(x.shape[0], x.shape[0]).tril()[:, :, None]\n"
        "    return layer(query=x, key=x, value=x, mask=mask)\n",
        settings={"dim": 64, "heads": 4, "order": "tbd"},
        why="The tables start with zeros.",
        bugs=(
            Bug(
                "first columns",
                "bd = bd[:, -key.shape[0]:]",
                "bd = bd[:, :key.shape[0]]",
                "queries-mixed",
                "the columns cut are of other offsets, some shifted in from the query above",
            ),
            Bug("no shift", "bd = shift_right(b + d)", "bd = b + d", "absolute", "the bias depends on the key's place"),
            Bug("positions dropped", "return ac + bd", "return ac", "bias-lost", "nothing relative is added"),
        ),
    ),
    Implementation(
        name="d2l MultiHeadAttention",
        package="d2l",
        module="d2l.torch",
        make="MultiHeadAttention(64, 4, 0.0)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        glue="layer = MultiHeadAttention(64, 4, 0.0)\ndef wrapped(x, lengths):\n    return layer(x, x, x, lengths)\n",
        why="No positions; lengths of the sequences mask the rest.",
        bugs=(
            Bug(
                "lengths in turn",
                "valid_lens = torch.repeat_interleave(\n                valid_lens, repeats=self.num_heads, dim=0)",
                "valid_lens = valid_lens.repeat(self.num_heads)",
                "rows-mixed",
                "heads of one sequence are masked by the lengths of others",
            ),
            Bug(
                "masked to 0",
                "valid_lens, value=-1e6)",
                "valid_lens, value=0)",
                "mask-ignored",
                "masked logits are 0, not very small",
            ),
        ),
    ),
    Implementation(
        name="espnet RelPositionMultiHeadedAttention",
        package="espnet",
        module="espnet.nets.pytorch_backend.transformer.attention",
        make="RelPositionMultiHeadedAttention(4, 64, 0.0)",
        kind="attention",
        glue="layer = RelPositionMultiHeadedAttention(4, 64, 0.0).eval()\n"
        "speeds = 10000.0 ** (-torch.arange(0, 64, 2) / 64)\n"
        "def wrapped(x, mask=None):\n"
        "    angles = torch.arange(x.shape[1] - 1, -x.shape[1], -1.0)[:, None] * speeds\n"
        "    encoding = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None]\n"
        "    return layer(x, x, x, encoding, mask)\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "last row dropped",
                "x_padded[:, :, 1:].view_as(x)[",
                "x_padded[:, :, :-1].view_as(x)[",
                "queries-mixed",
                "the shift takes the bias of the query above",
            ),
            Bug(
                "other half",
                ":, :, :, : x.size(-1) // 2 + 1",
                ":, :, :, x.size(-1) // 2 :",
                "queries-mixed",
                "the columns kept are those of the query below",
            ),
        ),
    ),
    Implementation(
        name="speechbrain RelPosMHAXL",
        package="speechbrain",
        module="speechbrain.nnet.attention",
        make="RelPosMHAXL(64, 4)",
        kind="attention",
        glue="layer = RelPosMHAXL(64, 4).eval()\n"
        "encoding = RelPosEncXL(64)\n"
        "def wrapped(x, mask=None):\n"
        "    return layer(x, x, x, encoding(x), attn_mask=mask)[0]\n",
        settings={"dim": 64, "heads": 4},
        defects=("scale-of-model",),
        why="The scale is 1 / sqrt(embed_dim): 0.125 for 4 heads of 16, whose own would be 0.25.",
        bugs=(
            Bug(
                "other half",
                "x[..., : pos_len // 2 + 1]",
                "x[..., pos_len // 2 :]",
                "queries-mixed",
                "the columns kept are those of the query below",
            ),
            Bug(
                "no shift",
                "matrix_bd = self.rel_shift(matrix_bd)",
                "matrix_bd = matrix_bd[..., :qlen]",
                "absolute",
                "the bias depends on the key's place",
            ),
            Bug(
                "past not turned round",
                "torch.flip(pe_past, (0,)).unsqueeze(0)",
                "pe_past.unsqueeze(0)",
                "length-dependent",
                "the nearest key of the past gets the encoding of the farthest",
            ),
        ),
    ),
    Implementation(
        name="fair-esm MultiheadAttention",
        package="fair-esm",
        module="esm.multihead_attention",
        make="MultiheadAttention(64, 4, self_attention=True, use_rotary_embeddings=True)",
        kind="attention",
        glue="layer = MultiheadAttention(64, 4, self_attention=True, use_rotary_embeddings=True).eval()\n"
        "def wrapped(x):\n"
        "    return layer(x, x, x)[0]\n",
        settings={"dim": 64, "heads": 4, "order": "tbd"},
        defects=("buffers-rounded", "positions-rounded", "offset-ignored"),
        why="inv_freq is a buffer: after module.bfloat16() cosines up to 4096 are wrong by up to 2.0, and positions "
        "256 and 257 are alike. With incremental_state each query counts from 0: steps differ from the whole by 0.2 "
        "to 0.3.",
        bugs=(
            Bug(
                "exchanged",
                "q, k = self.rot_emb(q, k)",
                "k, q = self.rot_emb(q, k)",
                "swapped",
                "queries and keys change places",
            ),
            Bug(
                "keys only",
                "q, k = self.rot_emb(q, k)",
                "_, k = self.rot_emb(q, k)",
                "one-side",
                "the turned queries are dropped",
            ),
            Bug("no scale", "q *= self.scaling", "q *= 1", "scale-missing", "logits are not divided"),
        ),
    ),
    Implementation(
        name="local-attention LocalAttention, causal",
        package="local-attention",
        module="local_attention.local_attention",
        make="LocalAttention(window_size=8, dim=16, causal=True, exact_windowsize=True)",
        kind="attention",
        settings={"dim": 16, "order": "btd"},
        defects=("buffers-rounded", "positions-rounded"),
        why="inv_freq is a buffer: after module.bfloat16() cosines up to 4096 are wrong by up to 2.0, and positions "
        "256 and 257 of a window are alike.",
        bugs=(
            Bug(
                "not itself",
                "causal_mask = bq_t < bq_k",
                "causal_mask = bq_t <= bq_k",
                "mask-off-by-one",
                "a query does not see its own key",
            ),
            Bug(
                "one key less",
                "causal_mask | (bq_t > (bq_k + max_causal_window_size))",
                "causal_mask | (bq_t >= (bq_k + max_causal_window_size))",
                "window-wrong",
                "the window is one short",
                unseen="8 keys, itself among them, are what a window_size of 8 means elsewhere; here it has 9",
            ),
            Bug(
                "padding has place 0",
                "pad_mask = bq_k == pad_value",
                "pad_mask = bq_k == pad_value - 1",
                "padding-counted",
                "the padded window before the first is seen",
            ),
            Bug(
                "one key of the future",
                "causal_mask = bq_t < bq_k",
                "causal_mask = bq_t < bq_k - 1",
                "future-seen",
                "each query sees the next key",
            ),
        ),
    ),
    Implementation(
        name="local-attention LocalAttention, both ways",
        package="local-attention",
        module="local_attention.local_attention",
        make="LocalAttention(window_size=8, dim=16)",
        kind="attention",
        settings={"dim": 16, "order": "btd"},
        defects=("sides-differ", "buffers-rounded", "positions-rounded"),
        why="Queries get the angles of the last of the three windows that their keys are from, while they are in the "
        "middle one: with equal q and k, query 10 looks most at key 18, 10 + window_size. Rounding as when causal.",
        bugs=(
            Bug(
                "padding seen",
                "sim = sim.masked_fill(pad_mask, mask_value)",
                "sim = sim.masked_fill(pad_mask, 0.)",
                "padding-counted",
                "the windows before the first and after the last are seen",
            ),
        ),
    ),
    Implementation(
        name="local-attention LocalMHA",
        package="local-attention",
        module="local_attention.transformer",
        make="LocalMHA(dim=64, window_size=8, dim_head=16, heads=4, causal=True)",
        kind="attention",
        glue="layer = LocalMHA(dim=64, window_size=8, dim_head=16, heads=4, causal=True)\n"
        "def wrapped(x, cache=None):\n"
        "    return layer(x, cache=cache, return_cache=True)\n",
        settings={"dim": 64, "heads": 4},
        defects=("keys-turned-twice", "buffers-rounded", "positions-rounded"),
        why="The cache that a step of decoding returns has turned keys, which the next turns again: from the second "
        "step on the output differs from the whole by 0.03 to 0.12, the first is right. Rounding as in LocalAttention. "
        "It returns the output and the cache.",
        bugs=(
            Bug(
                "new keys first",
                "k = torch.cat((ck, k), dim = -2)",
                "k = torch.cat((k, ck), dim = -2)",
                "cache-order",
                "the new key stands before the old",
            ),
            Bug(
                "no scale when decoding",
                "q = q * (q.shape[-1] ** -0.5)",
                "q = q * 1",
                "scale-missing",
                "steps of decoding are not scaled, the whole is",
            ),
            Bug(
                "one key less when decoding",
                "kv_start_index = -(effective_window_size + 1)",
                "kv_start_index = -effective_window_size",
                "window-wrong",
                "steps of decoding see one key less",
            ),
        ),
    ),
    Implementation(
        name="palm-rlhf-pytorch ParallelTransformerBlock",
        package="palm-rlhf-pytorch",
        module="palm_rlhf_pytorch.palm",
        make="ParallelTransformerBlock(64, dim_head=16, heads=4)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        defects=("buffers-rounded", "positions-rounded"),
        why="xPos. inv_freq is a buffer: after module.bfloat16() the cosines up to 4096 are wrong by up to 2.0, and "
        "positions 256 and 257 are alike. Attention and feed-forward are added in one block.",
        bugs=(
            Bug(
                "one decay for both",
                "apply_rotary_pos_emb(positions, k, scale ** -1)",
                "apply_rotary_pos_emb(positions, k, scale)",
                "absolute",
                "decays multiply in place of cancelling",
            ),
            Bug(
                "keys stay",
                "k = apply_rotary_pos_emb(positions, k, scale ** -1)",
                "k = k * 1",
                "one-side",
                "keys are not turned",
            ),
            Bug(
                "no minus",
                "return torch.cat((-x2, x1), dim=-1)",
                "return torch.cat((x2, x1), dim=-1)",
                "not-a-rotation",
                "a minus is missing",
            ),
        ),
    ),
    Implementation(
        name="conformer Attention",
        package="conformer",
        module="conformer.conformer",
        make="Attention(64, heads=4, dim_head=16)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "past only",
                "dist.clamp(-max_pos_emb, max_pos_emb)",
                "dist.clamp(0, max_pos_emb)",
                "one-direction-lost",
                "all later keys share the embedding of offset 0",
            ),
            Bug(
                "places of keys",
                "rearrange(seq, 'i -> i ()') - rearrange(seq, 'j -> () j')",
                "0 * rearrange(seq, 'i -> i ()') - rearrange(seq, 'j -> () j')",
                "absolute",
                "the embedding depends on the key's place",
            ),
            Bug("bias dropped", "dots = dots + pos_attn", "dots = dots", "bias-lost", "nothing relative is added"),
            Bug("no scale", "q, k) * self.scale", "q, k)", "scale-missing", "the content part is not scaled"),
        ),
    ),
    Implementation(
        name="enformer-pytorch Attention",
        package="enformer-pytorch",
        module="enformer_pytorch.modeling_enformer",
        make="Attention(64, num_rel_pos_features=24, heads=4, dim_key=16, dim_value=16)",
        kind="attention",
        glue="layer = Attention(64, num_rel_pos_features=24, heads=4, dim_key=16, dim_value=16).eval()\n"
        "nn.init.normal_(layer.to_out.weight)\n"
        "def wrapped(x):\n"
        "    return layer(x)\n",
        settings={"dim": 64, "heads": 4},
        why="The last matrix starts with zeros.",
        bugs=(
            Bug(
                "last row dropped",
                "x = x[:, :, 1:, :]",
                "x = x[:, :, :-1, :]",
                "queries-mixed",
                "the shift takes the bias of the query above",
            ),
            Bug(
                "no sign",
                "torch.sign(distances)[..., None] * embeddings",
                "torch.sign(distances.abs())[..., None] * embeddings",
                "one-direction-lost",
                "before and after are alike",
            ),
            Bug("no scale", "q = q * self.scale", "q = q * 1", "scale-missing", "queries are not scaled"),
        ),
    ),
    Implementation(
        name="vit-pytorch MaxViT Attention",
        package="vit-pytorch",
        module="vit_pytorch.max_vit",
        make="Attention(64, dim_head=16, window_size=4)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        why="x is (batch, rows, columns, height and width of a window, dim).",
        bugs=(
            Bug(
                "width of the window",
                "torch.tensor([2 * window_size - 1, 1])",
                "torch.tensor([window_size, 1])",
                "buckets-wrong",
                "offsets collide",
            ),
            Bug(
                "rows twice",
                "torch.meshgrid(pos, pos, indexing = 'ij')",
                "torch.meshgrid(pos, pos, indexing = 'ij')[:1] * 2",
                "axis-lost",
                "offsets of columns are ignored",
            ),
            Bug(
                "softmax over queries",
                "nn.Softmax(dim = -1)",
                "nn.Softmax(dim = -2)",
                "softmax-axis",
                "weights of a query do not sum to 1",
            ),
        ),
    ),
    Implementation(
        name="vit-pytorch CrossFormer Attention",
        package="vit-pytorch",
        module="vit_pytorch.crossformer",
        make="Attention(64, 'short', 4, dim_head=16)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        defects=("buckets-wrong",),
        why="Indices are made for a table of (2 w - 1)^2 offsets, the coordinates for (2 w + 1)^2: none of 256 pairs "
        "of a 4 x 4 window gets its own offset, (0, 0) gets (-2, 2), and a step to the side can jump to the next row. "
        "The bias still depends on the offset alone, so only the coordinates show it.",
        bugs=(
            Bug("no bias", "sim = sim + rel_pos_bias", "sim = sim", "bias-lost", "nothing relative is added"),
            Bug("no scale", "q = q * self.scale", "q = q * 1", "scale-missing", "queries are not scaled"),
        ),
    ),
    Implementation(
        name="segment-anything Attention",
        package="segment-anything",
        module="segment_anything.modeling.image_encoder",
        make="Attention(64, num_heads=4, use_rel_pos=True, input_size=(4, 6))",
        kind="attention",
        glue="layer = Attention(64, num_heads=4, use_rel_pos=True, input_size=(4, 6))\n"
        "for part in (layer.rel_pos_h, layer.rel_pos_w):\n"
        "    nn.init.normal_(part)\n"
        "def wrapped(x):\n"
        "    return layer(x)\n",
        settings={"dim": 64, "heads": 4},
        why="x is (batch, height, width, dim); the tables start with zeros.",
        bugs=(
            Bug(
                "no scale",
                "(q * self.scale) @ k.transpose(-2, -1)",
                "q @ k.transpose(-2, -1)",
                "scale-missing",
                "logits are not scaled",
            ),
            Bug(
                "height and width",
                "self.rel_pos_h, self.rel_pos_w, (H, W), (H, W)",
                "self.rel_pos_h, self.rel_pos_w, (W, H), (W, H)",
                "axes-swapped",
                "wrong where height and width differ",
            ),
            Bug(
                "heads as tokens",
                "view(B, self.num_heads, H, W, -1).permute(0, 2, 3, 1, 4)",
                "view(B, H, W, self.num_heads, -1)",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="sam2 RoPEAttention",
        package="sam2",
        module="sam2.modeling.sam.transformer",
        make="RoPEAttention(embedding_dim=64, num_heads=4, feat_sizes=(6, 4))",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        why="q, k and v are (batch, tokens, dim). Other numbers of tokens than feat_sizes has are taken as squares.",
        bugs=(
            Bug(
                "queries stay",
                "q, k[:, :, :num_k_rope] = apply_rotary_enc(",
                "_, k[:, :, :num_k_rope] = apply_rotary_enc(",
                "one-side",
                "the turned queries are dropped",
            ),
            Bug(
                "sizes exchanged",
                "end_x=feat_sizes[0], end_y=feat_sizes[1]",
                "end_x=feat_sizes[1], end_y=feat_sizes[0]",
                "axes-swapped",
                "rows are cut at the height, not at the width",
            ),
        ),
    ),
    Implementation(
        name="openai-whisper MultiHeadAttention",
        package="openai-whisper",
        module="whisper.model",
        make="MultiHeadAttention(64, 4)",
        kind="attention",
        glue="layer = MultiHeadAttention(64, 4)\ndef wrapped(x, mask=None):\n    return layer(x, mask=mask)[0]\n",
        settings={"dim": 64, "heads": 4},
        defects=("mask-ignored",),
        why="Where SDPA is there, any mask means causal: its values are not read. Zeros as a mask change the result by "
        "0.86 and give what a causal mask gives; with use_sdpa = False they change nothing.",
        bugs=(
            Bug(
                "never causal",
                "is_causal=mask is not None and n_ctx > 1",
                "is_causal=mask is not None and n_ctx < 1",
                "future-seen",
                "the mask has no effect at all",
            ),
            Bug(
                "heads as tokens",
                "out = a.permute(0, 2, 1, 3).flatten(start_dim=2)",
                "out = a.reshape(n_batch, n_ctx, n_state)",
                "heads-mixed",
                "heads are taken for tokens in the output",
            ),
        ),
    ),
    Implementation(
        name="grouped-query-attention-pytorch scaled_dot_product_gqa",
        package="grouped-query-attention-pytorch",
        module="grouped_query_attention_pytorch.attention",
        make="scaled_dot_product_gqa",
        kind="attention",
        glue="def wrapped(q, k, v, causal=True):\n"
        "    return scaled_dot_product_gqa(q, k, v, is_causal=True if causal else None)[0]\n",
        settings={"order": "bthd"},
        defects=("decode-aligned-first",),
        why="The causal mask is a lower triangle from the first key on: one query with 8 keys sees the first key only, "
        "and its result is the first value (difference 0.0).",
        bugs=(
            Bug(
                "groups side by side",
                '"b (h g) n d -> b g h n d"',
                '"b (g h) n d -> b g h n d"',
                "groups-tiled",
                "query heads meet key heads as 0 1 0 1, and come out in another order",
            ),
            Bug(
                "no root",
                "scale = query.size(-1) ** 0.5",
                "scale = query.size(-1)",
                "scale-twice",
                "logits are divided by the width, not by its root",
            ),
            Bug(
                "one key of the future",
                "dtype=torch.bool).tril_()",
                "dtype=torch.bool).tril_(1)",
                "future-seen",
                "each query sees the next key",
            ),
        ),
    ),
    Implementation(
        name="tinyllama roPEAttentionHead",
        package="tinyllama",
        module="tinyllama.models.llama",
        make="roPEAttentionHead(32, 16, nn.Linear(16, 16), nn.Linear(16, 16))",
        kind="attention",
        glue="layer = roPEAttentionHead(32, 16, nn.Linear(16, 16), nn.Linear(16, 16)).eval()\n"
        "def wrapped(x):\n"
        "    return layer(x, kv_cache=False)\n",
        settings={"dim": 16, "heads": 1},
        defects=("exponent-shifted", "offset-ignored"),
        why="Frequencies are 10000^(-2 (i - 1) / d) with i from 0: the first is 3.16 for d = 16, not 1. With kv_cache "
        "each call counts from 0: steps differ from the whole by 0.03 to 0.17.",
        bugs=(
            Bug(
                "keys the other way",
                "torch.bmm(k.transpose(0, 1), self.R[:C].transpose(1, 2))",
                "torch.bmm(k.transpose(0, 1), self.R[:C])",
                "opposite",
                "scores depend on sums of places",
            ),
            Bug(
                "one key of the future",
                "tril(diagonal=0)",
                "tril(diagonal=1)",
                "future-seen",
                "each query sees the next key",
            ),
            Bug(
                "no scale",
                "scale_factor = 1 / math.sqrt(query.size(-1))",
                "scale_factor = 1.0",
                "scale-missing",
                "logits are not scaled",
            ),
        ),
    ),
    Implementation(
        name="picogpt MultiHead",
        package="picogpt",
        module="picogpt.model",
        make="MultiHead(64, 4, 64, 0.0, 10000.0)",
        kind="attention",
        glue="layer = MultiHead(64, 4, 64, 0.0, 10000.0)\ndef wrapped(x, offset=0):\n    return layer(x, offset)\n",
        settings={"dim": 64, "heads": 4},
        defects=("buffers-rounded",),
        why="Tables past block_size are made of the buffer inv_freq: after module.bfloat16() the cosines at "
        "4000 to 4003 are wrong by up to 0.5; within block_size they are off by 0.002.",
        bugs=(
            Bug(
                "width of the model",
                "/ math.sqrt(k.size(-1))",
                "/ math.sqrt(C)",
                "scale-of-model",
                "the root of n_embd",
            ),
            Bug(
                "a sign",
                "x_rot_odd  = x_even * sin + x_odd * cos",
                "x_rot_odd  = x_odd * cos - x_even * sin",
                "not-a-rotation",
                "both halves of a pair have a minus",
            ),
            Bug(
                "cosine from 0",
                "self.cos_cached[pos_offset:end]",
                "self.cos_cached[:T]",
                "not-a-rotation",
                "with an offset sine and cosine are of different places",
            ),
        ),
    ),
    Implementation(
        name="llms-from-scratch Llama 3 GroupedQueryAttention",
        package="llms-from-scratch",
        module="llms_from_scratch.llama3",
        make="GroupedQueryAttention(64, 64, num_heads=4, num_kv_groups=2)",
        kind="attention",
        glue="layer = GroupedQueryAttention(64, 64, num_heads=4, num_kv_groups=2)\n"
        "cos, sin = compute_rope_params(16, context_length=64)\n"
        "mask = torch.ones(64, 64, dtype=torch.bool).triu(1)\n"
        "def wrapped(x):\n"
        "    return layer(x, mask, cos, sin)\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "groups side by side",
                "values = values.repeat_interleave(self.group_size, dim=1)",
                "values = values.repeat(1, self.group_size, 1, 1)",
                "groups-tiled",
                "value heads repeat as 0 1 0 1",
            ),
            Bug(
                "keys only",
                "queries = apply_rope(queries, cos, sin)",
                "queries = queries * 1",
                "one-side",
                "queries are not turned",
            ),
            Bug(
                "width of the model",
                "attn_scores / keys.shape[-1]**0.5",
                "attn_scores / self.d_out**0.5",
                "scale-of-model",
                "the root of d_out",
            ),
        ),
    ),
    Implementation(
        name="llms-from-scratch Qwen3 GroupedQueryAttention with a cache",
        package="llms-from-scratch",
        module="llms_from_scratch.kv_cache.qwen3",
        make="GroupedQueryAttention(64, num_heads=4, num_kv_groups=2, qk_norm=True)",
        kind="attention",
        glue="layer = GroupedQueryAttention(64, num_heads=4, num_kv_groups=2, qk_norm=True)\n"
        "cos, sin = compute_rope_params(16, context_length=64)\n"
        "def wrapped(x, offset=0, cache=None):\n"
        "    mask = torch.ones(x.shape[1], offset + x.shape[1], dtype=torch.bool).triu(offset + 1)\n"
        "    return layer(x, mask, cos, sin, start_pos=offset, cache=cache)\n",
        settings={"dim": 64, "heads": 4},
        why="It returns the output and the cache.",
        bugs=(
            Bug(
                "new keys first",
                "keys = torch.cat([prev_k, keys_new], dim=2)",
                "keys = torch.cat([keys_new, prev_k], dim=2)",
                "cache-order",
                "the new key stands before the old",
            ),
            Bug(
                "keys from 0",
                "keys_new = apply_rope(keys_new, cos, sin, offset=start_pos)",
                "keys_new = apply_rope(keys_new, cos, sin)",
                "offset-ignored",
                "new keys count from 0",
            ),
            Bug(
                "sine from 0",
                "sin = sin[offset:offset + seq_len, :]",
                "sin = sin[:seq_len, :]",
                "not-a-rotation",
                "with an offset sine and cosine are of different places",
            ),
        ),
    ),
    Implementation(
        name="stackformer Multi_Head_Attention_With_RoPE",
        package="stackformer",
        module="stackformer.modules.Attention",
        make="Multi_Head_Attention_With_RoPE(64, 4, mask_type='causal')",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "half exponent",
                "dtype=torch.float32) / dim_half))",
                "dtype=torch.float32) / head_dim))",
                "exponent-halved",
                "i / d in place of 2 i / d",
            ),
            Bug(
                "base ignored",
                "1.0 / (theta ** (torch.arange(0, dim_half",
                "1.0 / (10000.0 ** (torch.arange(0, dim_half",
                "base-ignored",
                "only seen with another theta",
            ),
            Bug(
                "along heads",
                "freq = freq_complex[:T].unsqueeze(0).unsqueeze(0)",
                "freq = freq_complex[:H].unsqueeze(1).unsqueeze(0)",
                "heads-axis",
                "heads are turned, not tokens",
            ),
        ),
    ),
    Implementation(
        name="stackformer Multi_Head_Attention_With_RoPE with dropout, in evaluation",
        package="stackformer",
        module="stackformer.modules.Attention",
        make="Multi_Head_Attention_With_RoPE(64, 4, dropout=0.1, mask_type='causal').eval()",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        defects=("dropout-on",),
        why="dropout_p is passed on without a look at self.training: two calls in evaluation differ by 0.67.",
    ),
    Implementation(
        name="stackformer Group_query_Attention_With_RoPE",
        package="stackformer",
        module="stackformer.modules.Attention",
        make="Group_query_Attention_With_RoPE(64, 4, 2, mask_type='causal')",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "exponents rise",
                "inv_freq = 1.0 / (theta ** (",
                "inv_freq = 1.0 * (theta ** (",
                "exponent-inverted",
                "angles grow with the channel",
            ),
            Bug(
                "positions from 1 by 2",
                "pos = torch.arange(seq_len, device=device, dtype=torch.float32)",
                "pos = torch.arange(seq_len, device=device, dtype=torch.float32) / seq_len",
                "length-dependent",
                "positions are divided by the length of the call",
            ),
        ),
    ),
    Implementation(
        name="llm-foundry scaled_multihead_dot_product_attention",
        package="llm-foundry",
        module="llmfoundry.models.layers.attention",
        make="scaled_multihead_dot_product_attention",
        kind="attention",
        glue="def wrapped(q, k, v, causal=True, cache=None):\n"
        "    out, _, cache = scaled_multihead_dot_product_attention(q, k, v, 4, 4 * k.shape[-1] // q.shape[-1],\n"
        "        past_key_value=() if cache is None else cache, attn_bias=build_alibi_bias(4, 64), is_causal=causal)\n"
        "    return out, cache\n",
        settings={"heads": 4, "order": "btd"},
        why="All heads are in one axis, k and v may have fewer. cache is a pair; an empty tuple asks for one.",
        bugs=(
            Bug(
                "mask from the first key",
                "causal_mask[-s_q:, -s_k:]",
                "causal_mask[:s_q, :s_k]",
                "decode-aligned-first",
                "several queries with a cache see too few keys",
            ),
            Bug(
                "new keys first",
                "k = torch.cat([past_key_value[0], k], dim=3)",
                "k = torch.cat([k, past_key_value[0]], dim=3)",
                "cache-order",
                "the new key stands before the old",
            ),
            Bug(
                "groups side by side",
                "hidden[:, :, :, None, :].expand(b, s, kv_n_heads, n_rep, d)",
                "hidden[:, :, None, :, :].expand(b, s, n_rep, kv_n_heads, d)",
                "groups-tiled",
                "key heads repeat as 0 1 0 1",
            ),
            Bug(
                "bias subtracted",
                "attn_weight = attn_weight + attn_bias",
                "attn_weight = attn_weight - attn_bias",
                "penalty-reversed",
                "far keys are favored",
            ),
        ),
    ),
    Implementation(
        name="moshi StreamingMultiheadAttention",
        package="moshi",
        module="moshi.modules.transformer",
        make="StreamingMultiheadAttention(64, 4, causal=True, context=8)",
        kind="attention",
        glue="from moshi.modules.rope import RotaryEmbedding\n"
        "layer = StreamingMultiheadAttention(64, 4, causal=True, context=8, rope=RotaryEmbedding(True))\n"
        "@torch.no_grad()\n"
        "def wrapped(x, chunk=0):\n"
        "    if not chunk:\n"
        "        return layer(x, x, x)\n"
        "    with layer.streaming(x.shape[0]):\n"
        "        return torch.cat([layer(part, part, part) for part in x.split(chunk, 1)], 1)\n",
        settings={"dim": 64, "heads": 4},
        bugs=(
            Bug(
                "one key more",
                "delta < self.context",
                "delta <= self.context",
                "window-wrong",
                "the window has context + 1 keys",
            ),
            Bug(
                "one key of the future", "(delta >= 0)", "(delta >= -1)", "future-seen", "each query sees the next key"
            ),
            Bug(
                "each part from 0",
                "self.rope(q, k, offset, time_before_heads=False)",
                "self.rope(q, k, torch.zeros_like(offset), time_before_heads=False)",
                "offset-ignored",
                "each part of a stream counts from 0",
            ),
        ),
    ),
    Implementation(
        name="OpenNMT-py MultiHeadedAttention, relative",
        package="opennmt-py",
        module="onmt.modules.multi_headed_attn",
        make="MultiHeadedAttention(4, 64, dropout=0.0, max_relative_positions=16, attn_type='self')",
        kind="attention",
        glue="layer = MultiHeadedAttention(4, 64, dropout=0.0, max_relative_positions=16, attn_type='self')\n"
        "for part in layer.parameters():\n"
        "    nn.init.normal_(part, std=0.2)\n"
        "def wrapped(x):\n"
        "    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)[None, None]\n"
        "    return layer(x, x, x, mask)[0]\n",
        settings={"dim": 64, "heads": 4},
        why="Weights start undefined. Relative embeddings are added to keys and values: both on purpose.",
        bugs=(
            Bug(
                "no scale", "query /= sqrt(self.dim_per_head)", "query /= 1", "scale-missing", "queries are not scaled"
            ),
            Bug(
                "transposed offsets",
                "distance_mat = range_mat - range_mat.transpose(0, 1)",
                "distance_mat = (range_mat - range_mat.transpose(0, 1)).clamp(min=0)",
                "one-direction-lost",
                "all earlier keys share the embedding of offset 0",
            ),
            Bug(
                "batch and heads",
                "x_tz_matmul.view(length, batch_size, heads, -1)",
                "x_tz_matmul.view(length, heads, batch_size, -1).transpose(1, 2)",
                "heads-mixed",
                "heads and sequences are mixed in a batch",
            ),
        ),
    ),
    Implementation(
        name="OpenNMT-py MultiHeadedAttention, rotary",
        package="opennmt-py",
        module="onmt.modules.multi_headed_attn",
        make="MultiHeadedAttention(4, 64, dropout=0.0, max_relative_positions=-1, attn_type='self', num_kv=2)",
        kind="attention",
        glue="layer = MultiHeadedAttention(4, 64, dropout=0.0, max_relative_positions=-1, attn_type='self', num_kv=2)\n"
        "for part in layer.parameters():\n"
        "    nn.init.normal_(part, std=0.2)\n"
        "def wrapped(x):\n"
        "    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)[None, None]\n"
        "    return layer(x, x, x, mask)[0]\n",
        settings={"dim": 64, "heads": 4},
        why="Weights start undefined.",
        bugs=(
            Bug(
                "groups side by side",
                "key = key.view(b, -1, 1, l, d).repeat(1, 1, qh // h, 1, 1)",
                "key = key.view(b, 1, -1, l, d).repeat(1, qh // h, 1, 1, 1)",
                "groups-tiled",
                "key heads repeat as 0 1 0 1, value heads as 0 0 1 1",
            ),
            Bug(
                "keys stay",
                "key_out = torch.view_as_real(key_ * rope)",
                "key_out = torch.view_as_real(key_)",
                "one-side",
                "keys are not turned",
            ),
            Bug(
                "conjugate",
                "torch.view_as_real(query_ * rope)",
                "torch.view_as_real(query_ * rope.conj())",
                "opposite",
                "queries turn the other way",
            ),
        ),
    ),
    Implementation(
        name="self-attention-cv BottleneckAttention",
        package="self-attention-cv",
        module="self_attention_cv.bottleneck_transformer.bot_att",
        make="BottleneckAttention(64, (4, 4), heads=4)",
        kind="attention",
        settings={"dim": 64, "heads": 4},
        defects=("axes-swapped", "axis-lost"),
        why="x is (batch, dim, height, width). From RelPosEmb2D: the part of the rows is not put back in order, so a "
        "query reads the content of the token mirrored on the diagonal, and the key's row is ignored.",
        bugs=(
            Bug("no scale", "q, k) * self.scale", "q, k)", "scale-missing", "logits are not scaled"),
            Bug(
                "bias of keys",
                "self.pos_emb2D(q)",
                "self.pos_emb2D(k)",
                "one-for-both",
                "the bias is made of the keys in place of the queries",
            ),
        ),
    ),
    Implementation(
        name="curated-transformers ScaledDotProductAttention",
        package="curated-transformers",
        module="curated_transformers.layers.attention",
        make="ScaledDotProductAttention(dropout_prob=0.0, linear_biases=AttentionLinearBiases(n_attention_heads=4, "
        "is_causal=True, is_inverted=False))",
        kind="attention",
        glue="biases = AttentionLinearBiases(n_attention_heads=4, is_causal=True, is_inverted=False)\n"
        "layer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=biases).eval()\n"
        "def wrapped(q, k, v):\n"
        "    mask = AttentionMask(torch.ones(k.shape[0], k.shape[2], dtype=torch.bool))\n"
        "    return layer(query=q, key=k, value=v, attention_mask=mask, use_causal_mask=True)\n",
        settings={"heads": 4, "order": "bhtd"},
        bugs=(
            Bug(
                "no root",
                "attn_scores /= math.sqrt(width)",
                "attn_scores /= width",
                "scale-twice",
                "logits are divided by the width, not by its root",
            ),
            Bug(
                "bias dropped",
                "return attention_scores + biases",
                "return attention_scores",
                "bias-lost",
                "the bias is made and not added",
            ),
            Bug(
                "mask from the first key",
                "causal_mask[:, :, key_len - query_len : key_len, :key_len]",
                "causal_mask[:, :, :query_len, :key_len]",
                "decode-aligned-first",
                "a step of decoding sees the first key only",
            ),
        ),
    ),
)
