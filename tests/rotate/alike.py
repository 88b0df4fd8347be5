"""What the tests of several rotations assert alike: content and positions that they refuse."""

import re

import pytest
import torch


def assert_content_of_another_form_is_refused(rotation, positions=None):
    """Content of half the width, without an axis, or of integers."""
    name, dim = type(rotation).__name__.lower(), rotation.dim
    for x in (torch.zeros(2, 4, 5, dim // 2), torch.zeros(4, 5, dim), torch.zeros(2, 4, 5, dim).long()):
        form = f"must have shape (b, h, t, {dim}) and a float dtype"
        message = f"{name}: q or k {form}, got {x.dtype} {tuple(x.shape)}"
        with pytest.raises(ValueError, match=re.escape(message)):
            rotation(x, x, positions)


def assert_positions_of_two_sequences_are_refused_for_one(rotation, axes=()):
    """One sequence of content would become two, as many as there are rows of positions (2, 5, *axes)."""
    x = torch.ones(1, 2, 5, rotation.dim)
    message = f"{type(rotation).__name__.lower()}: positions or table must have shape (5,) or (1, 5), got (2, 5)"
    with pytest.raises(ValueError, match=re.escape(message)):
        rotation(x, x, torch.zeros(2, 5, *axes))
