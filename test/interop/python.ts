import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { childEnvironment } from "../../src/engine/child-environment.ts";

const root = join(import.meta.dir, "..", "..");
const folder = join(root, ".tools", "interop");
const python = join(folder, "bin", "python");
/** LiteLLM's own proxy, of the same environment. */
export const litellmProgram = join(folder, "bin", "litellm");
const requirements = join(import.meta.dir, "requirements.txt");

/** Python with the released agentlightning, pinned with hashes; made when it is missing or the pins have changed. */
export function makeInteropPython(): void {
  const pins = readFileSync(requirements, "utf8");
  const made = join(folder, "pins.txt");
  if (existsSync(made) && readFileSync(made, "utf8") === pins) return;
  rmSync(folder, { recursive: true, force: true });
  uv(["venv", "--quiet", "--python", "3.11", folder]);
  // Byte code halves the time of every import afterwards.
  const options = ["--quiet", "--require-hashes", "--compile-bytecode", "-r", requirements];
  uv(["pip", "install", "--python", python, ...options]);
  writeFileSync(made, pins);
}

function uv(args: string[]): void {
  const { exitCode } = Bun.spawnSync([process.env["AGL_UV"] ?? "uv", ...args], {
    env: childEnvironment(),
    stdout: "inherit",
    stderr: "inherit",
  });
  if (exitCode !== 0) throw new Error(`uv ${args.slice(0, 2).join(" ")} ended with ${exitCode}`);
}

export function startPython(script: string, args: string[]): Bun.Subprocess<"ignore", "pipe", "pipe"> {
  return Bun.spawn([python, join(import.meta.dir, script), ...args], {
    // The import of LiteLLM would otherwise ask the network for prices.
    env: childEnvironment({ LITELLM_LOCAL_MODEL_COST_MAP: "True", PYTHONUNBUFFERED: "1" }),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
}

/** Runs a script to its end and returns what it printed; fails with its stderr. */
export async function runPython(script: string, args: string[]): Promise<string> {
  const child = startPython(script, args);
  const [out, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(`${script} failed:\n${out}\n${errors}`);
  return out;
}

/** Asks it to end, and ends it when it does not. */
export async function stopPython(child: Bun.Subprocess): Promise<void> {
  child.kill("SIGTERM");
  await Promise.race([child.exited, Bun.sleep(10_000)]);
  child.kill("SIGKILL");
  await child.exited;
}

export function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}
