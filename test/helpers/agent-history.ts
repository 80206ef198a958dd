import fc from "fast-check";
import { toPythonLiteral } from "../../src/protocol/python-literal.ts";
import type { Attributes, Span } from "../../src/protocol/types.ts";
import { makeSpan, rewardSpan } from "./spans.ts";

export type CallFate = "exact" | "wrong_count" | "no_ids" | "failed" | "aborted" | "stale";

export type Step =
  | { kind: "call"; call: CallPlan }
  /** At the same time; each next one ends first, so they also enclose one another. */
  | { kind: "parallel"; calls: CallPlan[] }
  | { kind: "tool" }
  | { kind: "reward"; value: number }
  | { kind: "agent" | "judge"; steps: Step[] };

export interface CallPlan {
  prompt: number[];
  response: number[];
  /** Of a second choice. */
  other: number[] | null;
  fate: CallFate;
  named: boolean;
  dialect: "own" | "json" | "choices" | "normalised";
}

export interface HappenedCall extends CallPlan {
  responseId: string | null;
  /** While a reward was being found. */
  judged: boolean;
}

/** What an agent did, in order, and the spans that its proxy, its tracer and its runner wrote of it. */
export interface History {
  events: ({ call: HappenedCall } | { reward: number })[];
  proxied: Span[];
  traced: Span[];
  /** Agents, tools, rewards. */
  others: Span[];
}

const tokens = fc.array(fc.nat({ max: 151_645 }), { minLength: 1, maxLength: 5 });

export const callPlan: fc.Arbitrary<CallPlan> = fc.record({
  prompt: tokens,
  response: tokens,
  other: fc.option(tokens, { freq: 3 }),
  fate: fc.constantFrom<CallFate>(
    ...(["exact", "exact", "exact", "wrong_count", "no_ids", "failed", "aborted", "stale"] as const),
  ),
  named: fc.constantFrom(true, true, false),
  dialect: fc.constantFrom("own", "json", "choices", "normalised"),
});

const leaf = fc.oneof(
  { weight: 4, arbitrary: callPlan.map((call): Step => ({ kind: "call", call })) },
  // A tracer cannot tell a call without a name from a part of the one around it.
  fc
    .array(
      callPlan.map((call) => ({ ...call, named: true })),
      { minLength: 2, maxLength: 3 },
    )
    .map((calls): Step => ({ kind: "parallel", calls })),
  fc.constant<Step>({ kind: "tool" }),
  {
    weight: 2,
    arbitrary: fc.constantFrom(0, 0.25, 0.5, 1, -1).map((value): Step => ({ kind: "reward", value })),
  },
);

export function stepsWith(kinds: readonly ("agent" | "judge")[]): fc.Arbitrary<Step[]> {
  const { steps } = fc.letrec<{ steps: Step[]; step: Step }>((tie) => ({
    steps: fc.array(tie("step"), { maxLength: 6, depthIdentifier: "history" }),
    step: fc.oneof(
      { depthIdentifier: "history", maxDepth: 3 },
      leaf,
      fc.record({ kind: fc.constantFrom(...kinds), steps: tie("steps") }),
    ),
  }));
  return steps;
}

export function happen(steps: readonly Step[], attemptId = "at-1"): History {
  return new Writer(attemptId).write(steps);
}

/** Plays the steps on a clock of its own. Places are given when something begins, as proxy and runner do it. */
class Writer {
  readonly #history: History = { events: [], proxied: [], traced: [], others: [] };
  readonly #attemptId: string;
  #time = 1_000;
  #place = 0;
  #calls = 0;

  constructor(attemptId: string) {
    this.#attemptId = attemptId;
  }

  write(steps: readonly Step[]): History {
    const root = this.#span("session", {}, { start_time: this.#time, sequence_id: (this.#place += 1) });
    this.#all(steps, root.span_id, false);
    this.#end(root);
    return this.#history;
  }

  #all(steps: readonly Step[], parent: string, judged: boolean): void {
    for (const step of steps) this.#one(step, parent, judged);
  }

  #one(step: Step, parent: string, judged: boolean): void {
    if (step.kind === "call") this.#together([step.call], parent, judged);
    else if (step.kind === "parallel") this.#together(step.calls, parent, judged);
    else if (step.kind === "reward") this.#reward(step.value, parent);
    else if (step.kind === "tool") this.#end(this.#begin("agl.tool_call", { "agl.tool.name": "t" }, parent));
    else {
      const isJudge = step.kind === "judge";
      const node = isJudge
        ? this.#begin(
            "agentlightning.operation",
            { "agentlightning.operation.name": "agentlightning.reward" },
            parent,
          )
        : this.#begin("agent", { "agent.name": "a" }, parent);
      this.#all(step.steps, node.span_id, judged || isJudge);
      this.#end(node);
    }
  }

  #reward(value: number, parent: string): void {
    const time = (this.#time += 1);
    const place = { sequence_id: (this.#place += 1), start_time: time, end_time: time, parent_id: parent };
    this.#history.others.push({ ...rewardSpan("ro-1", this.#attemptId, value), ...place });
    this.#history.events.push({ reward: value });
  }

  #together(plans: CallPlan[], parent: string, judged: boolean): void {
    const begun = plans.map((plan) => {
      const number = (this.#calls += 1);
      const call = { ...plan, judged, responseId: plan.named ? `${this.#attemptId}-C${number}` : null };
      this.#history.events.push({ call });
      const place = { start_time: (this.#time += 1), end_time: null, parent_id: parent };
      return { call, place, sequences: [(this.#place += 1), (this.#place += 1)] as const };
    });
    const inside = begun.map(() => (this.#time += 1));
    for (const [index, { call, place, sequences }] of begun.entries()) {
      const end_time = this.#time + begun.length - index;
      const start_time = inside[index] as number;
      this.#history.traced.push(
        this.#make("openai.chat.completion", tracedAttributes(call), call, {
          ...place,
          end_time,
          sequence_id: sequences[1],
        }),
      );
      const within = { start_time, end_time: end_time - 0.5, sequence_id: sequences[0] };
      this.#history.proxied.push(...this.#proxied(call, within));
    }
    this.#time += begun.length + 1;
  }

  #proxied(call: HappenedCall, place: Partial<Span>): Span[] {
    const root = this.#make("Received Proxy Server Request", {}, call, place);
    const below = { ...place, parent_id: root.span_id };
    const ids = call.dialect === "normalised" ? flatIds(call) : {};
    const normalised = this.#make("litellm_request", { ...named(call), ...marks(call), ...ids }, call, below);
    const raw = this.#make("raw_gen_ai_request", { ...rawAttributes(call), ...marks(call) }, call, below);
    return call.fate === "failed" ? [root, normalised] : [root, normalised, raw];
  }

  #begin(name: string, attributes: Attributes, parent_id: string): Span {
    const start_time = (this.#time += 1);
    return this.#span(name, attributes, { parent_id, start_time, sequence_id: (this.#place += 1) });
  }

  #end(span: Span): void {
    span.end_time = this.#time += 1;
  }

  #span(name: string, attributes: Attributes, place: Partial<Span>): Span {
    const span = makeSpan("ro-1", this.#attemptId, name, attributes, place);
    this.#history.others.push(span);
    return span;
  }

  #make(name: string, attributes: Attributes, { fate }: CallPlan, place: Partial<Span>): Span {
    const failed = fate === "failed" ? { status: { status_code: "ERROR" as const, description: "500" } } : {};
    return makeSpan("ro-1", this.#attemptId, name, attributes, { ...place, ...failed });
  }
}

function named({ responseId, fate }: HappenedCall): Attributes {
  return responseId === null || fate === "failed" ? {} : { "gen_ai.response.id": responseId };
}

function marks({ fate }: CallPlan): Attributes {
  if (fate === "aborted") return { "agl.call.aborted_by_client": true };
  return fate === "stale" ? { "agl.call.stale": true } : {};
}

function usage({ prompt, response, other, fate }: CallPlan) {
  const wrong = fate === "wrong_count" ? 1 : 0;
  const prompt_tokens = prompt.length + wrong;
  return { prompt_tokens, completion_tokens: response.length + (other?.length ?? 0) };
}

function flatIds({ prompt, response, fate }: CallPlan): Attributes {
  if (fate === "failed" || fate === "no_ids") return {};
  return { prompt_token_ids: prompt, response_token_ids: response };
}

function tracedAttributes(call: HappenedCall): Attributes {
  if (call.fate === "failed") return {};
  const { prompt_tokens, completion_tokens } = usage(call);
  const other: Attributes = call.other === null ? {} : { "gen_ai.completion.1.role": "assistant" };
  return {
    ...named(call),
    ...marks(call),
    ...flatIds(call),
    "gen_ai.completion.0.role": "assistant",
    ...other,
    "gen_ai.usage.prompt_tokens": prompt_tokens,
    "gen_ai.usage.completion_tokens": completion_tokens,
  };
}

function rawAttributes(call: HappenedCall): Attributes {
  const { prompt, response, other, fate, dialect } = call;
  const write = dialect === "json" ? JSON.stringify : toPythonLiteral;
  const lists = [response, ...(other === null ? [] : [other])];
  const choices = lists.map((token_ids, index) => ({
    index,
    logprobs: null,
    token_ids: fate === "no_ids" ? null : token_ids,
  }));
  const ids: Attributes =
    fate === "no_ids"
      ? {}
      : {
          "llm.hosted_vllm.prompt_token_ids": write(prompt),
          ...(dialect === "choices" ? {} : { "llm.hosted_vllm.response_token_ids": write(lists) }),
        };
  const name: Attributes = call.responseId === null ? {} : { "llm.hosted_vllm.id": call.responseId };
  return {
    "llm.hosted_vllm.choices": write(choices),
    "llm.hosted_vllm.usage": write(usage(call)),
    ...ids,
    ...name,
  };
}
