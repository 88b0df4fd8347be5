"""What `from posenc import` offers, the module of each public name, and what the head of each file says.

Written by `make update`. The imports are for type checkers, editors and programs that freeze an app; they never run.
"""

# fmt: off
# ruff: noqa
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc.add.conditional import Conditional
    from posenc.add.convolution import Convolution
    from posenc.add.fourier import Fourier, fourier
    from posenc.add.grid import Grid
    from posenc.add.learned import Learned
    from posenc.add.sinusoidal import Sinusoidal, sinusoidal
    from posenc.bias.alibi import ALiBi, alibi, alibi_slopes
    from posenc.bias.fire import FIRE
    from posenc.bias.kerple import KERPLE, kerple
    from posenc.bias.sandwich import Sandwich, sandwich
    from posenc.bias.t5 import T5, t5, t5_bucket
    from posenc.bias.window import Window
    from posenc.diagnosis import doctor
    from posenc.reading import plan
    from posenc.rotate.axial import Axial, axial
    from posenc.rotate.fope import FoPE, fope
    from posenc.rotate.from_config import from_config
    from posenc.rotate.latent import Latent, latent
    from posenc.rotate.lerope import LeRoPE, lerope
    from posenc.rotate.liere import LieRE, liere
    from posenc.rotate.mrope import MRoPE, mrope
    from posenc.rotate.pope import PoPE, pope
    from posenc.rotate.query_scale import QueryScale, query_scale
    from posenc.rotate.repo import RePo, repo
    from posenc.rotate.rope import RoPE, rope
    from posenc.rotate.selective import Selective, selective
    from posenc.rotate.xpos import XPos, xpos
    from posenc.score.cope import CoPE, cope
    from posenc.score.deberta import DeBERTa, deberta
    from posenc.score.decomposed import Decomposed, decomposed
    from posenc.score.forget import Forget
    from posenc.score.gated import Gated, gated
    from posenc.score.music import Music
    from posenc.score.path import PaTH
    from posenc.score.profiles import Profiles
    from posenc.score.shaw import Shaw, shaw
    from posenc.score.transformer_xl import TransformerXL, transformer_xl

__all__ = ['ALiBi', 'Axial', 'CoPE', 'Conditional', 'Convolution', 'DeBERTa', 'Decomposed', 'FIRE', 'FoPE', 'Forget', 'Fourier',
 'Gated', 'Grid', 'KERPLE', 'Latent', 'LeRoPE', 'Learned', 'LieRE', 'MRoPE', 'Music', 'PaTH', 'PoPE', 'Profiles',
 'QueryScale', 'RePo', 'RoPE', 'Sandwich', 'Selective', 'Shaw', 'Sinusoidal', 'T5', 'TransformerXL', 'Window', 'XPos',
 'alibi', 'alibi_slopes', 'axial', 'cope', 'deberta', 'decomposed', 'doctor', 'fope', 'fourier', 'from_config',
 'gated', 'kerple', 'latent', 'lerope', 'liere', 'mrope', 'plan', 'pope', 'query_scale', 'repo', 'rope', 'sandwich',
 'selective', 'shaw', 'sinusoidal', 't5', 't5_bucket', 'transformer_xl', 'xpos']

MODULES = ['add', 'attention', 'bias', 'diagnosis', 'fast', 'longer', 'positions', 'pytest_fixture', 'reading', 'rotate',
 'score']

PLACES = {'conditional': 'posenc.add.conditional',
 'Conditional': 'posenc.add.conditional',
 'convolution': 'posenc.add.convolution',
 'Convolution': 'posenc.add.convolution',
 'fourier': 'posenc.add.fourier',
 'Fourier': 'posenc.add.fourier',
 'fourier_cycles': 'posenc.add.fourier',
 'grid': 'posenc.add.grid',
 'Grid': 'posenc.add.grid',
 'detr_coordinates': 'posenc.add.grid',
 'learned': 'posenc.add.learned',
 'Learned': 'posenc.add.learned',
 'row_statistics': 'posenc.add.learned',
 'resize': 'posenc.add.learned',
 'resize_grid': 'posenc.add.learned',
 'sinusoidal': 'posenc.add.sinusoidal',
 'Sinusoidal': 'posenc.add.sinusoidal',
 'wavelengths': 'posenc.add.sinusoidal',
 'kernel': 'posenc.add.sinusoidal',
 'shift_matrix': 'posenc.add.sinusoidal',
 'axial': 'posenc.rotate.axial',
 'Axial': 'posenc.rotate.axial',
 'axial_convention': 'posenc.rotate.axial_convention',
 'axial_theta': 'posenc.rotate.axial_convention',
 'axial_coordinates': 'posenc.rotate.axial_convention',
 'axial_preset': 'posenc.rotate.axial_presets',
 'preset_coordinates': 'posenc.rotate.axial_presets',
 'preset_text': 'posenc.rotate.axial_presets',
 'problem': 'posenc.rotate.config_keys',
 'parts': 'posenc.rotate.config_keys',
 'widths': 'posenc.rotate.config_keys',
 'misspelled': 'posenc.rotate.config_keys',
 'fope': 'posenc.rotate.fope',
 'FoPE': 'posenc.rotate.fope',
 'rope_frequencies': 'posenc.rotate.frequencies',
 'linear': 'posenc.rotate.frequencies',
 'ntk': 'posenc.rotate.frequencies',
 'dynamic_ntk': 'posenc.rotate.frequencies',
 'by_parts': 'posenc.rotate.frequencies',
 'yarn': 'posenc.rotate.frequencies',
 'longrope': 'posenc.rotate.frequencies',
 'llama3': 'posenc.rotate.frequencies',
 'proportional': 'posenc.rotate.frequencies',
 'softmax_scale': 'posenc.rotate.frequencies',
 'from_config': 'posenc.rotate.from_config',
 'latent': 'posenc.rotate.latent',
 'absorbed_scores': 'posenc.rotate.latent',
 'Latent': 'posenc.rotate.latent',
 'layout_order': 'posenc.rotate.layouts',
 'convert_layout': 'posenc.rotate.layouts',
 'convert_fused': 'posenc.rotate.layouts',
 'convert_checkpoint': 'posenc.rotate.layouts',
 'lerope': 'posenc.rotate.lerope',
 'LeRoPE': 'posenc.rotate.lerope',
 'liere': 'posenc.rotate.liere',
 'LieRE': 'posenc.rotate.liere',
 'mrope': 'posenc.rotate.mrope',
 'MRoPE': 'posenc.rotate.mrope',
 'mrope_axes': 'posenc.rotate.mrope_axes',
 'mrope_positions': 'posenc.rotate.mrope_positions',
 'pope': 'posenc.rotate.pope',
 'PoPE': 'posenc.rotate.pope',
 'position_scale': 'posenc.rotate.query_scale',
 'query_scale': 'posenc.rotate.query_scale',
 'QueryScale': 'posenc.rotate.query_scale',
 'repo': 'posenc.rotate.repo',
 'RePo': 'posenc.rotate.repo',
 'rerotate': 'posenc.rotate.rerotate',
 'rope': 'posenc.rotate.rope',
 'RoPE': 'posenc.rotate.rope',
 'selective': 'posenc.rotate.selective',
 'Selective': 'posenc.rotate.selective',
 'tmrope_positions': 'posenc.rotate.tmrope_positions',
 'xpos': 'posenc.rotate.xpos',
 'XPos': 'posenc.rotate.xpos',
 'alibi_slopes': 'posenc.bias.alibi',
 'alibi': 'posenc.bias.alibi',
 'ALiBi': 'posenc.bias.alibi',
 'fire': 'posenc.bias.fire',
 'FIRE': 'posenc.bias.fire',
 'kerple': 'posenc.bias.kerple',
 'KERPLE': 'posenc.bias.kerple',
 'sandwich': 'posenc.bias.sandwich',
 'Sandwich': 'posenc.bias.sandwich',
 'relative_index': 'posenc.bias.swin',
 'resize_window': 'posenc.bias.swin',
 't5_bucket': 'posenc.bias.t5',
 't5': 'posenc.bias.t5',
 'T5': 'posenc.bias.t5',
 'window': 'posenc.bias.window',
 'log_coordinates': 'posenc.bias.window',
 'Window': 'posenc.bias.window',
 'cope': 'posenc.score.cope',
 'CoPE': 'posenc.score.cope',
 'deberta': 'posenc.score.deberta',
 'deberta_bucket': 'posenc.score.deberta',
 'DeBERTa': 'posenc.score.deberta',
 'decomposed': 'posenc.score.decomposed',
 'resize_offsets': 'posenc.score.decomposed',
 'Decomposed': 'posenc.score.decomposed',
 'forget': 'posenc.score.forget',
 'Forget': 'posenc.score.forget',
 'gated': 'posenc.score.gated',
 'Gated': 'posenc.score.gated',
 'music': 'posenc.score.music',
 'skew': 'posenc.score.music',
 'Music': 'posenc.score.music',
 'path': 'posenc.score.path',
 'PaTH': 'posenc.score.path',
 'profiles': 'posenc.score.profiles',
 'Profiles': 'posenc.score.profiles',
 'shaw': 'posenc.score.shaw',
 'shaw_values': 'posenc.score.shaw',
 'Shaw': 'posenc.score.shaw',
 'transformer_xl': 'posenc.score.transformer_xl',
 'TransformerXL': 'posenc.score.transformer_xl',
 'attention': 'posenc.attention',
 'attention_weights': 'posenc.attention',
 'places': 'posenc.attention',
 'is_in_line': 'posenc.attention',
 'takes_content': 'posenc.attention',
 'encoded': 'posenc.attention',
 'dual_chunk_positions': 'posenc.longer',
 'self_extend_positions': 'posenc.longer',
 'chosen_scores': 'posenc.longer',
 'padded_positions': 'posenc.positions',
 'packed_documents': 'posenc.positions',
 'document_mask': 'posenc.positions',
 'packed_positions': 'posenc.positions',
 'random_positions': 'posenc.positions',
 'shifted_positions': 'posenc.positions',
 'augmented_positions': 'posenc.positions',
 'interpolated_positions': 'posenc.positions',
 'grid_positions': 'posenc.positions',
 'shard_positions': 'posenc.positions',
 'shard': 'posenc.positions',
 'unshard': 'posenc.positions',
 'plan': 'posenc.reading',
 'doctor': 'posenc.diagnosis'}

HEADS = [  # of the files of the doors: door, name, class if it is an encoding, paper, authors, year, link
    ('add', 'conditional', 'Conditional', 'Conditional Positional Encodings for Vision Transformers', 'Chu et al.', 2021, 'https://arxiv.org/abs/2102.10882'),
    ('add', 'convolution', 'Convolution', 'wav2vec 2.0: A Framework for Self-Supervised Learning of Speech Representations', 'Baevski et al.', 2020, 'https://arxiv.org/abs/2006.11477'),
    ('add', 'fourier', 'Fourier', 'Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains', 'Tancik et al.', 2020, 'https://arxiv.org/abs/2006.10739'),
    ('add', 'grid', 'Grid', 'Masked Autoencoders Are Scalable Vision Learners', 'He et al.', 2021, 'https://arxiv.org/abs/2111.06377'),
    ('add', 'learned', 'Learned', 'Convolutional Sequence to Sequence Learning', 'Gehring et al.', 2017, 'https://arxiv.org/abs/1705.03122'),
    ('add', 'sinusoidal', 'Sinusoidal', 'Attention Is All You Need', 'Vaswani et al.', 2017, 'https://arxiv.org/abs/1706.03762'),
    ('rotate', 'axial', 'Axial', 'Rotary Position Embedding for Vision Transformer', 'Heo et al.', 2024, 'https://arxiv.org/abs/2403.13298'),
    ('rotate', 'axial_convention', '', 'Rotary Position Embedding for Vision Transformer', 'Heo et al.', 2024, 'https://arxiv.org/abs/2403.13298'),
    ('rotate', 'axial_presets', '', 'Rotary Position Embedding for Vision Transformer', 'Heo et al.', 2024, 'https://arxiv.org/abs/2403.13298'),
    ('rotate', 'config_keys', '', "HuggingFace's Transformers: State-of-the-art Natural Language Processing", 'Wolf et al.', 2019, 'https://arxiv.org/abs/1910.03771'),
    ('rotate', 'fope', 'FoPE', "Fourier Position Embedding: Enhancing Attention's Periodic Extension for Length Generalization", 'Hua et al.', 2024, 'https://arxiv.org/abs/2412.17739'),
    ('rotate', 'frequencies', '', 'YaRN: Efficient Context Window Extension of Large Language Models', 'Peng et al.', 2023, 'https://arxiv.org/abs/2309.00071'),
    ('rotate', 'from_config', '', "HuggingFace's Transformers: State-of-the-art Natural Language Processing", 'Wolf et al.', 2019, 'https://arxiv.org/abs/1910.03771'),
    ('rotate', 'latent', 'Latent', 'DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model', 'DeepSeek-AI', 2024, 'https://arxiv.org/abs/2405.04434'),
    ('rotate', 'layouts', '', 'RoFormer: Enhanced Transformer with Rotary Position Embedding', 'Su et al.', 2021, 'https://arxiv.org/abs/2104.09864'),
    ('rotate', 'lerope', 'LeRoPE', 'Mistral Large 4, the model of transformers', 'Mistral AI and Hugging Face', 2026, 'https://huggingface.co/docs/transformers/model_doc/mistral_large4'),
    ('rotate', 'liere', 'LieRE', 'LieRE: Lie Rotational Positional Encodings', 'Ostmeier et al.', 2024, 'https://arxiv.org/abs/2406.10322'),
    ('rotate', 'mrope', 'MRoPE', "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution", 'Wang et al.', 2024, 'https://arxiv.org/abs/2409.12191'),
    ('rotate', 'mrope_axes', '', "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution", 'Wang et al.', 2024, 'https://arxiv.org/abs/2409.12191'),
    ('rotate', 'mrope_positions', '', "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution", 'Wang et al.', 2024, 'https://arxiv.org/abs/2409.12191'),
    ('rotate', 'pope', 'PoPE', 'Decoupling the "What" and "Where" With Polar Coordinate Positional Embeddings', 'Gopalakrishnan, Csordás, Schmidhuber & Mozer', 2025, 'https://arxiv.org/abs/2509.10534'),
    ('rotate', 'query_scale', 'QueryScale', 'Scalable-Softmax Is Superior for Attention', 'Nakanishi', 2025, 'https://arxiv.org/abs/2501.19399'),
    ('rotate', 'repo', 'RePo', 'RePo: Language Models with Context Re-Positioning', 'Li, Zhao & Sproat', 2025, 'https://arxiv.org/abs/2512.14391'),
    ('rotate', 'rerotate', '', 'RoFormer: Enhanced Transformer with Rotary Position Embedding', 'Su et al.', 2021, 'https://arxiv.org/abs/2104.09864'),
    ('rotate', 'rope', 'RoPE', 'RoFormer: Enhanced Transformer with Rotary Position Embedding', 'Su et al.', 2021, 'https://arxiv.org/abs/2104.09864'),
    ('rotate', 'selective', 'Selective', 'Selective Rotary Position Embedding', 'Movahedi et al.', 2026, 'https://arxiv.org/abs/2511.17388'),
    ('rotate', 'tmrope_positions', '', 'Qwen2.5-Omni Technical Report', 'Xu et al.', 2025, 'https://arxiv.org/abs/2503.20215'),
    ('rotate', 'xpos', 'XPos', 'A Length-Extrapolatable Transformer', 'Sun et al.', 2022, 'https://arxiv.org/abs/2212.10554'),
    ('bias', 'alibi', 'ALiBi', 'Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation', 'Press et al.', 2021, 'https://arxiv.org/abs/2108.12409'),
    ('bias', 'fire', 'FIRE', 'Functional Interpolation for Relative Positions Improves Long Context Transformers', 'Li et al.', 2024, 'https://arxiv.org/abs/2310.04418'),
    ('bias', 'kerple', 'KERPLE', 'KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation', 'Chi et al.', 2022, 'https://arxiv.org/abs/2205.09921'),
    ('bias', 'sandwich', 'Sandwich', 'Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis', 'Chi et al.', 2023, 'https://arxiv.org/abs/2212.10356'),
    ('bias', 'swin', '', 'Swin Transformer: Hierarchical Vision Transformer using Shifted Windows', 'Liu et al.', 2021, 'https://arxiv.org/abs/2103.14030'),
    ('bias', 't5', 'T5', 'Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer', 'Raffel et al.', 2020, 'https://arxiv.org/abs/1910.10683'),
    ('bias', 'window', 'Window', 'Swin Transformer: Hierarchical Vision Transformer using Shifted Windows', 'Liu et al.', 2021, 'https://arxiv.org/abs/2103.14030'),
    ('score', 'cope', 'CoPE', "Contextual Position Encoding: Learning to Count What's Important", 'Golovneva et al.', 2024, 'https://arxiv.org/abs/2405.18719'),
    ('score', 'deberta', 'DeBERTa', 'DeBERTa: Decoding-enhanced BERT with Disentangled Attention', 'He et al.', 2021, 'https://arxiv.org/abs/2006.03654'),
    ('score', 'decomposed', 'Decomposed', 'MViTv2: Improved Multiscale Vision Transformers for Classification and Detection', 'Li et al.', 2022, 'https://arxiv.org/abs/2112.01526'),
    ('score', 'forget', 'Forget', 'Forgetting Transformer: Softmax Attention with a Forget Gate', 'Lin et al.', 2025, 'https://arxiv.org/abs/2503.02130'),
    ('score', 'gated', 'Gated', 'WavLM: Large-Scale Self-Supervised Pre-Training for Full Stack Speech Processing', 'Chen et al.', 2022, 'https://arxiv.org/abs/2110.13900'),
    ('score', 'music', 'Music', 'Music Transformer', 'Huang et al.', 2019, 'https://arxiv.org/abs/1809.04281'),
    ('score', 'path', 'PaTH', 'PaTH Attention: Position Encoding via Accumulating Householder Transformations', 'Yang et al.', 2025, 'https://arxiv.org/abs/2505.16381'),
    ('score', 'profiles', 'Profiles', 'Inkling', 'Thinking Machines Lab', 2026, 'https://huggingface.co/docs/transformers/model_doc/inkling'),
    ('score', 'shaw', 'Shaw', 'Self-Attention with Relative Position Representations', 'Shaw et al.', 2018, 'https://arxiv.org/abs/1803.02155'),
    ('score', 'transformer_xl', 'TransformerXL', 'Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context', 'Dai et al.', 2019, 'https://arxiv.org/abs/1901.02860'),
]
