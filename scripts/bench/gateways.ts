import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { directFetch } from "../../src/client/loopback-fetch.ts";
import { childEnvironment } from "../../src/engine/child-environment.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { selfCommand } from "../../src/self.ts";
import { litellmProgram, makeInteropPython } from "../../test/interop/python.ts";
import type { Child, Children } from "./children.ts";
import type { Server } from "./servers.ts";

/** The model server of the benchmark, and what stands in front of it. */

const portkeyVersion = "1.15.2";
const portkeyFolder = join(import.meta.dir, "..", "..", ".tools", `portkey-${portkeyVersion}`);
const portkeyScript = join(
  portkeyFolder,
  "node_modules",
  "@portkey-ai",
  "gateway",
  "build",
  "start-server.js",
);

export const modelName = "agent-model";

export function startModelServer(children: Children): Promise<Server> {
  return startScript(children, "model-server.ts", []);
}

/** The floor: a proxy that does nothing. */
export function startBareHop(children: Children, model: Server): Promise<Server> {
  return startScript(children, "bare-hop.ts", [`http://127.0.0.1:${model.port}`]);
}

async function startScript(children: Children, name: string, args: string[]): Promise<Server> {
  const command = [process.execPath, join(import.meta.dir, name), ...args];
  const { child, line } = await children.start(command, /listening: http:\/\/127\.0\.0\.1:\d+/);
  return { ...child, name, port: Number(line.split(":").at(-1)) };
}

export interface ProxyOptions {
  agl: string | undefined;
  model: Server;
  store: Server;
}

/** Our proxy; `agl` names a compiled program to measure instead of the source. */
export async function startProxy(children: Children, { agl, model, store }: ProxyOptions): Promise<Server> {
  const port = freePort();
  const to = ["--engine-url", urlOf(model), "--model-name", modelName];
  const args = [
    "proxy",
    ...to,
    "--store-url",
    `http://127.0.0.1:${store.port}`,
    "--proxy-port",
    String(port),
  ];
  const { child } = await children.start(
    [...(agl === undefined ? selfCommand([]) : [agl]), ...args],
    /^proxy: http/m,
  );
  return { ...child, name: "agl", port };
}

/** Portkey's gateway under Bun, for its Node build fails on streams. */
export async function startPortkey(children: Children): Promise<Server> {
  if (!hasPortkey()) {
    mkdirSync(portkeyFolder, { recursive: true });
    writeFileSync(join(portkeyFolder, "package.json"), "{}");
    const command = [process.execPath, "add", "--exact", `@portkey-ai/gateway@${portkeyVersion}`];
    const { exitCode } = Bun.spawnSync(command, {
      cwd: portkeyFolder,
      env: childEnvironment(),
      stderr: "inherit",
    });
    if (exitCode !== 0) throw new Error(`bun add @portkey-ai/gateway ended with ${exitCode}`);
  }
  const port = freePort();
  const command = [process.execPath, portkeyScript, `--port=${port}`, "--headless"];
  return { ...(await startGateway(children, command, `http://127.0.0.1:${port}/`)), name: "portkey", port };
}

/** What tells Portkey where to send a call. */
export function portkeyHeaders(model: Server): { [name: string]: string } {
  return {
    authorization: "Bearer none",
    "x-portkey-provider": "openai",
    "x-portkey-custom-host": urlOf(model),
  };
}

/** LiteLLM's proxy, one process, in a uv environment that is made when it is missing. */
export async function startLitellm(children: Children, model: Server, folder: string): Promise<Server> {
  makeInteropPython();
  const params = { model: `hosted_vllm/${modelName}`, api_base: urlOf(model), api_key: "none" };
  const config = join(folder, "litellm.json");
  // JSON is YAML, too.
  writeFileSync(config, JSON.stringify({ model_list: [{ model_name: modelName, litellm_params: params }] }));
  const port = freePort();
  const command = [litellmProgram, "--config", config, "--host", "127.0.0.1", "--port", String(port)];
  const health = `http://127.0.0.1:${port}/health/liveliness`;
  return { ...(await startGateway(children, command, health)), name: "litellm", port };
}

/** They are there and need not be fetched. */
export function hasPortkey(): boolean {
  return existsSync(portkeyScript);
}

export function hasLitellm(): boolean {
  return existsSync(litellmProgram);
}

export function urlOf({ port }: { port: number }): string {
  return `http://127.0.0.1:${port}/v1`;
}

async function startGateway(children: Children, command: string[], url: string): Promise<Child> {
  const subprocess = Bun.spawn(command, {
    // Without the import of LiteLLM asking the network for prices; calls to this machine go straight to it.
    env: childEnvironment({
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
      HTTP_PROXY: "",
      HTTPS_PROXY: "",
      http_proxy: "",
      https_proxy: "",
    }),
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
  const child = children.adopt(subprocess);
  const deadline = performance.now() + 120_000;
  while (!(await answers(url))) {
    if (subprocess.exitCode !== null) throw new Error(`${command[1]} ended with ${subprocess.exitCode}`);
    if (performance.now() > deadline) throw new Error(`${command[1]} was not ready`);
    await Bun.sleep(100);
  }
  return child;
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await directFetch(url)).ok;
  } catch {
    return false;
  }
}
