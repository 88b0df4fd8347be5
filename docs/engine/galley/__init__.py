"""Galley: run, check and render the pages of a book whose Markdown executes.

A galley is the proof a printer pulls before a page goes to press. This one runs each page's code in a process of
its own, compares what the page shows with what the code gives, and hands figures, outputs and checked numbers to
whatever builds the site. One core (`book`), four faces: the Markdown extension (`markdown`), the MkDocs hook
(`../hook.py`), the pytest plugin (`plugin`) and the command line (`__main__`).
"""
