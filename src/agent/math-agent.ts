import type { Agent, AgentContext } from "agl";
import type OpenAI from "openai";

type Message = OpenAI.Chat.Completions.ChatCompletionMessageParam;
type ToolCall = OpenAI.Chat.Completions.ChatCompletionMessageToolCall;
type Context = AgentContext<typeof settings>;

const systemText = "You are a math agent. Use the calculator, then give the result as ### number ###.";

const settings = {
  /** A right answer may differ from the target by `absoluteTolerance + relativeTolerance * |target|`. */
  absoluteTolerance: 1e-8,
  relativeTolerance: 1e-5,
  maxRounds: 4,
  toolSeconds: 30,
};

/** Solves arithmetic word problems with a calculator; rewarded with 1 for the right number, else 0. */
export default {
  name: "math",
  tools: { calculator: { command: "uvx", args: ["mcp-server-calculator@0.2.1"] } },
  settings,

  async run(task: { input: string; target: number | string }, context: Context): Promise<number> {
    const text = await solve(task.input, context);
    const right = isRight(answerOf(text), Number(task.target), context.settings);
    context.log(`answered ${JSON.stringify(text)}, target ${task.target}: ${right ? "right" : "wrong"}`);
    return right ? 1 : 0;
  },
} satisfies Agent;

async function solve(question: string, context: Context): Promise<string> {
  const client = context.client();
  const tools = await context.tools.list();
  const messages: Message[] = [
    { role: "system", content: systemText },
    { role: "user", content: question },
  ];
  for (let round = 1; round <= context.settings.maxRounds; round++) {
    const completion = await client.chat.completions.create({
      temperature: 0,
      ...context.llm.samplingParameters,
      model: context.llm.model,
      messages,
      tools,
    });
    const message = completion.choices[0]?.message;
    if (message === undefined) throw new Error("the model's answer holds no choice");
    const calls = message.tool_calls ?? [];
    if (calls.length === 0) return message.content ?? "";
    messages.push({ role: "assistant", content: message.content ?? "", tool_calls: calls });
    for (const call of calls) messages.push(await answer(call, context));
  }
  context.log(`no answer after ${context.settings.maxRounds} rounds`);
  return "";
}

async function answer(call: ToolCall, context: Context): Promise<Message> {
  return { role: "tool", tool_call_id: call.id, content: await calculate(call, context) };
}

async function calculate(call: ToolCall, context: Context): Promise<string> {
  if (call.type !== "function") return "Only functions can be called.";
  let args: unknown;
  try {
    args = JSON.parse(call.function.arguments);
  } catch {
    return "The arguments are not JSON.";
  }
  if (typeof args !== "object" || args === null || Array.isArray(args)) return "The arguments are no object.";
  const limits = { limitSeconds: context.settings.toolSeconds };
  const result = await context.tools.call(call.function.name, { ...args }, limits);
  return result.text;
}

/** The text between the first `###` and the next, or the end. */
export function answerOf(text: string): string | undefined {
  return /###\s*(.+?)(\s*###|\n?$)/.exec(text)?.[1];
}

export function isRight(
  answer: string | undefined,
  target: number,
  tolerance: { absoluteTolerance: number; relativeTolerance: number },
): boolean {
  const number = answer === undefined || answer.trim() === "" ? Number.NaN : Number(answer);
  return (
    Math.abs(number - target) <= tolerance.absoluteTolerance + tolerance.relativeTolerance * Math.abs(target)
  );
}
