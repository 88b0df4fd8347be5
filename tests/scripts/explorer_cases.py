"""The table of the explorer's encodings and options that its tests try, and what its scripts make of each."""

import base64
import json
from functools import cache
from pathlib import Path

import numpy as np

from galley.book import Book
from tests.scripts.javascript import Script

ROOT = Path(__file__).parents[2]


class ExplorerScript(Script):
    """A script that knows as `data` what the page passes, from its first call on."""

    has_data = False

    def __call__(self, expression, **constants):
        if not self.has_data:
            self.context.eval(f"globalThis.data = {json.dumps(page_data())}")
            self.has_data = True
        return super().__call__(expression, **constants)


MODEL, SNIPPET = (ExplorerScript(f"explorer/{name}.js") for name in ("model", "snippet"))
LABELS = ExplorerScript("explorer/labels.js")
DEFAULTS, SELF_CHECK = (ExplorerScript(f"explorer/{name}.js") for name in ("defaults", "self-check"))
QUERY, SETTINGS, KINDS = (ExplorerScript(f"explorer/{name}.js") for name in ("query", "settings", "kinds"))
SEEDS = range(4)
VECTORS = [{"content": content} for content in ("constant", "random", "tokens", "peak")]
LAYOUTS = ("half", "interleaved")
SCORES = ["shaw", "music", "transformer_xl", "deberta", "decomposed", "profiles", "gated", "cope", "forget", "path"]
SCALINGS = ["linear", "ntk", "dynamic_ntk", "by_parts", "yarn", "llama3", "longrope", "proportional"]
CASES = [
    *({"encoding": "sinusoidal", "order": order} for order in ("interleaved", "split", "tensor2tensor")),
    {"encoding": "learned", "table": "random"},
    *({"encoding": "rope", "layout": layout} | vectors for layout in LAYOUTS for vectors in VECTORS),
    *({"encoding": "rope", "scaling": name} | VECTORS[i % 4] for i, name in enumerate(SCALINGS)),
    *(
        {"encoding": "pope", "phase": phase} | vectors
        for phase in ("zero", "uniform", "peak")
        for vectors in VECTORS[:3]
    ),
    {"encoding": "alibi"},
    *({"encoding": "t5", "bidirectional": value} for value in (True, False)),
    *({"encoding": "kerple", "form": form} for form in ("log", "power")),
    {"encoding": "fire"},
    *({"encoding": "none"} | vectors for vectors in VECTORS[:3]),
    {"encoding": "rope", "share": 0.5, "content": "tokens", "words": "the dog bit the man"},
    *({"encoding": "rope", "share": 0.5, "layout": layout} | vectors for layout in LAYOUTS for vectors in VECTORS),
    *({"encoding": "xpos"} | vectors for vectors in VECTORS[:3]),
    *({"encoding": "latent", "layout": layout} | vectors for layout in LAYOUTS for vectors in VECTORS[:3]),
    *({"encoding": "axial", "layout": layout} | vectors for layout in LAYOUTS for vectors in VECTORS[:3]),
    *({"encoding": "mrope", "interleaved": value} | vectors for value in (True, False) for vectors in VECTORS[:3]),
    *({"encoding": "liere", "block": block} | VECTORS[i] for i, block in enumerate(("2", "4", "8"))),
    *({"encoding": "lerope", "layout": layout} | vectors for layout in LAYOUTS for vectors in VECTORS[:3]),
    *({"encoding": name} | vectors for name in ("fope", "selective", "repo") for vectors in VECTORS[:3]),
    *({"encoding": "fourier", "features": name} for name in ("powers", "bands", "gaussian")),
    *({"encoding": "grid", "axes_order": name} for name in ("mae", "timm", "timm-axes", "detr")),
    *({"encoding": name} | vectors for name in ("convolution", "conditional") for vectors in VECTORS[:3]),
    {"encoding": "sandwich"},
    {"encoding": "window"},
    *({"encoding": name} | vectors for name in SCORES for vectors in VECTORS[:3]),
]


@cache
def page_data():
    """What the page passes to the explorer, as the page computes it."""
    page = "docs/explorer.md"
    book = Book(ROOT)
    result = book.run({page: book.pages()[page]})[page]
    data = next(json.loads(step["data"]) for step in result.steps if step.get("data"))
    table = np.frombuffer(base64.b64decode(data["trained"]["table"]), "<i2") / 10 ** data["trained"]["digits"]
    return data | {"trained": data["trained"] | {"table": table.tolist()}}


def random_state(case, seed):
    """A state as a reader may leave it, small enough for a test."""
    draw = np.random.default_rng([seed, *map(ord, json.dumps(case))])
    knobs, state = page_data()["knobs"], dict(case)
    for name, bounds in knobs.items():
        low, high = bounds["min"], bounds["max"]
        step = np.exp(draw.uniform(np.log(low), np.log(high))) if low > 0 else draw.uniform(low, high)
        state[name] = float(f"{step:.3g}")
    whole = {"seed", "first", "peak", "query", "key", "channel", "head", "heads", "max_distance", "original_length"}
    state |= {name: int(state[name]) for name in whole | {"threshold"} if name in state}
    state |= {"length": int(draw.integers(8, 41)), "width": 2 * int(draw.integers(3, 17))}
    state |= {
        "buckets": 4 * int(draw.integers(1, 9)),
        "causal": bool(draw.integers(2)),
        "first": int(draw.integers(2000)),
        "softmax": bool(draw.integers(2)),
        "far": False,
    }
    whole = {"side": (2, 7), "before": (1, 8), "window": (2, 7), "clip": (2, 20), "rank": (1, 6), "extent": (4, 50)}
    whole |= {"taps": (2, 12)}
    state |= {name: int(draw.integers(*ends)) for name, ends in whole.items()}
    state |= {name: round(float(draw.uniform(0.1, 1)), 2) for name in ("gain", "spread", "strength")}
    state |= {"scale_base": int(draw.integers(64, 500)), "original_length": int(draw.integers(16, 5000))}
    return {"words": ""} | state


def run_snippet(code):
    """Run a snippet as the reader does who pastes it."""
    scope = {}
    exec(compile(code, "snippet", "exec"), scope)
    return scope


def with_defaults(**state):
    """The defaults of an encoding over numbered positions, with what is set beside."""
    encoding = state.get("encoding", "sinusoidal")
    return DEFAULTS("defaults(data, encoding, true)", encoding=encoding) | state


def computed(state):
    """What the explorer computes: pattern and similarity, as arrays with nothing where keys are hidden."""
    code = """(() => {
      const view = explorer(data)(state)
      const { rows, columns } = view.pattern
      return { pattern: view.pattern.values, rows, columns, state: view.state,
               similarity: Array.from({ length: view.state.length }, (_, m) => view.row(m)) }
    })()"""
    view = MODEL(code, state=with_defaults(**state))
    similarity = np.array(view["similarity"], float)
    if view["state"]["causal"]:
        similarity[np.triu_indices(len(similarity), 1)] = np.nan
    return np.reshape(view["pattern"], (view["rows"], view["columns"])), similarity, view["state"]


def case_name(case):
    """What a case is called."""
    return "-".join(map(str, case.values()))
