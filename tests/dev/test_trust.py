"""What users and GitHub read of the project: citation, licenses, policy, forms; and the pins of what is installed."""

import re
import shutil
import subprocess
import tomllib
from datetime import date

import pytest
import yaml

from posenc.__main__ import main as command_line
from tests.dev.conftest import ROOT

FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[0-9]*.yml"))
LICENSES = (ROOT / "docs/reference/licenses.md").read_text(encoding="utf-8")
PIN = re.compile(r"^([\w.-]+)==", re.M)
CFF = {"message", "title", "type", "version", "date-released", "license", "abstract", "keywords", "authors"}
CFF |= {"cff-version", "url", "repository-code", "doi", "identifiers", "contact", "preferred-citation", "references"}


def tracked(*patterns):
    if not shutil.which("git"):
        pytest.skip("no git")
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def test_the_citation_has_the_form_of_cff():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert not set(cited) - CFF
    assert isinstance(cited["date-released"], date)
    assert cited["message"]
    assert cited["title"]
    assert all(set(author) <= {"name", "website"} and author["name"] for author in cited["authors"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == project["version"]
    assert cited["license"] == project["license"]
    assert cited["repository-code"] == project["urls"]["Source"]


def test_whatever_came_from_others_lies_beside_its_license_and_is_listed():
    foreign = tracked("*.woff2", "*.woff", "*.ttf", "*.min.*", "*vendor/*", "*.wasm")
    folders = {path.split("/fonts/KaTeX")[0] if "KaTeX" in path else path.rpartition("/")[0] for path in foreign}
    assert folders
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "LICENSE").is_file()] == []
    listed = {path.rpartition("/")[0] for path in tracked("*LICENSE*")} - {"", "docs"}
    assert folders == listed
    assert [folder for folder in sorted(listed) if f"`{folder}`" not in LICENSES] == []


def test_what_the_build_brings_is_listed(built_site):
    ours = {path.name for path in (ROOT / "docs/assets").iterdir()}
    brought = {path.name for path in (built_site / "assets").iterdir()} - ours
    assert "javascripts" in brought
    assert [name for name in sorted(brought) if f"`assets/{name}`" not in LICENSES] == []


def test_text_and_code_name_their_licenses_wherever_one_looks(built_site):
    places = ("README.md", "docs/LICENSE", "docs/reference/licenses.md", "mkdocs.yml")
    for place in places:
        text = (ROOT / place).read_text(encoding="utf-8")
        assert re.search(r"CC\s+BY\s+4\.0", text), place
        assert "MIT" in text, place
    foot = (built_site / "jobs/index.html").read_text(encoding="utf-8")
    assert 'href="https://creativecommons.org/licenses/by/4.0/" rel="license"' in foot


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_shows(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(form) == {"name", "description", "labels", "body"}
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names)
    for field in form["body"]:
        assert set(field) == {"type", "id", "attributes", "validations"}
        assert field["type"] in {"input", "textarea", "dropdown"}
        assert field["attributes"]["label"]
        assert bool(field["attributes"].get("options")) == (field["type"] == "dropdown")
        assert isinstance(field["validations"]["required"], bool)


def test_there_is_a_form_for_each_kind_of_fault_and_questions_go_elsewhere():
    assert [path.stem for path in FORMS] == ["1-number", "2-doctor", "3-page"]
    config = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/config.yml").read_text(encoding="utf-8"))
    assert config["blank_issues_enabled"] is False
    links = [link["url"] for link in config["contact_links"]]
    assert any(link.endswith("/discussions") for link in links)
    assert any(link in (ROOT / "SECURITY.md").read_text(encoding="utf-8") for link in links)


def test_the_doctors_form_asks_for_a_command_that_there_is(capsys):
    (command,) = re.findall(r"`(posenc doctor .*?)`", FORMS[1].read_text(encoding="utf-8"))
    options = set(re.findall(r"--\w+", command))
    with pytest.raises(SystemExit):
        command_line(["doctor", "--help"])
    output = capsys.readouterr().out
    assert options == {"--json"}
    assert not [option for option in options if option not in output]


def test_what_the_project_needs_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
    names = {re.match(r"[\w.-]+", need)[0].lower().replace("_", "-") for need in needs}
    assert not names - {*PIN.findall((ROOT / "constraints.txt").read_text(encoding="utf-8"))}
