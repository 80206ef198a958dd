import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import type { Agent } from "../agent/agent.ts";
import { loadAgent } from "../agent/load.ts";
import { mergeSettings } from "../agent/settings.ts";
import { AglError, messageOf } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";
import { AgentRun } from "./agent-run.ts";
import { LogLines } from "./log-lines.ts";
import { type HostMessage, reportError, type RunJob, type WorkerMessage } from "./worker-messages.ts";

/** The thread's side: loads one agent and runs it on the tasks the host sends, several at a time. */
export function startWorkerThread(
  post: (message: WorkerMessage) => void,
  listen: (take: (message: HostMessage) => void) => void,
): void {
  const current = new AsyncLocalStorage<AgentRun>();
  const runs = new Map<number, AgentRun>();
  const log = new LogLines((key, lines) =>
    post({ type: "log", lines, ...(key === undefined ? {} : { key }) }),
  );
  let agent: Agent | undefined;
  let settings: JsonObject = {};

  const load = async (agentFile: string | null, given: JsonObject) => {
    try {
      const loaded = await loadAgent(agentFile);
      settings = mergeSettings(loaded.name, loaded.settings ?? {}, given);
      agent = loaded;
      post({ type: "loaded", name: loaded.name, tools: structuredClone(loaded.tools ?? {}) });
    } catch (error) {
      const { remedy, exitCode } = error instanceof AglError ? error : { remedy: undefined, exitCode: 1 };
      post({ type: "load-failed", message: messageOf(error), remedy, exitCode });
    }
  };

  const run = async (job: RunJob) => {
    if (agent === undefined) throw new Error("a task came before the agent was loaded");
    const entry = new AgentRun(job, settings, post, (line) => log.add(job.key, line));
    runs.set(job.key, entry);
    await current.run(entry, () => entry.execute(agent as Agent));
    log.flush();
    post(entry.outcome);
    runs.delete(job.key);
  };

  captureOutput((text) => log.add(current.getStore()?.key, text));
  captureEscapes({
    escaped: (error) => {
      log.flush();
      post({ type: "escaped", error: reportError(error), ...keyOf(current.getStore()) });
    },
    exiting: (code) => {
      log.flush();
      post({ type: "exiting", code, ...keyOf(current.getStore()) });
    },
  });
  listen((message) => {
    if (message.type === "load") void load(message.agentFile, message.settings);
    else if (message.type === "run") void run(message.job);
    else if (message.type === "abort") runs.get(message.key)?.abort(message.reason);
    else for (const entry of runs.values()) entry.takeAnswer(message);
  });
}

function keyOf(run: AgentRun | undefined): { key?: number } {
  return run === undefined ? {} : { key: run.key };
}

/** What an agent prints belongs to its run, and must not mix with what the host prints. */
function captureOutput(add: (text: string) => void): void {
  for (const name of ["log", "info", "warn", "error", "debug", "trace"] as const) {
    console[name] = (...values: unknown[]) => add(format(...values));
  }
  const write = (chunk: string | Uint8Array) => {
    add(typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk));
    return true;
  };
  process.stdout.write = write as typeof process.stdout.write;
  process.stderr.write = write as typeof process.stderr.write;
}

function captureEscapes(on: { escaped(error: unknown): void; exiting(code: number): void }): void {
  process.on("uncaughtException", on.escaped);
  process.on("unhandledRejection", on.escaped);
  const exit = process.exit;
  process.exit = ((code?: number) => {
    on.exiting(Number(code ?? 0));
    exit(code);
  }) as typeof process.exit;
}
