import { chmodSync, writeFileSync } from "node:fs";

/**
 * Stands in for `python -m vllm…` where a real vLLM won't fail on demand. Run as a program: its first argument is a JSON
 * script, the rest are the arguments that vLLM would get.
 */
export interface FakeEngineScript {
  /** Lines printed to stderr at the start. */
  prints?: string[];
  /** Ends with this code instead of serving. */
  exits?: number;
  /** Never listens. */
  silent?: boolean;
  /** Is healthy and lists its model but never answers a completion. */
  hangs?: boolean;
  /** Answers without token ids. */
  withoutIds?: boolean;
  /** Lists this model instead of the one it was given. */
  lists?: string;
  /** Ignores SIGTERM. */
  stubborn?: boolean;
  /** Refuses reload_weights. */
  refusesReload?: boolean;
  /** Refuses to sleep, or to wake the weights or the KV cache. */
  refusesSleep?: boolean;
  refusesWake?: "weights" | "kv_cache";
  /** Ends a while after it fell asleep. */
  diesAsleep?: boolean;
  /** A file that holds 1 while the GPU is in use, and 0 while the server sleeps or is away. */
  gpuFile?: string;
  /** Gets the pid of the server. */
  pidFile?: string;
}

/** A file that can be started as the Python of an environment: it has every module, and as a trainer waits for ever. */
export async function fakePython(folder: string, name: string, script: FakeEngineScript): Promise<string> {
  const file = `${folder}/${name}`;
  const program = import.meta.path;
  const serve = `exec ${process.execPath} ${program} '${JSON.stringify(script)}' "$@"`;
  await Bun.write(
    file,
    `#!/bin/sh\ncase "$1" in -c) echo missing:; exit;; */sft.py) exec sleep 600;; esac\n${serve}\n`,
  );
  chmodSync(file, 0o755);
  return file;
}

function valueOf(args: string[], flag: string): string | undefined {
  const index = args.indexOf(flag);
  return index < 0 ? undefined : args[index + 1];
}

async function serve(script: FakeEngineScript, args: string[]): Promise<void> {
  for (const line of script.prints ?? []) console.error(line);
  if (script.exits !== undefined) process.exit(script.exits);
  if (script.stubborn) process.on("SIGTERM", () => {});
  if (script.silent) await new Promise(() => setInterval(() => {}, 1_000));
  const model = script.lists ?? valueOf(args, "--served-model-name") ?? "none";
  const engine = new FakeWeights(script, valueOf(args, "--model"));
  const ids = script.withoutIds ? {} : { prompt_token_ids: [1, 2] };
  const choice = script.withoutIds ? {} : { token_ids: [3] };
  const uds = valueOf(args, "--uds");
  const listen =
    uds === undefined ? { hostname: "127.0.0.1", port: Number(valueOf(args, "--port")) } : { unix: uds };
  Bun.serve({
    ...(listen as { hostname: string; port: number }),
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      if (pathname === "/health") return new Response("");
      if (pathname === "/v1/models") return Response.json({ data: [{ id: model }] });
      if (pathname === "/weights")
        return Response.json({ weights: engine.weights, calls: engine.calls, args });
      const answered = await engine.control(pathname, search, request);
      if (answered !== undefined) return answered;
      if (script.hangs) await new Promise(() => {});
      if (engine.asleep) return new Response("the engine sleeps", { status: 500 });
      if (pathname === "/v1/completions") return Response.json(engine.logprobs(await request.json()));
      return Response.json({ ...ids, choices: [{ message: { content: "2" }, ...choice }] });
    },
  });
}

/** What the routes for sleeping and for other weights do to a server, in the order in which they are called. */
class FakeWeights {
  readonly calls: string[] = [];
  readonly #script: FakeEngineScript;
  weights: string | undefined;
  #weightsAwake = true;
  #cacheAwake = true;

  constructor(script: FakeEngineScript, weights: string | undefined) {
    this.#script = script;
    this.weights = weights;
    this.#useGpu(true);
    if (script.pidFile !== undefined) writeFileSync(script.pidFile, String(process.pid));
    process.on("SIGTERM", () => {
      if (script.stubborn) return;
      this.#useGpu(false);
      process.exit(0);
    });
  }

  get asleep(): boolean {
    return !this.#weightsAwake || !this.#cacheAwake;
  }

  /** The answer of a route that only the supervisor calls. */
  async control(path: string, query: string, request: Request): Promise<Response | undefined> {
    if (!["/sleep", "/wake_up", "/collective_rpc", "/reset_prefix_cache"].includes(path)) return undefined;
    this.calls.push(path + query);
    if (path === "/sleep") return this.#sleep();
    if (path === "/wake_up") return this.#wake(query);
    if (path === "/reset_prefix_cache") return new Response("");
    if (this.#script.refusesReload) return new Response("no such method", { status: 500 });
    if (!this.#weightsAwake) return new Response("CUDA error: invalid argument", { status: 500 });
    this.weights = ((await request.json()) as { kwargs: { weights_path: string } }).kwargs.weights_path;
    return Response.json({ results: [null] });
  }

  /** Of every prompt token the same: -0.5 from version_1, -1 from others, -9 from memory that nobody has filled. */
  logprobs({ prompt }: { prompt: number[] }): object {
    const logprob = this.weights === undefined ? -9 : this.weights.endsWith("version_1") ? -0.5 : -1;
    const positions = prompt.map((id, index) => (index === 0 ? null : { [id]: { logprob } }));
    return { choices: [{ prompt_logprobs: positions }] };
  }

  #sleep(): Response {
    if (this.#script.refusesSleep) return new Response("sleep mode is not enabled", { status: 400 });
    this.#weightsAwake = this.#cacheAwake = false;
    this.weights = undefined;
    this.#useGpu(false);
    if (this.#script.diesAsleep) setTimeout(() => process.exit(1), 20);
    return new Response("");
  }

  #wake(query: string): Response {
    const tag = query === "?tags=weights" ? "weights" : "kv_cache";
    if (this.#script.refusesWake === tag) return new Response("CUDA out of memory", { status: 500 });
    if (tag === "weights") this.#weightsAwake = true;
    else this.#cacheAwake = true;
    this.#useGpu(true);
    return new Response("");
  }

  #useGpu(inUse: boolean): void {
    if (this.#script.gpuFile !== undefined) writeFileSync(this.#script.gpuFile, inUse ? "1" : "0");
  }
}

if (import.meta.main) {
  const [script, ...args] = process.argv.slice(2);
  await serve(JSON.parse(script ?? "{}") as FakeEngineScript, args);
}
