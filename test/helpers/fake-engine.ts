import { chmodSync } from "node:fs";

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
  let weights = valueOf(args, "--model");
  const ids = script.withoutIds ? {} : { prompt_token_ids: [1, 2] };
  const choice = script.withoutIds ? {} : { token_ids: [3] };
  const uds = valueOf(args, "--uds");
  const listen =
    uds === undefined ? { hostname: "127.0.0.1", port: Number(valueOf(args, "--port")) } : { unix: uds };
  Bun.serve({
    ...(listen as { hostname: string; port: number }),
    async fetch(request) {
      const { pathname } = new URL(request.url);
      if (pathname === "/health") return new Response("");
      if (pathname === "/v1/models") return Response.json({ data: [{ id: model }] });
      if (pathname === "/collective_rpc") {
        if (script.refusesReload) return new Response("no such method", { status: 500 });
        const body = (await request.json()) as { kwargs: { weights_path: string } };
        weights = body.kwargs.weights_path;
        return Response.json({ results: [null] });
      }
      if (pathname === "/reset_prefix_cache") return new Response("");
      if (pathname === "/weights") return Response.json({ weights, args });
      if (script.hangs) await new Promise(() => {});
      return Response.json({ ...ids, choices: [{ message: { content: "2" }, ...choice }] });
    },
  });
}

if (import.meta.main) {
  const [script, ...args] = process.argv.slice(2);
  await serve(JSON.parse(script ?? "{}") as FakeEngineScript, args);
}
