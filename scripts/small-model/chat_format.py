"""How a conversation is written out: the chat template, and its quick twin that also says who wrote what.

A test holds both to the same text.
"""

import json
from typing import NamedTuple

from conversations import Conversation, Message

TOOLS_HEAD = "# Tools\nFunctions you may call:\n<tools>"
TOOLS_TAIL = (
    "\n</tools>\nTo call one, write its name and arguments as JSON:\n"
    '<tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>'
)

_TEMPLATE = r"""{%- if messages and messages[0].role == 'system' -%}
  {%- set sys = messages[0].content or '' -%}{%- set rest = messages[1:] -%}
{%- else -%}
  {%- set sys = '' -%}{%- set rest = messages -%}
{%- endif -%}
{%- if sys or tools -%}
  {{- '<|im_start|>system\n' + sys -}}
  {%- if tools -%}
    {{- ('\n\n' if sys else '') + @HEAD@ -}}
    {%- for t in tools -%}{{- '\n' + (t | tojson) -}}{%- endfor -%}
    {{- @TAIL@ -}}
  {%- endif -%}
  {{- '<|im_end|>\n' -}}
{%- endif -%}
{%- for m in rest -%}
  {%- if m.role == 'tool' -%}
    {%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
    {{- '\n<tool_response>\n' + (m.content or '') + '\n</tool_response>' -}}
    {%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
  {%- elif m.role == 'assistant' -%}
    {{- '<|im_start|>assistant\n' + (m.content or '') -}}
    {%- for c in (m.tool_calls or []) -%}
      {%- set f = c.function if c.function else c -%}
      {{- '\n' if (m.content or not loop.first) else '' -}}
      {{- '<tool_call>\n{"name": "' + f.name + '", "arguments": ' -}}
      {{- f.arguments if f.arguments is string else (f.arguments | tojson) -}}
      {{- '}\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- else -%}
    {{- '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


CHAT_TEMPLATE = _TEMPLATE.replace("@HEAD@", _quoted(TOOLS_HEAD)).replace("@TAIL@", _quoted(TOOLS_TAIL))


class Segment(NamedTuple):
    text: str
    # What the model writes, its end mark included.
    is_answer: bool


def segments(conversation: Conversation, with_tools: bool = True) -> list[Segment]:
    """The pieces whose texts, joined, are the conversation as the chat template writes it."""
    messages = conversation.messages
    has_system = messages[0]["role"] == "system"
    written: list[Segment] = []
    pending = _system_block(str(messages[0]["content"]) if has_system else "", conversation.tools if with_tools else [])
    if pending:
        written.append(Segment(pending, False))
        pending = ""
    for message in messages[has_system:]:
        if message["role"] == "assistant":
            written.append(Segment(pending + "<|im_start|>assistant\n", False))
            written.append(Segment(_answer(message) + "<|im_end|>", True))
            pending = "\n"
        elif message["role"] == "tool":
            pending += f"<|im_start|>user\n<tool_response>\n{message['content']}\n</tool_response><|im_end|>\n"
        else:
            pending += f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
    return [*written, Segment(pending, False)] if pending else written


def text_of(conversation: Conversation, with_tools: bool = True) -> str:
    return "".join(segment.text for segment in segments(conversation, with_tools))


def _system_block(system: str, tools: list[dict[str, object]]) -> str:
    if not system and not tools:
        return ""
    described = TOOLS_HEAD + "".join("\n" + json.dumps(tool) for tool in tools) + TOOLS_TAIL if tools else ""
    return "<|im_start|>system\n" + "\n\n".join(part for part in (system, described) if part) + "<|im_end|>\n"


def _answer(message: Message) -> str:
    parts = [str(message["content"])] if message["content"] else []
    for call in message.get("tool_calls") or []:
        function = call["function"]
        arguments = json.dumps(function["arguments"], ensure_ascii=False)
        parts.append(f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>')
    return "\n".join(parts)
