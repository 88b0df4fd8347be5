"""The shape comments of the doctor, executed while a watched copy of it examines code of each kind."""

import importlib
import sys

import pytest

import posenc
from posenc import doctor
from tests.contract import shape_comments
from tests.contract.encoding_inputs import ROOT

PATIENTS = {}


@pytest.fixture
def watched():
    """Return the watched copy of the doctor and the loader that knows its reports; afterwards the doctor is itself."""
    package = shape_comments.Package("posenc.doctor", ROOT / "posenc/doctor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posenc, "doctor", doctor)
        for name in [*sys.modules]:
            if name == doctor.__name__ or name.startswith(f"{doctor.__name__}."):
                patch.delitem(sys.modules, name)
        patch.setattr(sys, "meta_path", [package, *sys.meta_path])
        yield importlib.import_module(doctor.__name__), package


def test_shape_comments_of_the_doctor_are_true(watched):
    """Correct the comment `# (t, d)`, or examine a patient here that reaches its line."""
    copy, package = watched
    for patient, settings in PATIENTS.values():
        copy.diagnose(patient(), **settings)
    assert not package.problems(), "\n".join(package.problems())
