"""What the tests of several additive encodings assert alike: the calls that they refuse."""

import torch

# of an encoding of width 16 on two axes: the argument of its call, a wrong value for it, and what the error says
WRONG_ON_TWO_AXES = [
    ("x", torch.zeros(2, 5, 1), r"x must have shape \(b, t, 16\) and a float dtype, got torch.float32 \(2, 5, 1\)"),
    (
        "x",
        torch.zeros(2, 5, 16).int(),
        r"x must have shape \(b, t, 16\) and a float dtype, got torch.int32 \(2, 5, 16\)",
    ),
    (
        "x",
        torch.zeros(5, 16),
        r"positions must be of \(5,\) or \(5,\) tokens, got \(1, 5\)",
    ),  # a sequence becomes no batch
    ("positions", torch.zeros(5, 3), r"positions must have shape \(\.\.\., t, 2\), got \(5, 3\)"),
    ("positions", torch.zeros(5, 1), r"positions must have shape \(\.\.\., t, 2\), got \(5, 1\)"),
    ("positions", torch.zeros(1, 2), r"positions must be of \(5,\) or \(2, 5\) tokens, got \(1,\)"),
    ("positions", torch.zeros(2, 1, 2), r"positions must be of \(5,\) or \(2, 5\) tokens, got \(2, 1\)"),
]
