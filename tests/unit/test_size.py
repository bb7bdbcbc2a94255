"""The size of code does not depend on its layout or its docstrings."""

from __future__ import annotations

from bench.size import size_of, summary

PLAIN = """
def outer(x):
    def inner(y):
        return y
    z = 1
    return inner(x) + z
"""
DOCUMENTED = '''"""Module."""


def outer(
    x,
):
    """Outer,
    in two lines."""

    # why
    def inner(y):
        """Inner."""
        return y

    z = 1
    """An attribute."""
    return (
        inner(x)
        + z
    )
'''


def test_layout_and_docstrings_are_no_size() -> None:
    assert size_of(DOCUMENTED) == size_of(PLAIN)


def test_a_function_has_the_statements_of_the_functions_in_it() -> None:
    assert size_of(PLAIN).statements == 5
    assert sorted(size_of(PLAIN).functions) == [1, 4]


def test_a_body_of_nothing_but_a_docstring_is_empty() -> None:
    found = size_of('class Empty:\n    """Nothing."""\n')
    assert (found.statements, found.functions) == (1, ())


def test_a_package_is_the_sum_of_its_files() -> None:
    file = size_of(PLAIN)
    both = summary("both", [file, file])
    assert (both.files, both.statements, both.tokens) == (2, 10, 2 * file.tokens)
    assert (both.functions, both.median, both.p90) == (4, 2.5, 4)
