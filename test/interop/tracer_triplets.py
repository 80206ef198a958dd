"""What Agent-lightning's own tracer adapter makes of spans: `tracer_triplets.py FILE`, one JSON object per line with
`options` and `spans`, prints a list of triplets per line."""

import json
import sys

from agentlightning import Span, TracerTraceToTriplet

with open(sys.argv[1], encoding="utf-8") as cases:
    for line in cases:
        case = json.loads(line)
        spans = [Span.model_validate(span) for span in case["spans"]]
        triplets = TracerTraceToTriplet(**case["options"]).adapt(spans)
        print(json.dumps([triplet.model_dump() for triplet in triplets]))
