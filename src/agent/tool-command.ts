import type { ToolServerCommand } from "./agent.ts";

/**
 * What to run for a tool server. `uvx` asks the package index on every start, which costs seconds and hangs without a
 * network, so it is told to stay offline first and goes online only when the tool is not in its cache.
 */
export interface ToolCommand {
  online: string[];
  /** Absent for commands that are no package runner. */
  offline?: string[];
}

/** `uvx` replaces the word `uvx`, e.g. `["/path/to/uv", "tool", "run"]`. */
export function toolCommand(server: ToolServerCommand, uvx: string[] = ["uvx"]): ToolCommand {
  const args = server.args ?? [];
  if (server.command === "uvx") return { online: [...uvx, ...args], offline: [...uvx, "--offline", ...args] };
  return { online: [server.command, ...args] };
}

/** Lets one of several starts that need the same download go first; the others then find it in the cache. */
export class DownloadGate {
  readonly #leading = new Map<string, Promise<void>>();
  readonly #done = new Set<string>();

  /** `follow` is run instead of `lead` once somebody else's lead has ended. */
  async run<Result>(
    key: string,
    lead: () => Promise<Result>,
    follow: () => Promise<Result>,
  ): Promise<Result> {
    await this.#leading.get(key);
    if (this.#done.has(key)) return follow();
    const leading = lead();
    this.#leading.set(
      key,
      leading.then(
        () => void this.#done.add(key),
        () => {},
      ),
    );
    return leading;
  }
}
