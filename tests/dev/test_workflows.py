"""The workflows: pinned, least permitted, ended in time, and between them they run every folder of tests."""

import re
import tomllib

import pytest
import yaml

from tests.dev.conftest import ROOT

PATHS = sorted((ROOT / ".github").rglob("*.yml"))
FLOWS = [path for path in PATHS if path.parent.name == "workflows"]

MAY = {
    "deploy": {"contents": "write"},
    "announce": {"contents": "write"},
    "publish": {"id-token": "write"},
}

over_flows = pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)


def test_there_are_workflows_and_an_action():
    assert [path.stem for path in FLOWS] == ["nightly", "release", "site"]
    assert {path.parent.name for path in PATHS if path.name == "action.yml"} == {"setup"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_hash_with_its_version_beside_it(path):
    for used in re.findall(r"^ *(?:- )?uses: (.+)$", path.read_text(), re.M):
        assert re.fullmatch(r"\./\S+|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), f"{path.name}: {used}"


@over_flows
def test_nothing_is_permitted_but_reading_and_every_job_ends(path):
    flow = yaml.safe_load(path.read_text())
    assert flow["permissions"] == {"contents": "read"}
    for name, job in flow["jobs"].items():
        assert job.get("permissions") == MAY.get(name), name
        if job.get("uses") == "./.github/workflows/nightly.yml":
            continue  # its own jobs end in time
        assert job["timeout-minutes"] <= 180, name
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


def test_deployment_waits_for_every_other_job():
    jobs = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text())["jobs"]
    assert set(jobs["deploy"]["needs"]) == set(jobs) - {"deploy"}


def test_every_folder_of_tests_is_run_by_a_job():
    text = (ROOT / ".github/workflows/site.yml").read_text()
    folders = {"/".join(path.relative_to(ROOT).parts[:2]) for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert not [folder for folder in sorted(folders) if not re.search(rf"{folder}\s", text)]
    assert "tests/test_*.py" in text


def test_the_workflows_install_what_is_pinned():
    text = "".join(path.read_text() for path in PATHS)
    assert re.findall("pip install", text)
    assert not re.findall(r"pip install(?!.* --constraint constraints.txt)", text)


def test_a_release_is_tested_built_and_tried_before_it_is_published():
    flow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    jobs = flow["jobs"]
    assert set(jobs["publish"]["needs"]) == {"everything", "build"}
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["announce"]["needs"] == "publish"
    run = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    for line in ("dev.release", "uv build", "tests/test_distribution.py", "uv venv", "bin/posenc "):
        assert line in run
    for step in jobs["publish"]["steps"]:
        assert "checkout" not in step.get("uses", ""), "what may publish runs no code of the repository"


def test_the_site_is_published_once_at_a_time_where_all_of_it_holds():
    deploy = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text())["jobs"]["deploy"]
    assert deploy["concurrency"] == {"group": "deploy", "cancel-in-progress": False}
    assert "mkdocs gh-deploy --strict" in deploy["steps"][-1]["run"]


def test_the_versions_that_are_promised_are_those_that_are_tested():
    """Python's in every job of the package, the oldest NumPy and PyTorch at night, by `lowest.sh`."""
    promised, readme = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"], (ROOT / "README.md").read_text()
    pythons = [name.rpartition(" ")[2] for name in promised["classifiers"] if re.search(r":: 3\.\d+$", name)]
    jobs = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text())["jobs"]
    assert jobs["package"]["strategy"]["matrix"]["python"] == pythons
    assert promised["requires-python"] == f">={pythons[0]}"
    assert readme.count(f"Python {pythons[0]} to {pythons[-1]}") == 2
    numpy, torch = (requirement.partition(">=")[2] for requirement in promised["dependencies"])
    assert f"NumPy {numpy} or later and PyTorch {torch} or later" in " ".join(readme.split())
    assert "lowest.sh" in (ROOT / ".github/workflows/nightly.yml").read_text()
    book = tomllib.loads((ROOT / "docs/book/pyproject.toml").read_text())["project"]
    assert book["requires-python"] == promised["requires-python"]
    assert [name for name in promised["classifiers"] if "Python" in name] == book["classifiers"]
