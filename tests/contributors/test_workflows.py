"""The workflows: pinned, least permitted, ended in time, and between them they run every folder of tests."""

import re

import pytest
import yaml

from tests.contributors.conftest import ROOT

PATHS = sorted((ROOT / ".github").rglob("*.yml"))
FLOWS = [path for path in PATHS if path.parent.name == "workflows"]

each_flow = pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)


def test_there_are_workflows_and_an_action():
    assert len(FLOWS) == 2
    assert ROOT / ".github/actions/setup/action.yml" in PATHS


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_hash_with_its_version_beside_it(path):
    for used in re.findall(r"^ *(?:- )?uses: (.+)$", path.read_text(), re.M):
        assert re.fullmatch(r"\./\S+|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), f"{path.name}: {used}"


@each_flow
def test_nothing_is_permitted_but_reading_and_every_job_ends(path):
    flow = yaml.safe_load(path.read_text())
    assert flow["permissions"] == {"contents": "read"}
    for name, job in flow["jobs"].items():
        assert job["timeout-minutes"] <= 180, name
        assert name == "deploy" or "permissions" not in job
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


def test_deployment_waits_for_every_other_job():
    jobs = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text())["jobs"]
    assert set(jobs["deploy"]["needs"]) == set(jobs) - {"deploy"}


def test_every_folder_of_tests_is_run_by_a_job():
    text = (ROOT / ".github/workflows/site.yml").read_text()
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    folders -= {folder for folder in folders if folder.startswith("tests/toys")} | {"tests"}
    assert not [folder for folder in sorted(folders) if not re.search(rf"{folder}\s", text)]
    assert "tests/test_*.py" in text
