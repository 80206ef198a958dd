"""What the OpenAI and Anthropic libraries get from a server: one JSON line per call, its events in order.

python library_events.py BASE_URL MODEL QUESTION
"""

import json
import sys

from openai import OpenAI

from anthropic import Anthropic

base_url, model, question = sys.argv[1:]
parameters = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
function = {"name": "calculate", "description": "Calculates/evaluates the given expression.", "parameters": parameters}
messages = [{"role": "user", "content": question}]
openai = OpenAI(base_url=base_url, api_key="none", max_retries=0)
# This library adds the version to the path itself.
anthropic = Anthropic(base_url=base_url.removesuffix("/v1"), api_key="none", max_retries=0)


def show(name, events):
    print(json.dumps([name, [event.model_dump(mode="json") for event in events]]), flush=True)


tools = [{"type": "function", "function": function}]
chat = {"model": model, "messages": messages, "tools": tools, "temperature": 0, "max_tokens": 60}
show("chat", [openai.chat.completions.create(**chat)])
show("chat stream", openai.chat.completions.create(**chat, stream=True))
usage = {"include_usage": True}
show("chat stream with usage", openai.chat.completions.create(**chat, stream=True, stream_options=usage))

text = {"model": model, "prompt": question, "temperature": 0, "max_tokens": 8}
show("completion", [openai.completions.create(**text)])
show("completion stream", openai.completions.create(**text, stream=True))

response = {"model": model, "input": question, "tools": [{"type": "function", **function}], "temperature": 0}
show("response", [openai.responses.create(**response, max_output_tokens=60)])
show("response stream", openai.responses.create(**response, max_output_tokens=60, stream=True))

# The library knows no such argument, the servers do.
greedy = {"temperature": 0}
tools = [{"name": "calculate", "description": function["description"], "input_schema": parameters}]
message = {"model": model, "messages": messages, "tools": tools, "max_tokens": 60, "extra_body": greedy}
show("message", [anthropic.messages.create(**message)])
show("message stream", anthropic.messages.create(**message, stream=True))
