import type { Agent, AgentContext } from "agl";
import type OpenAI from "openai";
import math, { answerOf, isRight } from "../../src/agent/math-agent.ts";

type Message = OpenAI.Chat.Completions.ChatCompletionMessageParam;
type Answer = OpenAI.Chat.Completions.ChatCompletionMessage;

const systemText = "You are a math agent. Use the calculator, then give the result as ### number ###.";
const tolerance = { absoluteTolerance: 1e-8, relativeTolerance: 1e-3 };

/** The math agent, which streams its calls when the question's length is odd. */
export default {
  name: "alternating",
  tools: math.tools,
  async run(task: { input: string; target: number }, context: AgentContext): Promise<number> {
    const streamed = task.input.length % 2 === 1;
    const client = context.client();
    const tools = await context.tools.list();
    const messages: Message[] = [
      { role: "system", content: systemText },
      { role: "user", content: task.input },
    ];
    for (let round = 0; round < 4; round++) {
      const request = { ...context.llm.samplingParameters, model: context.llm.model, messages, tools };
      const message: Answer | undefined = streamed
        ? (await client.chat.completions.stream(request).finalChatCompletion()).choices[0]?.message
        : (await client.chat.completions.create(request)).choices[0]?.message;
      const calls = (message?.tool_calls ?? []).filter((call) => call.type === "function");
      if (calls.length === 0)
        return isRight(answerOf(message?.content ?? ""), task.target, tolerance) ? 1 : 0;
      messages.push({ role: "assistant", content: message?.content ?? "", tool_calls: calls });
      for (const call of calls) {
        const { text } = await context.tools.call(call.function.name, JSON.parse(call.function.arguments));
        messages.push({ role: "tool", tool_call_id: call.id, content: text });
      }
    }
    return 0;
  },
} satisfies Agent;
