import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { maskedCommand } from "../secrets.ts";

export interface PortOwner {
  pid: number;
  command: string;
}

/** The process that listens on a TCP port, as far as this user may see it. */
export function portOwner(port: number): PortOwner | undefined {
  const inodes = listeningInodes(port);
  if (inodes.size === 0) return undefined;
  for (const name of safely(() => readdirSync("/proc")) ?? []) {
    const pid = Number(name);
    if (Number.isInteger(pid) && holdsSocket(pid, inodes)) return { pid, command: commandOf(pid) };
  }
  return undefined;
}

/** `pid 123 (agl store)`, or that it belongs to somebody else. */
export function describePortOwner(port: number): string {
  const owner = portOwner(port);
  return owner === undefined ? "a process of another user" : `pid ${owner.pid} (${owner.command})`;
}

/** A TCP port of loopback that is free right now. */
export function freePort(): number {
  const server = listenOn(0);
  const { port } = server;
  void server.stop(true);
  return port as number;
}

export function isPortFree(port: number): boolean {
  try {
    void listenOn(port).stop(true);
    return true;
  } catch {
    return false;
  }
}

function listenOn(port: number) {
  // Without reusePort: false a taken port would be shared instead of refused.
  return Bun.serve({ hostname: "127.0.0.1", port, reusePort: false, fetch: () => new Response() });
}

const listening = "0A";

function listeningInodes(port: number): Set<string> {
  const hexPort = port.toString(16).toUpperCase().padStart(4, "0");
  const found = new Set<string>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const lines = safely(() => readFileSync(table, "latin1").split("\n")) ?? [];
    for (const line of lines.slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[1]?.endsWith(`:${hexPort}`) && fields[3] === listening && fields[9]) found.add(fields[9]);
    }
  }
  return found;
}

function holdsSocket(pid: number, inodes: Set<string>): boolean {
  for (const descriptor of safely(() => readdirSync(`/proc/${pid}/fd`)) ?? []) {
    const target = safely(() => readlinkSync(`/proc/${pid}/fd/${descriptor}`));
    const inode = target?.match(/^socket:\[(\d+)\]$/)?.[1];
    if (inode !== undefined && inodes.has(inode)) return true;
  }
  return false;
}

function commandOf(pid: number): string {
  const text = safely(() => readFileSync(`/proc/${pid}/cmdline`, "utf8")) ?? "";
  return maskedCommand(text.split("\0").filter(Boolean)).slice(0, 80);
}

function safely<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch {
    // Processes come and go, and others' are not ours to read.
    return undefined;
  }
}
