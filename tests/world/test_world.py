"""The records of the world's code: each is whole, and each bug changes something."""

import pytest

from tests.world import judge

each = pytest.mark.parametrize("shelf", judge.SHELVES, ids=lambda shelf: shelf.__name__.rpartition(".")[2])


def test_names_are_unique():
    names = [one.name for one in judge.IMPLEMENTATIONS]
    assert len(names) == len({*names})


@each
def test_each_implementation_belongs_to_a_package_with_a_licence_and_an_address(shelf):
    packages = {package.name: package for package in shelf.PACKAGES}
    assert {one.package for one in shelf.IMPLEMENTATIONS} <= {*packages}
    for package in packages.values():
        assert package.licence, package.name
        assert package.url.startswith("https://"), package.name


@each
def test_each_bug_changes_the_source_by_little_and_says_what_is_wrong(shelf):
    for one in shelf.IMPLEMENTATIONS:
        names = [bug.name for bug in one.bugs]
        assert len(names) == len({*names}), one.name
        for bug in one.bugs:
            assert bug.old != bug.new, bug
            assert bug.cause, bug
            assert bug.what, bug
            assert len(bug.old) <= 300, bug


def test_there_is_much_to_judge_by():
    assert len(judge.IMPLEMENTATIONS) >= 80
    assert sum(len(one.bugs) for one in judge.IMPLEMENTATIONS) >= 150
