"""Second opinions: solvers that read a question's text and nothing else.

No module here imports the library, its generators or its verifiers, and none reads a problem's metadata or its expected
answer. `table.py` says for each task what its solver shows.
"""
