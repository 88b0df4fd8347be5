"""What contents, learned numbers and places the explorer's views have, drawn as its script draws them."""

import numpy as np

APART = 100  # from the seed of contents to that of weights
Shown = tuple[np.ndarray, np.ndarray]  # pattern, score


def contents(state: dict, length: int | None = None) -> np.ndarray:
    """Return queries and keys (2, t, d): a row for each position, or one row everywhere."""
    t, d = length or state["length"], state["width"]
    draw = np.random.RandomState(state["seed"])
    if state["content"] == "tokens":
        return draw.standard_normal((2, t, d))
    return np.repeat(draw.standard_normal((2, 1, d)), t, axis=1)


def learned(state: dict) -> np.random.RandomState:
    """Return what learned numbers are drawn from."""
    return np.random.RandomState(state["seed"] + APART)


def patches(state: dict) -> np.ndarray:
    """Return row and column (t, 2) of each patch of the picture."""
    return np.stack(np.divmod(np.arange(state["side"] ** 2), state["side"]), axis=1)


def products(q: np.ndarray, k: np.ndarray) -> Shown:
    """Return the queries, and the product of each with every key."""
    return q, q @ k.T
