import { stringifyJson } from "../protocol/json.ts";
import type { Attempt, JsonObject } from "../protocol/types.ts";
import type { AttemptStory, JudgedCall, RolloutStory, StoryEvent, ToolStory } from "./story.ts";

export const columns = 80;
const longestText = 600;
const stackLines = 6;
const numberWidth = 4;

/** The story for a terminal of 80 columns. */
export function storyLines({ rollout, attempts }: RolloutStory): string[] {
  const { rollout_id, status, mode, resources_id, input, metadata } = rollout;
  const seconds = duration(rollout.start_time, rollout.end_time);
  return [
    [`rollout ${rollout_id}`, status, mode, seconds].filter((part) => part !== null).join("  "),
    ...labelled("task", stringifyJson(input)),
    ...(isEmpty(metadata) ? [] : labelled("metadata", stringifyJson(metadata))),
    ...(resources_id === null ? [] : labelled("resources", resources_id)),
    ...(attempts.length === 0 ? ["", "no attempt yet"] : attempts.flatMap(attemptLines)),
  ];
}

function attemptLines({ attempt, events }: AttemptStory): string[] {
  const { attempt_id, sequence_id, status, worker_id } = attempt;
  const seconds = duration(attempt.start_time, attempt.end_time);
  return [
    "",
    [`attempt ${attempt_id} (number ${sequence_id})`, status, worker_id, seconds]
      .filter((part) => part !== null)
      .join("  "),
    ...(events.some(({ kind }) => kind === "call") ? [] : ["    no call of a model was recorded"]),
    ...events.flatMap(eventLines),
    ...failureLines(attempt),
  ];
}

function eventLines(event: StoryEvent): string[] {
  const number = String(event.sequence_id).padStart(numberWidth - 1) + " ";
  switch (event.kind) {
    case "call":
      return callLines(number, event);
    case "tool":
      return toolLines(number, event);
    case "reward":
      return [
        `${number}reward  ${event.value}${event.unassigned ? "  (there is no call it belongs to)" : ""}`,
      ];
    case "error":
      return [
        ...wrapped(`${number}error   `, `${event.type}: ${event.message}`),
        ...event.stack
          .split("\n")
          .filter((line) => line.trim() !== "" && !`${event.type}: ${event.message}`.includes(line.trim()))
          .slice(0, stackLines)
          .map((line) => clipped(`            ${line.trim()}`)),
      ];
    case "span":
      return [clipped(`${number}span    ${event.name}`)];
  }
}

function callLines(number: string, call: JudgedCall): string[] {
  const tokens = `${call.prompt_tokens ?? "?"} + ${call.response_tokens ?? "?"} tokens`;
  const seconds = call.seconds === null ? null : `${call.seconds} s`;
  const facts = [call.checkpoint ?? call.model, tokens, seconds, call.finish_reason].filter(Boolean);
  const before = call.messages.length - 1;
  const last = call.messages.at(-1);
  return [
    ...wrapped(`${number}call    `, facts.join(", ")),
    ...(last === undefined
      ? []
      : wrapped("        ", `${before > 0 ? `[${before} before] ` : ""}${last.role}: ${tail(last.content)}`)),
    ...(call.answer === null ? [] : wrapped("        → ", head(call.answer))),
    ...call.tool_calls.flatMap((tool) =>
      wrapped("        → ", `calls ${tool.name}(${head(tool.arguments)})`),
    ),
    ...(call.error === null ? [] : wrapped("        error: ", head(call.error))),
    ...wrapped("        ", fate(call)),
  ];
}

function fate(call: JudgedCall): string {
  if (call.row === null) {
    const why =
      call.inexact_reason !== null && call.inexact_reason !== call.left_out
        ? ` (ids: ${call.inexact_reason})`
        : "";
    return `no row: ${call.left_out}${why}`;
  }
  const { tokens, labels, reward } = call.row;
  const origin = call.reward === null ? "from a later call" : "its own";
  return `row of ${tokens} ids, ${labels} of them learned; exact; reward ${reward}, ${origin}`;
}

function toolLines(number: string, tool: ToolStory): string[] {
  const seconds = tool.seconds === null ? "" : `  ${tool.seconds} s`;
  return [
    ...wrapped(`${number}tool    `, `${tool.name} ${head(tool.arguments)}${seconds}`),
    ...wrapped(`        ${tool.is_error ? "error: " : "= "}`, head(tool.result)),
  ];
}

/** What the runner wrote into the attempt's metadata. */
function failureLines({ metadata }: Attempt): string[] {
  if (metadata === null) return [];
  const { reason, error, error_type, log, stderr, ...others } = metadata;
  const why = [reason, error_type === reason ? undefined : error_type, error].filter(Boolean).join(": ");
  const rest = Object.entries(others).filter(([name]) => name !== "worker");
  return [
    ...(why === "" ? [] : wrapped("  failed: ", why)),
    ...kept("its last lines of output", log),
    ...kept("its tool server's last lines", stderr),
    ...rest.flatMap(([name, value]) =>
      labelled(name, typeof value === "string" ? value : stringifyJson(value)),
    ),
  ];
}

function kept(title: string, lines: unknown): string[] {
  const list = typeof lines === "string" ? lines.split("\n") : lines;
  if (!Array.isArray(list) || list.length === 0) return [];
  return [`  ${title}:`, ...list.map((line) => clipped(`    ${printable(String(line))}`))];
}

function labelled(label: string, text: string): string[] {
  return wrapped(`  ${label.padEnd(10)}`, head(text));
}

/** Lines of at most 80 columns, the later ones indented like the first one's text. */
function wrapped(prefix: string, text: string): string[] {
  const width = columns - prefix.length;
  const lines = printable(text)
    .split("\n")
    .flatMap((line) => wrappedLine(line, width));
  return lines.map((line, index) => ((index === 0 ? prefix : " ".repeat(prefix.length)) + line).trimEnd());
}

/** Its own indentation stays, as far as there is room for it. */
function wrappedLine(line: string, width: number): string[] {
  const indent = (/^ */.exec(line)?.[0] ?? "").slice(0, width / 2);
  const rest = Bun.wrapAnsi(line.trimStart(), width - indent.length, { hard: true });
  return rest.split("\n").map((part) => indent + part);
}

function clipped(line: string): string {
  return Bun.stringWidth(line) <= columns ? line : `${Bun.sliceAnsi(line, 0, columns - 1)}…`;
}

function head(text: string): string {
  if (text.length <= longestText) return text;
  return `${text.slice(0, longestText)}… (${text.length - longestText} more characters, --json has all)`;
}

function tail(text: string): string {
  if (text.length <= longestText) return text;
  return `(${text.length - longestText} characters) …${text.slice(-longestText)}`;
}

/** What a model or an agent wrote must not move the cursor or change the terminal. */
function printable(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/\t/g, "  ")
    .replace(/(?!\n)\p{Cc}/gu, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

function isEmpty(metadata: JsonObject | null): boolean {
  return metadata === null || Object.keys(metadata).length === 0;
}

function duration(start: number, end: number | null): string | null {
  return end === null ? null : `${(end - start).toFixed(1)} s`;
}
