"""The update command rewrites what a page shows, and never hides a failure."""

import pytest

from galley.update import write
from tests.engine.conftest import block


def update(project, text):
    """Return a page after its update, and its problems."""
    project.page("page.md", text)
    results = project.update()
    return (project.docs / "page.md").read_text(), results["docs/page.md"].problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (block("print(1 + 1)"), block("print(1 + 1)", output="2")),
        (block("print(2.5)\nprint(3)", output="2.6"), block("print(2.5)\nprint(3)", output="2.5\n3")),
        (block("print(2.500000001)", output="2.500000002"), block("print(2.500000001)", output="2.500000002")),
        (block("x = 1", output="1"), block("x = 1") + "\n"),
    ],
    ids=["missing", "wrong", "close", "of a silent block"],
)
def test_an_output_is_inserted_replaced_kept_or_removed(project, old, new):
    assert update(project, f"# Page\n\n{old}\nAfter.\n") == (f"# Page\n\n{new}\nAfter.\n", [])


def test_a_computed_table_is_filled(project):
    code = "# Page\n\n" + block(r'print("| a |\n| - |\n| 2.5 |")') + "\n<!-- output -->\n\n<!-- /output -->\n"
    text, problems = update(project, code)
    assert "<!-- output -->\n\n| a |\n| - |\n| 2.5 |\n\n<!-- /output -->" in text
    assert problems == []
    assert update(project, text)[0] == text


def test_an_output_that_is_built_is_never_written(project):
    block = '```python\nprint("| a |\\n| - |\\n| 2.5 |")\n```'
    code = f"# Page\n\n{block}\n\n<!-- output: built -->\n\n*Rows.*\n\n<!-- /output -->\n"
    assert update(project, code) == (code, [])


def test_a_number_in_a_sentence_is_rewritten_at_its_precision(project):
    text, problems = update(
        project, "# Page\n\nIt has 47,116<!-- = n --> and 3.1<!-- = n / 10_000 -->.\n\n```python\nn = 47_117.24\n```\n"
    )
    assert "It has 47,117<!-- = n --> and 4.7<!-- = n / 10_000 -->." in text
    assert problems == []


def test_a_number_keeps_its_minus_sign_its_exponent_and_its_unit(project):
    text = "# Page\n\n−3<!-- = low -->, 2.5e-4<!-- = tiny --> and 80%<!-- = share -->, then 7<!-- = -9 -->.\n"
    code = "\n```python\nlow, tiny, share = -4, 3.51e-6, 81.2\n```\n"
    text, problems = update(project, text + code)
    assert "−4<!-- = low -->, 3.5e-6<!-- = tiny --> and 81%<!-- = share -->, then -9<!-- = -9 -->." in text
    assert problems == []


def test_an_output_of_backticks_gets_a_longer_fence_and_stays(project):
    text, problems = update(project, "# Page\n\n```python\nprint('```\\na\\n```')\n```\n")
    assert "````output\n```\na\n```\n````\n" in text
    assert problems == []
    assert update(project, text)[0] == text
    assert "````output\n```\nb\n```\n````\n" in update(project, text.replace("na", "nb"))[0]


def test_line_ends_are_kept(project):
    (project.docs / "page.md").write_bytes(b"# Page\r\n\r\n```python\r\nprint(1)\r\n```\r\n")
    project.update()
    written = (project.docs / "page.md").read_bytes()
    assert b"```output\r\n1\r\n```\r\n" in written
    assert written.count(b"\n") == written.count(b"\r\n")


def test_a_write_that_fails_leaves_the_page_as_it_was(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("# Page\n")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(page, "# Page\n\n" + "word " * 5000)
    assert page.read_text() == "# Page\n"
    assert list(tmp_path.iterdir()) == [page]


def test_a_bound_is_not_rewritten(project):
    text = "# Page\n\nBelow 1e-6<!-- > error -->.\n\n```python\nerror = 0.5\n```\n"
    assert update(project, text)[0] == text


def test_a_quoted_source_is_copied(project):
    text, problems = update(project, "# Page\n\n<!-- block: source=library/code.py:double -->\n```python\n```\n")
    assert 'def double(x):\n    """Return twice x."""\n    return 2 * x\n```' in text
    assert problems == []


def test_a_failing_block_keeps_its_output_and_still_fails(project):
    page = "\n".join(["# Page\n", block("print(1 / 0)", output="5"), block("print(2)", output="3")])
    text, problems = update(project, page)
    assert text == page
    assert "ZeroDivisionError" in problems[0].message


def test_what_is_not_output_is_never_touched(project):
    page = "---\ntitle: A\n---\n\n# Page  \n\n\tTabs and trailing spaces.   \n\n```python\nprint(1)\n```\n"
    text, _ = update(project, page)
    assert text.replace("\n\n```output\n1\n```", "") == page
