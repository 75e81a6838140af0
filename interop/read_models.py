"""Reads lists of paths from standard input, one JSON array of arrays, and prints the facts of each model.

A model that a package fails on gives {"error", "tensors": [], "metadata": []}.
"""
import json
import sys

from facts import read_model


def facts_or_error(paths):
    try:
        return read_model(paths)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "tensors": [], "metadata": []}


json.dump([facts_or_error(paths) for paths in json.load(sys.stdin)], sys.stdout)
