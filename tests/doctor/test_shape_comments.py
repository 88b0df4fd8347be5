"""The shape comments of the doctor, executed while a watched copy of it examines code of each kind."""

import importlib
import importlib.util
import sys

import pytest
import torch
from torch import nn

import posenc
from posenc import doctor
from tests.contract import shape_comments
from tests.contract.encoding_inputs import ROOT
from tests.doctor.attention import (
    test_cache,
    test_padding,
    test_positions_of_attentions,
    test_projections,
    test_weights,
)
from tests.doctor.bias import test_boxes, test_calls_of_biases, test_offsets, test_sign, test_window
from tests.doctor.blocks import noise
from tests.doctor.call import test_makers
from tests.doctor.model import test_model
from tests.doctor.rotation import (
    test_against_config,
    test_cache_and_offsets,
    test_grid_of_rotations,
    test_layout,
    test_norm,
)
from tests.doctor.table import test_grid_of_tables, test_padding_of_tables, test_rows, test_sinusoids

NEEDS_TRANSFORMERS = "transformers_layer.py"


def of_equal_rows():
    """Return a learned table in which two rows are equal."""
    rows = noise(300, 64)
    rows[7] = rows[3]
    return test_rows.look_up(rows)


PATIENTS = (  # each reaches lines that no other does: a patient, and the settings it is examined with
    (lambda: test_positions_of_attentions.RowBlock, {}),
    (lambda: test_positions_of_attentions.BlockWithTable, {}),
    (lambda: nn.functional.scaled_dot_product_attention, {}),
    (test_cache.SeenByAll, test_cache.SIZES),
    (test_cache.Evicting, test_cache.SIZES),
    (lambda: test_padding.of_lengths(), {"dim": 16, "heads": 3}),
    (test_projections.Lazy, {"dim": test_projections.DIM, "heads": test_projections.HEADS}),
    (lambda: test_projections.Joined(64), {"dim": 64, "heads": 4}),
    (test_projections.OnGrid, {"dim": test_projections.DIM}),
    (lambda: test_weights.positions_in_values, {"dim": 16, "heads": 4}),
    (test_weights.ByOffset, {"dim": test_weights.DIM, "heads": test_weights.HEADS}),
    (lambda: test_offsets.Untrained(True), {"kind": "bias", "heads": 4}),
    (lambda: test_sign.change_of_scores, {}),
    (lambda: test_window.Window(step=7), {"heads": 4}),
    (lambda: test_boxes.Boxes("both"), {"heads": 4}),
    (lambda: test_calls_of_biases.of_scores, {}),
    (lambda: test_calls_of_biases.of_a_mask_heads_last, {}),
    (test_model.BeginsAgain, {}),
    (lambda: test_makers.MAKERS["of a picture"], {"kind": "rotation", **test_makers.SIZES}),
    (lambda: posenc.RoPE(64), {"config": test_against_config.DEEP}),
    (lambda: test_cache_and_offsets.CachedInFirstDtype, {"kind": "rotation"}),
    (lambda: test_grid_of_rotations.SIDES["sound"][0], test_grid_of_rotations.SIDES["sound"][1]),
    (lambda: test_layout.BEHIND["last rows of a table"][0], {"dim": 64}),
    (lambda: test_norm.of_two_angles, {"kind": "rotation", **test_norm.SMALL}),
    (lambda: nn.Embedding(128, 32), {}),
    (of_equal_rows, {}),
    (lambda: test_grid_of_tables.BaseOfEachAxis(deaf=False), {}),
    (test_padding_of_tables.Words, {}),
    (lambda: test_sinusoids.Learned(False), {}),
    (lambda: test_sinusoids.crossed, {}),
    (lambda: "transformers:BloomAttention", {}),
    (lambda: "transformers:LlamaAttention", {}),
)


@pytest.fixture
def watched():
    """Return a watched copy of the doctor, and the loader that knows its reports; afterwards the doctor is itself."""
    package = shape_comments.Package("posenc.doctor", ROOT / "posenc/doctor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posenc, "doctor", doctor)
        for name in [*sys.modules]:
            if name == doctor.__name__ or name.startswith(f"{doctor.__name__}."):
                patch.delitem(sys.modules, name)
        patch.setattr(sys, "meta_path", [package, *sys.meta_path])
        yield importlib.import_module(doctor.__name__), package


@pytest.mark.filterwarnings("ignore")
def test_shape_comments_of_the_doctor_are_true(watched):
    """Correct the comment `# (t, d)`, or examine a patient here that reaches its line."""
    copy, package = watched
    has_transformers = importlib.util.find_spec("transformers") is not None
    for patient, settings in PATIENTS:
        torch.manual_seed(0)
        subject = patient()
        if has_transformers or not isinstance(subject, str):
            copy.diagnose(subject, **settings)
    if not has_transformers:
        package.reports = [report for report in package.reports if report.path.name != NEEDS_TRANSFORMERS]
    assert not package.problems(), "\n".join(package.problems())
