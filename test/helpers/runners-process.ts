import { childEnvironment } from "../../src/engine/child-environment.ts";
import type { AttemptedRollout } from "../../src/protocol/types.ts";
import { parseRunnerEvent, type RunnerEvent } from "../../src/runner/events.ts";
import { selfCommand } from "../../src/self.ts";
import { serveStore } from "../../src/server/serve.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { eventually } from "./processes.ts";

export interface RunnersProcess extends AsyncDisposable {
  child: Bun.Subprocess<"pipe", "pipe", "pipe">;
  store: SqliteStore;
  events: RunnerEvent[];
  stderr(): string;
  /** Waits for an event of this kind. */
  saw<Kind extends RunnerEvent["event"]>(kind: Kind): Promise<Extract<RunnerEvent, { event: Kind }>>;
  /** Enqueues, waits until finished, and returns what the store then says. */
  work(input: unknown): Promise<AttemptedRollout>;
}

/** `agl __runners` as a process of its own, on a real store. */
export async function startRunnersProcess(
  options: Record<string, unknown> | string,
  environment: Record<string, string> = {},
): Promise<RunnersProcess> {
  const store = openStore({ path: ":memory:" });
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
  const llm = { endpoint: "http://127.0.0.1:9", model: "m", api_key: null, sampling_parameters: {} };
  await store.addResources({ main_llm: { resource_type: "proxy_llm", ...llm } });
  const child = Bun.spawn(selfCommand(["__runners"]), {
    env: childEnvironment(environment),
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const line =
    typeof options === "string" ? options : JSON.stringify({ storeUrl: server.url, workers: 1, ...options });
  child.stdin.write(line + "\n");
  await child.stdin.flush();
  const events: RunnerEvent[] = [];
  let stderr = "";
  void readLines(child.stdout, (text) => {
    const event = parseRunnerEvent(text);
    if (event !== null) events.push(event);
  });
  void readLines(child.stderr, (text) => (stderr += `${text}\n`));
  return {
    child,
    store,
    events,
    stderr: () => stderr,
    async saw(kind) {
      const found = () => events.find((event) => event.event === kind);
      if (!(await eventually(() => found() !== undefined)))
        throw new Error(`no ${kind} event; stderr: ${stderr}`);
      return found() as never;
    },
    async work(input) {
      const [rollout] = await store.enqueueRollouts([{ input }]);
      const id = rollout!.rollout_id;
      await store.waitForRollouts({ rollout_ids: [id], timeout: 10 });
      return (await store.getRollout(id)) as AttemptedRollout;
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.exited;
      await server.stop();
      await store.close();
    },
  };
}

async function readLines(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  }
}
