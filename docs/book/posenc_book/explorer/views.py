"""What the package says of each encoding in a few views: its pattern, and the score of every two positions."""

from collections.abc import Callable, Iterator

from posenc_book.explorer import by_content, by_position
from posenc_book.explorer.inputs import Shown

State = dict


VIEWS: dict[str, list[State]] = {
    "fourier": [{"features": kind, "width": 12} for kind in ("powers", "bands", "gaussian")],
    "grid": [{"axes_order": order, "width": 16, "base": 100} for order in ("mae", "timm", "timm-axes", "detr")],
    "convolution": [{"content": "tokens", "width": 8, "taps": 5}],
    "conditional": [{"content": "tokens", "width": 8}],
    "xpos": [{"content": each, "width": 16, "scale_base": 64} for each in ("random", "tokens")],
    "axial": [{"content": "tokens", "width": 16, "layout": layout} for layout in ("half", "interleaved")],
    "mrope": [{"content": "tokens", "width": 64, "interleaved": each} for each in (False, True)],
    "fope": [{"content": "tokens", "width": 16, "original_length": 64, "gain": 0.3}],
    "lerope": [{"content": "random", "width": 16, "spread": 0.2}],
    "latent": [{"content": "random", "width": 16, "share": 0.5, "layout": "interleaved"}],
    "liere": [{"content": "tokens", "width": 16, "block": "8", "spread": 0.2}],
    "selective": [{"content": "tokens", "width": 16, "strength": 0.1}],
    "repo": [{"content": "tokens", "width": 16, "strength": 0.3}],
    "sandwich": [{"width": 16}],
    "window": [{"window": 4}],
    "shaw": [{"content": each, "width": 8, "clip": 4} for each in ("random", "tokens")],
    "music": [{"content": "tokens", "width": 8, "clip": 16}],
    "transformer_xl": [{"content": "tokens", "width": 8}],
    "deberta": [{"content": "tokens", "width": 8, "buckets": 8, "max_distance": 16}],
    "decomposed": [{"content": "random", "width": 8}],
    "profiles": [{"content": "tokens", "width": 8, "rank": 4, "extent": 24}],
    "gated": [{"content": "tokens", "width": 8, "buckets": 16, "max_distance": 32}],
    "cope": [{"content": "tokens", "width": 8, "clip": 16}],
    "forget": [{"content": "tokens", "width": 8, "opening": 1}],
    "path": [{"content": "tokens", "width": 8}],
}
SMALL = {"length": 32, "side": 6, "before": 4, "seed": 0, "base": 10_000, "heads": 8, "head": 2, "scale": 4}
MAKERS: dict[str, Callable[[State], Shown]] = by_position.MAKERS | by_content.MAKERS


def views() -> Iterator[tuple[State, Shown]]:
    """Yield each view, as the explorer's address would name it, with what the package computes for it."""
    for name, states in VIEWS.items():
        for state in states:
            full = SMALL | {"encoding": name, "causal": False, "softmax": False} | state
            yield full, MAKERS[name](full)
