"""Reads lists of paths from standard input, one JSON array of arrays, and prints the facts of each model."""
import json
import sys

from facts import read_model

json.dump([read_model(paths) for paths in json.load(sys.stdin)], sys.stdout)
