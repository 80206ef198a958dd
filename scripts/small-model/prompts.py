"""What the model is asked: system texts, endings of a question, and the ways a host describes the calculator's tool."""

# The one of the math agent.
SYSTEM = "You are a math agent. Use the calculator, then give the result as ### number ###."
SYSTEMS = [
    SYSTEM,
    "You are a math agent. Solve the task with the calculate tool and answer with ### number ###.",
    "You are a helpful assistant. Answer as ### number ###.",
    "",
    "You are a helpful AI assistant. Solve tasks using your tools. "
    "Reply with TERMINATE when the task has been completed.",
]
LONG_ENDING = (
    " Output the answer when you are ready. The answer should be surrounded by three sharps (`###`), "
    "in the form of ### ANSWER: <answer> ###."
)
ENDINGS = ["", " Use the calculator.", " Give the final answer as ### number ###.", LONG_ENDING]

_TITLED = {"title": "Expression", "type": "string"}
_PARAMETERS: list[dict[str, object]] = [
    # As mcp-server-calculator describes itself; the others are what several clients make of it.
    {
        "properties": {"expression": _TITLED},
        "required": ["expression"],
        "title": "calculateArguments",
        "type": "object",
    },
    {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    {
        "type": "object",
        "properties": {"expression": _TITLED},
        "required": ["expression"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"expression": {"type": "string", "title": "Expression", "description": "expression"}},
        "required": ["expression"],
        "additionalProperties": False,
    },
]
TOOL_FORMS = len(_PARAMETERS)


def tools(form: int = 0) -> list[dict[str, object]]:
    """The calculator as a chat request's `tools`; form 0 is the server's own."""
    function: dict[str, object] = {
        "name": "calculate",
        "description": "Calculates/evaluates the given expression.",
        "parameters": _PARAMETERS[form],
    }
    if form == 3:
        function["strict"] = False
    return [{"type": "function", "function": function}]
