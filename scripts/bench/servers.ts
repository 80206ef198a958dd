import { join } from "node:path";
import { freePort } from "../../src/engine/port-owner.ts";
import { directFetch } from "../../src/client/loopback-fetch.ts";
import { selfCommand } from "../../src/self.ts";
import { makeInteropPython, startPython } from "../../test/interop/python.ts";
import type { Child, Children } from "./children.ts";

export interface Server extends Child {
  name: string;
  port: number;
}

/** Our store on a file of its own; `agl` names a compiled program to measure instead of the source. */
export async function startStore(
  children: Children,
  { db, agl }: { db: string; agl: string | undefined },
): Promise<Server> {
  const command = agl === undefined ? selfCommand([]) : [agl];
  const port = freePort();
  const args = ["store", "--store-port", String(port), "--store-db", db];
  const { child } = await children.start([...command, ...args], /^store: http/m);
  return { ...child, name: "agl", port };
}

export async function startParseOnly(children: Children): Promise<Server> {
  const command = [process.execPath, join(import.meta.dir, "parse-only-server.ts")];
  const { child, line } = await children.start(command, /listening: http:\/\/127\.0\.0\.1:\d+/);
  return { ...child, name: "parse-only", port: Number(line.split(":").at(-1)) };
}

/** agentlightning's own server with its in-memory store, in a uv environment that is made when it is missing. */
export async function startPythonStore(children: Children): Promise<Server> {
  makeInteropPython();
  const port = freePort();
  const subprocess = startPython("store_server.py", [String(port)]);
  const child = children.adopt(subprocess);
  void new Response(subprocess.stdout).text();
  const errors = new Response(subprocess.stderr).text();
  const deadline = performance.now() + 120_000;
  while (!(await isHealthy(port))) {
    if (subprocess.exitCode !== null) throw new Error(`agentlightning's store ended: ${await errors}`);
    if (performance.now() > deadline) throw new Error("agentlightning's store was not ready");
    await Bun.sleep(100);
  }
  return { ...child, name: "agentlightning", port };
}

async function isHealthy(port: number): Promise<boolean> {
  try {
    return (await directFetch(`http://127.0.0.1:${port}/v1/agl/health`)).ok;
  } catch {
    return false;
  }
}
