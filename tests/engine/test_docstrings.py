"""The heads of a module's docstring arrive on its reference page as a list of terms."""

import griffe
import markdown

from docstrings import Heads

DOCSTRING = '''"""Idea: what it does.

Paper: One et al., 2020, "A Title",
       https://arxiv.org/abs/1, eq. 1.
Used:  Llama

Key:   b batch, t length

    y = x

so Paper: inside a sentence stays.
"""
'''


def html_of(source):
    extensions = griffe.Extensions(Heads())
    with griffe.temporary_visited_package("idea", {"__init__.py": source}, extensions=extensions) as module:
        sections = module.docstring.parse("google")
    assert [section.kind.value for section in sections] == ["text"], "a head was taken for a box"
    return markdown.markdown(sections[0].value, extensions=["def_list"])


def test_heads_become_terms_and_the_formula_stays_code():
    html = html_of(DOCSTRING)
    assert '<dt>Paper</dt>\n<dd>One et al., 2020, "A Title", https://arxiv.org/abs/1, eq. 1.</dd>' in html
    assert "<dt>Used</dt>\n<dd>Llama</dd>\n<dt>Key</dt>\n<dd>b batch, t length</dd>\n</dl>" in html
    assert "<code>y = x" in html
    assert "<p>so Paper: inside a sentence stays.</p>" in html


def test_a_docstring_without_heads_and_a_module_without_docstring_stay():
    assert html_of('"""Only a sentence."""\n') == "<p>Only a sentence.</p>"
    Heads().on_module(mod=griffe.Module("empty"))


def test_modules_follow_their_papers_and_helpers_come_last():
    files = {
        "__init__.py": "",
        "kind/__init__.py": "",
        "kind/tools.py": '"""Serve.\n\nPaper: Zero, 2001, https://arxiv.org/abs/0101.1\n"""\n',
        "kind/newest.py": _encoding("One et al., 2024, https://arxiv.org/abs/2409.1"),
        "kind/newer.py": _encoding("Two et al., 2024, https://arxiv.org/abs/2406.1"),
        "kind/oldest.py": _encoding("Three et al., 2017,\n       https://arxiv.org/abs/1706.1"),
        "kind/unknown.py": "",
    }
    with griffe.temporary_visited_package("idea", files, extensions=griffe.Extensions(Heads())) as package:
        assert [*package["kind"].modules] == ["oldest", "newer", "newest", "unknown", "tools"]


def _encoding(paper):
    return f'"""Idea.\n\nPaper: {paper}\nUsed:  Llama\n"""\n\nclass Idea:\n    pass\n'
