import { expect, test } from "bun:test";
import fc from "fast-check";
import { answerOf, isRight } from "../../src/agent/math-agent.ts";
import { startRunners } from "../helpers/runners-fixture.ts";
import { serveScriptedModel } from "../helpers/scripted-model.ts";

const tolerance = { absoluteTolerance: 1e-8, relativeTolerance: 1e-5 };

test.each([
  ["### 84 ###", "84"],
  ["So: ###84###.", "84"],
  ["### -3.5", "-3.5"],
  ["### 5\n", "5"],
  ["### 1 ### and ### 2 ###", "1"],
  ["84", undefined],
  ["###", undefined],
])("the answer in %j is %p", (text, answer) => {
  expect(answerOf(text)).toBe(answer);
});

test.each([
  ["84", 84, true],
  ["84.0000001", 84, true],
  ["84.01", 84, false],
  ["-0", 0, true],
  ["1e3", 1000, true],
  ["84 apples", 84, false],
  ["ANSWER: 84", 84, false],
  ["", 0, false],
  ["inf", Number.POSITIVE_INFINITY, false],
])("%j for target %p is right: %p", (answer, target, right) => {
  expect(isRight(answer, target, tolerance)).toBe(right);
});

test("a number written as the target is always right, and never for a target clearly away from it", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e12, max: 1e12 }), (target) => {
      expect(isRight(String(target), target, tolerance)).toBe(true);
      expect(isRight(String(target), target * 1.001 + Math.sign(target || 1), tolerance)).toBe(false);
    }),
  );
});

test("an episode with the real calculator: the model's calls reach it, its results reach the model, the answer is rewarded", async () => {
  await using model = serveScriptedModel(({ messages }) => {
    const last = messages.at(-1);
    if (last.role === "user") return { expression: last.content.includes("zero") ? "1/0" : "12*7+0.5" };
    return { content: `### ${last.content} ###` };
  });
  await using runners = await startRunners({ agentFile: null, model: model.url, attemptTimeoutSeconds: 60 });
  await runners.ready;

  const right = await runners.enqueue({ input: "What is 12*7+0.5?", target: 84.5 });
  expect(await runners.ended(right)).toMatchObject({ status: "succeeded", reward: 1, toolCalls: 1 });
  const zero = await runners.enqueue({ input: "Divide by zero.", target: 1 });
  expect(await runners.ended(zero)).toMatchObject({ status: "succeeded", reward: 0, toolCalls: 1 });

  const attempt = await runners.store.getLatestAttempt(right);
  const prefix = `/rollout/${right}/attempt/${attempt?.attempt_id}`;
  expect(model.flushes[0]).toBe(`${prefix}/flush`);
  const [first, second, , afterError] = model.requests;
  expect(first?.path).toBe(`${prefix}/chat/completions`);
  // Word for word what the small model was trained on.
  expect(JSON.stringify(first?.body)).toBe(
    '{"temperature":0,"model":"m","messages":[' +
      '{"role":"system","content":"You are a math agent. Use the calculator, then give the result as ### number ###."},' +
      '{"role":"user","content":"What is 12*7+0.5?"}],' +
      '"tools":[{"type":"function","function":{"name":"calculate","description":"Calculates/evaluates the given expression.",' +
      '"parameters":{"properties":{"expression":{"title":"Expression","type":"string"}},"required":["expression"],' +
      '"title":"calculateArguments","type":"object"}}}]}',
  );
  expect(second?.body.messages.slice(2)).toEqual([
    {
      role: "assistant",
      content: "",
      tool_calls: [
        {
          id: "call-1",
          type: "function",
          function: { name: "calculate", arguments: '{"expression":"12*7+0.5"}' },
        },
      ],
    },
    { role: "tool", tool_call_id: "call-1", content: "84.5" },
  ]);
  expect(afterError?.body.messages.at(-1).content).toBe("Error executing tool calculate: division by zero");
}, 120_000); // The first start of the calculator may have to download it.
