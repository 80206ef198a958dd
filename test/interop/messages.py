"""What Agent-lightning's own messages adapter makes of spans: `messages.py FILE`, one list of spans per line, prints a
list of conversations per line."""

import json
import sys

from agentlightning.adapter import TraceToMessages
from agentlightning.types import Span

with open(sys.argv[1], encoding="utf-8") as cases:
    for line in cases:
        spans = [Span.model_validate(span) for span in json.loads(line)]
        print(json.dumps(TraceToMessages().adapt(spans)))
