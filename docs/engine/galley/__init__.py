"""Galley: run, check and show the pages of a book whose Markdown executes.

A galley is the proof a printer pulls before a page goes to press. A page passes four rooms, and imports go one way:
`read` (its text into blocks, numbers, formulas), `run` (its steps in a process of its own), `check` (what it shows
against what its code gives), `show` (Markdown, notebooks, search, and what MkDocs calls). Beside them stand `book`,
the command line and the pytest plugin.
"""
