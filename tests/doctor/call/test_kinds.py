"""Which kind code is, and what is refused: what cannot be called, has no known signature, or raises."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.doctor.attention.patients import Block
from tests.doctor.bias.patients import change_of_scores
from tests.doctor.blocks import interleave, noise, penalty, rotate, rotate_pair, sinusoids, slopes
from tests.doctor.call.patients import SIZES, angles_of
from tests.doctor.rotation.patients import padded, widened
from tests.doctor.table.patients import Along


def table_of_t(t, dim):
    return interleave(angles_of(torch.arange(t), dim))


def bias_of_lengths(heads, t, s):
    return penalty(heads, t, s)


def attend(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize(
    ("patient", "kind"),
    [
        (rotate, "rotation"),
        (rotate_pair, "rotation"),
        (sinusoids, "table"),
        (table_of_t, "table"),
        (Along, "table"),
        (slopes, "bias"),
        (bias_of_lengths, "bias"),
        (change_of_scores, "bias"),
        (Block, "attention"),
        (attend, "attention"),
    ],
)
def test_the_kind_is_found_and_may_be_told(patient, kind):
    assert diagnose(patient).kind == kind
    assert diagnose(patient, kind=kind).kind == kind


def test_a_rotation_of_queries_alone_is_a_rotation():
    assert diagnose(lambda q, positions: rotate(q, positions)).kind == "rotation"


def masked(hides):
    """Return an attention that needs a mask of booleans, which are true where they hide, or where they show."""

    def attends(q, k, v, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.masked_fill(mask if hides else ~mask, -torch.inf).softmax(-1) @ v

    return attends


@pytest.mark.parametrize("hides", [True, False])
def test_a_mask_that_is_needed_is_passed_as_it_is_meant(hides):
    report = diagnose(masked(hides))
    assert_report(report)
    assert verdicts(report, "future", "padding") == ["ok", "ok"]


def test_the_attention_and_the_table_of_torch_itself():
    """Compiled code has no signature, and the input of a learned table picks rows."""
    attention = diagnose(nn.functional.scaled_dot_product_attention)
    assert attention.kind == "attention"
    assert_report(attention)
    table = diagnose(nn.Embedding(128, 32))
    assert table.kind == "table"
    assert_report(table)
    assert verdicts(table, "rows") == ["ok"]


# What is no rotation


class Zeros(nn.Module):
    """Start with a projection of zeros."""

    def forward(self, x, positions):
        return 0 * rotate(x, positions)


def with_a_table(x, positions):
    return rotate(x, positions) + angles_of(positions, x.shape[-1]).cos().repeat(1, 2)


def shortened(x, positions):
    return rotate(x, positions)[:, :, ::2]


def narrowed(x, positions):
    return rotate(x, positions)[..., :-2]


def nothing(x, positions):
    return None


@pytest.mark.parametrize("patient", [Zeros(), with_a_table, shortened, narrowed, nothing])
def test_what_is_no_rotation_is_refused_as_one(patient):
    with pytest.raises(ValueError, match="doctor: function must be a rotation"):
        diagnose(patient, kind="rotation", dim=16, heads=3)


@pytest.mark.parametrize("patient", [widened, padded])
def test_what_is_nearly_a_rotation_is_examined_as_one(patient):
    assert diagnose(patient, kind="rotation", **SIZES).kind == "rotation"


# What cannot be called


@pytest.mark.parametrize("junk", [None, 1, "rope", [], torch.zeros(3), NotImplemented], ids=repr)
def test_what_cannot_be_called_is_refused(junk):
    with pytest.raises(ValueError, match="doctor: function must be"):
        diagnose(junk)


@pytest.mark.parametrize(
    "patient", [lambda: 1, lambda a, b: a, lambda x: "a", lambda x: None, print, len, dict, lambda x: 1 / 0, str]
)
def test_what_has_no_known_signature_gets_the_list_of_those_understood(patient):
    with pytest.raises(ValueError, match=r"doctor: function must be .*, got .*fn\(q, k, v\)"):
        diagnose(patient)


def test_compiled_code_whose_documentation_names_no_call_is_refused():
    with pytest.raises(ValueError, match=r"doctor: function must be .*got .*as_tensor"):
        diagnose(torch.as_tensor)


@pytest.mark.parametrize("argument", ["kind", "dim", "heads", "order"])
@pytest.mark.parametrize("junk", ["junk", 0, -1, 2.5, True, [], "", float("nan"), NotImplemented], ids=repr)
def test_junk_in_a_setting_is_refused(argument, junk):
    with pytest.raises(ValueError, match=f"doctor: {argument} must be .*, got"):
        diagnose(rotate, **{argument: junk})


def misspelt(q, k, positions):
    return q * cosine, k  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def test_their_own_error_comes_before_the_list_of_what_is_understood():
    with pytest.raises(ValueError, match=r"got misspelt.*NameError: name 'cosine' is not defined.*fn\(x\)"):
        diagnose(misspelt)


def several(x):
    raise IndexError(f"{x.ndim} axes")


def test_errors_of_several_kinds_are_all_told():
    with pytest.raises(ValueError, match=r"IndexError: 4 axes .*rotation.*IndexError: 3 axes .*attention"):
        diagnose(several)


def test_random_rows_are_a_table():
    rows = noise(300, 64)
    assert diagnose(lambda positions: rows[positions]).kind == "table"
