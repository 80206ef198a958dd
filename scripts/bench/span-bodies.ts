import type { Random } from "../../src/algorithm/random.ts";

/** Attributes as JSON text: the load processes make them once and put them into many spans. */
export type AttributesText = string;

const letters = "abcdefghijklmnopqrstuvwxyz0123456789";

/** The published agents' attributes: nested 1 to 3 deep, 2 to 6 keys a level, flattened with dots. */
export function nestedAttributes(random: Random): AttributesText {
  const entries: [string, string][] = [];
  fill(entries, "", between(random, 1, 3), random);
  return JSON.stringify(Object.fromEntries(entries));
}

/** So many attributes side by side, with values of 5 to 300 characters, or of exactly `valueLength`. */
export function flatAttributes(random: Random, count: number, valueLength?: number): AttributesText {
  const entries = Array.from({ length: count }, (_, index): [string, string] => [
    `${index}.${text(random, between(random, 3, 20))}`,
    text(random, valueLength ?? between(random, 5, 300)),
  ]);
  return JSON.stringify(Object.fromEntries(entries));
}

export interface SpanFields {
  rolloutId: string;
  attemptId: string;
  sequenceId: number;
  spanId: string;
  name: string;
  parentId?: string | null;
  attributes: AttributesText;
}

/** The JSON of one span. */
export function spanBody(span: SpanFields): string {
  const { rolloutId, attemptId, sequenceId, spanId, name, parentId = null, attributes } = span;
  const traceId = `${spanId}${spanId}`;
  const parent = parentId === null ? "null" : `"${parentId}"`;
  return `{"rollout_id":"${rolloutId}","attempt_id":"${attemptId}","sequence_id":${sequenceId},"trace_id":"${traceId}","span_id":"${spanId}","parent_id":${parent},"name":"${name}","status":{"status_code":"OK","description":null},"attributes":${attributes},"events":[],"links":[],"start_time":1766538002.512,"end_time":1766538003.25,"context":{"trace_id":"${traceId}","span_id":"${spanId}","is_remote":false,"trace_state":{}},"parent":null,"resource":{"attributes":{},"schema_url":""}}`;
}

export function rewardAttributes(value: number): AttributesText {
  return `{"agentlightning.reward.0.name":"primary","agentlightning.reward.0.value":${value}}`;
}

let spans = 0;
const processPart = crypto.getRandomValues(new Uint8Array(4)).toHex();

/** Sixteen hexadecimal digits that no other span has, in no other process either. */
export function newSpanId(): string {
  spans += 1;
  return processPart + spans.toString(16).padStart(8, "0");
}

function fill(entries: [string, string][], prefix: string, depth: number, random: Random): void {
  for (let left = between(random, 2, 6); left > 0; left -= 1) {
    const key = prefix + text(random, between(random, 3, 20));
    if (depth === 1) entries.push([key, text(random, between(random, 5, 300))]);
    else fill(entries, `${key}.`, depth - 1, random);
  }
}

function between(random: Random, low: number, high: number): number {
  return low + random.integer(high - low + 1);
}

function text(random: Random, length: number): string {
  let result = "";
  while (result.length < length) result += letters[random.integer(letters.length)];
  return result;
}
