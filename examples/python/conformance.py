"""Answers the conformance kit (docs/protocol/conformance.md) with fold.py.

    node conformance/run.js --levels tree,document -- python3 examples/python/conformance.py
"""
import base64
import json
import sys

from fold import Tree
from sse import Decoder

for line in sys.stdin:
    vector = json.loads(line)
    options = vector["options"]
    decoder = Decoder()
    chunks = (base64.b64decode(chunk) for chunk in vector.get("chunks", []))
    frames = vector["frames"] if "frames" in vector else [frame for chunk in chunks for frame in decoder.push(chunk)]
    tree = Tree(options.get("legacy", False), options.get("filtered", False))
    for frame in frames:
        tree.fold(frame)
    result = {"tree": tree.tree(), "document": tree.document(options.get("seed", False))}
    print(json.dumps({"name": vector["name"], **result}), flush=True)
